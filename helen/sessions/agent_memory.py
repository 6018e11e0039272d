"""Keeps in the store what the next start has to know of agents: when each was seen last, and its facts."""

from __future__ import annotations

from collections.abc import Callable

from twisted.logger import Logger
from twisted.python.failure import Failure

from helen.agents.roster import Agent
from helen.storage import agent_rows
from helen.storage.database import Store, StoreClosed

COMPLAIN_SECONDS = 60.0  # between two log lines about a store that doesn't work


class AgentMemory:
    """Writes rows of agents. `wall`: unix seconds; `steady`: monotonic seconds."""

    log = Logger()

    def __init__(self, store: Store, wall: Callable[[], float], steady: Callable[[], float]) -> None:
        self._store, self._wall, self._steady = store, wall, steady
        self._complained_at = -COMPLAIN_SECONDS

    def seen(self, agent: Agent) -> None:
        """Keep when an agent was seen last, and its address."""
        seen = self._store.call(agent_rows.agent_seen, agent.name, agent.last_seen or self._wall(), agent.address)
        seen.addErrback(self._failed)

    def reported(self, agent: Agent) -> None:
        """Keep claimed labels, host, isolation and version of an agent, if they are others than those kept last."""
        facts = {
            "labels": agent.claimed, "host": agent.host, "isolation": agent.isolation, "equus": agent.equus_version,
        }  # fmt: skip
        if facts != agent.facts:
            agent.facts = facts
            self._store.call(agent_rows.agent_facts, agent.name, facts).addErrback(self._facts_lost, agent)

    def _facts_lost(self, failure: Failure, agent: Agent) -> None:
        agent.facts = {}  # so that they are kept the next time
        self._failed(failure)

    def _failed(self, failure: Failure) -> None:
        """Log a store that fails, once a minute: agents say again what was not kept."""
        if failure.check(StoreClosed) or self._steady() - self._complained_at < COMPLAIN_SECONDS:
            return
        self._complained_at = self._steady()
        self.log.error("what is known of agents is not kept: {error}", error=failure.getErrorMessage())
