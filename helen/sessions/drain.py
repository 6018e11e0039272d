"""Empties a server: its agents go to other Helens, a few at a time, and no result is lost or sent twice.

An agent that is to go is taken out of the Scale0 network first, so that no new query reaches it here. Its open queries
are answered, or have waited long enough. Then nothing more is read of it until all that it sent is on disk and
acknowledged. Then it is sent `error shutting-down`, upon which it goes to the next Helen that it knows. Agents that
connect are sent the same. Helen goes on with everything else, and stays drained over a restart until it is undone.
"""

from __future__ import annotations

import json
import math
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import define
from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall
from twisted.internet.threads import deferToThread
from twisted.logger import Logger

from groundwork.atomic_write import write_durably
from groundwork.counts import count
from groundwork.event import Event
from helen.agents.roster import Agent
from helen.sessions.connection import AgentConnection, Hold
from helen.sessions.session_service import SessionService

FILE = "drained.json"
STEP_SECONDS = 0.25  # between two steps: agents that go within one come back together, at different Helens
DEFAULT_OVER, MAX_OVER = 30.0, 3_600.0  # seconds that all of it takes
ANSWER_SECONDS = 10.0  # that open queries to an agent have, as long as a check has by itself
DISK_SECONDS = 5.0  # that its last results have to reach the disk; then it sends them again elsewhere
SHUTTING_DOWN = "shutting-down"  # without a delay: agents go elsewhere, they don't come back


@define(eq=False)
class _Leaving:
    """Holds an agent that this Helen is sending to another Helen."""

    agent: Agent
    connection: AgentConnection
    since: float
    held_at: float | None = None
    position: int | None = None  # in the journal, behind its last result


class Drain:
    """Moves the agents of this server to others, a few at a time.

    It needs to know no network: one that exists subscribes to `leaving` and `staying`, which name an agent that goes or
    that is taken again, and to `drained`, which says of the whole server whether it takes agents.
    """

    log = Logger()

    def __init__(
        self, reactor: Any, state: Path, sessions: SessionService, wall: Callable[[], float] = time.time
    ) -> None:
        self.leaving: Event[[Agent]] = Event()
        self.staying: Event[[Agent]] = Event()
        self.drained: Event[[bool]] = Event()
        self.since: float | None = None  # None: this Helen takes agents
        self.by = ""
        self._reactor, self._file, self._sessions, self._wall = reactor, state / FILE, sessions, wall
        self._waiting: deque[Agent] = deque()
        self._leaving: list[_Leaving] = []
        self._rate = 0.0  # agents a step
        self._owed = 0.0
        self._loop = LoopingCall(self._step)
        self._loop.clock = reactor

    def open(self) -> None:
        """Take up what was so before this start. Blocks: a file. Raises OSError if it can't be read."""
        try:
            kept = json.loads(self._file.read_bytes())
            self.since, self.by = float(kept["since"]), str(kept["by"])
        except FileNotFoundError:
            return
        except (ValueError, KeyError, TypeError) as error:
            self.log.error("{file} is damaged, this Helen takes agents: {error}", file=self._file, error=error)
            return
        self._sessions.closed_to_agents = SHUTTING_DOWN
        self.log.warn("this Helen is drained and takes no agents: `helen drain --undo`")

    def start(self) -> None:
        """Tell the network if this Helen is drained."""
        if self.since is not None:
            self.drained(True)

    @property
    def phase(self) -> str:
        """Return `off`, `draining` while there are agents left, or `drained`."""
        return self._phase_of(len(self._sessions.roster.connected()))

    def _phase_of(self, left: int) -> str:
        if self.since is None:
            return "off"
        return "draining" if left else "drained"

    def overview(self) -> dict[str, Any]:
        """Return `phase`, `since` (unix seconds or None), `by`, and how many `agents` are left."""
        left = len(self._sessions.roster.connected())
        return {"phase": self._phase_of(left), "since": self.since, "by": self.by, "agents": left}

    async def begin(self, over: float, by: str) -> None:
        """Let all agents go within `over` seconds; called again, those that are left go within that time.

        Raises OSError if it can't be kept over a restart.
        """
        if self.since is None:
            self.since, self.by = self._wall(), by
            await self._keep()
        self._sessions.closed_to_agents = SHUTTING_DOWN
        self.drained(True)
        going = {each.agent.name for each in self._leaving}
        self._waiting = deque(agent for agent in self._sessions.roster.connected() if agent.name not in going)
        self._rate = max(len(self._waiting), 1) * STEP_SECONDS / over
        self._owed = 0.0
        self.log.warn("{by}: this Helen is being drained; {agents} to others", by=by,
                      agents=count(len(self._waiting), "agent goes", "agents go"))  # fmt: skip
        if not self._loop.running:
            self._loop.start(STEP_SECONDS, now=True).addErrback(lambda failure: self.log.failure("drain", failure))

    async def undo(self, by: str) -> None:
        """Take agents again; the ones that have gone come back when their own Helens fail them."""
        if self.since is None:
            return
        await deferToThread(self._file.unlink, True)
        self.since = None
        self._sessions.closed_to_agents = ""
        self.stop()
        leaving, self._leaving, self._waiting = self._leaving, [], deque()
        for each in leaving:
            each.connection.go_on(Hold.DRAIN)
        self._sessions.fair_turns.walk(self._sessions.roster.connected(), self._stay)
        self.drained(False)
        self.log.warn("{by}: this Helen takes agents again", by=by)

    def _stay(self, agent: Agent) -> None:
        if self.since is None and agent.link is not None:  # it may have gone, or Helen may be drained again
            self.staying(agent)

    def stop(self) -> None:
        """Let no further agent go."""
        if self._loop.running:
            self._loop.stop()

    def _keep(self) -> Deferred[None]:
        document = json.dumps({"since": self.since, "by": self.by}).encode()
        return deferToThread(write_durably, self._file, document)

    # ---------------------------------------------------------------------------------------------- step by step

    def _step(self) -> None:
        self._owed += self._rate
        now = self._reactor.seconds()
        for _ in range(min(math.floor(self._owed), len(self._waiting))):
            self._owed -= 1
            self._let_go(self._waiting.popleft(), now)
        self._leaving = [each for each in self._leaving if not self._is_gone(each, now)]
        if not self._waiting and not self._leaving:
            self.stop()
            self.log.warn("this Helen is drained: no agent is left")

    def _let_go(self, agent: Agent, now: float) -> None:
        if isinstance(agent.link, AgentConnection) and not agent.link.closing:
            self.leaving(agent)
            self._leaving.append(_Leaving(agent, agent.link, now))

    def _is_gone(self, each: _Leaving, now: float) -> bool:
        """Do the next step for an agent: answers first, then the disk, then the error. True once it is told to go."""
        connection = each.connection
        if connection.closing:
            return True
        if each.held_at is None:
            if not connection.conversation.outstanding or now - each.since >= ANSWER_SECONDS:
                connection.hold(Hold.DRAIN)
                each.held_at, each.position = now, self._sessions.journal.position
            return False
        is_late = now - each.held_at >= DISK_SECONDS
        assert each.position is not None  # it came with `held_at`
        if now > each.held_at and (self._sessions.journal.has_delivered(each.position) or is_late):
            connection.refuse(SHUTTING_DOWN, "this Helen is being drained")
            return True
        return False
