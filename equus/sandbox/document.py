"""The result document (docs/protocol.rst section 4) as bytes, at most 1 MiB, with what was cut named. Pure.

A worker writes what it found out (`body`); the agent adds what only it can vouch for (`finish`): which check, which
code, when, and how long. It adds them last, because a reader of JSON takes the last of two equal names, and a worker
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
# Text of which no more is taken, not even to be counted: a check that goes on beyond this has run away.
FLOOD_LIMIT = 4 * 1_048_576
# Kept free for what the agent adds: a name of 255 bytes, six-fold when escaped, and four short fields.
ADDED_LIMIT = 2048
_BODY_LIMIT = BLOB_LIMIT - ADDED_LIMIT


def body(
    status: str,
    summary: str,
    *,
    reason: str | None = None,
    metrics: Iterable[bytes] = (),
    output: str = "",
    truncated: dict[str, int] | None = None,
    **figures: float,
) -> bytes:
    """The worker's part. metrics: each as JSON. truncated: true lengths of what was cut before it came here."""
    cut = dict(truncated or {})
    document: dict[str, Any] = {"status": status, "summary": _capped("summary", summary, SUMMARY_LIMIT, cut)}
    if reason is not None:
        document["reason"] = reason
    if output:
        document["output"] = _capped("output", output, OUTPUT_LIMIT, cut)
    document |= figures
    kept, count = _fitting(metrics, _BODY_LIMIT - len(_dump(document)) - 256)
    if count > len(kept):
        cut["metrics"] = max(count, cut.get("metrics", 0))
    if cut:
        document["truncated"] = cut
    text = _dump(document)
    return text if not kept else text[:-1] + b',"metrics":[' + b",".join(kept) + b"]}"


def _capped(name: str, text: str, most: int, cut: dict[str, int]) -> str:
    """The text cut to its cap; its true length is noted unless a truer one is."""
    short = shorten(text, most)
    if len(short) < len(text):
        cut.setdefault(name, len(text.encode()))
    return short


def _fitting(metrics: Iterable[bytes], room: int) -> tuple[list[bytes], int]:
    """As many as fit, and how many there were."""
    kept: list[bytes] = []
    count = 0
    for count, metric in enumerate(metrics, 1):  # noqa: B007 - counted to the end
        room -= len(metric) + 1
        if room >= 0:
            kept.append(metric)
    return kept, count


def _dump(document: dict[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def failure(reason: str, summary: str, **figures: float) -> bytes:
    """The body of a run that gave no result of its own."""
    return body("unknown", clean(summary), reason=reason, **figures)


def finish(part: bytes, check: str, code: str, started: float, took_ms: float) -> bytes:
    """The whole document. What is no body of ours becomes a failure: a worker may write anything."""
    if not (part.startswith(b'{"') and part.endswith(b"}") and len(part) <= _BODY_LIMIT):
        part = failure("crashed", "the worker wrote something that is no result")
    added = {"check": check, "code": code, "started": round(started, 3), "took_ms": round(took_ms, 1)}
    return part[:-1] + b"," + _dump({name: value for name, value in added.items() if value != ""})[1:]
