"""Counts the agents that run a set of checks and the Equus with it, in short turns: 10,000 take some milliseconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from helen.agents.roster import Agent
from helen.library.library import Library
from helen.library.published import Published
from helen.web.connections.short_turns import take_turns
from helen.web.sight.agents_in_turns import steps_of

TRIES = 3  # counts, where another set is published while agents are counted


class UpgradeJson(TypedDict):
    """Counts the connected agents that run the offered Equus or a newer one; `refused`: agent -> why it does not."""

    version: str
    running: int
    refused: dict[str, str]


class SetProgress:
    """Counts the agents that run one set, some at a time."""

    def __init__(self, published: Published) -> None:
        self.published = published
        self.loaded = self.running = 0
        self.kept_old: dict[str, dict[str, str]] = {}  # agent -> files that it keeps old -> why
        self.refused: dict[str, str] = {}  # why the Equus is refused, by those that have loaded the set
        agent = published.document.agent
        self.equus: str | None = None if agent is None else agent["version"]
        self._digest = published.digest
        self._wanted = None if self.equus is None else _numbers(self.equus)

    def take(self, agents: Sequence[Agent]) -> None:
        """Count some agents."""
        for agent in agents:
            if self._wanted is not None:
                self.running += _numbers(agent.equus_version) >= self._wanted
            if agent.digest == self._digest:
                self._take_loaded(agent)

    def _take_loaded(self, agent: Agent) -> None:
        self.loaded += 1
        if agent.not_active:
            self.kept_old[agent.name] = agent.not_active
        if self.equus is not None and "upgrade" in agent.troubles:
            self.refused[agent.name] = agent.troubles["upgrade"]

    def upgrade(self) -> UpgradeJson | None:
        """Return the progress of the Equus that goes out with the set, if one does."""
        if self.equus is None:
            return None
        return {"version": self.equus, "running": self.running, "refused": self.refused}


async def progress_of(library: Library, agents: Sequence[Agent]) -> SetProgress | None:
    """Return how many of the agents run the newest set as it is behind the last turn; None: nothing is published."""
    progress: SetProgress | None = None
    for _ in range(TRIES):
        newest = library.releases.newest
        if newest is None or (progress is not None and progress.published.digest == newest.digest):
            return progress
        progress = SetProgress(newest)
        await take_turns(steps_of(agents, progress.take))
    return progress


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version such as `0.2.0`, also as agents write it; () if it has others."""
    parts = version.partition(";")[0].removeprefix("equus/").split(".")
    return tuple(map(int, parts)) if all(part.isascii() and part.isdigit() for part in parts) else ()
