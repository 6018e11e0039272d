"""Routes of the history: what the lake has of a check. docs/api.rst lists them.

The lake is read in a thread, by helen/pipeline/reading.py, which needs the extra `spark` (deltalake of it, no Spark)
and is imported when somebody asks for the first time.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from klein import Klein
from twisted.internet.defer import DeferredSemaphore
from twisted.internet.threads import deferToThread

from helen.durations import seconds
from helen.web.problems import Problem

AT_ONCE = 2  # readers of the lake: each takes a core, and some 10 ms to 1 s
MOST_WAITING = 16  # more than these are told to come again, instead of waiting for a minute
USUAL_SPAN = 86_400.0  # seconds that are shown if nobody says since when
MOST_METRICS = 50
LATEST = 253_402_300_800  # the year 10000, in unix seconds: what has no date is no time
READER = "helen.pipeline.reading"
EXTRA = "deltalake"


class Reads:
    """Questions to the lake: few at once, few that wait."""

    def __init__(self) -> None:
        self._turns = DeferredSemaphore(AT_ONCE)

    async def ask(self, call: Callable[..., bytes], *arguments: Any) -> bytes:
        if len(self._turns.waiting) >= MOST_WAITING:
            raise Problem(503, "can't be asked", f"{MOST_WAITING} others wait for the lake already; ask again soon")
        answer: bytes = await self._turns.run(deferToThread, call, *arguments)
        return answer


def add_routes(app: Klein) -> None:
    """To the class of the API, whose instances have `_helen`."""
    reads = Reads()

    @app.route("/api/v1/history", methods=["GET"])
    async def history(self: Any, request: Any) -> bytes:
        fields = read_fields(request.args, time.time())
        lake = self._helen.pipeline.lake
        if importlib.util.find_spec(EXTRA) is None:
            raise Problem(
                409, "no history", "the lake can't be read here: pip install 'helen-equus[spark]' into the environment"
                " that Helen runs in",
            )  # fmt: skip
        answer = await reads.ask(read_lake, lake, fields)
        request.setHeader("content-type", "application/json")
        return answer


def read_lake(lake: Path, fields: Mapping[str, Any]) -> bytes:
    """In a thread: the answer as JSON."""
    reader = importlib.import_module(READER)
    if not (lake / "series" / "_delta_log").is_dir():
        raise Problem(
            409, "no history", f"there is no lake in {lake} yet: `helen pipeline run --state DIR` makes one of Helen's"
            " history, and goes on with it",
        )  # fmt: skip
    try:
        document = reader.read_history(lake, reader.Asked.of(**fields))
    except reader.NotInLake as error:
        raise Problem(404, "not found", str(error)) from error
    except (reader.WrongQuestion, reader.TooMuch) as error:
        raise Problem(400, "bad request", str(error)) from error
    except reader.LakeUnreadable as error:
        raise Problem(503, "the lake can't be read", str(error)) from error
    return json.dumps(document, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace") + b"\n"


def read_fields(given: Mapping[bytes, Sequence[bytes]], now: float) -> dict[str, Any]:
    """The parameters of a question, times in microseconds. Raises Problem."""
    texts = {name: [_text(name, value) for value in values] for name, values in given.items()}

    def one(name: str) -> str | None:
        values = texts.get(name.encode(), [])
        if len(values) > 1:
            raise Problem(400, "bad request", f"`{name}` is given more than once")
        return values[0] if values else None

    unknown = {name.decode("utf-8", "replace") for name in texts} - {
        "agent", "check", "from", "to", "resolution", "metric", "limit", "cursor",
    }  # fmt: skip
    if unknown:
        raise Problem(400, "bad request", f"there is no parameter {sorted(unknown)[0]!r}: docs/api.rst lists them")
    agent, check = one("agent"), one("check")
    if not agent or not check:
        raise Problem(400, "bad request", "`agent` and `check` say whose history: ?agent=web-1&check=disk")
    end = _moment("to", one("to"), now, now)
    begin = _moment("from", one("from"), now, end - USUAL_SPAN)
    if not begin < end:
        raise Problem(400, "bad request", "`from` is before `to`")
    metrics = texts.get(b"metric", [])
    if len(metrics) > MOST_METRICS:
        raise Problem(400, "bad request", f"at most {MOST_METRICS} times `metric`")
    return {"agent": agent, "check_id": check, "begin": round(begin * 1e6), "end": round(end * 1e6), "metrics": metrics,
            "resolution": one("resolution"), "limit": _limit(one("limit")), "cursor": one("cursor")}  # fmt: skip


def _text(name: bytes, value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise Problem(400, "bad request", f"`{name.decode('ascii', 'replace')}` is no UTF-8") from error


def _moment(name: str, text: str | None, now: float, default: float) -> float:
    """Unix seconds, or how long ago: `1790000000` or `6h`."""
    if text is None:
        return default
    try:
        moment = now - seconds(text) if text[-1:].isalpha() else float(text)
    except ValueError as error:
        raise Problem(400, "bad request", f"`{name}` is unix seconds, or how long ago, such as 6h") from error
    if not math.isfinite(moment) or not 0 <= moment <= LATEST:
        raise Problem(400, "bad request", f"`{name}` is a time from 1970 to 9999, in unix seconds, or how long ago")
    return moment


def _limit(text: str | None) -> int | None:
    if text is None:
        return None  # as many as an answer holds
    if not (text.isascii() and text.isdigit()) or not 1 <= len(text) <= 9 or int(text) < 1:
        raise Problem(400, "bad request", "`limit` is a number of points or results, 1 or more")
    return int(text)
