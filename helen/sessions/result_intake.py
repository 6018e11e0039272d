"""Takes results of agents into the journal, and tells agents and queries that wait once they are on disk.

An agent is acknowledged, a query answered and a passive result confirmed only when the journal says that the result is
durable. Connections are held while the journal is full.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sized
from itertools import islice
from types import SimpleNamespace
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from equus_protocol import messages as m
from equus_protocol import one_off
from equus_protocol.result_fields import STATUS_NUMBERS
from groundwork.clock_watch import Jump
from groundwork.target_ids import PREFIX, parsed, source_of
from helen.agents.roster import Agent, Latest, Roster
from helen.journal.journal import Journal
from helen.journal.values import OWN_SPOOL, Batch, Entry, Origin, StoredResult
from helen.queries import one_off_code
from helen.queries.answers import Answers
from helen.queries.live_queries import LiveQueries, PendingAnswer
from helen.sessions.connection import AgentConnection, Hold
from helen.sessions.fair_turns import FairTurns
from helen.sessions.quota_control import QuotaControl
from helen.sessions.v1_scheduler import V1Scheduler
from helen.states.clock_offset import TOLERANCE, offset_ms

OVERLOAD_RETRY = 5  # seconds that an agent shall stay away when the journal takes nothing more
WARNED_MOST = 1_000  # agents of which the log says that they speak for others
MOST_UNEVALUATED = 50_000  # durable records that wait for the states, some 50 MB
FAIR_UNEVALUATED = 2_000  # the same, from which on each connection may send SHARE results a tick
SHARE = 50  # results: as many as an agent sends at once when all its checks end together
CLOCK_SAMPLES = 20  # results by which the offset of an agent's clock is estimated


class ResultIntake:
    """Handles reports and results of all connections. `wall`: unix seconds.

    `counts` has reports, results, passive, acks, late (results that no query waits for) and foreign (an agent's
    results of checks that only report from outside, or of targets whose lease another agent has).
    `is_outside(agent, check_id)` tells which checks those are. `is_of_target(agent, check_id)` returns whether an
    agent has the lease of the target that an id of its results names, and `is_target(name)` whether a target of that
    name is declared still. `judged.timeline.clocks` are the measured clocks of agents, for the history. `unevaluated`
    holds the durable records that no state has seen: connections wait while there are more than MOST_UNEVALUATED.
    From FAIR_UNEVALUATED on, and while the journal is behind, each connection has a share and waits when it has sent
    that, so that a flood holds those who take part in it, and no agent that sends as agents send.
    """

    log = Logger()

    def __init__(
        self,
        journal: Journal,
        roster: Roster,
        queries: LiveQueries,
        v1_scheduler: V1Scheduler,
        turns: FairTurns,
        quotas: QuotaControl,
        wall: Callable[[], float],
    ) -> None:
        self.counts = {"reports": 0, "results": 0, "passive": 0, "acks": 0, "late": 0, "foreign": 0}
        self.is_outside: Callable[[str, str], bool] = lambda agent, check_id: False
        self.declared: Collection[str] = ()  # names of which any check may be outside: most agents are none of them
        self.is_of_target: Callable[[str, str], bool] = lambda agent, check_id: False
        self.is_target: Callable[[str], bool] = lambda name: True  # before targets are read all of them are
        self.unevaluated: Sized = ()
        self.judged: Any = SimpleNamespace(timeline=SimpleNamespace(clocks={}))  # the evaluator, once there is one
        self._warned: set[str] = set()  # agents with foreign results: one line in the log for each
        self._journal, self._roster, self._queries = journal, roster, queries
        self._v1_scheduler, self._turns, self._wall = v1_scheduler, turns, wall
        self._quotas = quotas
        self._outcomes = Answers(queries)
        self._held_back: dict[AgentConnection, None] = {}  # the first has waited longest
        self._releasing = 0  # connections that a walk is still to look at
        self._shares: dict[AgentConnection, int] = {}  # results of each since the last tick
        # (agent, sequence in the spool `helen`) -> the query, or the passive result, that waits for the disk
        self._answers: dict[tuple[str, int], PendingAnswer] = {}
        self._submitted: dict[tuple[str, int], Deferred[None]] = {}
        self._offsets: dict[str, deque[float]] = {}
        self._stepped = 0.0  # seconds of all steps ahead
        # Samples that a walk is still to move, oldest first, each with `_stepped` as it was when they were taken.
        self._unmoved: list[tuple[dict[str, deque[float]], float]] = []

    def jumped(self, jump: Jump) -> None:
        """Move what was measured and received by the clock before a step, so that ages and offsets stay true."""
        if jump.stepped > 0.0:  # a higher offset of an agent's clock is seen with its next result
            before, self._offsets = self._offsets, {}  # what is measured from here on goes by the new time
            self._unmoved = [each for each in self._unmoved if each[0]] + [(before, self._stepped)]
            self._stepped += jump.stepped
            self._turns.walk(before, self._move_offsets)
        moved = jump.stepped + jump.slept
        self._turns.walk(list(self._roster.agents.values()), lambda agent: agent.move(moved, jump.at))

    def _move_offsets(self, name: str) -> None:
        """Move what was measured of an agent before each step that it has not followed yet."""
        moved = list[float]()
        for samples, before in self._unmoved:
            moved += (each - (self._stepped - before) for each in samples.pop(name, ()))
        agent = self._roster.agents.get(name)
        if agent is not None and moved:
            self._offsets[name] = deque((*moved, *self._offsets.get(name, ())), CLOCK_SAMPLES)
            agent.clock_offset = max(self._offsets[name])

    # ---------------------------------------------------------------------------------------------- into the journal

    def report(self, connection: AgentConnection, report: m.Report) -> None:
        """Journal the result of a scheduled check; its ack follows when it is on disk."""
        budget, size = connection.budget, len(report.blob)
        if budget is not None:  # counted here, as `takes` does it: a call for each report would be felt
            results, octets = budget.results, budget.bytes
            results.left -= 1
            octets.left -= size
            if (results.left < 0 or octets.left < 0) and not self._quotas.fills_up(connection, budget, size):
                return  # it was sent away: the report is in its spool, and comes again
        self.counts["reports"] += 1
        is_leased = self.is_of_target(connection.name, report.check) if report.check.startswith(PREFIX) else None
        is_foreign = is_leased is False or (
            connection.name in self.declared and self.is_outside(connection.name, report.check)
        )
        # A foreign one is acknowledged and kept, and steps no state.
        origin = Origin.TARGET if is_leased else Origin.ASKED if is_foreign else Origin.SCHEDULED
        clock = self.judged.timeline.clocks.get(connection.name)
        ahead = None if clock is None or -TOLERANCE <= clock.offset <= TOLERANCE else offset_ms(clock)
        entry = Entry(
            connection.name, report.check, None, report.spool, report.sequence, origin, self._wall(), report.blob, ahead
        )
        if is_foreign:
            self._refuse_foreign(connection.name, report.check, is_leased is False)
        if not self._journal.append(entry):
            self._refuse(connection)
        elif (self._journal.is_behind or len(self.unevaluated) > FAIR_UNEVALUATED) and self._has_sent(connection):
            self._hold_back(connection)

    def _refuse_foreign(self, name: str, check_id: str, of_target: bool) -> None:
        self.counts["foreign"] += 1
        if of_target:
            return  # after a lease went to another agent it has some on their way, or in its spool
        if name not in self._warned and len(self._warned) < WARNED_MOST:
            self._warned.add(name)
            self.log.warn(
                "{name} sends results of {check}, which is declared in passive.toml and which it isn't to run: they"
                " are kept in the history and change no state", name=name, check=check_id,
            )  # fmt: skip

    def result(self, connection: AgentConnection, result: m.Result) -> None:
        """Journal an answer to a `check`; its query is told when it is on disk."""
        self.counts["results"] += 1
        entry = self._v1_scheduler.answered(connection, result.message_id)
        answer = self._queries.take_answer(connection, result.message_id)
        if entry is None and answer is None:
            self.counts["late"] += 1
        if result.name == one_off.NAME:  # of one-off code: for its query alone, and kept nowhere
            if answer is not None:
                self._outcomes.settle(answer, result.blob, one_off_code.read_answer)
            return
        if not self._quotas.takes(connection, len(result.blob)):
            if answer is not None:
                self._outcomes.settle(answer, result.blob)
            return
        origin = Origin.SCHEDULED if entry is not None else Origin.ASKED
        name, check_id = connection.name, entry.id if entry is not None else result.name
        found = parsed(check_id) if entry is not None else None
        if found is not None:  # a run out of its turn, for a target
            if not self.is_of_target(name, check_id):
                return
            origin = Origin.TARGET
        clock = self.judged.timeline.clocks.get(name)
        ahead = None if clock is None else offset_ms(clock)
        sequence = self._journal.append_own(name, check_id, result.name, origin, self._wall(), result.blob, ahead)
        if sequence is None:
            if answer is not None:
                self._outcomes.settle(answer, result.blob)
            self._refuse(connection)
            return
        if answer is not None:
            self._answers[connection.name, sequence] = answer
        if self._journal.is_behind and self._has_sent(connection):
            self._hold_back(connection)

    def submit(self, name: str, check_id: str, blob: bytes, origin: Origin = Origin.PASSIVE) -> Deferred[None] | None:
        """Journal a passive result; the Deferred fires when it is on disk. None: the journal takes nothing more."""
        sequence = self._journal.append_own(name, check_id, None, origin, self._wall(), blob)
        if sequence is None:
            return None
        self.counts["passive"] += 1
        done = self._submitted[name, sequence] = Deferred()
        return done

    # ---------------------------------------------------------------------------------------------- a full journal

    def _refuse(self, connection: AgentConnection) -> None:
        connection.refuse(f"overloaded;retry-after={OVERLOAD_RETRY}", "the journal takes nothing more")

    def _hold_back(self, connection: AgentConnection) -> None:
        connection.hold(Hold.JOURNAL)
        self._held_back[connection] = None

    def forget(self, connection: AgentConnection) -> None:
        """Forget a connection that has gone."""
        self._held_back.pop(connection, None)
        self._shares.pop(connection, None)

    def _is_full(self) -> bool:
        return self._journal.full or len(self.unevaluated) > MOST_UNEVALUATED

    def _is_behind(self) -> bool:
        return self._journal.is_behind or len(self.unevaluated) > FAIR_UNEVALUATED

    def _has_sent(self, connection: AgentConnection) -> bool:
        """Count a result that came while others wait; return True if its connection has sent its share of them."""
        sent = self._shares[connection] = self._shares.get(connection, 0) + 1
        return sent >= SHARE or self._is_full()

    def sweep(self) -> None:
        """Give each connection its share anew, and read on from held ones if that may be. Called once a tick.

        While journal or states stay behind the first of those that wait go on, for a share of FAIR_UNEVALUATED in all:
        so that nobody waits for as long as others send.
        """
        self._shares.clear()
        self.release_held()
        self._release(FAIR_UNEVALUATED // SHARE, self._is_full)

    def take_part(self, connection: AgentConnection) -> None:
        """Hold a connection of which a great part of a result has come, while the journal is behind."""
        if self._journal.is_behind:
            self._hold_back(connection)

    def release_held(self) -> None:
        """Read on from held connections, one by one, if the journal has room and the states keep up."""
        self._release(len(self._held_back), self._is_behind)

    def _release(self, most: int, must_wait: Callable[[], bool]) -> None:
        """Read on from so many held connections, in order, each unless `must_wait()`: then it keeps its place."""
        if self._held_back and not self._releasing and not must_wait():
            first = list(islice(self._held_back, most))
            self._releasing = len(first)
            self._turns.walk(first, lambda connection: self._release_one(connection, must_wait))

    def _release_one(self, connection: AgentConnection, must_wait: Callable[[], bool]) -> None:
        self._releasing -= 1
        if connection in self._held_back and not must_wait():  # those before it may have sent much
            del self._held_back[connection]
            if not connection.closing:
                connection.go_on(Hold.JOURNAL)

    # ---------------------------------------------------------------------------------------------- from the disk

    def on_durable(self, batch: Batch) -> None:
        """Send the acks of a batch that is on disk, and take its results for the newest of their checks."""
        agents, counts = self._roster.agents, self.counts
        for ack in batch.acks:
            agent = agents.get(ack.agent)
            link: Any = None if agent is None else agent.link
            if link is not None and link.conversation.version == 2 and ack.sequence > 0:
                counts["acks"] += 1
                link.acknowledge(ack.spool, ack.sequence)
        self._take(batch.results)
        if self._held_back:
            self.release_held()

    def recall(self, stored: Iterable[Any]) -> None:
        """Take the last durable results that came before this start."""
        self._take(each for each in stored if isinstance(each, StoredResult))

    def _take(self, results: Iterable[StoredResult]) -> None:
        agents = self._roster.agents
        for record in results:
            entry, document, received = record.entry, record.document, record.entry.received
            if entry.origin is Origin.SCHEDULED:
                agent = agents.get(entry.agent) or self._roster.know(entry.agent)
                if agent.revoked_at is not None:  # its last results were on their way to the disk
                    continue
                if document.started is not None:
                    self._estimate_clock(agent, document.started + (document.took_ms or 0.0) / 1_000 - received)
            elif entry.origin is Origin.ASKED:
                self._answer(record)
                continue
            elif entry.origin is Origin.TARGET and not self.is_target(entry.agent):
                continue  # it was on its way to the disk when the target was taken out
            else:
                agent = self._roster.host(entry.agent)
            check_id, status = entry.check_id, STATUS_NUMBERS[document.word]
            # What several agents agree on is the latest of a target; others may report of the same host from outside.
            is_agreed = agent.quorum is not None and entry.origin is Origin.TARGET
            known = agent.latest.get(check_id)
            since = received if known is None or known.status != status else known.since
            latest = Latest(
                check_id, status, document.summary, received, document.reason, document.code, document.took_ms,
                document.metrics, 0.0 if is_agreed else since,
            )  # fmt: skip
            if is_agreed:
                agent.take_view(source_of(entry.agent, entry.spool)[0], latest)
            elif known is not None and not known.kept:  # as `take` does it, for nearly all of them
                agent.latest[check_id] = latest
            else:
                agent.take(latest)
            if self._submitted:
                self._confirm(entry)

    def _answer(self, record: StoredResult) -> None:
        """Give an answer to the query that waits for it, if it is one."""
        entry = record.entry
        answer = self._answers.pop((entry.agent, entry.sequence), None) if entry.spool == OWN_SPOOL else None
        if answer is not None:
            self._outcomes.settle(answer, entry.blob, lambda _: record.document)
        self._confirm(entry)

    def _confirm(self, entry: Entry) -> None:
        waiting = self._submitted.pop((entry.agent, entry.sequence), None) if entry.spool == OWN_SPOOL else None
        if waiting is not None:
            waiting.callback(None)

    def _estimate_clock(self, agent: Agent, ahead: float) -> None:
        """Take the largest of a few differences: a result takes no negative time to get here."""
        samples = self._offsets.get(agent.name)
        if samples is None:
            samples = self._offsets[agent.name] = deque(maxlen=CLOCK_SAMPLES)
        oldest = samples[0] if len(samples) == CLOCK_SAMPLES else None
        samples.append(ahead)
        offset = agent.clock_offset
        if offset is None or oldest == offset:  # the largest one has gone
            agent.clock_offset = max(samples)
        elif ahead > offset:
            agent.clock_offset = ahead
