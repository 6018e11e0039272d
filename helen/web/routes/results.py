"""Serves the route of the latest results of all agents. docs/api.rst has it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict

from twisted.internet.threads import deferToThread

from helen.agents.roster import Agent, Latest
from helen.parts import Parts
from helen.web.agent_views import LatestJson, show_latest
from helen.web.connections.paced_answers import write_rows
from helen.web.cursors import read_page
from helen.web.problems import bad_request
from helen.web.query import first_text, patterns_in, texts
from helen.web.request import ApiRequest
from helen.web.route import ON, V1, Query, Routes
from helen.web.sight.agents_in_turns import agents_in_sight, meant_by

routes = Routes()

Named = tuple[str, Latest]  # the agent's name, and one of its results


class ResultJson(LatestJson):
    """Holds the latest result of a check on an agent."""

    agent: str


class ResultsJson(TypedDict):
    """Lists latest results, a page of them, the oldest first."""

    results: list[ResultJson]
    next: str | None


@routes.get(
    f"{V1}/results", "read", "The latest results", answer=ResultsJson, paged=True,
    query=(Query("since", float, "unix seconds"), ON,
           Query("kept", str, "1: those as well that are known from before this start")),
)  # fmt: skip
async def list_results(parts: Parts, request: ApiRequest) -> bytes:
    """Answer with the latest results of all agents, or of those of `?on=`. Raises Problem if `since` is no number."""
    given = first_text(request, "since") or "0"
    try:
        since = float(given)
    except ValueError as error:
        raise bad_request("`since` is a number of unix seconds") from error
    patterns = patterns_in(request)
    page = read_page(request, "results", (float, str, str), [given, *patterns])
    agents, sight = parts.sessions.roster.agents.values(), parts.visible(request.caller)
    found = await agents_in_sight(agents, sight, meant_by(patterns))
    new = await deferToThread(newer_results, found, since, texts(request, "kept") == ["1"])
    rows, following = page.cut(new, place_of)
    return await write_rows(request, "results", rows, _show, {"next": following}, whole=page.limit is not None)


def newer_results(agents: Iterable[Agent], since: float, kept: bool) -> list[Named]:
    """Return results received after `since` (unix seconds), in the order of their places.

    It takes a while to sort the 100,000 of a great fleet, so this runs in a thread.
    """
    found = [(agent.name, each) for agent in agents for each in list(agent.latest.values())
             if each.received > since and (kept or not each.kept)]  # fmt: skip
    return sorted(found, key=place_of)


def place_of(result: Named) -> tuple[float, str, str]:
    """Return the place of a result in the list: when it was received (unix seconds), agent, check."""
    name, latest = result
    return latest.received, name, latest.check_id


def _show(result: Named) -> ResultJson:
    return {"agent": result[0], **show_latest(result[1])}
