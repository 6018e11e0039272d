"""Serves the board: one row for each check that needs a look, the worst first, readable without a script.

static/board.js takes the rows over, keeps them live, and shows all 10,000 of a fleet; the first HTML holds
FIRST_ROWS, since more of them cost the reader's first sight of the page.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from attrs import evolve

from helen.agents.roster import Agent
from helen.agents.sight import Sight, seen
from helen.web.connections.short_turns import ROWS_A_STEP, take_turns
from helen.web.cursors import read_page
from helen.web.pages.answer import write_page
from helen.web.pages.strip_svg import strip_runs
from helen.web.problems import Problem
from helen.web.query import first_text
from helen.web.request import ApiRequest
from helen.web.route import Query, Routes
from helen.web.routes.rows import SHAPES, selected
from helen.web.rows.row import SORTS
from helen.web.rows.selection import Wanted, place_of
from helen.web.web_parts import WebParts

routes = Routes()
FIRST_ROWS = 24  # what a screen shows and a little more: style and layout of each took a millisecond of a first sight
MOST_TILES = 60  # groups that are shown


@routes.page(
    "/", "read", "The board",
    query=(Query("q", str, "a filter"), Query("all", bool, "checks that are well, too"), Query("group", str, "a key"),
           Query("sort", str, "an order"), Query("kiosk", bool, "for a screen on a wall")),
)  # fmt: skip
async def board(parts: WebParts, request: ApiRequest) -> bytes:
    """Answer with the first rows of the board. A filter that can't be read is said beside its field."""
    sight = parts.visible(request.caller)
    wanted, fault = evolve(wanted_of(request), sight=sight), ""
    labels = AgentLabels()
    await take_turns(labels.steps(list(parts.sessions.roster.agents.values()), sight))
    page = read_page(request, "board", SHAPES[wanted.sort], [wanted.text, wanted.sort], FIRST_ROWS)
    feed, now = parts.row_feed, time.time()
    at, look = parts.events.id_of(feed.at), feed.name_of(feed.look)
    try:
        selection = await selected(parts, wanted, now)
    except Problem as problem:
        fault = str(problem)
        selection = await selected(parts, evolve(wanted, text=""), now)
    rows, following = page.cut(selection.rows, lambda row: place_of(wanted.sort, row))
    shown = [(feed.now(row), strip_runs(feed.strips.strip(row.key, now))) for row in rows]
    here: dict[str, Any] = {"q": wanted.text, "all": wanted.all and "1", "group": wanted.group, "sort": wanted.sort}
    return await write_page(
        parts, request, "board", wanted=wanted, fault=fault, rows=shown, selection=selection, at=at, here=here,
        following=following, sorts=SORTS, tiles=selection.groups[:MOST_TILES],
        labels=sorted(labels.keys), agents=labels.agents, look=look,
        kiosk=first_text(request, "kiosk") == "1",
    )  # fmt: skip


class AgentLabels:
    """Gathers the keys of the labels of agents that are seen, and how many these are, some agents a step."""

    def __init__(self) -> None:
        self.keys: set[str] = set()
        self.agents = 0

    def steps(self, agents: Sequence[Agent], sight: Sight | None) -> Iterator[None]:
        """Look at all agents."""
        for first in range(0, len(agents), ROWS_A_STEP):
            for agent in seen(sight, agents[first : first + ROWS_A_STEP]):
                self.agents += 1
                self.keys.update(agent.labels)
            yield


def wanted_of(request: ApiRequest) -> Wanted:
    """Return the rows that the address of a board asks for; an order of no sense is that of problems."""
    sort = first_text(request, "sort") or "problems"
    return Wanted(
        (first_text(request, "q") or "")[:1_000], first_text(request, "all") == "1",
        sort if sort in SORTS else "problems", first_text(request, "group") or "",
    )  # fmt: skip
