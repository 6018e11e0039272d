"""What agents are given: the set of checks (manifest, files, `reload`) and the schedule, each told once and not again.

Version 2 agents keep a schedule of their own; for those of version 1 Helen's clock asks (helen/dispatch.py). It decides
neither what is published (helen/library.py) nor what runs where (helen/policy.py), and it holds no sockets.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.logger import Logger

from equus_protocol import messages as m
from equus_protocol import once
from equus_protocol.errors import LocalProtocolError
from helen import policy
from helen.connection import AgentConnection
from helen.dispatch import Dispatch
from helen.library import Library
from helen.policy import Assignments, AssignmentsError, ScheduleEntry
from helen.releases import Published
from helen.roster import Agent, Roster
from helen.runs import RunRefused
from helen.turns import Turns

LONGEST_WAIT = 60.0  # seconds between two looks at the clock: it may have been set meanwhile


@define(eq=False)
class Desk:
    """What is on its way for one connection. Its queues are bounded by the conversation: 64 requests at once."""

    schedule: bytes | None = None  # as it was sent last
    told: str | None = None  # the digest of the set that `reload` was last said for
    wanted: deque[m.AskManifest | m.Fetch] = field(factory=deque)  # asked, and not answered yet


class Supply:
    """One for all connections. `wall` is the clock of schedules, unix seconds."""

    log = Logger()

    def __init__(self, reactor: Any, roster: Roster, turns: Turns, wall: Callable[[], float]) -> None:
        self.library: Library | None = None
        self.assignments = Assignments()
        self.on_schedule: Callable[[Agent, tuple[ScheduleEntry, ...]], None] = lambda agent, entries: None
        self.dispatch = Dispatch(self._ask_scheduled)
        self.dress: Callable[[Published], bytes] = lambda published: published.envelope  # what is laid beside it
        self._reactor = reactor
        self._roster = roster
        self._turns = turns
        self._wall = wall
        self._desks: dict[AgentConnection, Desk] = {}
        self._due: Any = None

    def attached(self, agent: Agent, connection: AgentConnection) -> None:
        """An agent has come."""
        self._desks[connection] = Desk()
        if connection.version == 1:
            self.schedule(agent)
        else:  # its labels come with `loaded`, and what is judged follows from them
            self._send_schedule(agent, self.schedule_of(agent))

    def forget(self, connection: AgentConnection) -> None:
        """A connection has gone."""
        self._desks.pop(connection, None)
        self.dispatch.drop(connection)

    def stop(self) -> None:
        """Ask nobody any more."""
        if self._due is not None and self._due.active():
            self._due.cancel()
        self._due = None

    # ---------------------------------------------------------------------------------------------- code

    def on_published(self) -> None:
        """A new set: every agent is told, each once."""
        self._turns.walk(self._desks, self._tell)

    def _tell(self, connection: AgentConnection) -> None:
        desk = self._desks.get(connection)
        if desk is None or connection.closing:
            return
        agent = self._roster.know(connection.name)
        self.answer(connection)
        published = self._set_of(agent)
        if connection.version == 1 and published is not None and desk.told != published.digest:
            desk.told = published.digest
            connection.send(m.Reload())
        self.schedule(agent)
        self.offer(agent)

    def offer(self, agent: Agent) -> None:
        """Say `reload` to an agent that runs another set than it should, once for each set."""
        published, connection = self._set_of(agent), agent.link
        if published is None or not isinstance(connection, AgentConnection) or connection.version != 2:
            return
        desk = self._desks[connection]
        if agent.digest != published.digest and desk.told != published.digest:
            desk.told = published.digest
            connection.send(m.Reload())

    def wants(self, connection: AgentConnection, request: m.AskManifest | m.Fetch) -> None:
        """An agent asks for the manifest or for a file."""
        self._desks[connection].wanted.append(request)
        self.answer(connection)

    def answer(self, connection: AgentConnection) -> None:
        """Send what was asked for, as long as the agent reads; `drained` calls again."""
        desk = self._desks.get(connection)
        while desk is not None and desk.wanted and not connection.congested and not connection.closing:
            answer = self._answer_to(connection, desk.wanted[0])
            if answer is None:
                return
            desk.wanted.popleft()
            connection.send(answer)

    def _answer_to(self, connection: AgentConnection, request: m.AskManifest | m.Fetch) -> m.Message | None:
        """None: not yet (nothing is published), or not ever (the connection has been refused)."""
        if self.library is None:
            return None
        if isinstance(request, m.AskManifest):
            published = self.library.offered(connection.name)
            return m.Manifest(request.message_id, self.dress(published)) if published is not None else None
        content = self.library.file(request.sha256)
        if content is None:
            connection.refuse("unknown-file", f"it asks for {request.sha256[:80]!r}, which no published set names")
            return None
        return m.File(request.message_id, request.sha256, content)

    def _set_of(self, agent: Agent) -> Published | None:
        return self.library.offered(agent.name) if self.library is not None else None

    # ---------------------------------------------------------------------------------------------- schedules

    def assign(self, assignments: Assignments) -> None:
        """From now on these are the truth; whoever is concerned hears of it."""
        self.assignments = assignments
        self._turns.walk(self._roster.agents.values(), self.schedule)

    def schedule_of(self, agent: Agent) -> tuple[ScheduleEntry, ...]:
        if agent.is_host:
            return ()
        published = self._set_of(agent)
        tables = published.tables if published is not None else {}
        return policy.schedule(self.assignments, tables, agent.name, agent.labels)

    def again(self, name: str, check_id: str) -> None:
        """Ask for a run out of its turn; it counts as scheduled."""
        agent = self._roster.agents.get(name)
        if agent is None or not isinstance(agent.link, AgentConnection) or agent.link.closing:
            return
        for entry in self.schedule_of(agent):
            if entry.id == check_id:
                self.dispatch.again(agent.link, entry)

    def schedule(self, agent: Agent) -> None:
        """What an agent is to run, and how it is judged: the agent hears of the one, whoever judges of the other."""
        if self._set_of(agent) is not None:
            entries = self.schedule_of(agent)
            self.on_schedule(agent, entries)
            self._send_schedule(agent, entries)

    def _send_schedule(self, agent: Agent, entries: tuple[ScheduleEntry, ...]) -> None:
        """Its whole schedule, if that differs from what it has."""
        connection = agent.link
        if not isinstance(connection, AgentConnection) or self._set_of(agent) is None:
            return
        if connection.version == 1:
            self.dispatch.take(connection, entries, self._wall())
            self._wind()
            return
        try:
            blob = policy.to_json(entries)
        except AssignmentsError as error:
            self.log.error("{name} keeps its old schedule: {error}", name=agent.name, error=error)
            return
        desk = self._desks[connection]
        if desk.schedule != blob:
            desk.schedule = blob
            connection.send(m.Schedule(connection.next_id(), blob))

    def _wind(self) -> None:
        """One timer for all version 1 agents."""
        due = self.dispatch.due()
        if due is None:
            return
        wait = min(LONGEST_WAIT, max(0.0, due - self._wall()))
        if self._due is None or not self._due.active():
            self._due = self._reactor.callLater(wait, self._run_due)
        elif self._due.getTime() > self._reactor.seconds() + wait:
            self._due.reset(wait)

    def _run_due(self) -> None:
        self._due = None
        self.dispatch.run(self._wall())
        self._wind()

    def _ask_scheduled(self, link: AgentConnection, entry: ScheduleEntry) -> int | None:
        try:
            return ask(link, entry.check, encode_args(entry.args))
        except RunRefused:
            return None


def ask(link: Any, check: str, args: bytes) -> int:
    """Say `check` on a link: the message id. Raises RunRefused if that is illegal now (64 are outstanding, say)."""
    if check == once.NAME and link.version == 1:
        raise RunRefused("it speaks version 1 of the protocol, which knows no code that is in no set")
    message_id = link.next_id()
    try:
        link.send(m.Check(check, message_id, args))
    except LocalProtocolError as error:
        raise RunRefused(str(error)) from error
    return int(message_id)


def encode_args(args: dict[str, Any]) -> bytes:
    """The blob of a `check`: JSON as it was given, beyond ASCII too."""
    return json.dumps(args, ensure_ascii=False, separators=(",", ":")).encode()
