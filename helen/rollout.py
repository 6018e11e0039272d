"""The first ring of a push: a few agents run the new set before all others do. Pure; `now` is steady time.

The ring is promoted once every connected member has confirmed the set whole, HOLD_SECONDS have gone by, and none that
confirmed has vanished (new code may have ended it); a member that can't use a file ends it at once, silence in the end.
What then is done (publish to all, publish the undoing) is
the library's.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable

from attrs import define, field

HOLD_SECONDS = 10.0  # after the last confirmation: one run of the checks that run most often
PATIENCE_SECONDS = 600.0  # in which every member must have confirmed
DEFAULT_FRACTION = 0.01
_FRACTION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*%")


def read_fraction(text: str) -> float:
    """`1%`, `10%`, `0.5%`; raises ValueError with a sentence."""
    match = _FRACTION.fullmatch(text.strip())
    if match is None or not 0 < float(match[1]) <= 100:
        raise ValueError(f"{text!r} is no share of the agents: write 1%, 10% or 100%")
    return float(match[1]) / 100


def choose(names: Iterable[str], fraction: float) -> frozenset[str]:
    """The members of a ring: at least one, always the same ones of the same fleet, spread over it by a hash."""
    ordered = sorted(names, key=lambda name: hashlib.sha256(name.encode()).digest())
    return frozenset(ordered[: math.ceil(len(ordered) * fraction)])


@define
class Ring:
    """One version on its way. `verdict` is None while it is open, else `promote` or `undo` with `why`."""

    version: int
    digest: str
    members: frozenset[str]
    began: float
    confirmed: set[str] = field(factory=set)
    confirmed_at: float = 0.0
    verdict: str | None = None
    why: str = ""

    def heard(self, name: str, digest: str | None, failed: dict[str, str], now: float) -> None:
        """A member says what it has loaded; `failed` names the files that it can't use, each with its error."""
        if self.verdict is not None or name not in self.members or digest != self.digest:
            return
        if failed:
            file, error = sorted(failed.items())[0]
            self.verdict, self.why = "undo", f"{name} can't use {file}: {error}"
            return
        self.confirmed.add(name)
        self.confirmed_at = now

    def tick(self, connected: Iterable[str], now: float) -> str | None:
        """Look whether it is over; the verdict, if it is."""
        if self.verdict is not None:
            return self.verdict
        here = self.members & frozenset(connected)
        if self.confirmed and self.confirmed == here and now - self.confirmed_at >= HOLD_SECONDS:
            self.verdict, self.why = "promote", f"{len(self.confirmed)} of {len(self.members)} confirmed"
        elif now - self.began >= PATIENCE_SECONDS:
            missing = self.members - self.confirmed or self.confirmed - here
            self.verdict = "undo"
            self.why = f"not there and well within {PATIENCE_SECONDS:g} s: {', '.join(sorted(missing)[:5])}"
        return self.verdict
