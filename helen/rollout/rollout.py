"""Steps a rollout: one version on its way through its rings. Pure; `now` is monotonic time, `at` unix seconds.

A ring passes once every connected member has loaded the set, its window is over and its gate has all results and no
complaint. A gate's complaint, or a changed file that two members can't use, takes the version back at once; missing
results do when patience is over. What one member alone refuses, another one is asked to load.
helen/library/releases.py then opens the next ring, publishes the version to all, or publishes the one that undoes it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from itertools import islice
from typing import Any

from attrs import define, field, frozen

from groundwork.counts import count
from groundwork.durations import words_of
from helen.rollout.gate_limits import USUAL, Limits
from helen.rollout.gates import Evidence
from helen.rollout.rings import USUAL as USUAL_RINGS
from helen.rollout.rings import Candidate, RingSpec, choose, choose_second, read_rings, trusted, write_rings

OPEN, FINISHED, UNDONE = "open", "finished", "undone"  # of a rollout
PASSED, BACK = "passed", "undo"  # verdicts on a ring
NAMED = 5  # members that a reason names


@frozen
class Plan:
    """The rings of a push and the limits of its gates. Without rings it goes to all at once."""

    rings: tuple[RingSpec, ...] = ()
    limits: Limits = USUAL


AT_ONCE = Plan()
USUAL_PLAN = Plan(read_rings(USUAL_RINGS))


@frozen
class Touched:
    """The changes of a version against the one before: files by name, and the checks that gates compare."""

    changed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    checks: frozenset[str] = frozenset()
    codes: dict[str, str] = field(factory=dict)  # by check: sha256 of the new file, if its own file has changed

    @property
    def text(self) -> str:
        """Return a sentence such as `changed: disk.lua; new: x.lua`."""
        named = (("changed", self.changed), ("new", self.added), ("removed", self.removed))
        said = [f"{word}: {_few(names)}" for word, names in named if names]
        return "; ".join(said) or "no file has changed"


def touched(
    before: Mapping[str, str], after: Mapping[str, str], using: Collection[str], other_equus: bool
) -> Touched:  # fmt: skip
    """Compare two sets, sha256 by name. `using`: files that require a library; a changed library changes them, too."""
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
    """One ring of a rollout. `members` has those of the rings before it, too; None: all agents."""

    number: int
    text: str
    members: frozenset[str] | None
    before: frozenset[str]
    opened: float  # unix seconds
    began: float  # monotonic
    confirmed: dict[str, float] = field(factory=dict)  # members that have loaded it -> when, monotonic
    confirmed_at: float = 0.0
    evidence: Evidence = field(factory=lambda: Evidence(USUAL))
    is_compared: bool = True  # the results of the old version are known; until then nothing is decided
    verdict: str | None = None
    why: str = ""
    aside: frozenset[str] = frozenset()  # agents that are set aside: they run the set, and are not listened to
    refused: dict[str, dict[str, str]] = field(factory=dict)  # file -> member -> why; of the rollout, from ring to ring
    needs_second: bool = False  # a member has refused a file, and no other of this ring could be asked
    speakers: frozenset[str] = frozenset()  # members because of whose word the version goes back

    def has(self, name: str) -> bool:
        """Return True if this agent runs the new set."""
        return self.members is None or name in self.members

    def is_new(self, name: str) -> bool:
        """Return True if this ring is the agent's first: its results are compared in this ring."""
        return self.has(name) and name not in self.before

    def loaded(self, name: str, broken: Mapping[str, str], now: float) -> bool:
        """Take a member's report that it runs the set; return True if that is news. `now`: monotonic seconds.

        `broken`: changed files that the member can't use, each with its error; a second member that can't use one of
        them either decides the ring.
        """
        if self.verdict is not None or not self.is_new(name) or name in self.aside:
            return False
        if broken:
            return self._refuse(name, broken)
        if name in self.confirmed:
            return False
        self.confirmed[name] = self.confirmed_at = now
        return True

    def _refuse(self, name: str, broken: Mapping[str, str]) -> bool:
        """Take note of files that a member can't use; return True if that is news."""
        is_news = False
        for file, error in sorted(broken.items()):
            said = self.refused.setdefault(file, {})
            is_news = is_news or name not in said
            said.setdefault(name, error)
            speakers = sorted(said.keys() - self.aside)
            if len(speakers) > 1 and self.verdict is None:
                names = f"{speakers[0]} and {speakers[1]}"
                self.go_back(f"{names} can't use {file}: {error}", speakers)
        self.confirmed.pop(name, None)
        for key in [key for key in self.evidence.pairs if key[0] == name]:
            self.evidence.drop(key)
        return is_news

    def go_back(self, why: str, speakers: Iterable[str]) -> None:
        """Decide that the version goes back because of what these members said."""
        self.verdict, self.why, self.speakers = BACK, why, frozenset(speakers)

    def against(self) -> frozenset[str]:
        """Return the members whose results speak against the version, if they are fewer than those whose don't.

        All of a small ring may speak against a version that is bad: that is what a ring is for.
        """
        found = self.evidence.against()
        return found if len(found) * 2 < len(self.confirmed) else frozenset()

    def alone(self) -> tuple[str, str, str] | None:
        """Return member, file and error of a refusal that no other member has answered; None if there is none."""
        new = ((name, file, error) for file, said in sorted(self.refused.items()) for name, error in said.items())
        return next((each for each in new if self.is_new(each[0]) and each[0] not in self.aside), None)

    def tick(self, here: frozenset[str], now: float) -> str | None:
        """Return the verdict, if the ring is over. `here`: connected agents of version 2; `now`: monotonic seconds."""
        if self.verdict is not None or not self.is_compared:
            return self.verdict
        weighed, limits = self.evidence.weigh(), self.evidence.limits
        if weighed.failed is not None:
            self.go_back(weighed.failed, self.against())
            return self.verdict
        self.needs_second = self.alone() is not None and not self.confirmed and not self.late(here)
        late, gone = self.late(here), self.confirmed.keys() - here
        watched = bool(self.confirmed) and now - self.confirmed_at >= limits.window
        if watched and not late and not gone and weighed.is_complete:
            self.verdict, self.why = PASSED, self._as_compared()
        elif now - self.began >= limits.patience:
            self._give_up(late, frozenset(gone))
        return self.verdict

    def late(self, here: frozenset[str]) -> frozenset[str]:
        """Return the members that are connected and have not loaded the set."""
        mine = here - self.before if self.members is None else here & (self.members - self.before)
        return mine - self.confirmed.keys() - self.aside - {name for said in self.refused.values() for name in said}

    def waits_for(self, here: frozenset[str], now: float) -> str:
        """Return in a few words what the ring waits for. `now`: monotonic seconds."""
        late, gone = self.late(here), self.confirmed.keys() - here
        if not self.is_compared:
            return "the results of the old version"
        lone = self.alone()
        if lone is not None and not self.confirmed:
            asked = _few(sorted(late)) or "another agent"
            return f"{asked} to load it, since {lone[0]} can't use {lone[1]}: {lone[2]}"
        if not self.confirmed or late:
            return f"{_few(sorted(late)) or 'a member that is connected'} to load it"
        if gone:
            return f"{_few(sorted(gone))} to come back"
        silent = list(islice(self.evidence.silent(), NAMED + 1))
        if silent:
            more = " and others" if len(silent) > NAMED else ""
            return f"results of {_few(silent[:NAMED])}{more}"
        left = max(0.0, self.confirmed_at + self.evidence.limits.window - now)
        return f"the end of its window, {words_of(round(left))}"

    def _as_compared(self) -> str:
        run_it = f"{count(len(self.confirmed), 'agent runs', 'agents run')} it"
        lone = self.alone()
        but = f"; {lone[0]} alone can't use {lone[1]}: {lone[2]}" if lone is not None else ""
        if not self.evidence.tallies:
            return f"{run_it}; none of them runs a changed check{but}"
        return f"{run_it}, {', '.join(sorted(self.evidence.tallies))} within its limits{but}"

    def _give_up(self, late: frozenset[str], gone: frozenset[str]) -> None:
        """Decide by the results so far, if they are enough: patience is over."""
        limits, silent = self.evidence.limits, frozenset(self.evidence.silent()) - gone
        missing, all_of_them = late | gone | silent, len(late | self.confirmed.keys())
        words = [f"{word}: {_few(sorted(names))}" for word, names in
                 (("not loaded", late), ("gone", gone), ("without enough results", silent)) if names]  # fmt: skip
        said = f"after {words_of(limits.patience)} {'; '.join(words) or 'nobody of the ring is there'}"
        lone = self.alone()
        if lone is not None and not self.confirmed:
            self.go_back(f"{lone[0]} can't use {lone[1]}: {lone[2]}; {said}", [lone[0]])
            return
        if not self.confirmed or len(missing) > limits.missing * all_of_them:
            self.go_back(said, missing)
            return
        heavy = self.evidence.too_heavy()
        self.verdict, self.why = (BACK, heavy) if heavy else (PASSED, f"{self._as_compared()}; {said}")


@define
class Rollout:
    """One version and its rings. `past` has the rings that are over, and those that were skipped, for clients."""

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


def show_ring(ring: Ring, state: str) -> dict[str, Any]:
    """Return a ring as the API shows it.

    Its keys: number, ring (its text), state, opened, members (new ones; None: all), confirmed (a count), why, figures,
    and refused: why members can't use a file, by file and member.
    """
    new = None if ring.members is None else sorted(ring.members - ring.before)
    return {
        "number": ring.number, "ring": ring.text, "state": state, "opened": ring.opened, "members": new,
        "confirmed": len(ring.confirmed), "why": ring.why,
        "refused": {file: dict(said) for file, said in ring.refused.items()},
        "figures": [ring.evidence.figures(check).to_json() for check in sorted(ring.evidence.tallies)],
    }  # fmt: skip


def all_at_once(version: int, digest: str, base: int, author: str, at: float, touched: Touched) -> Rollout:
    """Make a rollout without rings: it is finished when it begins. `at`: unix seconds."""
    return Rollout(version, digest, base, author, AT_ONCE, at, touched, FINISHED, "to all agents at once", at)


def _few(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - NAMED} more" if len(listed) > NAMED else ""
    return ", ".join(listed[:NAMED]) + more
