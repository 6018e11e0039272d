"""Write the result document (docs/protocol.rst section 4): at most 1 MiB of JSON that names what was cut. Pure.

A worker writes its findings (`body`); the agent adds the fields that only it knows for certain (`finish`): check,
code, time and duration. It adds them last, because a reader of JSON takes the last of two equal names, and a worker
may have been taken over.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from equus.sandbox.job import BLOB_LIMIT
from equus.sandbox.text import clean, shorten

SUMMARY_LIMIT = 65_536
OUTPUT_LIMIT = 65_536
# A check that prints more than this is ended: it is in a loop.
FLOOD_LIMIT = 4 * 1_048_576
# Room for the fields that the agent adds: a name of 255 bytes, six-fold when escaped, and four short fields.
ADDED_LIMIT = 2048
_BODY_LIMIT = BLOB_LIMIT - ADDED_LIMIT
_TEXT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def body(
    status: str,
    summary: str,
    *,
    reason: str | None = None,
    metrics: Iterable[bytes] = (),
    output: str = "",
    truncated: dict[str, int] | None = None,
    cpu_ms: float | None = None,
    peak_kib: int | None = None,
) -> bytes:
    """Return the worker's part of the document. metrics: each as JSON; truncated: full lengths of texts cut before."""
    cut = dict(truncated or {})
    document: dict[str, Any] = {"status": status, "summary": _capped("summary", summary, SUMMARY_LIMIT, cut)}
    if reason is not None:
        document["reason"] = reason
    if output:
        document["output"] = _capped("output", output, OUTPUT_LIMIT, cut)
    if cpu_ms is not None:
        document["cpu_ms"] = cpu_ms
    if peak_kib is not None:
        document["peak_kib"] = peak_kib
    text = as_json(document)
    kept, count = _fitting(metrics, _BODY_LIMIT - len(text) - 256)
    if count > len(kept):
        cut["metrics"] = max(count, cut.get("metrics", 0))
    if cut:
        text = as_json(document | {"truncated": cut})
    return text if not kept else text[:-1] + b',"metrics":[' + b",".join(kept) + b"]}"


def _capped(name: str, text: str, most: int, cut: dict[str, int]) -> str:
    """Cut the text to its cap, and note its full length in `cut` unless a length from before the cut is there."""
    short = shorten(text, most)
    if len(short) < len(text):
        cut.setdefault(name, len(text.encode()))
    return short


def _fitting(metrics: Iterable[bytes], room: int) -> tuple[list[bytes], int]:
    """Return the metrics that fit, and the number of all."""
    kept: list[bytes] = []
    count = 0
    for count, metric in enumerate(metrics, 1):  # noqa: B007 - counted to the end
        room -= len(metric) + 1
        if room >= 0:
            kept.append(metric)
    return kept, count


def as_json(document: dict[str, Any]) -> bytes:
    """Return a document in the form of results: UTF-8 without spaces, whose surrogates were replaced before."""
    return _TEXT.encode(document).encode()


def failure(reason: str, summary: str, cpu_ms: float | None = None, peak_kib: int | None = None) -> bytes:
    """Return the body of a run that has no result of its own: status unknown with this reason."""
    return body("unknown", clean(summary), reason=reason, cpu_ms=cpu_ms, peak_kib=peak_kib)


def finish(part: bytes, check: str, code: str, started: float, took_ms: float) -> bytes:
    """Return the whole document; a part that `body` can't have written becomes a failure.

    started: unix seconds, wall clock.
    """
    if not (part.startswith(b'{"') and part.endswith(b"}") and len(part) <= _BODY_LIMIT):
        part = failure("crashed", "the worker wrote something that is no result")
    added = {"check": check, "code": code, "started": round(started, 3), "took_ms": round(took_ms, 1)}
    return part[:-1] + b"," + as_json({name: value for name, value in added.items() if value != ""})[1:]
