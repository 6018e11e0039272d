"""Finds in changes when downtimes were on, and when Helen did not run. Pure.

A downtime counts from the moment at which it was set, never backwards; one that was changed or cancelled counts until
then. The labels that an agent had last decide which checks it covers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from attrs import frozen

from helen.pipeline.lake.local_days import MICROS
from helen.states.downtimes import Scope, Window, WindowRefused, read_window, spans

QUIET = 900 * MICROS  # without a record of any kind, up to the end of the lake: Helen doesn't run
Span = tuple[int, int]
Row = Mapping[str, Any]  # of the table `changes`
LastHeard = Callable[[int, int, int], int | None]


@frozen
class Downtime:
    """Holds one version of a window: the times when it is on, and its scope."""

    scope: Scope
    labels: Mapping[str, Mapping[str, str]]
    spans: Sequence[Span]

    def covers(self, agent: str, check_id: str) -> bool:
        return self.scope.covers(agent, check_id, self.labels.get(agent, {}))


def downtimes(changes: Iterable[Row], span: Span) -> list[Downtime]:
    """Return the downtimes that are on at any time of `span`. `changes` are in order."""
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


def away(
    changes: Iterable[Row], span: Span, last_heard: LastHeard, newest: Mapping[int, int] | None = None
) -> dict[int, list[Span]]:
    """Return the times in which each Helen did not run, clipped to `span`. A killed one ran until its last record.

    `last_heard(helen, after, before)` is the time of its last result between two values of `at`, `newest` the time of
    its last record near the span: if the lake has had none for long, Helen counts as away, not as running without news.
    One that isn't in `newest` had none at all.
    """
    found: dict[int, list[Span]] = {}
    before: dict[int, Row] = {}
    for row in changes:
        if row["kind"] not in ("helen_start", "helen_stop"):
            continue
        earlier = before.get(row["helen"])
        if row["kind"] == "helen_start" and earlier is not None:
            since, until = micros(earlier["received"]), micros(row["received"])
            if earlier["kind"] == "helen_start" and until > span[0]:
                since = max(since, last_heard(row["helen"], earlier["at"], row["at"]) or since)
            found.setdefault(row["helen"], []).append((since, until))
        before[row["helen"]] = row
    for helen, last in before.items():
        since = span[1] if newest is None else max(micros(last["received"]), newest.get(helen, span[0]))
        if last["kind"] == "helen_stop":
            found.setdefault(helen, []).append((micros(last["received"]), span[1]))
        elif span[1] - since > QUIET:
            found.setdefault(helen, []).append((since, span[1]))
    begin, end = span
    return {
        helen: [(max(a, begin), min(b, end)) for a, b in found.get(helen, ()) if max(a, begin) < min(b, end)]
        for helen in before
    }


def in_common(away: Mapping[int, Sequence[Span]], span: Span) -> list[Span]:
    """Return the times in which no Helen ran: they count for an agent without a record of its Helen."""
    common = [span] if away else []
    for each in away.values():
        common = [(max(a, c), min(b, d)) for a, b in common for c, d in each if max(a, c) < min(b, d)]
    return common


def micros(time: datetime) -> int:
    """Return microseconds since 1970; a time without a zone is UTC."""
    aware = time if time.tzinfo else time.replace(tzinfo=UTC)
    return round(aware.timestamp() * MICROS)


def _window(document: Mapping[str, Any], at: int) -> Window | None:
    """Read a window. None for one that a later version wrote: Helen has checked each one that it recorded."""
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
