"""Evaluates durable records: feeds them to the timeline, and writes its events into the journal as records.

Only durable records are evaluated, in the order of `at`, so that a replay of the history comes to the same. The reactor
is held up for STEP_SECONDS at most at a time. It decides nothing: helen/states/fleet_timeline.py and below do.
Observers of transitions and decisions get them once these are durable themselves; sending messages is not its work.
"""

from __future__ import annotations

import heapq
import itertools
import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from pathlib import Path
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred, succeed
from twisted.internet.threads import deferToThread
from twisted.logger import Logger

from groundwork.clock_watch import Jump
from groundwork.counts import count
from groundwork.start_clock import Boot
from helen import garbage_looks
from helen.agents.roster import Agent
from helen.assignments.schedule import ScheduleEntry
from helen.assignments.state_rules import RuleSettings, link_rule
from helen.evaluation import replay, state_snapshot
from helen.evaluation.replay import HistoryRecord, record_of
from helen.journal.journal import Journal
from helen.journal.values import JournalError, Origin, StoredChange, StoredResult
from helen.states.agent_rules import AgentRules, rules_to_json
from helen.states.events import Again, Decision
from helen.states.fleet_states import CheckEvent, Events, run
from helen.states.fleet_timeline import Timeline
from helen.states.model import LINK, Key, Rule, plain
from helen.states.timeline_snapshot import copy_steps

STEP_SECONDS = 0.0005  # of work before the reactor looks at its sockets again
LAG_SECONDS = 2.0  # a deadline is stepped so much later: a result that came before it may be on its way to the disk
SAVE_SECONDS = 300.0  # between two copies on disk: 5 minutes of a busy fleet are replayed in some seconds
RECENT = 20_000  # records kept for questions about the last seconds: as many as a segment that is still open has
MAX_RERUNS = 10_000  # runs out of turn that wait: a fleet that breaks as a whole is not asked for more
WINDOWS = frozenset(("downtime", "silence"))
OUTPUTS = frozenset(("transition", "flap", "decision"))

Stored = StoredResult | StoredChange
Awaiting = HistoryRecord | tuple[HistoryRecord, StoredChange]  # a result, without its blob, or a change


class Evaluator:
    """Keeps the states of all checks. `folder` is Helen's state directory; `run_again` asks for a run out of turn.

    `passive_rules(agent)` returns the rules of an agent's passive checks, by their ids.
    """

    log = Logger()

    def __init__(
        self,
        reactor: Any,
        folder: Path,
        journal: Journal,
        run_again: Callable[[str, str], None],
        *,
        passive_rules: Callable[[str], dict[str, Rule]] = lambda agent: {},
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
        boot: Callable[[], Boot] | None = None,
    ) -> None:
        self.timeline, self._copy = Timeline(), Timeline()
        self.at = 0  # of the last record that is in the timeline
        self.recent: deque[HistoryRecord] = deque(maxlen=RECENT)
        self.observers: list[Callable[[StoredChange], None]] = []
        self.on_caught_up: Callable[[], None] = lambda: None  # called when no durable record waits any more
        self.window_observers: list[Callable[[str, dict[str, Any]], None]] = []  # a downtime or silence was changed
        self.ack_observers: list[Callable[[StoredChange], None]] = []  # a check was acknowledged, or that taken back
        # Events that were written into the journal, and those of them that are durable. While the two differ a saved
        # state would be ahead of the journal: a crash would lose the events, and a replay would not make them again.
        self.events_written = self.events_durable = 0
        self._reactor = reactor
        self._folder = folder
        self._journal = journal
        self._run_again = run_again
        self._passive_rules = passive_rules
        self._wall = wall
        self._steady = steady
        self._boot = boot
        self._queue: deque[Awaiting] = deque()
        self._events: Events | None = None  # of the record, or of the time, that is being evaluated
        self._current: int | None = None  # `at` of that record
        self._next_turn: Any = None  # the call in which the reactor goes on with the queue
        self._listening = False  # this Helen's own start is in the timeline: time may pass
        self._stopped = False
        self._unwritten: list[CheckEvent] = []  # events of a replay that were lost with the last process
        self._written_rules: dict[str, AgentRules] = {}
        self._reruns: list[tuple[float, str, str]] = []  # a heap of runs out of turn, by monotonic seconds
        self._awaited: list[tuple[int, int, Deferred[None]]] = []  # a heap, by `at`
        self._numbers = itertools.count()
        self._saved_at = steady()
        self._saving: Deferred[None] | None = None
        self._copying: Iterator[None] | None = None  # of what is to be saved: nothing is evaluated meanwhile

    # ---------------------------------------------------------------------------------------------- starting

    def open(self, recovered: Sequence[Stored]) -> list[str]:
        """Restore the saved states and evaluate the records since then; return sentences for the log. Blocks."""
        sentences, loaded = [], None
        try:
            loaded = state_snapshot.load(self._folder)
        except state_snapshot.StatesUnreadable as error:
            sentences.append(str(error))
        if loaded is not None:
            self.at, self.timeline = loaded
        newest = [record_of(each) for each in recovered]
        self.recent.extend(newest)
        records = {each.at: each for each in replay.since(self._folder / "history", self.at)}
        records |= {each.at: each for each in newest if each.at > self.at}
        self._replay((records[at] for at in sorted(records)), is_fresh=loaded is None)
        self._written_rules = dict(self.timeline.rules)
        if records:
            sentences.append(
                f"{count(len(records), 'record was', 'records were')} evaluated that the states on disk didn't have yet"
            )
        return sentences

    def _replay(self, records: Iterable[HistoryRecord], is_fresh: bool) -> None:
        """Evaluate records; keep the events that the last process did not write. None, if there were no saved states.

        Without saved states a replay can begin in the middle of the history, and its numbers are other ones.
        """
        events, written = [], dict[Key, int]()
        for record in records:
            self.at = record.at
            if record.kind in OUTPUTS and record.agent is not None and record.check_id is not None:
                key, number = (record.agent, record.check_id), json.loads(record.document)["number"]
                written[key] = max(written.get(key, 0), number + 1)
            events += run(_evaluate(self.timeline, record))
        if is_fresh:
            for key, state in self.timeline.states.items():
                self.timeline.states[key] = evolve(state, number=max(state.number, written.get(key, 0)))
            return
        self._unwritten = [
            each for each in events
            if not isinstance(each.event, Again) and each.event.number >= written.get((each.agent, each.check_id), 0)
        ]  # fmt: skip

    # ---------------------------------------------------------------------------------------------- records

    def durable(self, records: Iterable[Stored]) -> None:
        """Evaluate records that are durable, in the journal's order, now or in the reactor's next turns."""
        if self._stopped:
            self.events_durable += sum(
                isinstance(each, StoredChange) and each.change.kind in OUTPUTS for each in records
            )
            return
        for stored in records:
            record = record_of(stored)
            self.recent.append(record)
            self._queue.append((record, stored) if isinstance(stored, StoredChange) else record)
        if self._next_turn is None:
            self._work()

    @property
    def waiting(self) -> Sized:
        """Return the records that are durable and not evaluated, as they are at any later moment, too."""
        return self._queue

    def when_evaluated(self, at: int) -> Deferred[None]:
        """Return a Deferred that fires once the record with this number is evaluated; at once if it was already."""
        if at <= self.at:
            return succeed(None)
        evaluated: Deferred[None] = Deferred()
        heapq.heappush(self._awaited, (at, next(self._numbers), evaluated))
        return evaluated

    def _work(self) -> None:
        self._next_turn = None
        until = self._steady() + STEP_SECONDS
        garbage_looks.look()
        if self._copying is not None and not self._copy_on(until):
            self._next_turn = self._reactor.callLater(0, self._work)
            return
        calm: Callable[..., bool] = self.timeline.calm  # a result has agent and check: its type doesn't say so
        while not self._stopped and (self._events is not None or self._queue):
            if self._events is None:
                given = self._queue.popleft()
                is_judged = type(given) is HistoryRecord and given.origin != Origin.ASKED
                if is_judged and calm(given.agent, given.check_id, given.result):  # type: ignore[union-attr]
                    self.at = given.at  # type: ignore[union-attr]
                    if self._awaited:
                        self._evaluated(self.at)
                else:
                    self._begin(given)
            if (self._events is not None and not self._write_events(until)) or self._steady() >= until:
                self._next_turn = self._reactor.callLater(0, self._work)
                return
        self.on_caught_up()

    def _begin(self, awaiting: Awaiting) -> None:
        """Begin to evaluate a record that may cause events."""
        if isinstance(awaiting, HistoryRecord):
            record = awaiting
        else:
            record, stored = awaiting
            self._tell_observers(stored)
        self._current = record.at
        self._events = _evaluate(self.timeline, record)

    def _evaluated(self, at: int) -> None:
        self.at = at
        while self._awaited and self._awaited[0][0] <= at:
            heapq.heappop(self._awaited)[-1].callback(None)

    def _write_events(self, until: float) -> bool:
        """Write the events of the current record; return False if there are more than there is time for.

        The clock is looked at behind each event, as at each pause: an agent that goes away has those of all its checks.
        """
        assert self._events is not None
        try:
            for event in self._events:
                if event is not None:
                    self._write(event)
                if self._steady() >= until:
                    return False
        except Exception:  # a record that can't be evaluated must not keep the others from it
            self.log.failure("evaluating the record {at}", at=self._current)
        self._events = None
        if self._current is not None:
            current, self._current = self._current, None
            self._evaluated(current)
        return True

    def _tell_observers(self, record: StoredChange) -> None:
        """Tell observers of a durable event or window; after the record of this Helen's start time counts."""
        if record.change.kind in OUTPUTS:
            self.events_durable += 1
            for observer in self.observers:
                observer(record)
        elif record.change.kind == "ack":
            for note in self.ack_observers:
                note(record)
        elif record.change.kind in WINDOWS:
            for tell in self.window_observers:
                tell(record.change.kind, json.loads(record.change.document))
        elif record.change.kind == "helen_start":
            self._listening = True
            unwritten, self._unwritten = self._unwritten, []
            for event in unwritten:
                self._write(event)

    def _write(self, given: CheckEvent) -> None:
        event = given.event
        if isinstance(event, Again):
            if len(self._reruns) < MAX_RERUNS:
                later = max(0.0, event.at - self.timeline.clock)
                heapq.heappush(self._reruns, (self._steady() + later, given.agent, given.check_id))
            return
        try:
            self._journal.change(event.KIND, event.to_json(), given.agent, given.check_id)
            self.events_written += 1
        except JournalError as error:  # it has broken or is closed: the next start evaluates the record again
            self.log.error("{agent}/{check}: {error}", agent=given.agent, check=given.check_id, error=error)

    def write_decision(self, agent: str, check_id: str, decision: Decision) -> None:
        """Write a decision that no state led to, such as one about a rollout. It reaches observers like all others."""
        self._write(CheckEvent(agent, check_id, decision))

    def began(self, stepped: float, start: dict[str, Any]) -> None:
        """Write down this Helen's start, before all else; behind a step of the clock that came while there was none."""
        if stepped:
            self.jumped(Jump(self._wall(), stepped, 0.0))
        self._journal.change("helen_start", {**start, **self._boot_now()})

    def _boot_now(self) -> dict[str, Any]:
        """Return the key `boot` with the machine's boot by the clock of now, for the next start to compare with."""
        return {} if self._boot is None else {"boot": plain(self._boot())}

    def jumped(self, jump: Jump) -> None:
        """Write down that the clock was set, or that Helen stood still, before any record by the new time."""
        if not self._stopped:
            try:
                step = {"stepped": round(jump.stepped, 6), "slept": round(jump.slept, 6)}
                self._journal.change("clock", {**step, **self._boot_now()})
            except JournalError as error:
                self.log.error("a step of the clock is not in the history: {error}", error=error)

    def tick(self) -> None:
        """Step deadlines, ask for runs out of turn, and save the states now and then. Called once a second."""
        now, steady = self._wall(), self._steady()
        while self._reruns and self._reruns[0][0] <= steady:
            _, agent, check_id = heapq.heappop(self._reruns)
            self._run_again(agent, check_id)
        if not self._listening or self._stopped or self._next_turn is not None or self._queue:
            return
        if not self._journal.has_undelivered:  # else a record older than `now` is still to come
            self._events = self.timeline.advance(now - LAG_SECONDS)
            self._work()
        if self._steady() - self._saved_at >= SAVE_SECONDS and self._saving is None:
            self._save_soon()

    # ---------------------------------------------------------------------------------------------- saving

    def _save_soon(self) -> None:
        """Save the states in a thread, unless some of their events are not durable yet."""
        if self.events_written != self.events_durable or self._events is not None:
            return
        self._saved_at, self._copy = self._steady(), Timeline()
        self._copying = copy_steps(self.timeline, self._copy)
        if self._next_turn is None:
            self._work()

    def _copy_on(self, until: float) -> bool:
        """Copy states, and have them saved after the last; return False if there are more than there is time for."""
        assert self._copying is not None
        for _ in self._copying:
            if self._steady() >= until:
                return False
        copy, self._copy, self._copying = self._copy, Timeline(), None
        self._save_copy(copy)
        return True

    def _save_copy(self, copy: Timeline) -> None:
        self._saving = deferToThread(state_snapshot.save, self._folder, self.at, copy)
        self._saving.addErrback(lambda failure: self.log.error("states: {why}", why=failure.getErrorMessage()))
        self._saving.addBoth(self._saved)

    def _saved(self, _: Any) -> None:
        self._saving = None

    def stop(self) -> None:
        """Evaluate no record any more: they stay in the journal, for the next start."""
        self._stopped = True
        if self._next_turn is not None:
            self._next_turn.cancel()
            self._next_turn = None

    def save(self) -> Deferred[None]:
        """Save the states, once the journal is closed. In the middle of a record the last saved ones stay."""
        if self._events is not None or not self._listening or self.events_written != self.events_durable:
            return succeed(None)
        done = deferToThread(state_snapshot.save, self._folder, self.at, self.timeline)
        return done.addErrback(lambda failure: self.log.error("states: {why}", why=failure.getErrorMessage()))

    # ---------------------------------------------------------------------------------------------- rules

    def write_rules(self, agent: Agent, entries: Iterable[ScheduleEntry], default: RuleSettings) -> None:
        """Write the rules of what an agent is to run from now on, if they have changed.

        An agent that only has a certificate so far has no rules: its checks can't be stale before it came once.
        """
        known, passive = self._written_rules.get(agent.name), self._passive_rules(agent.name)
        was_ruled = known is not None and not _is_passive(known)
        has_come = agent.link is not None or was_ruled or (agent.name, LINK) in self.timeline.states
        scheduled = {entry.id: entry.rule for entry in entries} if has_come else {}
        rules = AgentRules(dict(agent.labels), passive | scheduled, link_rule(default, agent.ephemeral is not None))
        if known != rules and (known is not None or has_come or passive) and not self._stopped:
            self._written_rules[agent.name] = rules
            self._journal.change("rule", rules_to_json(rules), agent.name)

    def has_rules(self, agent: str) -> bool:
        """Return True if the journal says what an agent runs, since it was enrolled or forgotten."""
        return agent in self._written_rules

    def rule_of(self, agent: str, check_id: str) -> Rule | None:
        """Return the rule of a check as it was written last; None if it is neither declared nor assigned."""
        rules = self._written_rules.get(agent)
        return None if rules is None else rules.checks.get(check_id)

    def forget(self, agent: str, why: str = "") -> None:
        """Close what is open of an agent that was taken out of service, or that has gone to another Helen."""
        if self._stopped:
            return
        self._written_rules.pop(agent, None)
        self._journal.change("link", {"event": "forgotten"} | ({"why": why} if why else {}), agent)


def _is_passive(rules: AgentRules) -> bool:
    """Return True if all checks are passive: then an agent of that name may never have connected."""
    return bool(rules.checks) and all(rule.passive for rule in rules.checks.values())


def _evaluate(timeline: Timeline, record: HistoryRecord) -> Events:
    """Give the events of one record; an asked result answers a query and steps nothing."""
    if record.result is None:
        document = {} if record.kind in OUTPUTS else json.loads(record.document)
        return timeline.change(record.kind, record.received, record.agent, record.check_id, document)
    if record.origin == Origin.ASKED or record.agent is None or record.check_id is None:
        return timeline.advance(record.received)
    return timeline.result(record.agent, record.check_id, record.result)
