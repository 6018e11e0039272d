"""Tests why a check did not run at 03:00: the gaps between its runs, and what the records of that time say of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from helen.assignments.schedule import ScheduleEntry
from helen.evaluation.replay import HistoryRecord
from helen.explain.explain import Facts, explain
from helen.explain.missed_runs import Missed, missed_runs
from helen.states.inputs import Result
from helen.states.model import Rule


@pytest.mark.parametrize(
    ("times", "every", "until", "found"),
    [
        ([0, 10, 20, 30], 10.0, 35.0, []),
        ([0, 10, 24, 30], 10.0, 35.0, []),  # late, and none is missing
        ([30, 0, 10], 10.0, 35.0, [Missed(10, 30, 1)]),
        ([0, 10, 110, 120], 10.0, 125.0, [Missed(10, 110, 9)]),
        ([0, 1.4, 102.4], 1.4, 103.0, [Missed(1.4, 102.4, 71)]),
        ([0, 60], 60.0, 300.0, [Missed(60, 300.0, 3, False)]),
        ([], 60.0, 300.0, []),
        ([5], 3_600.0, 5_000.0, []),
    ],
)
def test_where_runs_are_missing(times: list[float], every: float, until: float, found: list[Missed]) -> None:
    """A run is missing between two others or after the last one; a run that is late is not missing (J10)."""
    assert missed_runs(times, every, until) == found


def a_result(at: float, check: str = "c", late: float = 0.0, summary: str = "") -> HistoryRecord:
    result = Result(at + late, 0, at, "s", int(at), None, None, summary)
    return HistoryRecord(int(at), at + late, "result", "a", check, result)


def a_change(at: float, kind: str, **said: Any) -> HistoryRecord:
    return HistoryRecord(int(at), at, kind, None, None, document=json.dumps({"agent": "a", **said}))


def answer(at: float, runs: list[HistoryRecord], *changes: HistoryRecord, until: float = 600.0) -> list[str]:
    """Return what is said of runs that did not happen; the check is due each 10 s."""
    entry = ScheduleEntry("c", "c", 10.0, 0.0, 5.0, {})
    own = [each for each in runs if each.check_id == "c" and each.received <= at]
    facts = Facts("a", "c", at, None, Rule(), entry, changes=changes, results=own[::-1], runs=runs, runs_until=until)
    return [line["text"] for line in explain(facts)["why_not_run"] if "did not happen" in line["text"]]


EARLY, LATE = [a_result(float(at)) for at in range(0, 110, 10)], [a_result(float(at)) for at in range(200, 601, 10)]
NOTHING = "the agent ran nothing in that time: it was stopped, stalled or asleep, or its machine was"


@pytest.mark.parametrize("at", [100.0, 150.0, 210.0, 500.0])
def test_an_agent_that_was_stalled(at: float) -> None:
    """The gap is told for a moment inside it, at its edge or after it, with the end of the connection (J10)."""
    down, up = a_change(140.0, "link", event="down"), a_change(201.0, "link", event="up")
    assert answer(at, EARLY + LATE) == [f"9 runs did not happen from here on, in 100 s: {NOTHING}"]
    assert answer(at, EARLY + LATE, down, up)[0].endswith(f"{NOTHING}; its connection ended in that time")


EVER = a_change(1.0, "rule", labels={}, checks={"c": {}}, link={})


def test_other_reasons() -> None:
    """A gap is told with its other reasons: not scheduled, dropped, left out, Helen's own stop, as far as recorded
    (J10).
    """
    off, on = (
        a_change(105.0, "rule", labels={}, checks={}, link={}),
        a_change(195.0, "rule", labels={}, checks={"c": {}}, link={}),
    )
    assert "100 s: it was not scheduled there;" in answer(150.0, EARLY + LATE, off, on)[0]
    assert "not scheduled" not in answer(150.0, EARLY + LATE, EVER)[0]
    gap = a_result(205.0, "equus:gap", summary="9 results were dropped: the spool was full")
    assert "had to drop results: 9 results were dropped: the spool was full" in answer(150.0, [*EARLY, gap, *LATE])[0]
    others = [a_result(float(at), "disk") for at in (120, 150, 180)]
    assert "other checks of the agent ran (3 results)" in answer(150.0, [*EARLY, *others, *LATE])[0]
    assert answer(150.0, EARLY + LATE, a_change(130.0, "helen_stop"))[0].endswith("Helen was stopped in that time")
    assert "nothing has come from the agent since then" in answer(300.0, EARLY, until=300.0)[0]


def test_results_that_waited_are_no_gap() -> None:
    """An agent that was away has run all the same, so its late results are no gap (J10)."""
    waited = [a_result(float(at), late=200.0 - at) for at in range(110, 200, 10)]
    assert answer(150.0, EARLY + waited + LATE, a_change(105.0, "link", event="down")) == []


def test_lines_are_in_order_of_time() -> None:
    """Lines of each answer are in order of time; those without one keep their places."""
    facts = Facts(
        "a", "c", 150.0, None, Rule(), ScheduleEntry("c", "c", 10.0, 0.0, 5.0, {}), results=EARLY[::-1],
        runs=EARLY + LATE, runs_until=600.0,
    )  # fmt: skip
    for lines in explain(facts).values():
        times = [line["at"] for line in lines if line["at"] is not None] if isinstance(lines, list) else []
        assert times == sorted(times)
