"""A rollout: one version on its way through its rings. Pure; `now` is steady time, `at` unix seconds.

A ring passes once every connected member has loaded the set, its window is over and its gate has all results and no
complaint. A gate's complaint, or a member that can't use a changed file, takes the version back at once; silence does
when patience is over. What is then done (the next ring, publishing to all, publishing the undoing) is helen.releases'.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from typing import Any

from attrs import define, field, frozen

from helen.gate_limits import USUAL, Limits
from helen.gates import Evidence
from helen.rings import USUAL as USUAL_RINGS
from helen.rings import Candidate, RingSpec, choose, read_rings, write_rings

OPEN, FINISHED, UNDONE = "open", "finished", "undone"  # of a rollout
PASSED, BACK = "passed", "undo"  # verdicts on a ring
NAMED = 5  # members that a reason names


@frozen
class Plan:
    """How a push goes out. Without rings: to all at once."""

    rings: tuple[RingSpec, ...] = ()
    limits: Limits = USUAL


AT_ONCE = Plan()
USUAL_PLAN = Plan(read_rings(USUAL_RINGS))


@frozen
class Touched:
    """What a version changes against the one before: files by name, and the checks whose results are compared."""

    changed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    checks: frozenset[str] = frozenset()
    codes: dict[str, str] = field(factory=dict)  # of the checks whose own file is another: sha256 of the new one

    @property
    def text(self) -> str:
        """`changed: disk.lua; new: x.lua`."""
        named = (("changed", self.changed), ("new", self.added), ("removed", self.removed))
        said = [f"{word}: {_few(names)}" for word, names in named if names]
        return "; ".join(said) or "no file has changed"


def touched(
    before: Mapping[str, str], after: Mapping[str, str], using: Collection[str], other_equus: bool
) -> Touched:  # fmt: skip
    """From sha256 by name. `using`: files that require a library, so that a changed one may be theirs."""
    changed = tuple(sorted(name for name in after.keys() & before.keys() if after[name] != before[name]))
    added, removed = tuple(sorted(after.keys() - before.keys())), tuple(sorted(before.keys() - after.keys()))
    codes = {_check_of(name): after[name] for name in (*changed, *added) if not _is_library(name)}
    checks = set(codes)
    if other_equus:
        checks |= {_check_of(name) for name in after if not _is_library(name)}
    elif any(_is_library(name) for name in (*changed, *added, *removed)):
        checks |= {_check_of(name) for name in using if not _is_library(name)}
    return Touched(changed, added, removed, frozenset(checks), codes)


def _is_library(name: str) -> bool:
    return name.startswith("lib/")


def _check_of(name: str) -> str:
    return name.removesuffix(".lua")


@define
class Ring:
    """One ring of a rollout. `members` has those of the rings before it, too; None: everybody."""

    number: int
    text: str
    members: frozenset[str] | None
    before: frozenset[str]
    opened: float  # unix seconds
    began: float
    confirmed: dict[str, float] = field(factory=dict)  # who has loaded it -> when
    confirmed_at: float = 0.0
    evidence: Evidence = field(factory=lambda: Evidence(USUAL))
    is_compared: bool = True  # what the old version said is known; until then nothing is decided
    verdict: str | None = None
    why: str = ""

    def has(self, name: str) -> bool:
        """Whether this agent runs the new set."""
        return self.members is None or name in self.members

    def is_new(self, name: str) -> bool:
        """Whether this ring is the first of this agent's, so that it is looked at here."""
        return self.has(name) and name not in self.before

    def loaded(self, name: str, broken: Mapping[str, str], now: float) -> bool:
        """A member says that it runs the set; `broken`: changed files that it can't use. True if that is news."""
        if self.verdict is not None or not self.is_new(name):
            return False
        if broken:
            file, error = sorted(broken.items())[0]
            self.verdict, self.why = BACK, f"{name} can't use {file}: {error}"
            return True
        if name in self.confirmed:
            return False
        self.confirmed[name] = self.confirmed_at = now
        return True

    def tick(self, here: frozenset[str], now: float) -> str | None:
        """Look whether it is over; the verdict, if it is. `here`: the agents of version 2 that are connected."""
        if self.verdict is not None or not self.is_compared:
            return self.verdict
        weighed, limits = self.evidence.weigh(), self.evidence.limits
        if weighed.failed is not None:
            self.verdict, self.why = BACK, weighed.failed
            return self.verdict
        late, gone = self.late(here), self.confirmed.keys() - here
        watched = bool(self.confirmed) and now - self.confirmed_at >= limits.window
        if watched and not late and not gone and weighed.is_complete:
            self.verdict, self.why = PASSED, self._as_compared()
        elif now - self.began >= limits.patience:
            self._give_up(late, frozenset(gone))
        return self.verdict

    def late(self, here: frozenset[str]) -> frozenset[str]:
        """Members that are connected and have not loaded it."""
        mine = here - self.before if self.members is None else here & (self.members - self.before)
        return mine - self.confirmed.keys()

    def waits_for(self, here: frozenset[str], now: float) -> str:
        """In a few words, for people."""
        late, gone = self.late(here), self.confirmed.keys() - here
        if not self.is_compared:
            return "the results of the old version"
        if not self.confirmed or late:
            return f"{_few(sorted(late)) or 'a member that is connected'} to load it"
        if gone:
            return f"{_few(sorted(gone))} to come back"
        silent = list(islice(self.evidence.silent(), NAMED + 1))
        if silent:
            more = " and others" if len(silent) > NAMED else ""
            return f"results of {_few(silent[:NAMED])}{more}"
        return f"the end of its window, {max(0.0, self.confirmed_at + self.evidence.limits.window - now):.0f} s"

    def _as_compared(self) -> str:
        if not self.evidence.tallies:
            return f"{len(self.confirmed)} agents run it; none of them runs a changed check"
        return f"{len(self.confirmed)} agents run it, {', '.join(sorted(self.evidence.tallies))} within its limits"

    def _give_up(self, late: frozenset[str], gone: frozenset[str]) -> None:
        """Patience is over: what is there decides, if it is enough."""
        limits, silent = self.evidence.limits, frozenset(self.evidence.silent()) - gone
        missing, all_of_them = late | gone | silent, len(late | self.confirmed.keys())
        words = [f"{word}: {_few(sorted(names))}" for word, names in
                 (("not loaded", late), ("gone", gone), ("without enough results", silent)) if names]  # fmt: skip
        said = f"after {limits.patience:g} s {'; '.join(words) or 'nobody of the ring is there'}"
        if not self.confirmed or len(missing) > limits.missing * all_of_them:
            self.verdict, self.why = BACK, said
            return
        heavy = self.evidence.too_heavy()
        self.verdict, self.why = (BACK, heavy) if heavy else (PASSED, f"{self._as_compared()}; {said}")


@define
class Rollout:
    """One version and its rings. `past`: what became of those that are over, and of those that were passed over."""

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
    by_itself: bool = False  # a gate has taken it back, and people were told
    paused: dict[str, Any] | None = None  # `by`, `at`
    past: list[dict[str, Any]] = field(factory=list)
    ring: Ring | None = None

    @property
    def place(self) -> str:
        """`ring 1 of 3 (1%)`."""
        assert self.ring is not None
        return f"ring {self.ring.number} of {len(self.plan.rings)} ({self.ring.text})"

    def advance(self, fleet: Iterable[Candidate], at: float, now: float) -> bool:
        """Open the next ring that somebody is added by; False when there is none, so that all is done."""
        candidates = list(fleet)
        here = {each.name for each in candidates if each.is_here}
        over, taken = (0, frozenset[str]()) if self.ring is None else (self.ring.number, self.ring.members)
        if taken is None:
            return False
        for number, spec in enumerate(self.plan.rings[over:], over + 1):
            members = None if spec.is_all else choose(candidates, spec, taken, self.version)
            if (here - taken) if members is None else (members - taken):
                self.ring = Ring(number, spec.text, members, taken, at, now, evidence=Evidence(self.plan.limits))
                self.changed = at
                return True
            self.past.append({"number": number, "ring": spec.text, "state": "skipped", "why": "it would add nobody"})
        return False

    def close_ring(self, at: float) -> None:
        """Write down how the open ring ended."""
        ring = self.ring
        assert ring is not None and ring.verdict is not None
        self.past.append(show_ring(ring, PASSED if ring.verdict == PASSED else UNDONE) | {"closed": at})
        self.changed = at

    def tick(self, here: frozenset[str], now: float) -> str | None:
        """The verdict on the open ring, once there is one that counts: while it is paused only the way back does."""
        if self.ring is None:
            return None
        if self.paused is not None and self.ring.verdict is None:
            weighed = self.ring.evidence.weigh() if self.ring.is_compared else None
            if weighed is not None and weighed.failed is not None:
                self.ring.verdict, self.ring.why = BACK, weighed.failed
        else:
            self.ring.tick(here, now)
        return None if self.paused is not None and self.ring.verdict == PASSED else self.ring.verdict

    def resume(self, now: float) -> None:
        """Patience begins anew."""
        self.paused = None
        if self.ring is not None:
            self.ring.began = now

    def to_json(self) -> dict[str, Any]:
        """What a restart needs, and what people are shown of rings that are over."""
        ring = self.ring
        return {
            "digest": self.digest, "base": self.base, "rings": write_rings(self.plan.rings),
            "limits": self.plan.limits.to_json(), "why": self.why, "paused": self.paused, "past": self.past,
            "by_itself": self.by_itself,
            "touched": {
                "changed": self.touched.changed, "added": self.touched.added, "removed": self.touched.removed,
                "checks": sorted(self.touched.checks), "codes": self.touched.codes,
            },
            "ring": None if ring is None else {
                "number": ring.number, "text": ring.text, "opened": ring.opened, "before": sorted(ring.before),
                "members": None if ring.members is None else sorted(ring.members), "verdict": ring.verdict,
                "why": ring.why,
            },
        }  # fmt: skip

    @classmethod
    def from_json(
        cls, version: int, state: str, author: str, started: float, at: float, said: Mapping[str, Any], now: float
    ) -> Rollout:
        """As it was. Members say anew what they have loaded, and patience begins anew."""
        limits, touched, held = Limits.from_json(said["limits"]), said["touched"], said["ring"]
        made = cls(
            version, said["digest"], said["base"], author, Plan(read_rings(said["rings"]), limits), started,
            Touched(
                tuple(touched["changed"]), tuple(touched["added"]), tuple(touched["removed"]),
                frozenset(touched["checks"]), dict(touched["codes"]),
            ),
            state, said["why"], at, said["by_itself"], said["paused"], list(said["past"]),
        )  # fmt: skip
        if held is not None:
            members = None if held["members"] is None else frozenset(held["members"])
            made.ring = Ring(
                held["number"], held["text"], members, frozenset(held["before"]), held["opened"], now,
                evidence=Evidence(limits), verdict=held["verdict"], why=held["why"],
            )  # fmt: skip
        return made


def show_ring(ring: Ring, state: str) -> dict[str, Any]:
    """A ring for people and programs."""
    new = None if ring.members is None else sorted(ring.members - ring.before)
    return {
        "number": ring.number, "ring": ring.text, "state": state, "opened": ring.opened, "members": new,
        "confirmed": len(ring.confirmed), "why": ring.why,
        "figures": [ring.evidence.figures(check).to_json() for check in sorted(ring.evidence.tallies)],
    }  # fmt: skip


def all_at_once(version: int, digest: str, base: int, author: str, at: float, touched: Touched) -> Rollout:
    """One without rings: it is finished when it begins."""
    return Rollout(version, digest, base, author, AT_ONCE, at, touched, FINISHED, "to all agents at once", at)


def _few(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - NAMED} more" if len(listed) > NAMED else ""
    return ", ".join(listed[:NAMED]) + more
