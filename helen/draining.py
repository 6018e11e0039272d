"""Emptying a Helen: her agents go to others, a few at a time, and none of their results is lost or sent twice.

An agent that is to go is taken out of the Scale0 network first, so that no new question reaches it here. Its open
questions are answered, or have waited long enough. Then nothing more is read of it until all that it said is on disk
and acknowledged; and then it is told `error shutting-down`, upon which it goes to the next Helen that it knows. Agents
that come are told the same. Helen goes on with everything else, and stays drained over a restart until it is undone.
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

from helen.connection import AgentConnection, Hold
from helen.house import House
from helen.roster import Agent
from helen.statedir import write_whole

FILE = "drained.json"
STEP_SECONDS = 0.25  # between two steps: agents that go within one come back together, at different Helens
DEFAULT_OVER, MAX_OVER = 30.0, 3_600.0  # seconds that all of it takes
ANSWER_SECONDS = 10.0  # that open questions to an agent have, as long as a check has by itself
DISK_SECONDS = 5.0  # that its last results have to reach the disk; then it sends them again elsewhere
SHUTTING_DOWN = "shutting-down"  # without a delay: agents go elsewhere, they don't come back


@define(eq=False)
class _Leaving:
    """An agent on its way out."""

    agent: Agent
    connection: AgentConnection
    since: float
    held_at: float | None = None


class NoNetwork:
    """For a Helen who is alone: nobody is to be told."""

    @staticmethod
    def hide(agent: Agent) -> None:
        """Nobody finds it anyway."""

    offer = hide

    @staticmethod
    def drained(is_drained: bool) -> None:
        """There is nobody to go to."""


class Drain:
    """`hide` and `offer` take an agent out of the network, and put it back; `told(drained)` lets the others know."""

    log = Logger()

    def __init__(
        self, reactor: Any, state: Path, house: House, hide: Callable[[Agent], None], offer: Callable[[Agent], None],
        told: Callable[[bool], None], wall: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self.since: float | None = None  # None: this Helen takes agents
        self.by = ""
        self._reactor, self._file, self._house, self._wall = reactor, state / FILE, house, wall
        self._hide, self._offer, self._told = hide, offer, told
        self._waiting: deque[Agent] = deque()
        self._leaving: list[_Leaving] = []
        self._rate = 0.0  # agents a step
        self._owed = 0.0
        self._loop = LoopingCall(self._step)
        self._loop.clock = reactor

    def open(self) -> None:
        """Blocking: as it was before this start."""
        try:
            kept = json.loads(self._file.read_bytes())
            self.since, self.by = float(kept["since"]), str(kept["by"])
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError) as error:
            self.log.error("{file} can't be read, this Helen takes agents: {error}", file=self._file, error=error)
            return
        self._house.closed_to_agents = SHUTTING_DOWN
        self.log.warn("this Helen is drained and takes no agents: `helen drain --undo`")

    def start(self) -> None:
        if self.since is not None:
            self._told(True)

    @property
    def phase(self) -> str:
        """`off`, `draining` while there are agents left, or `drained`."""
        if self.since is None:
            return "off"
        return "draining" if self._house.roster.connected() else "drained"

    def overview(self) -> dict[str, Any]:
        left = len(self._house.roster.connected())
        return {"phase": self.phase, "since": self.since, "by": self.by, "agents": left}

    async def begin(self, over: float, by: str) -> None:
        """Let all agents go within so many seconds. Again while it goes on: as fast as is said now. OSError if not."""
        if self.since is None:
            self.since, self.by = self._wall(), by
            await self._keep()
        self._house.closed_to_agents = SHUTTING_DOWN
        self._told(True)
        going = {each.agent.name for each in self._leaving}
        self._waiting = deque(agent for agent in self._house.roster.connected() if agent.name not in going)
        self._rate = max(len(self._waiting), 1) * STEP_SECONDS / over
        self._owed = 0.0
        self.log.warn("{by}: this Helen is being drained; {count} agents go to others", by=by, count=len(self._waiting))
        if not self._loop.running:
            self._loop.start(STEP_SECONDS, now=True).addErrback(lambda failure: self.log.failure("drain", failure))

    async def undo(self, by: str) -> None:
        """Take agents again; those who have gone come back when their own Helens fail them."""
        if self.since is None:
            return
        await deferToThread(self._file.unlink, True)
        self.since = None
        self._house.closed_to_agents = ""
        self.stop()
        leaving, self._leaving, self._waiting = self._leaving, [], deque()
        for each in leaving:
            each.connection.go_on(Hold.DRAIN)
        for agent in self._house.roster.connected():
            self._offer(agent)
        self._told(False)
        self.log.warn("{by}: this Helen takes agents again", by=by)

    def stop(self) -> None:
        if self._loop.running:
            self._loop.stop()

    def _keep(self) -> Deferred[None]:
        document = json.dumps({"since": self.since, "by": self.by}).encode()
        return deferToThread(write_whole, self._file, document)

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
            self._hide(agent)
            self._leaving.append(_Leaving(agent, agent.link, now))

    def _is_gone(self, each: _Leaving, now: float) -> bool:
        """Answers first, then the disk, then goodbye."""
        connection = each.connection
        if connection.closing:
            return True
        if each.held_at is None:
            if not connection.conversation.outstanding or now - each.since >= ANSWER_SECONDS:
                connection.hold(Hold.DRAIN)
                each.held_at = now
            return False
        is_late = now - each.held_at >= DISK_SECONDS
        if now > each.held_at and (self._house.journal.backlog_bytes == 0 or is_late):
            connection.refuse(SHUTTING_DOWN, "this Helen is being drained")
            return True
        return False
