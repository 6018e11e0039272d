"""Tests questions that the lake answers: single results are those of the segments, and buckets add up to the same
figures.
"""

from __future__ import annotations

import json
import math
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import plainly
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from attrs import frozen
from written_history import Written

from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.levels import H1
from helen.pipeline.rollup.arrow import merge
from helen.promql.archive import Archive, Facts
from helen.promql.errors import BadData
from helen.promql.parameters import Parameters
from helen.promql.questions import Question
from helen.promql.wire import Metric, Unsealed

BEGIN = 1_790_000_400 - 1_790_000_400 % 3_600  # a whole hour
HOURS = 5
SPAN = {"start": BEGIN + 3_600, "end": BEGIN + HOURS * 3_600, "step": 900}


@frozen
class Told:
    """Holds a history of which the lake has all but the newest segment."""

    state: Path
    unsealed: tuple[Unsealed, ...] = ()

    def archive(self, has_lake: bool = True) -> Archive:
        lake = self.state / "history" / ("lake" if has_lake else "none")
        return Archive(Facts(self.state, lake, {}, lambda name: name != "hidden", self.unsealed))

    def ask(self, path: str, has_lake: bool = True, **given: Any) -> Any:
        texts = {name: [str(value)] for name, value in given.items()}
        question = Question(Parameters(texts, BEGIN * 1_000), self.archive(has_lake))
        answer = json.loads(question.answer(path)[1])
        assert answer["status"] == "success", answer
        return answer["data"]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    state = tmp_path_factory.mktemp("lake") / "helen"
    written, dice, records = Written(state), random.Random(3), []
    totals = {"web-1": 1e6, "web-2": 2e6, "hidden": 3e6}
    for at in range(BEGIN + 5, BEGIN + HOURS * 3_600 - 30, 30):
        for agent in totals:
            total = totals[agent] = (
                dice.uniform(0, 99) if dice.random() < 0.03 else totals[agent] + dice.uniform(0, 500)
            )
            metrics = [{"name": "used", "value": dice.gauss(50, 9), "unit": "%", "labels": {"path": '/a"b\\c,d="{}'}},
                       {"name": "sent", "value": total, "unit": "B", "kind": "counter"},
                       {"name": "odd {name}", "value": 1.0}]  # fmt: skip
            status = dice.choice(("ok", "ok", "warning", "critical", "unknown"))
            records.append(written.result(f"{agent}/disk", at + dice.random(), status, metrics=metrics))
    for first in range(0, len(records), 600):
        written.segment(*records[first : first + 600])
    plainly.take_all(Lake(state / "history" / "lake"), state)
    late = [
        Unsealed(
            10**9, "web-1", "disk", BEGIN + HOURS * 3_600 - 20.5, None, None, 2, [Metric("used", 7.5, "", "gauge", [])]
        )
    ]
    yield Told(state, tuple(late))


RAW = [
    "used",
    "sum by (agent) (rate(sent[10m]))",
    "helen_state",
    "avg_over_time(helen_ok[1h])",
    '{__name__="odd {name}"}',
    'used{path=~"/a.*"}',
    "last_over_time(used[20m] offset 1h)",
]
BUCKETS = [
    "avg_over_time(used[15m])",
    "min_over_time(used[30m])",
    "max_over_time(used[30m])",
    "sum_over_time(used[15m])",
    "count_over_time(used[45m])",
    "stddev_over_time(used[1h])",
    "stdvar_over_time(used[1h])",
    "increase(sent[30m])",
    "rate(sent[1h])",
    "avg_over_time(helen_ok[1h])",
    "sum_over_time(helen_state[1h])",
    "max_over_time(helen_state[15m])",
    "min_over_time(helen_ok[15m])",
    "count_over_time(helen_ok[15m])",
    "stddev_over_time(helen_state[30m])",
    "sum(increase(sent[1h]))",
    "last_over_time(sent[30m])",
]


@pytest.mark.parametrize("question", RAW)
def test_single_results_are_those_of_the_segments(told: Told, question: str) -> None:
    """Single results are the same to the last bit; those that are in no segment are there as well."""
    given = {"query": question, **SPAN, "resolution": "raw"}
    assert told.ask("query_range", **given) == told.ask("query_range", has_lake=False, **given)
    assert told.ask("query_range", **given)["result"], "nothing was compared"


@pytest.mark.parametrize("question", BUCKETS)
def test_buckets_add_up_to_what_results_say(told: Told, question: str) -> None:
    """Buckets have the sums of results in windows that begin and end with them, so nothing is lost by summing up."""
    given = {"query": question, **SPAN, "end": BEGIN + (HOURS - 1) * 3_600}
    ours = told.ask("query_range", **given, resolution="m5")["result"]
    theirs = told.ask("query_range", has_lake=False, **given, resolution="raw")["result"]
    assert [each["metric"] for each in ours] == [each["metric"] for each in theirs] != []
    for one, other in zip(ours, theirs, strict=True):
        for (at, value), (when, expected) in zip(one["values"], other["values"], strict=True):
            assert at == when and math.isclose(float(value), float(expected), rel_tol=1e-9), (at, value, expected)


@pytest.fixture(scope="module", params=["older", "added"])
def hourly(told: Told, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Told:
    """Return the same history with a table of hours, each of which has two rows.

    In a lake of an older format the first of them is wrong, and counts no more; in one of this format they add up.
    """
    state = tmp_path_factory.mktemp("hours") / "helen"
    shutil.copytree(told.state, state)
    lake = Lake(state / "history" / "lake")
    sums = lake.open("m5")
    assert sums is not None
    given = sums.to_pyarrow_table()
    rows = merge(given, H1)
    wrong = rows.set_column(rows.schema.get_field_index("sum"), "sum", pa.array([0.0] * rows.num_rows))
    is_late = pc.equal(pc.bit_wise_and(pc.divide(given["bucket"].cast(pa.int64()), 300_000_000), 1), 1)
    halves = [merge(given.filter(chosen), H1) for chosen in (is_late, pc.invert(is_late))]
    lake.lock()
    for number, table in enumerate([wrong, rows] if request.param == "older" else halves, 1):
        versioned = table.append_column("version", pa.array([number] * table.num_rows, pa.int64()))
        columns = lake.tables["h1"].arrow
        lake.publish("h1", lake.stage_rows("h1", versioned.select(columns.names).cast(columns)), {"hours": number})
    if request.param == "older" and (hours := lake.open("h1")) is not None:
        hours.alter.set_table_description("lake of Helen, format 2")
    lake.unlock()
    return Told(state)


@pytest.mark.parametrize("question", [
    "avg_over_time(used[2h])", "sum_over_time(used[2h])", "max_over_time(helen_state[2h])", "increase(sent[3h])",
    "avg_over_time(helen_ok[2h])", "count_over_time(used[2h])",
])  # fmt: skip
def test_each_result_of_an_hour_counts_once(hourly: Told, question: str) -> None:
    """A result counts once although hours are made from five minutes and late results change them."""
    given = {"query": question, "start": BEGIN + 3 * 3_600, "end": BEGIN + 4 * 3_600, "step": 3_600}
    ours = hourly.ask("query_range", **given, resolution="h1")["result"]
    theirs = hourly.ask("query_range", has_lake=False, **given, resolution="raw")["result"]
    assert [each["metric"] for each in ours] == [each["metric"] for each in theirs] != []
    for one, other in zip(ours, theirs, strict=True):
        for (at, value), (when, expected) in zip(one["values"], other["values"], strict=True):
            assert at == when and math.isclose(float(value), float(expected), rel_tol=1e-9), (at, value, expected)
    end, day = (BEGIN + HOURS * 3_600) * 1_000, 86_400_000
    assert hourly.archive().resolution(end - 3 * day, end) == "h1"


def test_the_newest_result_is_in_no_segment(told: Told) -> None:
    """The newest result is seen at once, but not by those who may not see its agent."""
    at = BEGIN + HOURS * 3_600 - 20
    found = told.ask("query", query='used{agent="web-1"}', time=at)["result"]
    assert {each["metric"].get("path", ""): each["value"][1] for each in found}[""] == "7.5"
    assert told.ask("query", query='{agent="hidden"}', time=at)["result"] == []
    values = told.ask("label/agent/values", start=BEGIN, end=at)
    assert values == ["web-1", "web-2"]


def test_lists_come_from_lake_and_journal(told: Told) -> None:
    """Names with odd letters and labels with quotes are those that the check has given."""
    span = {"start": BEGIN, "end": BEGIN + HOURS * 3_600}
    for has_lake in (True, False):
        assert told.ask("label/__name__/values", has_lake=has_lake, **span) == [
            "helen_ok", "helen_state", "odd {name}", "sent", "used"
        ]  # fmt: skip
        assert told.ask("label/path/values", has_lake=has_lake, **span) == ['/a"b\\c,d="{}']
        said = told.ask("metadata", has_lake=has_lake, **span, metric="sent")
        assert said == {"sent": [{"type": "counter", "help": "", "unit": "B"}]}
    assert told.ask("series", **span, **{"match[]": "sent"}) == [
        {"__name__": "sent", "agent": agent, "check": "disk"} for agent in ("web-1", "web-2")
    ]


def test_the_span_and_the_ranges_choose_the_resolution(told: Told) -> None:
    """The resolution is that of pages, but no bucket is longer than half of a range; a missing one is refused."""
    archive, hour, day = told.archive(), 3_600_000, 86_400_000
    end = (BEGIN + HOURS * 3_600) * 1_000
    spans = {6 * hour: "raw", 7 * hour: "m5", 2 * day: "m5", 3 * day: "m5", 61 * day: "m5"}
    assert {span: archive.resolution(end - span, end) for span in spans} == spans  # h1 and d1 are empty yet
    assert archive.resolution(end - 2 * day, end, shortest=9 * 60_000) == "raw"
    assert archive.resolution(end - 2 * day, end, shortest=10 * 60_000) == "m5"
    assert archive.resolution(end - 900 * day, end, shortest=2 * day) == "m5"
    assert told.archive(has_lake=False).resolution(end - 900 * day, end) == "raw"
    with pytest.raises(BadData, match="`resolution` is one of raw, m5, h1, d1"):
        archive.resolution(0, 1, given="m1")
