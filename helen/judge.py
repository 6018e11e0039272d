"""Keeps the states of all checks: durable records go into the timeline, what it says becomes records of the journal.

Only what is durable is judged, in the order of `at`, so that a replay of the history comes to the same. The reactor is
held up for STEP_SECONDS at most at a time. It decides nothing: helen/timeline.py and below do. Whoever wants to hear of
transitions and decisions gets them once they are durable themselves (`observers`); sending messages is not its work.
"""

from __future__ import annotations

import heapq
import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred, succeed
from twisted.internet.threads import deferToThread
from twisted.logger import Logger

from helen import replaying, statefile
from helen.journal.columns import END_OF_TIME
from helen.journal.journal import Journal
from helen.journal.values import JournalError, Origin, StoredChange, StoredResult
from helen.judged import LINK, Again, Decision, Result, Rule
from helen.policy import ScheduleEntry
from helen.replaying import Past
from helen.roster import Agent
from helen.rules import Wanted, link_rule
from helen.timeline import AgentRules, Key, Said, Spoken, Timeline, rules_to_json, run

STEP_SECONDS = 0.004  # of work before the reactor looks at its sockets again
LAG_SECONDS = 2.0  # a deadline is judged so much later: a result that came before it may be on its way to the disk
SAVE_SECONDS = 300.0  # between two copies on disk: 5 minutes of a busy fleet are replayed in some seconds
RECENT = 20_000  # records kept for questions about the last seconds: as many as a segment that is still open has
MAX_AGAIN = 10_000  # runs out of turn that wait: a fleet that breaks as a whole is not asked more than this
WINDOWS = frozenset(("downtime", "silence"))
OUTPUTS = frozenset(("transition", "flap", "decision"))

Stored = StoredResult | StoredChange


class Judge:
    """`folder` is Helen's state directory. `run_again(agent, check_id)` asks for a run out of its turn."""

    log = Logger()

    def __init__(
        self,
        reactor: Any,
        folder: Path,
        journal: Journal,
        run_again: Callable[[str, str], None],
        *,
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self.timeline = Timeline()
        self.at = 0  # of the last record that is in the timeline
        self.recent: deque[Past] = deque(maxlen=RECENT)
        self.observers: list[Callable[[StoredChange], None]] = []
        self.window_observers: list[Callable[[str, dict[str, Any]], None]] = []  # a downtime or silence was changed
        self.passive: Callable[[str], dict[str, Rule]] = lambda agent: {}  # the rules of what comes from outside
        self.emitted = self.returned = 0  # records of ours that were written, and that came back durable
        self._reactor = reactor
        self._folder = folder
        self._journal = journal
        self._run_again = run_again
        self._wall = wall
        self._steady = steady
        self._queue: deque[Stored] = deque()
        self._spoken: Spoken | None = None
        self._speaking: int | None = None  # `at` of the record that is being judged
        self._waiting: Any = None
        self._listening = False  # this Helen's own start is in the timeline: time may pass
        self._stopped = False
        self._unsaid: list[Said] = []
        self._ruled: dict[str, AgentRules] = {}  # as they were written last
        self._again: list[tuple[float, str, str]] = []
        self._saved_at = steady()
        self._saving: Deferred[None] | None = None

    # ---------------------------------------------------------------------------------------------- starting

    def open(self, recovered: Sequence[Stored]) -> list[str]:
        """Take up what was known: the file, and the records since then. Blocks. Sentences for the log."""
        sentences, loaded = [], None
        try:
            loaded = statefile.load(self._folder)
        except statefile.StatesUnreadable as error:
            sentences.append(str(error))
        if loaded is not None:
            self.at, self.timeline = loaded
        past = {each.at: each for each in replaying.since(self._folder / "history", self.at)}
        past |= {each.at: _past_of(each) for each in recovered if each.at > self.at}
        self._replay((past[at] for at in sorted(past)), is_fresh=loaded is None)
        self._ruled = dict(self.timeline.rules)
        if past:
            sentences.append(f"{len(past)} records were judged that the states on disk didn't have yet")
        return sentences

    def _replay(self, past: Iterable[Past], is_fresh: bool) -> None:
        """What comes of it and was written before is not written again. Without a file to begin from, nothing is."""
        said, written = [], dict[Key, int]()
        for record in past:
            self.at = record.at
            if record.kind in OUTPUTS and record.agent is not None and record.check_id is not None:
                key, number = (record.agent, record.check_id), json.loads(record.document)["number"]
                written[key] = max(written.get(key, 0), number + 1)
            said += run(_judge(self.timeline, record))
        if is_fresh:
            for key, state in self.timeline.states.items():
                self.timeline.states[key] = evolve(state, number=max(state.number, written.get(key, 0)))
            return
        self._unsaid = [
            each for each in said
            if not isinstance(each.event, Again) and each.event.number >= written.get((each.agent, each.check_id), 0)
        ]  # fmt: skip

    # ---------------------------------------------------------------------------------------------- records

    def durable(self, records: Iterable[Stored]) -> None:
        """What the journal has on disk, in its order."""
        if self._stopped:
            self.returned += sum(isinstance(each, StoredChange) and each.change.kind in OUTPUTS for each in records)
            return
        self._queue.extend(records)
        if self._waiting is None:
            self._work()

    def _work(self) -> None:
        self._waiting = None
        until = self._steady() + STEP_SECONDS
        while not self._stopped and (self._spoken is not None or self._queue):
            if self._spoken is None:
                record = self._queue.popleft()
                self._speaking = record.at
                self._hear(record)
                past = _past_of(record)
                self.recent.append(past)
                self._spoken = _judge(self.timeline, past)
            if not self._speak(until) or self._steady() >= until:
                self._waiting = self._reactor.callLater(0, self._work)
                return

    def _speak(self, until: float) -> bool:
        """Write down what the timeline says; False when it has more to say than there is time for."""
        assert self._spoken is not None
        try:
            for said in self._spoken:
                if said is not None:
                    self._write(said)
                elif self._steady() >= until:
                    return False
        except Exception:  # a record that can't be judged must not keep the others from it
            self.log.failure("judging the record {at}", at=self._speaking)
        self._spoken = None
        if self._speaking is not None:
            self.at, self._speaking = self._speaking, None
        return True

    def _hear(self, record: Stored) -> None:
        """A record of ours has come back, or this Helen's start: from there on time counts."""
        if not isinstance(record, StoredChange):
            return
        if record.change.kind in OUTPUTS:
            self.returned += 1
            for observer in self.observers:
                observer(record)
        elif record.change.kind in WINDOWS:
            for tell in self.window_observers:
                tell(record.change.kind, json.loads(record.change.document))
        elif record.change.kind == "helen_start":
            self._listening = True
            unsaid, self._unsaid = self._unsaid, []
            for said in unsaid:
                self._write(said)

    def _write(self, said: Said) -> None:
        event = said.event
        if isinstance(event, Again):
            if len(self._again) < MAX_AGAIN:
                heapq.heappush(self._again, (event.at, said.agent, said.check_id))
            return
        try:
            self._journal.change(event.KIND, event.to_json(), said.agent, said.check_id)
            self.emitted += 1
        except JournalError as error:  # it has broken or is closed: the next start judges this anew
            self.log.error("{agent}/{check}: {error}", agent=said.agent, check=said.check_id, error=error)

    def say(self, agent: str, check_id: str, decision: Decision) -> None:
        """A decision that comes of no state: about a rollout, say. It goes the way of all others."""
        self._write(Said(agent, check_id, decision))

    def tick(self) -> None:
        """Once a second: deadlines, runs out of turn, and a copy on disk now and then."""
        now = self._wall()
        while self._again and self._again[0][0] <= now:
            _, agent, check_id = heapq.heappop(self._again)
            self._run_again(agent, check_id)
        if not self._listening or self._stopped or self._waiting is not None or self._queue:
            return
        if self._journal.backlog_bytes == 0:  # else a record older than `now` is still to come
            self._spoken = self.timeline.advance(now - LAG_SECONDS)
            self._work()
        if self._steady() - self._saved_at >= SAVE_SECONDS and self._saving is None:
            self._save_soon()

    # ---------------------------------------------------------------------------------------------- putting away

    def _save_soon(self) -> None:
        """Only what is written down for good may be in the copy: else a crash now would lose what came of it."""
        if self.emitted != self.returned or self._spoken is not None:
            return
        self._saved_at = self._steady()
        self._saving = deferToThread(statefile.save, self._folder, self.at, self.timeline.copied())
        self._saving.addErrback(lambda failure: self.log.error("states: {why}", why=failure.getErrorMessage()))
        self._saving.addBoth(self._saved)

    def _saved(self, _: Any) -> None:
        self._saving = None

    def stop(self) -> None:
        """From here on records stay in the journal, for the next start."""
        self._stopped = True
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def save(self) -> Deferred[None]:
        """Once the journal is closed. In the middle of a record there is nothing to put away: the last copy stays."""
        if self._spoken is not None or not self._listening or self.emitted != self.returned:
            return succeed(None)
        done = deferToThread(statefile.save, self._folder, self.at, self.timeline)
        return done.addErrback(lambda failure: self.log.error("states: {why}", why=failure.getErrorMessage()))

    # ---------------------------------------------------------------------------------------------- rules

    def rule(self, agent: Agent, entries: Iterable[ScheduleEntry], default: Wanted) -> None:
        """What an agent is to run from now on; written down if it is not what it was.

        One that only has a certificate so far is nobody to wait for: nothing of it is stale before it came once.
        """
        known, passive = self._ruled.get(agent.name), self.passive(agent.name)
        was_ruled = known is not None and not _is_passive(known)
        has_come = agent.link is not None or was_ruled or (agent.name, LINK) in self.timeline.states
        scheduled = {entry.id: entry.rule for entry in entries} if has_come else {}
        rules = AgentRules(dict(agent.labels), passive | scheduled, link_rule(default))
        if known != rules and (known is not None or has_come or passive) and not self._stopped:
            self._ruled[agent.name] = rules
            self._journal.change("rule", rules_to_json(rules), agent.name)

    def rule_of(self, agent: str, check_id: str) -> Rule | None:
        """As it was written last; None for what nobody declared or assigned."""
        rules = self._ruled.get(agent)
        return None if rules is None else rules.checks.get(check_id)

    def forget(self, agent: str, why: str = "") -> None:
        """An agent that was taken out of service, or has gone to another Helen: what is open of it is closed."""
        if self._stopped:
            return
        self._ruled.pop(agent, None)
        self._journal.change("link", {"event": "forgotten"} | ({"why": why} if why else {}), agent)


def _is_passive(rules: AgentRules) -> bool:
    """Whether all that is known of it comes from outside: then no agent may ever have been there."""
    return bool(rules.checks) and all(rule.passive for rule in rules.checks.values())


def _past_of(record: Stored) -> Past:
    """A record of the journal in the shape that the history has, to the microsecond: a replay must find the same."""
    if isinstance(record, StoredChange):
        change, received = record.change, _to_the_microsecond(record.change.received)
        document = change.document.decode()
        return Past(record.at, received, change.kind, change.agent, change.check_id, document=document)
    entry, said = record.entry, record.document
    received, ended = _to_the_microsecond(entry.received), None
    if said.started is not None and 0 <= said.started < END_OF_TIME:
        ended = _to_the_microsecond(said.started) + (said.took_ms or 0.0) / 1_000
    result = Result(received, said.status, ended, entry.spool, entry.sequence, said.reason, said.code, said.summary)
    return Past(
        record.at, received, "result", entry.agent, entry.check_id, result, entry.origin, metrics=said.metrics
    )  # fmt: skip


def _to_the_microsecond(moment: float) -> float:
    """As a segment has it."""
    return round(moment * 1_000_000) / 1_000_000


def _judge(timeline: Timeline, record: Past) -> Spoken:
    """What comes of one record; an asked result is somebody's question and steps nothing."""
    if record.result is None:
        document = {} if record.kind in OUTPUTS else json.loads(record.document)
        return timeline.change(record.kind, record.received, record.agent, record.check_id, document)
    if record.origin == Origin.ASKED or record.agent is None or record.check_id is None:
        return timeline.advance(record.received)
    return timeline.result(record.agent, record.check_id, record.result)
