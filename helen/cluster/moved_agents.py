"""Notices agents that have moved to another Helen of the network, so that this one does not report them missing.

Brokers are asked for the service of an agent that has left: if it is there, another Helen has the agent and evaluates
its checks from now on. States that were open here are closed, and begin anew when it comes back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from helen.agents.roster import Agent
from helen.sessions.session_service import SessionService

LOOK_SECONDS = 2.0  # between two looks: the link's rule gives an agent much longer to come back
AT_ONCE = 200  # agents asked after in one look; a fleet of 10,000 has been gone through in two minutes

Ask = Callable[[str], "Deferred[bool | None]"]


def service_of(agent: str) -> str:
    """Return the service under which brokers know an agent, as its Helen offers it."""
    return f"equus.{agent}"


class MovedAgents:
    """Asks after missing agents.

    `is_there(service)` asks the brokers; `forget(agent)` closes the states of an agent.
    """

    log = Logger()

    def __init__(self, reactor: Any, sessions: SessionService, is_there: Ask, forget: Callable[[str], None]) -> None:
        self._sessions, self._is_there, self._forget = sessions, is_there, forget
        self._missing: dict[str, None] = {}  # in the order in which they are asked after
        self._loop = LoopingCall(self.look)
        self._loop.clock = reactor

    def start(self) -> None:
        """Begin with agents that were here before this start and are not connected: they are missing too."""
        self._missing = {name: None for name, agent in self._sessions.roster.agents.items() if agent.link is None}
        self._sessions.attached.subscribe(self._attached)
        self._sessions.detached.subscribe(self._detached)
        self._loop.start(LOOK_SECONDS, now=False).addErrback(
            lambda f: self.log.failure("looking for agents that have moved", f)
        )

    def stop(self) -> None:
        """Ask no further."""
        self._sessions.attached.unsubscribe(self._attached)
        self._sessions.detached.unsubscribe(self._detached)
        if self._loop.running:
            self._loop.stop()

    def _attached(self, agent: Agent) -> None:
        self._missing.pop(agent.name, None)

    def _detached(self, agent: Agent) -> None:
        self._missing[agent.name] = None

    def look(self) -> None:
        """Ask after some of the missing agents, and put them at the end of the queue."""
        for name in list(self._missing)[:AT_ONCE]:
            del self._missing[name]
            if name not in self._sessions.roster.agents:
                continue  # it was forgotten
            self._missing[name] = None
            self._is_there(service_of(name)).addCallback(self._answered, name)

    def _answered(self, there: bool | None, name: str) -> None:
        agent = self._sessions.roster.agents.get(name)
        if there and name in self._missing and agent is not None and agent.link is None:
            del self._missing[name]
            self.log.info("{name} is with another Helen now", name=name)
            self._forget(name)
