"""Agents that have gone to another Helen of the network: nobody here shall say that they are missing.

An agent that goes away is asked after, at the brokers: if its service is there, another Helen has it, and hers is the
judgement from now on. What was open of it here is closed, and begins anew when it comes back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from helen.house import House
from helen.roster import Agent

LOOK_SECONDS = 2.0  # between two looks: the link's rule gives an agent much longer to come back
AT_ONCE = 200  # agents asked after in one look; a fleet of 10,000 has been gone through in two minutes

Ask = Callable[[str], "Deferred[bool | None]"]


class Elsewhere:
    """`is_there(service)` asks the brokers; `forget(agent)` is the judge's."""

    log = Logger()

    def __init__(self, reactor: Any, house: House, is_there: Ask, forget: Callable[[str], None]) -> None:
        self._house, self._is_there, self._forget = house, is_there, forget
        self._missing: dict[str, None] = {}  # in the order in which they are asked after
        self._loop = LoopingCall(self.look)
        self._loop.clock = reactor

    def start(self) -> None:
        """Those who were here before this start, and are not, are missing too."""
        self._missing = {name: None for name, agent in self._house.roster.agents.items() if agent.link is None}
        self._house.on_attached.append(self._attached)
        self._house.on_detached.append(self._detached)
        self._loop.start(LOOK_SECONDS, now=False).addErrback(lambda f: self.log.failure("who is elsewhere", f))

    def stop(self) -> None:
        self._house.on_attached.remove(self._attached)
        self._house.on_detached.remove(self._detached)
        if self._loop.running:
            self._loop.stop()

    def _attached(self, agent: Agent) -> None:
        self._missing.pop(agent.name, None)

    def _detached(self, agent: Agent) -> None:
        self._missing[agent.name] = None

    def look(self) -> None:
        """Ask after some, and put them at the end."""
        for name in list(self._missing)[:AT_ONCE]:
            del self._missing[name]
            self._missing[name] = None
            self._is_there(f"equus.{name}").addCallback(self._answered, name)

    def _answered(self, there: bool | None, name: str) -> None:
        agent = self._house.roster.agents.get(name)
        if there and name in self._missing and agent is not None and agent.link is None:
            del self._missing[name]
            self.log.info("{name} is with another Helen now", name=name)
            self._forget(name)
