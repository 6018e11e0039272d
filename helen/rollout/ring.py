"""Judges one ring of a rollout by what its members report. Pure; `now` is monotonic time, `opened` unix seconds.

A ring passes once every connected member has loaded the set, its window is over and its gate has all results and no
complaint. A gate's complaint, or a changed file that two members can't use, takes the version back at once; missing
results do when patience is over. If one member alone refuses a file, another one is asked to load it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from attrs import define, field

from groundwork.counts import count
from groundwork.durations import words_of
from helen.rollout.gate_limits import USUAL
from helen.rollout.gates import Evidence
from helen.rollout.touched_files import NAMED, few

PASSED, BACK = "passed", "undo"  # verdicts on a ring


@define
class Ring:
    """Holds one ring of a rollout. `members` has those of the rings before it, too; None: all agents."""

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
            asked = few(sorted(late)) or "another agent"
            return f"{asked} to load it, since {lone[0]} can't use {lone[1]}: {lone[2]}"
        if not self.confirmed or late:
            return f"{few(sorted(late)) or 'a member that is connected'} to load it"
        if gone:
            return f"{few(sorted(gone))} to come back"
        silent = list(islice(self.evidence.silent(), NAMED + 1))
        if silent:
            more = " and others" if len(silent) > NAMED else ""
            return f"results of {few(silent[:NAMED])}{more}"
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
        words = [f"{word}: {few(sorted(names))}" for word, names in
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
