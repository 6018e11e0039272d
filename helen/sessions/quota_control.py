"""Holds every agent to its quotas (helen/quotas/quotas.py): sends it away for a while, counts it, has people told.

An agent keeps what it may not send now: its spool is delayed, never lost. Others notice nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import frozen

from helen.agents.roster import Agent, Roster
from helen.queries.live_queries import QueryRefused
from helen.quotas.budget import Bucket, Budget
from helen.quotas.quotas import NAMES, Quotas
from helen.sessions.agent_troubles import QUOTA, AgentTroubles
from helen.sessions.connection import AgentConnection

# Seconds for which an agent is sent away: shorter than the minute after which it counts as away (docs/assignments.rst),
# and half a minute's worth of every quota is there when it comes back.
RETRY_LEAST, RETRY_MOST = 30, 3_600
LOOK_SECONDS = 5.0  # between two looks at what was left out of states and series


@frozen
class Level:
    """Describes a quota that another part applies: `counts` returns, by agent, what it has left out so far."""

    quota: str
    counts: Callable[[], Mapping[str, int]]
    follows: str  # a clause that says what becomes of the rest


class QuotaControl:
    """Opens a budget for each agent. `steady`: monotonic seconds. `exceeded` counts by quota what was not taken."""

    def __init__(self, quotas: Quotas, roster: Roster, troubles: AgentTroubles, steady: Callable[[], float]) -> None:
        self.quotas = quotas
        self.levels: list[Level] = []  # what `sweep` looks at; wiring.py adds to it
        self._looked = 0.0
        self._left_out: dict[str, dict[str, int]] = {name: {} for name in NAMES}
        self.exceeded: dict[str, int] = dict.fromkeys(NAMES, 0)
        self._roster, self._troubles, self._steady = roster, troubles, steady

    def budget(self, agent: Agent) -> Budget:
        """Return the budget of an agent, which outlives its connections; a new one is full."""
        if agent.budget is None:
            agent.budget = Budget(self.quotas, self._steady())
        return agent.budget

    def admits(self, connection: AgentConnection) -> bool:
        """Return True if an agent that says hello is welcome now; else refuse it. One that is new has a full budget."""
        agent = self._roster.agents.get(connection.name)
        if agent is None:
            return True
        now, budget = self._steady(), self.budget(agent)
        seconds = budget.remaining(now)
        if seconds:
            self.exceeded["sessions"] += 1
            connection.refuse(f"overloaded;retry-after={seconds}", "it was told to stay away for longer")
            return False
        if budget.take(budget.sessions, now):
            return True
        self._send_away(connection, budget, budget.sessions, 1)
        return False

    def takes(self, connection: AgentConnection, size: int) -> bool:
        """Count one result of `size` bytes; if it is one too many, refuse the connection and return False."""
        budget = connection.budget
        if budget is None:
            return True
        budget.results.left -= 1
        budget.bytes.left -= size
        if budget.results.left >= 0 and budget.bytes.left >= 0:
            return True
        return self.fills_up(connection, budget, size)

    def fills_up(self, connection: AgentConnection, budget: Budget, size: int) -> bool:
        """Fill up a budget from which a result of `size` bytes was subtracted, and which is below zero now.

        Return False if the result is one too many all the same: then the connection is refused.
        """
        spent = budget.refill(self._steady(), size)
        if spent is None:
            return True
        self._send_away(connection, budget, spent, size if spent is budget.bytes else 1)
        return False

    def takes_message(self, connection: AgentConnection) -> bool:
        """Count a message beside results, once `messages` is used up; refuse the connection if it is one too many."""
        budget = connection.budget
        assert budget is not None
        budget.messages.left += 1
        if budget.take(budget.messages, self._steady()):
            return True
        self._send_away(connection, budget, budget.messages, 1)
        return False

    def renews(self, connection: AgentConnection) -> bool:
        """Count a request for a new certificate, of an agent that has one; refuse it if it is one too many."""
        budget = self.budget(self._roster.know(connection.name))
        if budget.take(budget.enrolments, self._steady()):
            return True
        self._send_away(connection, budget, budget.enrolments, 1)
        return False

    def ask(self, connection: AgentConnection) -> None:
        """Count a question to an agent. Raises QueryRefused if as many as its quota allows wait for its answer."""
        most = self.quotas["questions"].most
        if len(connection.conversation.outstanding) >= most:
            self.exceeded["questions"] += 1
            raise QueryRefused(f"{most} checks are outstanding already: wait for answers, or raise --quota questions")

    def sweep(self, now: float) -> None:
        """Look for agents with too many checks, every LOOK_SECONDS; called once a second. `now`: monotonic seconds."""
        if now - self._looked >= LOOK_SECONDS:
            self._looked = now
            for level in self.levels:
                self._note_level(level.quota, level.counts(), level.follows)

    def _note_level(self, quota: str, counts: Mapping[str, int], follows: str) -> None:
        """Note the agents of which more was left out than at the last look; `counts` is by agent."""
        known = self._left_out[quota]
        for name, count in counts.items():
            more = count - known.get(name, 0)
            if more > 0 and name in self._roster.agents:
                self.exceeded[quota] += more
                self._note(name, quota, follows)
        self._left_out[quota] = dict(counts)

    def _send_away(self, connection: AgentConnection, budget: Budget, spent: Bucket, need: int) -> None:
        quota = spent.quota
        self.exceeded[quota.name] += 1
        seconds = budget.close(spent, need, RETRY_LEAST, RETRY_MOST, self._steady())
        follows = "it is sent away for some time, again and again, and keeps its results in its spool"
        self._note(connection.name, quota.name, follows)
        connection.refuse(f"overloaded;retry-after={seconds}", f"beyond its quota of {quota.sentence}")

    def _note(self, name: str, quota_name: str, follows: str) -> None:
        quota, agent = self.quotas[quota_name], self._roster.know(name)
        shape = "BURST/A_MINUTE" if quota.is_rate else "MOST"
        sentence = (
            f"{name} is beyond its quota `{quota.name}` ({quota.sentence}): {follows}. Look at what it runs"
            f" (`helen status {name}`), or raise the quota with --quota {quota.name}={shape}"
        )
        self._troubles.note(agent, QUOTA, f"quota {quota.name}", sentence)
