"""From changes: when which downtimes were on, and when Helen herself was not there. Pure.

A downtime counts from the moment that somebody set it, never backwards; what was changed or cancelled counts until
then. Which checks it covers is decided by the labels that an agent had last.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from attrs import frozen

from helen.pipeline.days import MICROS
from helen.windows import Scope, Window, WindowRefused, read_window, spans

QUIET = 900 * MICROS  # without a record of any kind, up to the end of what the lake knows: she isn't there
Span = tuple[int, int]
Row = Mapping[str, Any]  # of the table `changes`
LastHeard = Callable[[int, int, int], int | None]


@frozen
class Downtime:
    """One version of a window: where it is on, and what it covers."""

    scope: Scope
    labels: Mapping[str, Mapping[str, str]]
    spans: Sequence[Span]

    def covers(self, agent: str, check_id: str) -> bool:
        return self.scope.covers(agent, check_id, self.labels.get(agent, {}))


def downtimes(changes: Iterable[Row], span: Span) -> list[Downtime]:
    """Those that are on at any time of `span`. `changes` are in order."""
    labels: dict[str, dict[str, str]] = {}
    open_since: dict[str, tuple[Window, int]] = {}
    found: list[tuple[Window, int, int]] = []
    for row in changes:
        document, at = json.loads(row["document"]), micros(row["received"])
        if row["kind"] == "rule" and "agent" in document:
            labels[document["agent"]] = document.get("labels", {})
        if row["kind"] != "downtime":
            continue
        before = open_since.pop(document.get("id", ""), None)
        if before is not None:
            found.append((*before, at))
        window = None if document.get("action") == "cancel" else _window(document, at)
        if window is not None:
            open_since[window.id] = window, at
    found += [(window, since, span[1]) for window, since in open_since.values()]
    made = [
        Downtime(window.scope, labels, list(_on(window, max(since, span[0]), until))) for window, since, until in found
    ]
    return [each for each in made if each.spans]


def absences(
    changes: Iterable[Row], span: Span, last_heard: LastHeard, newest: Mapping[int, int] | None = None
) -> list[Span]:
    """When no Helen was there, within `span`. One that was killed was there until the last thing that she wrote.

    `last_heard(helen, after, before)` is the time of her last result between two values of `at`, `newest` that of the
    last thing of all: where the lake has had nothing of her since long, it doesn't say that all is as it was.
    """
    away: dict[int, list[Span]] = {}
    before: dict[int, Row] = {}
    for row in changes:
        if row["kind"] not in ("helen_start", "helen_stop"):
            continue
        earlier = before.get(row["helen"])
        if row["kind"] == "helen_start" and earlier is not None:
            since, until = micros(earlier["received"]), micros(row["received"])
            if earlier["kind"] == "helen_start" and until > span[0]:
                since = max(since, last_heard(row["helen"], earlier["at"], row["at"]) or since)
            away.setdefault(row["helen"], []).append((since, until))
        before[row["helen"]] = row
    for helen, last in before.items():
        since = max(micros(last["received"]), (newest or {}).get(helen, span[1]))
        if last["kind"] == "helen_stop":
            away.setdefault(helen, []).append((micros(last["received"]), span[1]))
        elif span[1] - since > QUIET:
            away.setdefault(helen, []).append((since, span[1]))
    if not before or away.keys() != before.keys():
        return []
    common = [span]
    for each in away.values():
        common = [(max(a, c), min(b, d)) for a, b in common for c, d in each if max(a, c) < min(b, d)]
    return common


def micros(time: datetime) -> int:
    """Microseconds since 1970; a time without a zone is UTC."""
    aware = time if time.tzinfo else time.replace(tzinfo=UTC)
    return round(aware.timestamp() * MICROS)


def _window(document: Mapping[str, Any], at: int) -> Window | None:
    """What a later version wrote and this one can't read is left out: Helen refused nothing that she recorded."""
    fields = {name: value for name, value in document.items() if name not in ("action", "agent")}
    try:
        return read_window({"kind": "downtime", **fields}, at / MICROS)
    except WindowRefused:
        return None


def _on(window: Window, begin: int, end: int) -> Iterator[Span]:
    for start, stop in spans(window, begin / MICROS):
        if start * MICROS >= end:
            return
        yield max(begin, round(start * MICROS)), end if stop * MICROS >= end else round(stop * MICROS)
