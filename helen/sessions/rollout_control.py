"""Gives the open ring of a rollout the results of its members, and tells the rest of Helen how the rollout goes.

It compares runs that became durable, asks for those that the schedule would bring too late, journals for the timeline
which version is tried on which agents (no notification is sent of their states meanwhile), journals the end of a trial
once an agent has gone back, and notifies people when a gate has taken a version back. helen/rollout/gates.py and
helen/rollout/rollout.py decide what is enough and what is too bad, helen/library/releases.py what agents are offered.
"""

from __future__ import annotations

import functools
import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread
from twisted.logger import Logger

from equus_protocol.results import OK, UNKNOWN, WARNING
from groundwork.clock_watch import Jump
from helen.agents.roster import Agent
from helen.assignments.schedule import Assignments
from helen.evaluation.evaluator import Evaluator
from helen.evaluation.replay import record_of
from helen.journal.values import JournalError, StoredResult
from helen.library.library import Library
from helen.rollout.gates import Key
from helen.rollout.ring import Ring
from helen.rollout.rings import Candidate
from helen.rollout.rollout import Rollout
from helen.rollout.set_aside import aside_sentence
from helen.rollout.touched_files import Touched
from helen.sessions.rollout_baseline import Sample, by_check, look_back, sample_of
from helen.sessions.session_service import SessionService
from helen.states import rollout_trials
from helen.states.events import Decision
from helen.states.model import State
from helen.states.rollout_trials import TrialScope

ASKED_A_TICK = 500  # runs out of turn: a ring of 10,000 agents is asked within some seconds
KEYS_A_STEP = 2_000  # checks that were tried, of a tenth of a microsecond each
RETRY_SECONDS = 5.0  # until a run is asked for again that could not be
LAST_SEEN_SECONDS = 86_400.0  # an agent that was away for longer is none of the fleet
BACK_SECONDS = 600.0  # that a connected agent has to go back; then what it says counts, whatever it runs
SETTLE_SECONDS = 1.0  # beside the checks' timeout: the way of the last result
FACTS = ("os", "kernel", "arch")


@define
class Watch:
    """Holds what is known of the open ring beside the ring itself."""

    rollout: Rollout
    touched: Touched
    old: dict[Key, list[Sample]] | None = None  # the newest last; None: the history is being read
    loaded_at: dict[str, float] = field(factory=dict)  # unix seconds at which a member has loaded it
    broken_before: dict[str, frozenset[str]] = field(factory=dict)  # files that a member could not use then already
    asks: list[tuple[float, Key, float]] = field(factory=list)  # when, which check, and seconds until the next one
    has_equus: bool = False  # a newer Equus goes out with it

    @property
    def ring(self) -> Ring:
        """Return the open ring."""
        assert self.rollout.ring is not None
        return self.rollout.ring


class RolloutControl:
    """Watches the rollout that is under way. `wall`: unix seconds, `steady`: monotonic seconds."""

    log = Logger()

    def __init__(
        self,
        sessions: SessionService,
        library: Library,
        evaluator: Evaluator,
        history: Path,
        *,
        wall: Callable[[], float],
        steady: Callable[[], float],
    ) -> None:
        self._sessions, self._library, self._evaluator, self._history = sessions, library, evaluator, history
        self._wall, self._steady = wall, steady
        self._watch: Watch | None = None
        self._settle = 0.0  # how long a run of the checks that were tried last may take
        # Of trials that are over. A version is a text here, as in the timeline.
        self._undone_at: dict[str, float] = {}
        self._settling: dict[tuple[str, str], float] = {}  # (version, agent) gone back -> when its last run is over
        self._ending: set[str] = set()  # versions whose agents are being looked at
        self._journaled: set[tuple[str, str]] = set()  # (version, agent): its end is not in the timeline yet

    def jumped(self, jump: Jump) -> None:
        """Move when the ring was opened, and when members have loaded the version, to the time of now."""
        if self._watch is not None and self._watch.rollout.ring is not None:
            loaded = self._watch.loaded_at
            loaded.update({name: at + jump.stepped for name, at in loaded.items()})
            self._watch.ring.opened += jump.stepped

    # ---------------------------------------------------------------------------------------------- the fleet

    def fleet(self) -> list[Candidate]:
        """Return the agents that a ring may be made of: connected ones, and those that were here within a day.

        It is for a thread.
        """
        aside = self._library.releases.aside.names
        oldest, here = self._wall() - LAST_SEEN_SECONDS, frozenset(self._sessions.followers())
        return [
            Candidate(agent.name, agent.name in here, agent.labels, _facts_of(agent), agent.name in aside)
            for agent in list(self._sessions.roster.agents.values())
            if agent.name in here or (agent.link is None and agent.host and (agent.last_seen or 0.0) >= oldest)
        ]

    # ---------------------------------------------------------------------------------------------- steps

    def start(self) -> None:
        """Take up what was open when Helen stopped; called once records may be written."""
        rollout, scope = self._library.releases.rollout, self._evaluator.timeline.trial
        is_known = scope is not None and rollout is not None and rollout.ring is not None and (
            (scope.version, scope.ring) == (rollout.version, rollout.ring.number)
        )  # fmt: skip
        if scope is not None and not is_known:
            self._write(*self._outcome(scope.version))
        if rollout is not None and rollout.ring is not None:
            rollout.ring.opened = min(rollout.ring.opened, self._wall())  # it was stored by a clock that was ahead
            if not is_known:
                self._write_open(rollout)
            self._begin(rollout)

    def _outcome(self, version: int) -> tuple[str, int, str]:
        """Return action, version and reason of the last step of a version, which isn't in the history."""
        releases = self._library.releases
        if version in {each.version for each in (releases.published, releases.canary) if each is not None}:
            return rollout_trials.PASSED, version, f"version {version} has passed"
        last = releases.last
        return (
            rollout_trials.UNDONE,
            version,
            last.why if last is not None and last.version == version else "it was taken back",
        )

    def on_rollout(self, event: str, rollout: Rollout) -> None:
        """Journal a step of a rollout that is in the store; agents hear of it afterwards.

        `event`: opened, widened, passed, finished, undone, mended, at-once, paused or resumed.
        """
        if event == "opened":
            self._write_open(rollout)
            self._begin(rollout)
        elif event == "widened":
            self._write_open(rollout)
            self._take_second()
        elif event == "passed":
            self._watch = None
            self._write(rollout_trials.PASSED, rollout.version, f"version {rollout.version} has passed {rollout.place}")
        elif event == "undone":
            self._watch = None
            self._undone_at[str(rollout.version)] = self._steady()
            self._write(rollout_trials.UNDONE, rollout.version, rollout.why, files=rollout.touched.text)
            if rollout.by_itself:
                self._tell(
                    "problem", WARNING, rollout.version, f"version {rollout.version} was taken back: {rollout.why}"
                )
        elif event == "mended":
            self._tell("recovery", OK, rollout.version, f"another version follows {rollout.version}")
        elif event == "at-once" and rollout.base:
            checks = sorted(ids_of(self._sessions.delivery.assignments, rollout.touched.checks))
            more: dict[str, Any] = {"author": rollout.author, "files": rollout.touched.text, "checks": checks}
            self._write("at-once", rollout.version, **more)

    def _write_open(self, rollout: Rollout) -> None:
        ring = rollout.ring
        assert ring is not None
        self._settle = self._longest_run(rollout.touched.checks) + SETTLE_SECONDS
        checks = ids_of(self._sessions.delivery.assignments, rollout.touched.checks)
        members = None if ring.members is None else ring.members - ring.before
        detail = f"version {rollout.version} is being tried in {rollout.place}: people are told once it has passed"
        scope = TrialScope(rollout.version, ring.number, members, ring.before, frozenset(checks), detail)
        more: dict[str, Any] = {"author": rollout.author, "files": rollout.touched.text, "place": rollout.place}
        self._write(rollout_trials.OPEN, **scope.to_json(), **more)

    def _longest_run(self, checks: Iterable[str]) -> float:
        releases = self._library.releases
        newest = releases.newest
        tables = {} if newest is None else newest.tables
        assigned = [e.timeout for e in self._sessions.delivery.assignments.entries if e.timeout is not None]
        return max([*(tables[name].timeout for name in checks if name in tables), *assigned], default=0.0)

    def _write(self, action: str, version: int, why: str = "", **more: Any) -> None:
        try:
            self._sessions.journal.change("rollout", {"action": action, "version": version, "why": why, **more})
        except JournalError as error:  # the next start finds what is missing
            self.log.error("rollout of version {version}: {error}", version=version, error=error)

    def _tell(self, what: str, status: int, version: int, why: str) -> None:
        """Notify people of the rollout itself."""
        decision = Decision(version * 2 + (status == OK), self._wall(), "notify", what, status, why)
        self._evaluator.write_decision(*rollout_trials.ROLLOUT_KEY, decision)

    # ---------------------------------------------------------------------------------------------- the open ring

    def _begin(self, rollout: Rollout) -> None:
        """Read the results of the old version; members that load the new one meanwhile are taken up after that."""
        watch = self._watch = Watch(rollout, rollout.touched)
        watch.ring.is_compared = False
        releases = self._library.releases
        if releases.canary is not None and releases.published is not None:
            watch.has_equus = releases.canary.document.agent != releases.published.document.agent
        agents, is_new = list(self._sessions.roster.agents.values()), watch.ring.is_new
        watch.broken_before = {
            agent.name: frozenset(agent.not_active) for agent in agents
            if agent.not_active and agent.digest != rollout.digest and is_new(agent.name)
        }  # fmt: skip
        ids, keys = ids_of(self._sessions.delivery.assignments, watch.touched.checks), set[Key]()

        def look(opened: float) -> list[Sample]:
            keys.update((agent.name, check_id) for agent in agents if is_new(agent.name) for check_id in ids)
            return look_back(self._history, keys, opened)

        looked = deferToThread(look, watch.ring.opened)
        looked.addErrback(self._no_history)
        looked.addCallback(functools.partial(self._sort_history, watch, keys))
        looked.addErrback(lambda failure: self.log.failure("the results before the rollout", failure))
        loaded = [agent for agent in agents if agent.digest == rollout.digest]
        self._sessions.fair_turns.walk(loaded, self.loaded)

    def _take_second(self) -> None:
        """Note what the agent that joined the ring could not use before."""
        watch = self._watch
        if watch is not None and watch.ring.members is not None:
            for name in watch.ring.members - watch.ring.before - watch.broken_before.keys():
                agent = self._sessions.roster.agents.get(name)
                if agent is not None and agent.digest != watch.rollout.digest:
                    watch.broken_before[name] = frozenset(agent.not_active)

    def on_set_aside(self, name: str) -> None:
        """Journal that an agent is not listened to in rollouts any more, as an event of that agent."""
        releases = self._library.releases
        version = releases.aside.undone[name][-1]
        try:
            change = {"action": "aside", "version": version, "why": aside_sentence(name, releases.aside)}
            self._sessions.journal.change("rollout", change, name)
        except JournalError as error:
            self.log.error("rollout of version {version}: {error}", version=version, error=error)

    def _no_history(self, failure: Any) -> list[Sample]:
        self.log.failure("the history can't be read, so states before the rollout stand for it", failure)
        return []

    def _sort_history(self, watch: Watch, keys: set[Key], samples: list[Sample]) -> Deferred[None]:
        """Have a thread sort what is known by checks; what comes meanwhile is put behind it."""
        recent = list(self._evaluator.recent)
        newest = recent[-1].at if recent else 0
        return deferToThread(by_check, samples, recent, keys).addCallback(
            functools.partial(self._take_history, watch, keys, newest)
        )

    def _take_history(self, watch: Watch, keys: set[Key], newest: int, old: dict[Key, list[Sample]]) -> None:
        late = list(itertools.takewhile(lambda each: each.at > newest, reversed(self._evaluator.recent)))
        for key, samples in by_check((), late, keys).items():
            old.setdefault(key, []).extend(samples)
        watch.old = old
        if watch is self._watch:
            turns = self._sessions.fair_turns
            turns.walk(watch.loaded_at, lambda name: self._expect(watch, self._sessions.roster.know(name)))
            turns.walk((watch,), lambda each: setattr(each.ring, "is_compared", True))

    def _entries(self, watch: Watch, agent: Agent) -> Iterator[tuple[Key, Any]]:
        """Yield the entries of this agent whose checks are compared."""
        for entry in self._sessions.delivery.schedule_of(agent):
            if entry.check in watch.touched.checks:
                yield (agent.name, entry.id), entry

    def loaded(self, agent: Agent) -> None:
        """Take note that an agent has reported what it runs."""
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
        """Expect results of this member from here on, and compare those that are there already."""
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
        """Return the state before the trial, for a check of which the history has no results."""
        state: State | None = self._evaluator.timeline.states.get(key)
        if state is None:
            return None
        hard = state.hard if state.trial is None else state.trial.hard
        return hard.status != OK if hard.known and hard.status != UNKNOWN else None

    # ---------------------------------------------------------------------------------------------- results

    def durable(self, results: Iterable[StoredResult]) -> None:
        """Compare results that the journal has on disk, while a ring is open. The evaluator has had them before."""
        if self._watch is None:
            return
        for sample in map(sample_of, map(record_of, results)):
            if sample is not None:
                self._compare(self._watch, sample)

    def _compare(self, watch: Watch, sample: Sample) -> None:
        """Give a result to the ring if it was made by the new version."""
        pair = watch.ring.evidence.pairs.get(sample.key)
        if pair is None or sample.received <= watch.ring.opened:
            return
        new_code = watch.touched.codes.get(pair.check)
        if new_code is None:  # the same file with another library, or by another Equus: its time has to say it
            offset = self._sessions.roster.know(sample.key[0]).clock_offset or 0.0
            is_new = sample.ran_at - offset >= watch.loaded_at.get(sample.key[0], float("inf"))
        else:
            is_new = sample.code == new_code
        if is_new:
            watch.ring.evidence.heard(sample.key, sample.run)

    # ---------------------------------------------------------------------------------------------- time

    def tick(self) -> None:
        """Ask for runs, and end the trials of agents that have gone back; called once a second or so."""
        if self._watch is not None:
            self._ask(self._watch)
        if self._evaluator.timeline.tried:
            self._end_trials()
        elif not self._ending:
            self._settling.clear()
            self._journaled.clear()

    def _ask(self, watch: Watch) -> None:
        """Ask for the runs that are due, one agent's in a step: to make its schedule takes some time."""
        now, due = self._steady(), list[tuple[Key, float]]()
        while watch.asks and watch.asks[0][0] <= now and len(due) < ASKED_A_TICK:
            _, key, pause = heapq.heappop(watch.asks)
            due.append((key, pause))
        self._sessions.fair_turns.walk(due, lambda each: self._ask_one(watch, *each))

    def _ask_one(self, watch: Watch, key: Key, pause: float) -> None:
        if watch is not self._watch:  # the ring has ended meanwhile
            return
        pair = watch.ring.evidence.pairs.get(key)
        if pair is None or len(pair.new) >= watch.ring.evidence.limits.results:
            return
        agent = self._sessions.roster.agents.get(key[0])
        if (
            agent is not None
            and agent.link is not None
            and all(e.id != key[1] for e in self._sessions.delivery.schedule_of(agent))
        ):
            watch.ring.evidence.drop(key)  # it is not assigned any more
            return
        self._sessions.delivery.run_now(*key)
        heapq.heappush(watch.asks, (self._steady() + pause, key, pause))

    def _end_trials(self) -> None:
        """Journal which agents have gone back from versions that are over; they are looked at in turns."""
        rollout, tried = self._library.releases.rollout, self._evaluator.timeline.tried
        for ref in tried.keys() - self._ending:
            if rollout is None or ref != str(rollout.version):
                self._ending.add(ref)
                self._end_trial(ref, list(tried[ref]))
        for pair in [pair for pair in self._settling if pair[0] not in tried]:
            del self._settling[pair]

    def _end_trial(self, ref: str, keys: list[Key]) -> None:
        agents, back = set[str](), list[str]()
        walk = self._sessions.fair_turns.walk

        def look(name: str) -> None:
            if self._is_back(ref, name, self._steady()):
                back.append(name)

        def end(_: object) -> None:
            self._ending.discard(ref)
            self._journaled = {pair for pair in self._journaled if pair[0] != ref or pair[1] in agents}
            if back:
                self._journaled |= {(ref, name) for name in back}
                self._write(rollout_trials.BACK, int(ref), f"version {ref} was taken back", agents=sorted(back))

        def look_at_all(_: object) -> None:
            walk(agents, look)
            walk((0,), end)

        some = (keys[first : first + KEYS_A_STEP] for first in range(0, len(keys), KEYS_A_STEP))
        walk(some, lambda part: agents.update(agent for agent, _ in part))
        walk((0,), look_at_all)

    def _is_back(self, ref: str, name: str, now: float) -> bool:
        """Return True if the agent runs what it should, and its last run of the other version has ended.

        An agent that doesn't go back has BACK_SECONDS; `now`: monotonic seconds.
        """
        agent, pair = self._sessions.roster.agents.get(name), (ref, name)
        if agent is None or agent.link is None or pair in self._journaled:
            self._settling.pop(pair, None)
            return False
        offered = self._library.offered(name)
        if offered is None or agent.digest != offered.digest:
            return now - self._undone_at.setdefault(ref, now) >= BACK_SECONDS
        if pair not in self._settling:
            longest = max((entry.timeout for entry in self._sessions.delivery.schedule_of(agent)), default=0.0)
            self._settling[pair] = now + max(self._settle, longest + SETTLE_SECONDS)
        return now >= self._settling[pair]


def ids_of(assignments: Assignments, checks: Iterable[str]) -> set[str]:
    """Return the ids of these checks in agents' schedules: their own names, and the ids of their entries."""
    named = set(checks)
    return named | {entry.id for entry in assignments.entries if entry.id is not None and entry.check in named}


def _facts_of(agent: Agent) -> dict[str, str]:
    return {name: value for name in FACTS if isinstance(value := agent.host.get(name), str)}
