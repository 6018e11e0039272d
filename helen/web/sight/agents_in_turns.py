"""Walks the agents of the roster for a request, in short turns: those that its caller sees, and that it means.

To hold 10,000 agents against the patterns of a limit takes 10 to 30 ms, and more with many patterns: in one piece, all
others would wait for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from groundwork.globs import reader_of_all
from helen.agents.roster import Agent
from helen.agents.sight import Sight, seen
from helen.web.connections.short_turns import take_turns

AGENTS_A_STEP = 100  # of some 3 us each; of 10 with as many patterns as a limit may have


def steps_of(agents: Sequence[Agent], take: Callable[[Sequence[Agent]], object]) -> Iterator[None]:
    """Hand over all agents, AGENTS_A_STEP a step."""
    for first in range(0, len(agents), AGENTS_A_STEP):
        take(agents[first : first + AGENTS_A_STEP])
        yield


def meant_by(patterns: Sequence[str], revoked: bool = False, askable: bool = False) -> Callable[[Agent], bool] | None:
    """Return the test of agents that fit one of the patterns, as Roster.matching has it; without patterns of all.

    `revoked`: those that are, too; `askable`: no hosts without an agent, and none without a pattern. None: there is
    nothing to test.
    """
    if askable:
        is_meant = reader_of_all(patterns)
        return lambda agent: not agent.is_host and agent.revoked_at is None and is_meant(agent.name, agent.labels)
    if not patterns:
        return None if revoked else lambda agent: agent.revoked_at is None
    fits = reader_of_all(patterns)  # 10,000 agents take some milliseconds
    return lambda agent: (revoked or agent.revoked_at is None) and fits(agent.name, agent.labels)


def is_connected(agent: Agent) -> bool:
    """Return True for an agent with a connection."""
    return agent.link is not None


async def names_in_sight(agents: Mapping[str, Agent], sight: Sight | None) -> Callable[[str], bool] | None:
    """Return the test of names that are seen, as `sight` has it, but made of look-ups; None: all are seen."""
    if sight is None:
        return None
    known = {agent.name for agent in await agents_in_sight(agents.values(), sight)}
    return lambda name: name in known or (name not in agents and sight(name))


async def agents_in_sight(
    agents: Iterable[Agent], sight: Sight | None, is_meant: Callable[[Agent], bool] | None = None
) -> list[Agent]:
    """Return the agents that are seen (None: all of them are) and for which `is_meant` returns True, in their order.

    They are those that were there when the request came.
    """
    found, listed = list[Agent](), list(agents)
    if sight is None and is_meant is None:
        return listed

    def take(some: Sequence[Agent]) -> None:
        found.extend(seen(sight, some if is_meant is None else filter(is_meant, some)))

    await take_turns(steps_of(listed, take))
    return found
