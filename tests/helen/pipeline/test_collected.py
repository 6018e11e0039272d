"""Tests that reports bring the driver about as many rows as there are checks, however many events those had."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.classic.dataframe import DataFrame

from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.local_days import local_days
from helen.pipeline.reports import recent
from helen.pipeline.reports import sla as sla_report
from helen.pipeline.reports.availability import choose
from helen.pipeline.reports.backtest import backtest
from helen.pipeline.reports.backtest_summary import comparison, recorded_events, summary
from helen.pipeline.reports.flapping import flapping
from helen.pipeline.reports.report_jobs import cost, offenders
from helen.pipeline.reports.sla import sla

DAYS = local_days(date(2026, 9, 22), date(2026, 9, 22), "UTC")
BEGIN = DAYS[0].begin / 1e6
CHECKS = 4
ROOT = Path(__file__).parents[3]
ASKING = {"collect", "toArrow", "toPandas", "toLocalIterator"}  # methods of a frame that bring rows to the driver


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Provide the number of rows of each answer that the driver gets from Spark."""
    found: list[int] = []
    as_arrow, collect = DataFrame.toArrow, DataFrame.collect

    def arrow(frame: DataFrame) -> pa.Table:
        answer = as_arrow(frame)
        found.append(answer.num_rows)
        return answer

    def rows(frame: DataFrame) -> list[Any]:
        answer = collect(frame)
        found.append(len(answer))
        return answer

    monkeypatch.setattr(sla_report, "LITTLE_ROWS", -1)  # or the driver itself would do it
    monkeypatch.setattr(DataFrame, "toArrow", arrow)
    monkeypatch.setattr(DataFrame, "collect", rows)
    yield found


def lake_of(new_history: Any, take_in: Any, folder: Path, times: int) -> Lake:
    """Return a lake in which each check flaps, alerts and changes its status `times` times in a day."""
    history = new_history(folder / "helen")
    records = []
    for n in range(times):
        at = BEGIN + 3600 + n * 600
        for check in (f"web{number}/disk" for number in range(CHECKS)):
            for later, bad in ((0, True), (300, False)):
                records.append(history.result(check, at + later, "critical" if bad else "ok"))
                when = at + later
                records.append(history.change("flap", when, check, at=when, on=bad, percent=33.0, status="ok"))
                records.append(history.change("decision", when, check, at=when, action="notify", what="problem"))
    history.segment(*records)
    lake = Lake(folder / "lake")
    take_in(lake, history.state)
    return lake


def reports(spark: Any, lake: Lake) -> dict[str, list[Any]]:
    """Return the rows of each report by its name."""
    series = choose(lake)
    made = {each.__name__: each(spark, lake, DAYS, series, 50) for each in (flapping, offenders, cost)}
    made["sla"] = sla(spark, lake, DAYS, series, "strict", 99.0)
    return {name: list(report.rows) for name, report in made.items()}


def test_as_many_rows_for_a_busy_day_as_for_a_quiet_one(
    spark: Any, new_history: Any, take_in: Any, tmp_path: Path, answers: list[int]
) -> None:
    quiet = reports(spark, lake_of(new_history, take_in, tmp_path / "quiet", 1))
    few = answers[:]
    answers.clear()
    busy = reports(spark, lake_of(new_history, take_in, tmp_path / "busy", 60))
    assert answers == few and max(few) == CHECKS
    assert [row["times"] for row in quiet["flapping"]] == [1] * CHECKS
    assert [(row["times"], row["seconds"]) for row in busy["flapping"]] == [(60, 18_000.0)] * CHECKS
    assert [(row["changes"], row["alerts"]) for row in busy["offenders"]] == [(119, 120)] * CHECKS
    assert [row["runs"] for row in busy["cost"]] == [120 * CHECKS]


def test_a_back_test_counts_in_spark(
    spark: Any, new_history: Any, take_in: Any, tmp_path: Path, answers: list[int]
) -> None:
    """A back test counts in Spark, so that the driver's rows do not grow with the number of changes."""
    collected = []
    for times in (1, 60):
        lake = lake_of(new_history, take_in, tmp_path / str(times), times)
        events = backtest(spark, lake, DAYS[0].begin, DAYS[0].end, [("disk", {"attempts": 2})])
        note = comparison(events, recorded_events(lake, spark, DAYS[0].begin, DAYS[0].end))
        total = summary(events, DAYS[0].begin, DAYS[0].end, [note]).rows[-1]
        collected.append((sorted(answers), total["changes"] >= times * CHECKS))
        answers.clear()
        events.unpersist()
    assert collected[0][0] == collected[1][0] and max(collected[0][0]) <= 4
    assert collected[1][1]


def test_the_last_minutes_are_cut(
    spark: Any, new_history: Any, take_in: Any, tmp_path: Path, answers: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver gets at most MOST_ROWS sums of five minutes and one more, by which a note says that there are more."""
    lake = lake_of(new_history, take_in, tmp_path, 3)
    whole = recent.rollup(spark, lake, DAYS[0], choose(lake))
    assert (len(whole.rows), whole.notes) == (24, [])
    monkeypatch.setattr(recent, "MOST_ROWS", 24)
    assert recent.rollup(spark, lake, DAYS[0], choose(lake)) == whole
    monkeypatch.setattr(recent, "MOST_ROWS", 7)
    cut = recent.rollup(spark, lake, DAYS[0], choose(lake))
    assert answers == [24, 24, 8]
    assert (list(cut.rows), cut.notes) == (
        whole.rows[:7],
        ["Only 7 rows of more, of the checks known longest: `helen pipeline sql --limit 0` has all, in m5."],
    )


def test_the_docs_say_what_bounds_each_answer() -> None:
    """The table in docs/pipeline.rst names each module that asks Spark for rows, with the number of its calls."""
    folder = ROOT / "helen" / "pipeline"
    asked = {
        str(path.relative_to(folder)): count
        for path in sorted(folder.rglob("*.py"))
        if (count := sum(map(_is_asking, ast.walk(ast.parse(path.read_text())))))
    }
    table = (ROOT / "docs" / "pipeline.rst").read_text().partition("**Bounds of answers.**")[2].partition("**SQL.**")[0]
    told = {name: int(times) for name, times in re.findall(r"^``([a-z_/]+\.py)`` +(\d+) ", table, re.MULTILINE)}
    assert told == asked


def _is_asking(node: ast.AST) -> bool:
    """Return if a node asks a frame for rows; `gc.collect` does not."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ASKING):
        return False
    return not (isinstance(node.func.value, ast.Name) and node.func.value.id == "gc")
