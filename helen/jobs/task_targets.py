"""Finds the agents that a query is for, by their names and by patterns of names and labels."""

from __future__ import annotations

from groundwork.globs import reader_of_all
from helen.agents.roster import Agent
from helen.keys.certificates import BadRequest, checked_name
from helen.queries.job_request import plain_names
from helen.sessions.fair_turns import TurnsOver
from helen.sessions.session_service import SessionService
from zerotask import errors
from zerotask.errors import TaskFailed

LOOKED_AT_ONCE = 100  # agents that are held against the patterns of a query, some microseconds each


async def find_targets(sessions: SessionService, patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of all agents that fit one of the patterns, sorted.

    A pattern without wildcards is a name, whether or not an agent is called so. Raises TaskFailed if there are none.
    """
    plain = dict.fromkeys(plain_names(patterns))
    wild = [pattern for pattern in patterns if pattern not in plain]
    found = await _fitting(sessions, wild) if wild else set()
    try:
        found.update(map(checked_name, plain))
    except BadRequest as error:
        raise TaskFailed(errors.INVALID_PARAMS, str(error), retry=False) from error
    if not found:
        said = f"no agent fits {' or '.join(patterns)}: `helen agents` lists them"
        raise TaskFailed(errors.INVALID_PARAMS, said, retry=False)
    return tuple(sorted(found))


async def _fitting(sessions: SessionService, patterns: list[str]) -> set[str]:
    """Return the agents that fit one of the patterns, without hosts that can't be asked, found in short turns."""
    fits, found, agents = reader_of_all(patterns), set[str](), list(sessions.roster.agents.values())

    def take(some: list[Agent]) -> None:
        asked = (agent for agent in some if agent.revoked_at is None and not agent.is_host)
        found.update(agent.name for agent in asked if fits(agent.name, agent.labels))

    pieces = [agents[first : first + LOOKED_AT_ONCE] for first in range(0, len(agents), LOOKED_AT_ONCE)]
    try:
        await sessions.fair_turns.walk_all(pieces, take)
    except TurnsOver as over:
        raise TaskFailed(errors.CANCELLED, str(over)) from over
    return found
