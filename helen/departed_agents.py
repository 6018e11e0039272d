"""Takes agents off all lists: those that an operator names, and ephemeral ones that stay away for longer than they may.

An ephemeral agent was made by a token that says for how long one may be away: machines of a group that grows and
shrinks. Its link is no problem while it is away (helen/assignments/state_rules.py), and its name is free afterwards.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from groundwork.durations import words_of
from helen.agents.roster import Agent
from helen.parts import Parts

BY = "helen"  # the actor in the audit
REACH_SECONDS = 600.0  # after a start in which agents come back by themselves: twice the longest pause between dials
ASK_SECONDS = 60.0  # between two questions whether another Helen of the network has an agent
ASKED_TIMES = 5  # that none has it, in a row: one that goes from one Helen to the next is with neither for seconds
AT_ONCE = 50  # agents that one look forgets: each is some writes of the store


def forget(parts: Parts, name: str, now: float, by: str, is_free: bool = False) -> Deferred[None]:
    """Revoke a name at `now`, unix seconds, and take it off all lists. Fires once that is durable.

    With `is_free` any token that fits gives the name again. Fails with UnknownAgent.
    """
    return parts.authority.forget(name, now, by, is_free).addCallback(lambda _: _drop(parts, name))


def _drop(parts: Parts, name: str) -> None:
    parts.evaluator.forget(name)
    parts.sessions.roster.forget(name)
    parts.sessions.connections.came_from(name, "")
    parts.passive.restate(name)


class EphemeralAgents:
    """Forgets ephemeral agents in time. `look` is called once a second.

    `elsewhere(name)` asks whether another Helen has the agent, None: it can't be told now; left out: there is no other.
    Time away is that in which Helen was awake; a step of its clock changes nothing.
    """

    log = Logger()

    def __init__(self, parts: Parts, elsewhere: Callable[[str], Deferred[bool | None]] | None = None) -> None:
        self._parts = parts
        self._elsewhere = elsewhere or (lambda name: succeed(False))
        self._times = 1 if elsewhere is None else ASKED_TIMES
        self._steady = parts.clock.steady
        self._due: dict[str, float] = {}  # ephemeral agents that are away -> when to look at them, monotonic seconds
        self._missed: dict[str, int] = {}  # of these: in how many looks in a row no Helen had them

    def start(self) -> None:
        """Go on from what is known of the time before this start; what was away then has some time to come back."""
        parts = self._parts
        now, wall = self._steady(), parts.clock.settled()
        for name in parts.authority.given.names:
            stay = parts.authority.given.ephemeral(name)
            if stay is not None and not parts.sessions.roster.is_connected(name):
                agent = parts.sessions.roster.agents.get(name)
                seen = agent.last_seen if agent is not None else None
                left = stay if seen is None else stay - max(0.0, wall - seen)
                self._due[name] = now + max(REACH_SECONDS, min(left, stay))
        parts.sessions.attached.subscribe(self._attached)
        parts.sessions.detached.subscribe(self._wait)
        parts.authority.given.on_changed(self._changed)

    def _attached(self, agent: Agent) -> None:
        self._stop_waiting(agent.name)

    def _stop_waiting(self, name: str) -> None:
        self._due.pop(name, None)
        self._missed.pop(name, None)

    def _wait(self, agent: Agent) -> None:
        if agent.ephemeral is not None:
            self._due[agent.name] = self._steady() + agent.ephemeral

    def _changed(self, name: str) -> None:
        """Take note of a name that is ephemeral from now on, or is so no more: another Helen may have forgotten it."""
        stay = self._parts.authority.given.ephemeral(name)
        if stay is not None and not self._parts.sessions.roster.is_connected(name):
            self._due[name] = self._steady() + stay
        elif stay is None and name in self._due:
            self._due[name] = self._steady() + ASK_SECONDS  # its revocation comes behind its labels

    def look(self) -> None:
        """Forget those whose time is over."""
        now = self._steady()
        for name in [name for name, due in self._due.items() if due <= now][:AT_ONCE]:
            stay = self._parts.authority.given.ephemeral(name)
            if self._parts.sessions.roster.is_connected(name) or (stay is None and not self._is_revoked(name)):
                self._stop_waiting(name)
            elif stay is None:
                self._stop_waiting(name)
                _drop(self._parts, name)
            elif self._is_revoked(name):
                self._stop_waiting(name)  # an operator shut it out: it is listed until an operator forgets it
            else:
                self._due[name] = now + ASK_SECONDS
                asked = self._elsewhere(name).addCallback(self._answered, name, stay)
                asked.addErrback(functools.partial(self._failed, name))

    def _is_revoked(self, name: str) -> bool:
        return self._parts.authority.about(name)[1] is not None

    def _answered(self, is_there: bool | None, name: str, stay: float) -> Deferred[None] | None:
        if name not in self._due or is_there is None:
            return None
        if is_there:
            self._due[name], self._missed[name] = self._steady() + stay, 0
            return None
        self._missed[name] = self._missed.get(name, 0) + 1
        if self._missed[name] < self._times:
            return None
        self._stop_waiting(name)
        self.log.info("{name} was away for {time} and is forgotten", name=name, time=words_of(stay))
        return forget(self._parts, name, self._parts.clock.wall(), BY, is_free=True)

    def _failed(self, name: str, failure: Failure) -> None:
        """Try again in a while: the disk did not take it."""
        self._due[name] = self._steady() + ASK_SECONDS
        self.log.warn("{name} could not be forgotten: {why}", name=name, why=failure.getErrorMessage())
