"""Delivers check sets (manifest, files, `reload`) and schedules to agents, each told once and not again.

Version 2 agents keep a schedule of their own; those of version 1 are asked by Helen's clock
(helen/sessions/v1_scheduler.py). helen/library/library.py decides what is published, helen/assignments/schedule.py what
runs where; sockets belong to helen/sessions/connection.py.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from attrs import define, field
from twisted.logger import Logger

from equus_protocol import messages as m
from equus_protocol import one_off
from equus_protocol.errors import LocalProtocolError
from groundwork.event import Event
from helen.agents.roster import Agent, Roster
from helen.assignments import schedule as schedules
from helen.assignments.mesh_schedule import Members, Mesh, mesh_entries
from helen.assignments.schedule import Assignments, AssignmentsError, ScheduleEntry
from helen.library.published import Published
from helen.queries.live_queries import QueryRefused
from helen.sessions.connection import AgentConnection
from helen.sessions.fair_turns import FairTurns
from helen.sessions.v1_scheduler import V1Scheduler

LONGEST_WAIT = 60.0  # seconds between two looks at the clock: it may have been set meanwhile


class Sets(Protocol):
    """Describes the part of helen.library.library.Library that deliveries are made from."""

    def offered(self, agent: str) -> Published | None:
        """Return the set that this agent should run, or None while nothing is published."""

    def file(self, sha256: str) -> bytes | None:
        """Return a file of a published set, or None if no set names it."""


@define(eq=False)
class Outgoing:
    """Holds the deliveries that are on their way to one connection.

    The queue of requests is bounded by the conversation: 64 are outstanding at most.
    """

    schedule: bytes | None = None  # as it was sent last
    left_out: tuple[str, ...] = ()  # ids of meshes and of targets for which its schedule had no room
    reload_sent_for: str | None = None  # the digest of the set that `reload` was last sent for
    requests: deque[m.AskManifest | m.Fetch] = field(factory=deque)  # not answered yet


class Delivery:
    """Delivers to all connections. `wall` is the clock of schedules, unix seconds.

    `add_statements(published)` returns what is sent as the manifest: the set's envelope with a statement of freshness
    and the roots that lead to its keys. `scheduled` is called when it is decided what an agent is to run.
    """

    log = Logger()

    def __init__(
        self,
        reactor: Any,
        roster: Roster,
        turns: FairTurns,
        sets: Sets,
        add_statements: Callable[[Published], bytes],
        wall: Callable[[], float],
    ) -> None:
        self.assignments = Assignments()
        self.scheduled: Event[[Agent, tuple[ScheduleEntry, ...]]] = Event()
        self.v1_scheduler = V1Scheduler(self._ask_scheduled)
        self.further: Callable[[str], tuple[ScheduleEntry, ...]] = lambda agent: ()  # what it runs for targets
        self.members: Callable[[Mesh], Members] = lambda mesh: {}  # of a mesh, with their addresses
        self.runs_of: Callable[[str, str], list[tuple[str, ScheduleEntry]]] = lambda name, check_id: []
        self._reactor, self._roster, self._turns = reactor, roster, turns
        self._sets, self._add_statements, self._wall = sets, add_statements, wall
        self._outgoing: dict[AgentConnection, Outgoing] = {}
        self._timer: Any = None  # of version 1 agents

    def attached(self, agent: Agent, connection: AgentConnection) -> None:
        """Send a new session its schedule."""
        self._outgoing[connection] = Outgoing()
        if connection.version == 1:
            self.schedule(agent)
        else:  # its labels come with `loaded`, and what is evaluated follows from them
            self._send_schedule(agent, *self._parts_of(agent))

    def forget(self, connection: AgentConnection) -> None:
        """Drop what is on its way to a connection that has gone."""
        self._outgoing.pop(connection, None)
        self.v1_scheduler.drop(connection)

    def stop(self) -> None:
        """Ask version 1 agents no more."""
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None

    # ---------------------------------------------------------------------------------------------- check sets

    def on_published(self) -> None:
        """Tell every agent of a new set, each once."""
        self._turns.walk(self._outgoing, self._announce)

    def _announce(self, connection: AgentConnection) -> None:
        outgoing = self._outgoing.get(connection)
        if outgoing is None or connection.closing:
            return
        agent = self._roster.know(connection.name)
        self.answer(connection)
        published = self._sets.offered(agent.name)
        if connection.version == 1 and published is not None:
            self._send_reload(connection, published)
        self.schedule(agent)
        self.offer(agent)

    def offer(self, agent: Agent) -> None:
        """Send `reload` to an agent that runs another set than it should, once for each set."""
        published, connection = self._sets.offered(agent.name), agent.link
        if published is None or not isinstance(connection, AgentConnection) or connection.version != 2:
            return
        if agent.digest != published.digest:
            self._send_reload(connection, published)

    def _send_reload(self, connection: AgentConnection, published: Published) -> None:
        outgoing = self._outgoing[connection]
        if outgoing.reload_sent_for != published.digest:
            outgoing.reload_sent_for = published.digest
            connection.send(m.Reload())

    def requested(self, connection: AgentConnection, request: m.AskManifest | m.Fetch) -> None:
        """Take an agent's request for the manifest or for a file."""
        self._outgoing[connection].requests.append(request)
        self.answer(connection)

    def answer(self, connection: AgentConnection) -> None:
        """Answer its requests as long as the agent reads; called again when its transport has room."""
        outgoing = self._outgoing.get(connection)
        while outgoing is not None and outgoing.requests and not connection.congested and not connection.closing:
            answer = self._answer_to(connection, outgoing.requests[0])
            if answer is None:
                return
            outgoing.requests.popleft()
            connection.send(answer)

    def _answer_to(self, connection: AgentConnection, request: m.AskManifest | m.Fetch) -> m.Message | None:
        """Return None if it can't be answered yet (nothing is published), or ever (the connection was refused)."""
        if isinstance(request, m.AskManifest):
            published = self._sets.offered(connection.name)
            return m.Manifest(request.message_id, self._add_statements(published)) if published is not None else None
        content = self._sets.file(request.sha256)
        if content is None:
            connection.refuse("unknown-file", f"it asks for {request.sha256[:80]!r}, which no published set names")
            return None
        return m.File(request.message_id, request.sha256, content)

    # ---------------------------------------------------------------------------------------------- schedules

    def assign(self, assignments: Assignments) -> None:
        """Put other assignments into force, and send each agent its schedule if that has changed."""
        self.assignments = assignments
        self._turns.walk(self._roster.agents.values(), self.schedule)

    def schedule_of(self, agent: Agent) -> tuple[ScheduleEntry, ...]:
        """Return the entries that an agent is to run; none for a host that only passive results name."""
        own, of_meshes = self._parts_of(agent)
        return own + of_meshes

    def _parts_of(self, agent: Agent) -> tuple[tuple[ScheduleEntry, ...], tuple[ScheduleEntry, ...]]:
        """Return an agent's own entries, and those of its meshes: of two with one id its own counts."""
        if agent.is_host:
            return (), ()
        published = self._sets.offered(agent.name)
        tables = published.tables if published is not None else {}
        own = schedules.schedule(self.assignments, tables, agent.name, agent.labels)
        of_meshes = mesh_entries(self.assignments, tables, agent.name, agent.labels, self.members)
        taken = {entry.id for entry in own} if of_meshes else set[str]()
        return own, tuple(entry for entry in of_meshes if entry.id not in taken)

    def run_now(self, name: str, check_id: str) -> None:
        """Ask for one run out of its turn; its result counts as scheduled. One of a target is asked of its agents."""
        agent, runs = self._roster.agents.get(name), self.runs_of(name, check_id)
        if agent is not None and not runs:
            runs = [(name, entry) for entry in self.schedule_of(agent) if entry.id == check_id]
        for runner, entry in runs:
            asked = self._roster.agents.get(runner)
            if asked is not None and isinstance(asked.link, AgentConnection) and not asked.link.closing:
                self.v1_scheduler.run_now(asked.link, entry)

    def schedule(self, agent: Agent) -> None:
        """Decide what an agent is to run, tell the subscribers of `scheduled`, and send it to the agent."""
        if self._sets.offered(agent.name) is not None:
            own, of_meshes = self._parts_of(agent)
            self.scheduled(agent, own + of_meshes)
            self._send_schedule(agent, own, of_meshes)

    def send_again(self, agent: Agent) -> None:
        """Send the schedule of an agent that runs other checks for targets than before."""
        if self._sets.offered(agent.name) is not None:
            self._send_schedule(agent, *self._parts_of(agent))

    def _send_schedule(
        self, agent: Agent, own: tuple[ScheduleEntry, ...], of_meshes: tuple[ScheduleEntry, ...]
    ) -> None:
        """Send the whole schedule, if it differs from the one that the agent has."""
        connection = agent.link
        if not isinstance(connection, AgentConnection) or self._sets.offered(agent.name) is None:
            return
        if connection.version == 1:
            self.v1_scheduler.take(connection, own + of_meshes, self._wall())
            self._set_timer()
            return
        try:
            blob, left_out = schedules.with_further(own, of_meshes + self.further(agent.name))
        except AssignmentsError as error:
            self.log.error("{name} keeps its old schedule: {error}", name=agent.name, error=error)
            return
        outgoing = self._outgoing[connection]
        outgoing.left_out = left_out
        if outgoing.schedule != blob:
            outgoing.schedule = blob
            connection.send(m.Schedule(connection.next_id(), blob))

    def left_out(self) -> dict[str, tuple[str, ...]]:
        """Return, by agent, the ids of meshes and of targets that it was to run and does not: its schedule is full."""
        return {link.name: outgoing.left_out for link, outgoing in self._outgoing.items() if outgoing.left_out}

    def _set_timer(self) -> None:
        """Use one timer for all version 1 agents."""
        due = self.v1_scheduler.due()
        if due is None:
            return
        wait = min(LONGEST_WAIT, max(0.0, due - self._wall()))
        if self._timer is None or not self._timer.active():
            self._timer = self._reactor.callLater(wait, self._run_due)
        elif self._timer.getTime() > self._reactor.seconds() + wait:
            self._timer.reset(wait)

    def _run_due(self) -> None:
        self._timer = None
        self.v1_scheduler.run(self._wall())
        self._set_timer()

    def _ask_scheduled(self, link: AgentConnection, entry: ScheduleEntry) -> int | None:
        try:
            return ask(link, entry.check, encode_args(entry.args))
        except QueryRefused:
            return None


def ask(link: Any, check: str, args: bytes) -> int:
    """Send `check` on a link and return its message id.

    Raises QueryRefused if that is illegal now, because 64 are outstanding for instance.
    """
    if check == one_off.NAME and link.version == 1:
        raise QueryRefused("it speaks version 1 of the protocol, which knows no code that is in no set")
    try:
        return int(link.check(check, args))
    except LocalProtocolError as error:
        raise QueryRefused(str(error)) from error


def cancel(link: Any, message_id: int) -> None:
    """Tell a version 2 agent to give up; one of version 1 goes on, and its late result is no fault."""
    if link.version == 2 and not link.closing and message_id in link.conversation.outstanding:
        link.send(m.Cancel(message_id))


def encode_args(args: dict[str, Any]) -> bytes:
    """Return the blob of a `check`: JSON as it was given, beyond ASCII too."""
    return json.dumps(args, ensure_ascii=False, separators=(",", ":")).encode()
