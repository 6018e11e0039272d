"""Serves the page of meshes: agents that check each other, and who sees whom, one mesh at a time.

It shows the document of GET /api/v1/mesh as a table with a link to the check behind each cell; static/live.js makes it
again when a state of the mesh or a link changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from attrs import evolve, frozen
from markupsafe import Markup

from equus_protocol.results import STATUS_WORDS
from helen.assignments.mesh_schedule import MOST_MEMBERS
from helen.parts import Parts
from helen.web.pages.answer import write_page
from helen.web.pages.environment import environment
from helen.web.problems import Problem
from helen.web.query import first_text
from helen.web.request import ApiRequest
from helen.web.route import Query, Routes
from helen.web.routes.targets import MeshInSight, meshes_in_sight, who_sees_whom
from helen.web.web_parts import WebParts

routes = Routes()
BAD = "bad"  # of `which`: agents that see somebody badly, or are seen so
MOST_IN_WORDS = 8  # agents of a mesh whose cells have words beside shapes, where there is room
OK, WARNING, CRITICAL, UNKNOWN = STATUS_WORDS
MOST_KEPT = 500  # rows of tables, those shown last: ten meshes of 50 agents, some 6 MB
WORST_FIRST = (CRITICAL, UNKNOWN, WARNING)


@frozen
class Cell:
    """Holds the status of an agent as another one sees it, or `none` while nothing is known.

    An agent without a connection (`is_old`) has said so before, until it counts as away and nothing is known: the cell
    is hatched, as one of unknown and none is.
    """

    peer: str
    status: str
    is_old: bool

    @property
    def is_hatched(self) -> bool:
        return self.is_old or self.status in (UNKNOWN, "none")


@frozen
class Line:
    """Holds a row of the table: an agent by its number in the mesh, and its cells; of itself there is None."""

    number: int
    name: str
    address: str
    is_away: bool
    cells: tuple[Cell | None, ...]


@frozen
class SeenBadly:
    """Holds the agents that see an agent badly: names by status, the worst first."""

    peer: str
    watchers: Sequence[tuple[str, Sequence[str]]]


@routes.page(
    "/mesh", "read", "Agents that check each other",
    query=(Query("mesh", str, "the id of a mesh; left out: the first"), Query("which", str, "bad: those not well")),
)  # fmt: skip
async def mesh_page(parts: WebParts, request: ApiRequest) -> bytes:
    """Answer with the table of one mesh. Raises Problem 404 for an id that no mesh in sight has."""
    sight = parts.visible(request.caller)
    meshes, wanted = await meshes_in_sight(parts, sight), first_text(request, "mesh")
    which = BAD if first_text(request, "which") == BAD else ""
    chosen = next((each for each in meshes if wanted in (None, "", each.id)), None)
    if wanted and chosen is None:
        raise Problem(404, "no such mesh", f"no mesh that you may see has the id {wanted[:80]!r}: /mesh lists all")
    values: dict[str, Any] = {"lines": [], "badly": [], "tally": {}} if chosen is None else _shown(parts, chosen, which)
    return await write_page(
        parts, request, "mesh", meshes=meshes, chosen=chosen, which=which, is_limited=sight is not None,
        most=MOST_MEMBERS, most_in_words=MOST_IN_WORDS, cells_of=cells_of, **values,
    )  # fmt: skip


@lru_cache(MOST_KEPT)
def cells_of(mesh: str, line: Line) -> Markup:
    """Return the cells of an agent as text; of 50 it takes 2 ms to make.

    A page of a mesh is read again each second that it changes, and mostly one row does: all others are kept, for all
    tabs and callers. Nothing but these values may be in the text.
    """
    made: Markup = environment().get_template("partials/mesh_cells.html").module.mesh_cells(mesh, line)  # type: ignore[attr-defined]
    return made


def _shown(parts: Parts, mesh: MeshInSight, which: str) -> dict[str, Any]:
    agents = parts.sessions.roster.agents
    away = {name for name in mesh.members if name not in agents or agents[name].link is None}
    lines = lines_of(mesh, who_sees_whom(parts, mesh), away)
    return {"tally": tally_of(lines), "badly": badly_of(lines), "lines": lines if not which else bad_lines(lines)}


def lines_of(mesh: MeshInSight, seen: list[list[str | None]], away: set[str]) -> list[Line]:
    """Return the rows of the table; 50 agents take a few hundred microseconds."""
    names, found = list(mesh.members), list[Line]()
    for number, (name, statuses) in enumerate(zip(names, seen, strict=True), 1):
        cells = tuple(
            None if peer == name else Cell(peer, status or "none", name in away and status is not None)
            for peer, status in zip(names, statuses, strict=True)
        )
        found.append(Line(number, name, mesh.members[name], name in away, cells))
    return found


def tally_of(lines: Sequence[Line]) -> dict[str, int]:
    """Return how many cells there are of each kind: a status that is heard, and `none` for all of which nothing is."""
    found = dict.fromkeys((*WORST_FIRST, "none", OK), 0)
    for line in lines:
        for cell in line.cells:
            if cell is not None:
                found["none" if cell.is_old else cell.status] += 1
    return found


def badly_of(lines: Sequence[Line]) -> list[SeenBadly]:
    """Return the agents that others see badly now, in the order of the mesh."""
    found = []
    for at, line in enumerate(lines):
        column = [(each.name, each.cells[at]) for each in lines]
        by_status = [
            (status, [name for name, cell in column if cell is not None and cell.status == status and not cell.is_old])
            for status in WORST_FIRST
        ]
        watchers = [(status, names) for status, names in by_status if names]
        found += [SeenBadly(line.name, watchers)] if watchers else []
    return found


def bad_lines(lines: Sequence[Line]) -> list[Line]:
    """Return the rows and columns of agents with a cell that is not ok, so that only these are shown."""

    def is_bad(cell: Cell | None) -> bool:
        return cell is not None and (cell.is_old or cell.status != OK)

    kept = [
        at for at, line in enumerate(lines)
        if any(map(is_bad, line.cells)) or any(is_bad(each.cells[at]) for each in lines)
    ]  # fmt: skip
    return [evolve(lines[at], cells=tuple(lines[at].cells[column] for column in kept)) for at in kept]
