"""Tests downtimes and absences from changes, with documents as Helen records them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from helen.pipeline.reports.downtimes import away, downtimes, in_common

S = 1_000_000
SPAN = (1000 * S, 9000 * S)


def change(at: float, kind: str, helen: int = 0, **document: Any) -> dict[str, Any]:
    return {"helen": helen, "at": int(at), "received": datetime.fromtimestamp(at, UTC), "kind": kind, "series": None,
            "document": json.dumps(document)}  # fmt: skip


def on(changes: list[dict[str, Any]], agent: str = "web1", check: str = "disk") -> list[tuple[float, float]]:
    """Return the downtimes of a check as spans in seconds."""
    spans = [span for each in downtimes(changes, SPAN) if each.covers(agent, check) for span in each.spans]
    return [(begin / S, end / S) for begin, end in spans]


def test_a_downtime_counts_from_when_it_was_set() -> None:
    """A downtime counts from when it was set, not backwards, and up to its end or the end of the span."""
    assert on([change(2000, "downtime", id="a", begin=1500, until=3000)]) == [(2000, 3000)]
    assert on([change(500, "downtime", id="a", begin=600, until=99_000)]) == [(1000, 9000)]
    assert on([change(500, "downtime", id="a", begin=600, until=900)]) == []


def test_a_changed_or_cancelled_one_counts_until_then() -> None:
    """A changed or cancelled downtime counts until then, and a silence is no downtime."""
    set_, moved = change(2000, "downtime", id="a", until=8000), change(3000, "downtime", id="a", begin=5000, until=6000)
    assert on([set_, moved]) == [(2000, 3000), (5000, 6000)]
    assert on([set_, change(4000, "downtime", action="cancel", id="a")]) == [(2000, 4000)]
    assert on([change(2000, "silence", id="a", until=8000)]) == []


def test_its_scope_is_by_names_and_labels() -> None:
    """A downtime covers checks by names, and agents by labels of their last rules."""
    changes = [
        change(1, "rule", agent="web1", labels={"role": "web"}, checks={}),
        change(2, "downtime", id="a", until=8000, labels={"role": "w*"}, checks=["disk*"]),
    ]
    assert on(changes) == [(1000, 8000)]
    assert on(changes, check="load") == on(changes, agent="db1") == []


def test_what_cannot_be_read_is_no_downtime() -> None:
    """A downtime with an unknown field is left out and does not end the report."""
    assert on([change(2000, "downtime", id="a", until=8000, moon="full")]) == []


def heard(helen: int, after: int, before: int) -> int | None:
    return 4500 * S if (helen, after, before) == (0, 1100, 5000) else None


def absences(changes: list[dict[str, Any]], *words: Any) -> list[tuple[int, int]]:
    return in_common(away(changes, *words), SPAN)


def test_helen_was_away_between_stop_and_start() -> None:
    """Helen is away from stop to start, a killed one from its last result, and one that does not return until the
    end."""
    start, stop = change(1100, "helen_start"), change(3000, "helen_stop")
    assert absences([start, stop, change(3420, "helen_start")], SPAN, heard) == [(3000 * S, 3420 * S)]
    assert absences([start, change(5000, "helen_start")], SPAN, heard) == [(4500 * S, 5000 * S)]
    assert absences([start, stop], SPAN, heard) == [(3000 * S, 9000 * S)]
    assert absences([start], SPAN, heard) == []


def test_what_the_lake_has_not_heard_of_is_not_all_right() -> None:
    """A killed Helen without a new start is away since its last record, unless that is less than a quarter of an
    hour ago."""
    start = change(1100, "helen_start")
    assert absences([start], SPAN, heard, {0: 5000 * S}) == [(5000 * S, 9000 * S)]
    assert absences([start], SPAN, heard, {0: 8200 * S}) == []
    assert absences([start, change(1200, "helen_start", 1)], SPAN, heard, {0: 5000 * S, 1: 9000 * S}) == []
    assert absences([start], SPAN, heard, {0: 20_000 * S}) == []


def test_a_helen_that_never_came_back_is_away_all_the_time() -> None:
    """A Helen whose last record and start are older than the span is away all the time."""
    start = change(100, "helen_start")
    assert absences([start], SPAN, heard, {}) == [SPAN]
    assert away([start, change(120, "helen_start", 1)], SPAN, heard, {1: 9000 * S}) == {0: [SPAN], 1: []}


def test_each_helen_is_away_for_itself() -> None:
    """Each Helen's absences are its own, clipped to the span; one without a recorded start is not listed."""
    changes = [
        change(500, "helen_start"), change(1100, "helen_start", 1), change(3000, "helen_stop"),
        change(4000, "helen_start"), change(9500, "helen_stop", 1), change(600, "rule", 2, agent="x"),
    ]  # fmt: skip
    assert away(changes, SPAN, heard) == {0: [(3000 * S, 4000 * S)], 1: []}


def test_only_kills_that_matter_are_looked_into() -> None:
    """Only kills that matter for the span are looked up, since each costs a question to the lake."""
    asked = []
    kills = [change(at, "helen_start") for at in (100, 200, 300, 5000)]
    away(kills, SPAN, lambda *which: asked.append(which))
    assert asked == [(0, 300, 5000)]


def test_of_several_helens_all_must_be_away() -> None:
    """Several Helens are absent together only while all are away, since any of them may hear the agents."""
    changes = [change(1100, "helen_start"), change(1100, "helen_start", 1), change(3000, "helen_stop")]
    assert absences(changes, SPAN, heard) == []
    both = [*changes, change(4000, "helen_stop", 1), change(6000, "helen_start")]
    assert absences(both, SPAN, heard) == [(4000 * S, 6000 * S)]
