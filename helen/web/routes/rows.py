"""Routes of boards: rows of checks, the worst first, and labels to group them by. docs/api.rst has them."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, TypedDict

from attrs import evolve
from twisted.internet.threads import deferToThread

from helen.agents.roster import Agent
from helen.web.answers import write_json
from helen.web.connections.paced_answers import Write, write_pieces
from helen.web.connections.short_turns import ROWS_A_STEP, take_turns
from helen.web.cursors import read_page
from helen.web.json_types import Counts, words
from helen.web.problems import bad_request
from helen.web.promql.asking import answer_question
from helen.web.query import first_text
from helen.web.request import ApiRequest
from helen.web.route import V1, Query, Routes
from helen.web.rows.row import SORTS
from helen.web.rows.selection import FIELDS, Choice, GroupJson, Selection, Wanted, encode, place_of
from helen.web.sight.agents_in_turns import agents_in_sight, steps_of
from helen.web.web_parts import WebParts

routes = Routes()
MOST_FILTER = 1_000  # characters
MOST_VALUES = 100  # of a label
OF_PROMETHEUS = (b"match[]", b"start", b"end", b"limit")  # parameters of its route `labels`
PIECE = 32_768  # characters that are joined before they are written: each write costs a call of the system
SHAPES: dict[str, tuple[type, ...]] = {
    "problems": (int, bool, float, str, str), "agent": (str, str), "check": (str, str), "since": (float, str, str),
    "heard": (float, str, str),
}  # fmt: skip


class RowsJson(TypedDict):
    """Lists rows as arrays of the values that `fields` names; `at` and `look` join them to the stream of events.

    `status` is 0 ok, 1 warning, 2 critical, 3 unknown; `since` and `heard` are unix seconds; `soft` is such as 1/3;
    `marks` are letters: A acknowledged, D downtime, S silence, P parent bad, F flapping, R being tried.
    """

    fields: list[str]
    rows: list[list[Any]]
    counts: Counts
    groups: list[GroupJson]
    at: str
    look: str
    next: str | None


class LabelsJson(TypedDict):
    """Counts agents by the values of each label."""

    labels: dict[str, Counts]


@routes.get(
    f"{V1}/rows", "read", "Rows of a board, the worst first", answer=RowsJson, paged=True,
    query=(Query("filter", str, "words as helen top takes them, all of which must hold"),
           Query("all", bool, "those that are well, too"),
           Query("sort", Annotated[str, words(*SORTS)], "the order"),
           Query("group", str, "agent, check, status, or the key of a label: counts of each group"),
           Query("strips", bool, "the worst status of each of the last 48 quarter hours")),
)  # fmt: skip
async def list_rows(parts: WebParts, request: ApiRequest) -> bytes:
    """Answer with rows; without `filter` and `all` with those that aren't well."""
    wanted, has_strips = read_wanted(request), first_text(request, "strips") in ("1", "true")
    given = [wanted.text, str(wanted.all), wanted.sort, wanted.group]
    page = read_page(request, "rows", SHAPES[wanted.sort], given)
    feed, now = parts.row_feed, time.time()
    at, look = parts.events.id_of(feed.at), feed.name_of(feed.look)
    selection = await selected(parts, evolve(wanted, sight=parts.visible(request.caller)), now)
    rows, following = page.cut(selection.rows, lambda row: place_of(wanted.sort, row))

    def pieces(write: Write, is_gone: Callable[[], bool]) -> Iterator[None]:
        fields = [*FIELDS, "strip"] if has_strips else list(FIELDS)
        held = f'{{"fields": {json.dumps(fields)}, "rows": ['
        for first in range(0, len(rows), ROWS_A_STEP):
            if is_gone():
                return
            shown = [feed.now(row) for row in rows[first : first + ROWS_A_STEP]]
            strips = [feed.strips.strip(row.key, now) for row in shown] if has_strips else None
            held += (",\n" if first else "") + encode(shown, strips)
            if len(held) >= PIECE:
                write(held.encode("utf-8", "replace"))
                held = ""
            yield
        rest = {"counts": selection.counts, "groups": list(selection.groups), "at": at, "look": look,
                "next": following}  # fmt: skip
        write(f"{held}], {json.dumps(rest)[1:]}\n".encode("utf-8", "replace"))
        yield

    return await write_pieces(request, pieces, whole=page.limit is not None, may_pack=True)


async def selected(parts: WebParts, wanted: Wanted, now: float) -> Selection:
    """Return the rows that are wanted, picked in short turns. `now`: unix seconds. Raises Problem."""
    feed = parts.row_feed
    try:
        choice = Choice(wanted, now)
    except ValueError as error:
        raise bad_request(str(error)) from error
    order = feed.order(wanted.sort, wanted.is_narrow)
    if not order.is_whole:
        await take_turns(order.build(feed.rows))
    if choice.takes_all:
        return Selection(order.rows, dict(order.counts), ())
    await take_turns(choice.steps(order.rows))
    return await deferToThread(choice.selection) if choice.has_many_groups else choice.selection()


def read_wanted(request: ApiRequest) -> Wanted:
    """Return the rows that a request asks for. Raises Problem for a filter or an order of no sense."""
    text, sort = first_text(request, "filter") or "", first_text(request, "sort") or "problems"
    if len(text) > MOST_FILTER:
        raise bad_request(f"`filter` has at most {MOST_FILTER} letters")
    if sort not in SORTS:
        raise bad_request(f"`sort` is one of {', '.join(SORTS)}")
    wanted = Wanted(text, first_text(request, "all") in ("1", "true"), sort, first_text(request, "group") or "")
    try:
        wanted.fitting((), 0.0)
    except ValueError as error:
        raise bad_request(str(error)) from error
    return wanted


@routes.get(f"{V1}/labels", "read", "The labels of agents", answer=LabelsJson)
async def list_labels(parts: WebParts, request: ApiRequest) -> bytes:
    """Answer with the keys of labels, and how many agents have each value; 100 values of a key at most.

    A request with a parameter of Prometheus' route of this name gets the answer of that one.
    """
    if any(name in request.args for name in OF_PROMETHEUS):
        return await answer_question(parts, request, "labels")
    agents = await agents_in_sight(parts.sessions.roster.agents.values(), parts.visible(request.caller))
    labels = LabelCounts()
    await take_turns(steps_of(agents, labels.take))
    await take_turns(labels.rank())
    return write_json(request, {"labels": labels.shown})


class LabelCounts:
    """Counts agents by the values of each label; `shown` has the most common ones once `rank` has been run."""

    def __init__(self) -> None:
        self.shown: dict[str, Counts] = {}
        self._counted: dict[str, Counter[str]] = {}

    def take(self, agents: Iterable[Agent]) -> None:
        """Count some agents."""
        for agent in agents:
            if agent.revoked_at is None:
                for key, value in agent.labels.items():
                    self._counted.setdefault(key, Counter())[value] += 1

    def rank(self) -> Iterator[None]:
        """Find the most common values, a key at a step: each agent may have one of its own."""
        for key, values in sorted(self._counted.items()):
            self.shown[key] = dict(values.most_common(MOST_VALUES))
            yield
