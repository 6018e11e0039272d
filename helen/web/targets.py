"""Picks the agents that a query or a job asks, and says of a dry run which they would be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, TypedDict

from groundwork.authority import Caller
from helen.agents.roster import Agent
from helen.parts import Parts
from helen.queries.live_queries import MAX_QUERIES, QueryRefused
from helen.web.json_types import words
from helen.web.problems import Problem
from helen.web.sight.agents_in_turns import agents_in_sight, meant_by


class WouldAsk(TypedDict):
    """Names the agents that a query would ask, and which of them are away: the answer to its dry run."""

    targets: int
    agents: dict[str, Annotated[str, words("asked", "offline")]]


async def targets_of(parts: Parts, caller: Caller, patterns: Iterable[str]) -> list[Agent]:
    """Return the agents that the caller sees and may ask and that fit the patterns. Raises Problem 404 for none."""
    patterns = list(patterns)
    agents, is_meant = parts.sessions.roster.agents.values(), meant_by(patterns, askable=True)
    targets = await agents_in_sight(agents, parts.visible(caller), is_meant)
    if not targets:
        raise Problem(404, "no such agent", f"no agent fits {' or '.join(patterns)}: `helen agents` lists them")
    return targets


async def targets_of_query(parts: Parts, caller: Caller, patterns: Iterable[str]) -> list[Agent]:
    """Return the agents that a query asks now. Raises Problem for none, QueryRefused if too many queries are open."""
    targets = await targets_of(parts, caller, patterns)
    if len(parts.sessions.queries) >= MAX_QUERIES:
        raise QueryRefused(f"{MAX_QUERIES} questions are open already; wait for some to end")
    return targets


def would_ask(targets: Iterable[Agent]) -> WouldAsk:
    """Return the answer to a dry run of a query."""
    asked = {agent.name: "asked" if agent.link is not None else "offline" for agent in targets}
    return {"targets": len(asked), "agents": asked}
