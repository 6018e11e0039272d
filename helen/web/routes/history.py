"""Serves the route of the history: what the lake has of a check. docs/api.rst has it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from helen.web.lake_reads import demand_reader, read_lake
from helen.web.problems import bad_request
from helen.web.query import read_moment
from helen.web.request import ApiRequest
from helen.web.route import V1, Query, Routes
from helen.web.web_parts import WebParts

routes = Routes()
USUAL_SPAN = 86_400.0  # seconds before `to` that are shown without `from`
MOST_METRICS = 50
PARAMETERS = (
    Query("agent", str, "its name"), Query("check", str, "its id"), Query("from", str, "unix seconds"),
    Query("to", str, "unix seconds"), Query("metric", str, "a name; may be repeated", many=True),
    Query("resolution", str, "of the rows"), Query("limit", str, "rows"), Query("cursor", str, "`next`"),
)  # fmt: skip


@routes.get(
    f"{V1}/history", "read", "What the lake has of a check", answer=dict[str, Any], query=PARAMETERS,
    errors={404: "not found", 409: "no history", 503: "can't be asked, or the lake can't be read"},
)  # fmt: skip
async def get_history(parts: WebParts, request: ApiRequest) -> bytes:
    """Answer with rows of one check between two times, as helen/pipeline/reports/check_history.py reads them."""
    fields = read_fields(request.args, time.time())
    demand_reader()
    answer = await parts.lake_reads.ask(read_lake, parts.pipeline.lake, fields, parts.visible(request.caller))
    request.setHeader("content-type", "application/json")
    return answer


def read_fields(given: Mapping[bytes, Sequence[bytes]], now: float) -> dict[str, Any]:
    """Return the parameters of a question: agent, check_id, begin, end, metrics, resolution, limit, cursor.

    `now` is in unix seconds; `begin` and `end` are in microseconds. Raises Problem for one that can't be.
    """
    values = {name: [_decode(name, value) for value in listed] for name, listed in given.items()}
    unknown = {name.decode("utf-8", "replace") for name in values} - {query.name for query in PARAMETERS}
    if unknown:
        raise bad_request(f"there is no parameter {sorted(unknown)[0]!r}: docs/api.rst lists them")
    metrics = values.pop(b"metric", [])
    single = {query.name: _single(values, query.name) for query in PARAMETERS}
    if not single["agent"] or not single["check"]:
        raise bad_request("`agent` and `check` say whose history: ?agent=web-1&check=disk")
    end = read_moment("to", single["to"], now, now)
    begin = read_moment("from", single["from"], now, end - USUAL_SPAN)
    if not begin < end:
        raise bad_request("`from` is before `to`")
    if len(metrics) > MOST_METRICS:
        raise bad_request(f"at most {MOST_METRICS} times `metric`")
    return {
        "agent": single["agent"], "check_id": single["check"], "begin": round(begin * 1e6), "end": round(end * 1e6),
        "metrics": metrics, "resolution": single["resolution"], "limit": _limit(single["limit"]),
        "cursor": single["cursor"],
    }  # fmt: skip


def _single(values: Mapping[bytes, list[str]], name: str) -> str | None:
    listed = values.get(name.encode(), [])
    if len(listed) > 1:
        raise bad_request(f"`{name}` is given more than once")
    return listed[0] if listed else None


def _decode(name: bytes, value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise bad_request(f"`{name.decode('ascii', 'replace')}` is no UTF-8") from error


def _limit(text: str | None) -> int | None:
    if text is None:
        return None  # as many as an answer holds
    if not (text.isascii() and text.isdigit()) or not 1 <= len(text) <= 9 or int(text) < 1:
        raise bad_request("`limit` is a number of points or results, 1 or more")
    return int(text)
