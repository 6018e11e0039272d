"""Stands at the gates of a rollout: gives its ring the results of its members, and tells the rest of Helen how it goes.

It compares runs that became durable, asks for those that the schedule would bring too late, writes down for the
timeline what is being tried where (so that nobody is told of it), lets go of that once an agent has gone back, and
tells people when a gate has taken a version back. What is enough and what is too bad is helen/gates.py's and
helen/rollout.py's; what agents are offered is helen/releases.py's.
"""

from __future__ import annotations

import functools
import heapq
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from attrs import define, field
from twisted.internet.threads import deferToThread
from twisted.logger import Logger

from equus_protocol.results import OK, UNKNOWN, WARNING
from helen import trials
from helen.baseline import Sample, look_back, sample_of
from helen.gates import Key
from helen.house import House
from helen.journal.values import JournalError, Origin, StoredResult
from helen.judge import Judge
from helen.judged import Decision, State
from helen.library import Library
from helen.policy import Assignments
from helen.rings import Candidate
from helen.rollout import Ring, Rollout, Touched
from helen.roster import Agent
from helen.trials import TrialScope

RECENT = 20_000  # results that may be in no segment yet: as many as one holds
ASKED_A_TICK = 500  # runs out of turn: a ring of 10,000 agents is asked within some seconds
RETRY_SECONDS = 5.0  # until a run is asked for again that could not be
LAST_SEEN_SECONDS = 86_400.0  # an agent that was away for longer is none of the fleet
BACK_SECONDS = 600.0  # that a connected agent has to go back; then what it says counts, whatever it runs
SETTLE_SECONDS = 1.0  # beside the checks' timeout: the way of the last result
FACTS = ("os", "kernel", "arch")


@define
class Watch:
    """What is known of the open ring beside the ring itself."""

    rollout: Rollout
    touched: Touched
    old: dict[Key, list[Sample]] | None = None  # the newest last; None: the history is being read
    loaded_at: dict[str, float] = field(factory=dict)  # unix seconds at which a member has loaded it
    broken_before: dict[str, frozenset[str]] = field(factory=dict)  # files that a member could not use then already
    asks: list[tuple[float, Key, float]] = field(factory=list)  # when, whom, and how long until the next one
    has_equus: bool = False  # a newer Equus goes out with it

    @property
    def ring(self) -> Ring:
        assert self.rollout.ring is not None
        return self.rollout.ring


class Gatekeeper:
    """One for all rollouts. `wall` and `steady` are the clocks."""

    log = Logger()

    def __init__(
        self,
        house: House,
        library: Library,
        judge: Judge,
        history: Path,
        *,
        wall: Callable[[], float],
        steady: Callable[[], float],
    ) -> None:
        self.listeners: list[Callable[[str, Rollout], None]] = []  # who wants to hear of each step
        self._house, self._library, self._judge, self._history = house, library, judge, history
        self._wall, self._steady = wall, steady
        self._recent: deque[Sample] = deque(maxlen=RECENT)
        self._watch: Watch | None = None
        self._settle = 0.0  # how long a run of the checks that were tried last may take
        self._going: dict[
            tuple[str, str], float
        ] = {}  # (version, agent) that has gone back -> when its last run is over
        self._undone_at: dict[str, float] = {}
        self._let_go: set[tuple[str, str]] = set()  # of those it has been written down, and is not in the timeline yet
        library.releases.on_rollout = self.on_rollout
        library.releases.fleet = self.fleet
        house.on_loaded.append(self.loaded)

    # ---------------------------------------------------------------------------------------------- who is there

    def fleet(self) -> list[Candidate]:
        """Whom a ring may be made of."""
        oldest, here = self._wall() - LAST_SEEN_SECONDS, frozenset(self._house.followers())
        return [
            Candidate(agent.name, agent.name in here, agent.labels, _facts_of(agent))
            for agent in self._house.roster.agents.values()
            if agent.name in here or (agent.link is None and agent.host and (agent.last_seen or 0.0) >= oldest)
        ]

    # ---------------------------------------------------------------------------------------------- steps

    def start(self, recovered: Iterable[Any]) -> None:
        """Once records may be written: take up what a Helen before this one left open."""
        self._remember(recovered)
        rollout, scope = self._library.releases.rollout, self._judge.timeline.trial
        is_known = scope is not None and rollout is not None and rollout.ring is not None and (
            (scope.version, scope.ring) == (rollout.version, rollout.ring.number)
        )  # fmt: skip
        if scope is not None and not is_known:
            self._write(*self._outcome(scope.version))
        if rollout is not None and rollout.ring is not None:
            if not is_known:
                self._write_open(rollout)
            self._begin(rollout)

    def _outcome(self, version: int) -> tuple[str, int, str]:
        """What became of a version whose last step isn't in the history."""
        releases = self._library.releases
        if version in {each.version for each in (releases.published, releases.canary) if each is not None}:
            return trials.PASSED, version, f"version {version} has passed"
        last = releases.last
        return trials.UNDONE, version, last.why if last is not None and last.version == version else "it was taken back"

    def on_rollout(self, event: str, rollout: Rollout) -> None:
        """A step of helen.releases that is in the store; agents hear of it afterwards."""
        if event == "opened":
            self._write_open(rollout)
            self._begin(rollout)
        elif event == "passed":
            self._watch = None
            self._write(trials.PASSED, rollout.version, f"version {rollout.version} has passed {rollout.place}")
        elif event == "undone":
            self._watch = None
            self._undone_at[str(rollout.version)] = self._steady()
            self._write(trials.UNDONE, rollout.version, rollout.why, files=rollout.touched.text)
            if rollout.by_itself:
                self._tell(
                    "problem", WARNING, rollout.version, f"version {rollout.version} was taken back: {rollout.why}"
                )
        elif event == "mended":
            self._tell("recovery", OK, rollout.version, f"another version follows {rollout.version}")
        elif event == "at-once" and rollout.base:
            checks = sorted(ids_of(self._house.supply.assignments, rollout.touched.checks))
            more = {"author": rollout.author, "files": rollout.touched.text, "checks": checks}
            self._write("at-once", rollout.version, **more)
        for listener in self.listeners:
            listener(event, rollout)

    def _write_open(self, rollout: Rollout) -> None:
        ring = rollout.ring
        assert ring is not None
        self._settle = self._longest_run(rollout.touched.checks) + SETTLE_SECONDS
        checks = ids_of(self._house.supply.assignments, rollout.touched.checks)
        members = None if ring.members is None else ring.members - ring.before
        detail = f"version {rollout.version} is being tried in {rollout.place}: people are told once it has passed"
        scope = TrialScope(rollout.version, ring.number, members, ring.before, frozenset(checks), detail)
        more = {"author": rollout.author, "files": rollout.touched.text, "place": rollout.place}
        self._write(trials.OPEN, **scope.to_json(), **more)

    def _longest_run(self, checks: Iterable[str]) -> float:
        releases = self._library.releases
        newest = releases.newest
        tables = {} if newest is None else newest.tables
        assigned = [e.timeout for e in self._house.supply.assignments.entries if e.timeout is not None]
        return max([*(tables[name].timeout for name in checks if name in tables), *assigned], default=0.0)

    def _write(self, action: str, version: int, why: str = "", **more: Any) -> None:
        try:
            self._house.journal.change("rollout", {"action": action, "version": version, "why": why, **more})
        except JournalError as error:  # the next start finds what is missing
            self.log.error("rollout of version {version}: {error}", version=version, error=error)

    def _tell(self, what: str, status: int, version: int, why: str) -> None:
        """People, of the rollout itself."""
        decision = Decision(version * 2 + (status == OK), self._wall(), "notify", what, status, why)
        self._judge.say(*trials.HERSELF, decision)

    # ---------------------------------------------------------------------------------------------- the open ring

    def _begin(self, rollout: Rollout) -> None:
        """Read what the old version said; members that have loaded it meanwhile are taken up then."""
        watch = self._watch = Watch(rollout, rollout.touched)
        watch.ring.is_compared = False
        releases = self._library.releases
        if releases.canary is not None and releases.published is not None:
            watch.has_equus = releases.canary.document.agent != releases.published.document.agent
        agents = self._house.roster.agents.values()
        members = [agent for agent in agents if watch.ring.is_new(agent.name)]
        watch.broken_before = {a.name: frozenset(a.not_active) for a in members if a.digest != rollout.digest}
        ids = ids_of(self._house.supply.assignments, watch.touched.checks)
        keys = {(agent.name, check_id) for agent in members for check_id in ids}
        looked = deferToThread(look_back, self._history, keys, watch.ring.opened)
        looked.addErrback(self._no_history)
        looked.addCallback(functools.partial(self._take_history, watch, keys))
        looked.addErrback(lambda failure: self.log.failure("the results before the rollout", failure))
        for agent in members:
            self.loaded(agent)

    def _no_history(self, failure: Any) -> list[Sample]:
        self.log.failure("the history can't be read, so states before the rollout stand for it", failure)
        return []

    def _take_history(self, watch: Watch, keys: set[Key], samples: list[Sample]) -> None:
        found = {sample.at: sample for sample in samples}
        found |= {sample.at: sample for sample in self._recent if sample.key in keys}
        watch.old = {}
        for at in sorted(found):
            watch.old.setdefault(found[at].key, []).append(found[at])
        if watch is self._watch:
            turns = self._house.turns
            turns.walk(watch.loaded_at, lambda name: self._expect(watch, self._house.roster.know(name)))
            turns.walk((watch,), lambda each: setattr(each.ring, "is_compared", True))

    def _entries(self, watch: Watch, agent: Agent) -> Iterator[tuple[Key, Any]]:
        """What this agent runs of the checks that are compared."""
        for entry in self._house.supply.schedule_of(agent):
            if entry.check in watch.touched.checks:
                yield (agent.name, entry.id), entry

    def loaded(self, agent: Agent) -> None:
        """An agent has said what it runs."""
        watch = self._watch
        if watch is None or agent.link is None or agent.digest != watch.rollout.digest:
            return
        broken = agent.not_active
        if not any(name.startswith("lib/") for name in (*watch.touched.changed, *watch.touched.added)):
            broken = {name: why for name, why in broken.items() if name.removesuffix(".lua") in watch.touched.codes}
        before = watch.broken_before.get(agent.name, frozenset())
        broken = {name: why for name, why in broken.items() if name not in before}
        if watch.has_equus and agent.troubles.get("upgrade", "").startswith("undone"):
            broken["the newer Equus"] = agent.troubles["upgrade"]
        if not watch.ring.loaded(agent.name, broken, self._steady()) or broken:
            return
        watch.loaded_at[agent.name] = self._wall()
        if watch.old is not None:
            self._expect(watch, agent)

    def _expect(self, watch: Watch, agent: Agent) -> None:
        """From here on results of this member are looked at; those that are there already are."""
        assert watch.old is not None
        limits, now = watch.ring.evidence.limits, self._steady()
        for key, entry in self._entries(watch, agent):
            if key in watch.ring.evidence.pairs:
                continue
            samples = watch.old.get(key, [])
            new_code = watch.touched.codes.get(entry.check)
            old = [
                s.run for s in samples if s.received <= watch.ring.opened and (new_code is None or s.code != new_code)
            ]
            watch.ring.evidence.expect(key, entry.check, old, self._was_bad(key))
            for sample in samples:
                self._compare(watch, sample)
            if entry.every > limits.pause:
                heapq.heappush(watch.asks, (now, key, max(limits.pause, entry.timeout)))

    def _was_bad(self, key: Key) -> bool | None:
        """By the state before the trial, where the history has no results."""
        state: State | None = self._judge.timeline.states.get(key)
        if state is None:
            return None
        hard = state.hard if state.trial is None else state.trial.hard
        return hard.status != OK if hard.known and hard.status != UNKNOWN else None

    # ---------------------------------------------------------------------------------------------- results

    def durable(self, records: Iterable[Any]) -> None:
        """What the journal has on disk."""
        for sample in self._remember(records):
            if self._watch is not None:
                self._compare(self._watch, sample)

    def _remember(self, records: Iterable[Any]) -> list[Sample]:
        samples = [
            sample_of(record) for record in records
            if isinstance(record, StoredResult) and record.entry.origin is not Origin.ASKED
        ]  # fmt: skip
        self._recent.extend(samples)
        return samples

    def _compare(self, watch: Watch, sample: Sample) -> None:
        """Give it to the ring if it was made by the new version."""
        pair = watch.ring.evidence.pairs.get(sample.key)
        if pair is None or sample.received <= watch.ring.opened:
            return
        new_code = watch.touched.codes.get(pair.check)
        if new_code is None:  # the same file with another library, or by another Equus: its time has to say it
            offset = self._house.roster.know(sample.key[0]).clock_offset or 0.0
            is_new = sample.ran_at - offset >= watch.loaded_at.get(sample.key[0], float("inf"))
        else:
            is_new = sample.code == new_code
        if is_new:
            watch.ring.evidence.heard(sample.key, sample.run)

    # ---------------------------------------------------------------------------------------------- time

    def tick(self) -> None:
        """Once a second or so: ask for runs, and let go of agents that have gone back."""
        if self._watch is not None:
            self._ask(self._watch)
        if self._judge.timeline.tried:
            self._let_go_of_those_that_are_back()

    def _ask(self, watch: Watch) -> None:
        now, asked = self._steady(), 0
        while watch.asks and watch.asks[0][0] <= now and asked < ASKED_A_TICK:
            _, key, pause = heapq.heappop(watch.asks)
            pair = watch.ring.evidence.pairs.get(key)
            if pair is None or len(pair.new) >= watch.ring.evidence.limits.results:
                continue
            asked += 1
            agent = self._house.roster.agents.get(key[0])
            if (
                agent is not None
                and agent.link is not None
                and all(e.id != key[1] for e in self._house.supply.schedule_of(agent))
            ):
                watch.ring.evidence.drop(key)  # it is not assigned any more
                continue
            self._house.supply.again(*key)
            heapq.heappush(watch.asks, (now + pause, key, pause))

    def _let_go_of_those_that_are_back(self) -> None:
        rollout, now = self._library.releases.rollout, self._steady()
        for ref, keys in list(self._judge.timeline.tried.items()):
            if rollout is not None and ref == str(rollout.version):
                continue
            agents = {agent for agent, _ in keys}
            self._let_go &= {(ref, agent) for agent in agents} | {pair for pair in self._let_go if pair[0] != ref}
            back = sorted(agent for agent in agents if self._is_back(ref, agent, now))
            if back:
                self._let_go |= {(ref, agent) for agent in back}
                self._write(trials.BACK, int(ref), f"version {ref} was taken back", agents=back)
        for pair in [pair for pair in self._going if pair[0] not in self._judge.timeline.tried]:
            del self._going[pair]

    def _is_back(self, ref: str, name: str, now: float) -> bool:
        """Whether the agent runs what it shall, and whatever it ran before has ended; or has had time enough."""
        agent, pair = self._house.roster.agents.get(name), (ref, name)
        if agent is None or agent.link is None or pair in self._let_go:
            self._going.pop(pair, None)
            return False
        offered = self._library.offered(name)
        if offered is None or agent.digest != offered.digest:
            return now - self._undone_at.setdefault(ref, now) >= BACK_SECONDS
        if pair not in self._going:
            longest = max((entry.timeout for entry in self._house.supply.schedule_of(agent)), default=0.0)
            self._going[pair] = now + max(self._settle, longest + SETTLE_SECONDS)
        return now >= self._going[pair]


def ids_of(assignments: Assignments, checks: Iterable[str]) -> set[str]:
    """What these checks are called in agents' schedules: their own name, or the id of an entry."""
    named = set(checks)
    return named | {entry.id for entry in assignments.entries if entry.id is not None and entry.check in named}


def _facts_of(agent: Agent) -> dict[str, str]:
    return {name: value for name in FACTS if isinstance(value := agent.host.get(name), str)}
