"""Steps a rollout: one version on its way through its rings. Pure; `now` is monotonic time, `at` unix seconds.

ring.py judges one ring, touched_files.py tells which checks a version changes. helen/library/releases.py then opens the
next ring, publishes the version to all, or publishes the one that undoes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from attrs import define, field, frozen

from helen.rollout.gate_limits import USUAL, Limits
from helen.rollout.gates import Evidence
from helen.rollout.ring import PASSED, Ring, show_ring
from helen.rollout.rings import USUAL as USUAL_RINGS
from helen.rollout.rings import Candidate, RingSpec, choose, choose_second, read_rings, trusted, write_rings
from helen.rollout.touched_files import Touched

OPEN, FINISHED, UNDONE = "open", "finished", "undone"  # of a rollout


@frozen
class Plan:
    """Holds the rings of a push and the limits of its gates. Without rings it goes to all at once."""

    rings: tuple[RingSpec, ...] = ()
    limits: Limits = USUAL


AT_ONCE = Plan()
USUAL_PLAN = Plan(read_rings(USUAL_RINGS))


@define
class Rollout:
    """Holds one version and its rings. `past` has the rings that are over, and those that were skipped, for clients."""

    version: int
    digest: str
    base: int  # the version that all others run
    author: str
    plan: Plan
    started: float
    touched: Touched = field(factory=Touched)
    state: str = OPEN
    why: str = ""
    changed: float = 0.0
    by_itself: bool = False  # a gate has taken it back, and a message said so
    paused: dict[str, Any] | None = None  # `by`, `at`
    past: list[dict[str, Any]] = field(factory=list)
    ring: Ring | None = None
    refused: dict[str, dict[str, str]] = field(factory=dict)  # file -> member -> why it can't use it
    key: bytes = field(default=b"", repr=False)  # of the choice of members; Helen's alone

    @property
    def place(self) -> str:
        """Return a text such as `ring 1 of 3 (1%)`."""
        assert self.ring is not None
        return f"ring {self.ring.number} of {len(self.plan.rings)} ({self.ring.text})"

    def advance(self, fleet: Iterable[Candidate], at: float, now: float) -> bool:
        """Open the next ring that adds an agent; return False if there is none, so that the rollout is finished.

        `at`: unix seconds, `now`: monotonic seconds, both of this moment.
        """
        candidates = list(fleet)
        here = {each.name for each in candidates if each.is_here}
        over, taken = (0, frozenset[str]()) if self.ring is None else (self.ring.number, self.ring.members)
        if taken is None:
            return False
        able = {each.name for each in trusted(candidates)}
        aside = frozenset(each.name for each in candidates if each.is_aside and each.name not in able)
        for number, spec in enumerate(self.plan.rings[over:], over + 1):
            members = None if spec.is_all else choose(candidates, spec, taken, self.version, self.key)
            if ((here if members is None else members) - taken) - aside:
                self.ring = Ring(
                    number, spec.text, members, taken, at, now, evidence=Evidence(self.plan.limits), aside=aside,
                    refused=self.refused,
                )  # fmt: skip
                self.changed = at
                return True
            self.past.append({"number": number, "ring": spec.text, "state": "skipped", "why": "it would add nobody"})
        return False

    def second(self) -> Callable[[Iterable[Candidate]], str | None]:
        """Return the search for the agent that is asked to load what a member of the open ring has refused.

        It returns None if there is no other. It may run in a thread: it goes by what the ring is at this call.
        """
        ring = self.ring
        lone = None if ring is None else ring.alone()
        if ring is None or lone is None or ring.members is None:
            return lambda fleet: None
        return partial(choose_second, first=lone[0], taken=ring.members, version=self.version, key=self.key)

    def close_ring(self, at: float) -> None:
        """Add the open ring to `past`, with its verdict. `at`: unix seconds."""
        ring = self.ring
        assert ring is not None and ring.verdict is not None
        self.past.append(show_ring(ring, PASSED if ring.verdict == PASSED else UNDONE) | {"closed": at})
        self.changed = at

    def tick(self, here: frozenset[str], now: float) -> str | None:
        """Return the verdict on the open ring; while the rollout is paused only one that takes it back counts.

        `here`: connected agents of version 2; `now`: monotonic seconds.
        """
        if self.ring is None:
            return None
        if self.paused is not None and self.ring.verdict is None:
            weighed = self.ring.evidence.weigh() if self.ring.is_compared else None
            if weighed is not None and weighed.failed is not None:
                self.ring.go_back(weighed.failed, self.ring.against())
        else:
            self.ring.tick(here, now)
        return None if self.paused is not None and self.ring.verdict == PASSED else self.ring.verdict

    @property
    def asks_second(self) -> bool:
        """Return True if another agent is to be asked about what a member has refused."""
        return self.paused is None and self.ring is not None and self.ring.needs_second

    def resume(self, now: float) -> None:
        """Go on after a pause; patience begins anew. `now`: monotonic seconds."""
        self.paused = None
        if self.ring is not None:
            self.ring.began = now

    def to_json(self) -> dict[str, Any]:
        """Return what a restart needs.

        Its keys: digest, base, rings, limits, why, paused, past, by_itself, refused, touched and ring (None, or the
        open one).
        """
        ring = self.ring
        return {
            "digest": self.digest, "base": self.base, "rings": write_rings(self.plan.rings),
            "limits": self.plan.limits.to_json(), "why": self.why, "paused": self.paused, "past": self.past,
            "by_itself": self.by_itself, "refused": self.refused,
            "touched": {
                "changed": self.touched.changed, "added": self.touched.added, "removed": self.touched.removed,
                "checks": sorted(self.touched.checks), "codes": self.touched.codes,
            },
            "ring": None if ring is None else {
                "number": ring.number, "text": ring.text, "opened": ring.opened, "before": sorted(ring.before),
                "members": None if ring.members is None else sorted(ring.members), "verdict": ring.verdict,
                "why": ring.why, "aside": sorted(ring.aside),
            },
        }  # fmt: skip

    @classmethod
    def from_json(
        cls, version: int, state: str, author: str, started: float, at: float, said: Mapping[str, Any], now: float
    ) -> Rollout:
        """Restore a rollout from `to_json`; `started` and `at` (its last change) are unix seconds, `now` is monotonic.

        Members tell again what they have loaded, and patience begins anew.
        """
        limits, touched, held = Limits.from_json(said["limits"]), said["touched"], said["ring"]
        made = cls(
            version, said["digest"], said["base"], author, Plan(read_rings(said["rings"]), limits), started,
            Touched(
                tuple(touched["changed"]), tuple(touched["added"]), tuple(touched["removed"]),
                frozenset(touched["checks"]), dict(touched["codes"]),
            ),
            state, said["why"], at, said["by_itself"], said["paused"], list(said["past"]),
            refused={file: dict(each) for file, each in said.get("refused", {}).items()},
        )  # fmt: skip
        if held is not None:
            members = None if held["members"] is None else frozenset(held["members"])
            made.ring = Ring(
                held["number"], held["text"], members, frozenset(held["before"]), held["opened"], now,
                evidence=Evidence(limits), verdict=held["verdict"], why=held["why"],
                aside=frozenset(held.get("aside", ())), refused=made.refused,
            )  # fmt: skip
        return made


def all_at_once(version: int, digest: str, base: int, author: str, at: float, touched: Touched) -> Rollout:
    """Make a rollout without rings: it is finished when it begins. `at`: unix seconds."""
    return Rollout(version, digest, base, author, AT_ONCE, at, touched, FINISHED, "to all agents at once", at)
