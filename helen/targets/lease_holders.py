"""Keeps which agents have the lease of each target, and which targets each agent has the lease of."""

from __future__ import annotations

from collections import defaultdict


class LeaseHolders:
    """Holds each lease by its target and by its agents, so that neither side is looked for among all leases."""

    def __init__(self) -> None:
        self._agents: dict[str, tuple[str, ...]] = {}  # target -> the agents with its lease
        self._targets: defaultdict[str, set[str]] = defaultdict(set)  # agent -> its targets

    def __len__(self) -> int:
        """Return the number of leases that are held."""
        return len(self._agents) + len(self._targets)

    def agents_of(self, target: str) -> tuple[str, ...]:
        """Return the agents with the lease of a target, by name; none yet, or of another name, is empty."""
        return self._agents.get(target, ())

    def targets_of(self, agent: str) -> list[str]:
        """Return the targets that an agent has the lease of, by name."""
        return sorted(self._targets.get(agent, ()))

    def give(self, target: str, agents: tuple[str, ...]) -> set[str]:
        """Grant the lease of a target to these agents alone; return those that have another share than before."""
        held = self._agents.pop(target, ())
        for agent in held:
            if agent not in agents:
                self._targets[agent].discard(target)
                if not self._targets[agent]:
                    del self._targets[agent]
        if agents:
            self._agents[target] = agents
        for agent in agents:
            self._targets[agent].add(target)
        return set(held) ^ set(agents)
