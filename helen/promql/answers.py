"""Writes answers as Prometheus' API has them: vectors, matrices, numbers, and lists of labels. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from helen.promql.errors import MOST_POINTS, Refused, TooMuch
from helen.promql.evaluate import Found
from helen.promql.matrix import Matrix, key_of

Array = Any  # of numpy
Answer = tuple[int, bytes]  # status and body


def success(data: Any) -> Answer:
    """Return the answer with this data."""
    return 200, _encoded({"status": "success", "data": data})


def failure(error: Refused) -> Answer:
    """Return the answer that says what is wrong."""
    return error.status, _encoded({"status": "error", "errorType": error.kind, "error": str(error)})


def vector(found: Matrix, time: int, order: str | None) -> Any:
    """Return the values of one step, at milliseconds `time`. `order`: "up" or "down" by value, None by labels."""
    rows = [
        (key_of(labels), float(found.values[at, 0])) for at, labels in enumerate(found.labels) if found.there[at, 0]
    ]
    rows.sort()
    if order is not None:
        sign = 1 if order == "up" else -1
        rows.sort(key=lambda row: (math.isnan(row[1]), sign * row[1] if not math.isnan(row[1]) else 0.0))
    shown = [{"metric": dict(key), "value": [time / 1000, number(value)]} for key, value in rows]
    return {"resultType": "vector", "result": shown}


def scalar(value: float, time: int) -> Any:
    """Return one number at milliseconds `time`."""
    return {"resultType": "scalar", "result": [time / 1000, number(value)]}


def matrix(found: Matrix, steps: Array) -> Any:
    """Return the values of all steps; series without any are left out. Raises TooMuch."""
    rows = (
        (labels, found.values[at][found.there[at]], steps[found.there[at]]) for at, labels in enumerate(found.labels)
    )
    return _matrix(int(found.there.sum()), rows)


def samples(found: Found, begin: int, end: int) -> Any:
    """Return the samples behind `begin` and up to `end`, milliseconds, as they are. Raises TooMuch."""
    rows = []
    for labels, points in found:
        within = (points.times > begin) & (points.times <= end)
        rows.append((labels, points.values[within], points.times[within]))
    return _matrix(sum(len(row[1]) for row in rows), rows)


def _matrix(count: int, rows: Iterable[tuple[dict[str, str], Array, Array]]) -> Any:
    if count > MOST_POINTS:
        raise TooMuch(f"{count} points are more than the {MOST_POINTS} of an answer: use a longer step, or aggregate")
    shown = sorted((key_of(labels), at, _pairs(values, times)) for at, (labels, values, times) in enumerate(rows)
                   if len(values))  # fmt: skip
    result = [{"metric": dict(key), "values": pairs} for key, _, pairs in shown]
    return {"resultType": "matrix", "result": result}


def _pairs(values: Array, times: Array) -> list[Sequence[Any]]:
    seconds = np.asarray(times, float) / 1000
    return [(time, number(value)) for time, value in zip(seconds.tolist(), values.tolist(), strict=True)]


def number(value: float) -> str:
    """Return a number as the API writes it: text, since JSON has no infinity."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return (
        str(int(value))
        if value.is_integer() and abs(value) < 1e15 and (value or math.copysign(1, value) > 0)
        else repr(value)
    )


def _encoded(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
