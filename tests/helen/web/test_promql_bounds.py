"""Tests that a query that would not end, or take all memory, is refused over HTTP, and the next one is answered."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pyarrow as pa
import pytest
from helen_running import Running
from web_client import Answer, Web

from helen.pipeline.lake.lake import Lake

pytestmark = pytest.mark.integration

BEGIN = 1_790_000_400 - 1_790_000_400 % 86_400
MANY, SOME = 1_000_000, 400
CENTURY = 100 * 365 * 86_400
FORM = "application/x-www-form-urlencoded"


class Stage:
    """Run Helen with a lake of a million series of one metric, of one bucket each, and 400 of another."""

    def __init__(self, folder: Path) -> None:
        (folder / "state").mkdir(mode=0o700)
        lake = Lake(folder / "state" / "history" / "lake")
        names = pa.table([pa.array([0], pa.int32()), ["web-1"], ["disk"], ["disk"]],
                         schema=lake.tables["series"].columns)  # fmt: skip
        lake.lock()
        lake.publish("series", lake.stage_rows("series", names), {"names": 1})
        lake.publish("m5", lake.stage_rows("m5", buckets(lake)), {"sums": 1})
        lake.unlock()
        self.helen = Running(folder).up()
        self.web = Web(self.helen)

    def ask(self, path: str, **given: Any) -> Answer:
        return self.web.ask("POST", f"/api/v1/{path}", urlencode(given, doseq=True).encode(), content_type=FORM)

    def range(self, query: str, step: Any = 300, **given: Any) -> Answer:
        span = {"start": BEGIN, "end": BEGIN + 3_600, "resolution": "m5"}
        return self.ask("query_range", **span | {"query": query, "step": step} | given)


def buckets(lake: Lake) -> pa.Table:
    """Return rows of five minutes, all in the first bucket of the day."""
    words = [f'many{{n="{number}"}}' for number in range(MANY)] + [
        f'some{{n="{"a" * number}"}}' for number in range(SOME)
    ]
    count, begin = len(words), datetime.fromtimestamp(BEGIN, UTC)
    told = {
        "series": np.zeros(count, np.int32), "bucket": [begin] * count, "metric": words, "unit": [""] * count,
        "kind": ["gauge"] * count, "last_at": [begin] * count, "first_at": [begin] * count,
        "day": [begin.date()] * count,
    }  # fmt: skip
    figures = np.ones(count)
    columns = lake.tables["m5"].arrow
    arrays = {column.name: pa.array(told.get(column.name, figures)).cast(column.type) for column in columns}
    return pa.table(arrays, schema=columns)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    made = Stage(tmp_path_factory.mktemp("bounds"))
    yield made
    made.helen.end()


def refused(answer: Answer, status: int, said: str = "") -> None:
    """Check that an answer is a refusal in Prometheus' form with this sentence."""
    assert (answer.status, answer.json["status"]) == (status, "error"), answer.json
    assert answer.json["errorType"] == {400: "bad_data", 422: "execution"}[status]
    assert said in answer.json["error"], answer.json


def values(answer: Answer) -> list[str]:
    assert answer.status == 200, answer.raw[:500]
    return [value for each in answer.json["data"]["result"] for _, value in each["values"]]


@pytest.mark.parametrize("query", ["many", "sum(rate(many[1h]))", '{agent="web-1"}', 'count(many{n!="5"})'])
def test_a_million_series(stage: Stage, query: str) -> None:
    """A query that fits a million series is refused while they are counted, and the next query is answered."""
    refused(stage.range(query), 422, "more than 10000 series fit: pick fewer")
    assert values(stage.range("count(some)", end=BEGIN)) == [str(SOME)]


def test_lists_of_a_million_series(stage: Stage) -> None:
    """Lists of a million series or of their labels are refused."""
    span = {"start": BEGIN, "end": BEGIN + 3_600, "match[]": "many"}
    for path in ("series", "labels"):
        refused(stage.ask(path, **span), 422, "more than 10000 series fit")
    answer = stage.web.ask("GET", f"/api/v1/label/n/values?{urlencode(span)}")
    refused(answer, 422, "more than 10000 series fit")


def test_many_steps_of_many_series(stage: Stage) -> None:
    """Many steps of many series are refused before memory is taken for them."""
    refused(stage.range("some", step=0.33), 422, "400 series at 10910 steps are more than 4000000 values")
    refused(stage.range("some", step=0.3), 400, "exceeded maximum resolution of 11000 points")


BOMBS = ["(a+)+b", "(a|aa)+b", "(a*)*b", "(.*.*)*b", "(?:a?){200}a{200}b", "([a-z]+)*1"]


@pytest.mark.parametrize("bomb", BOMBS)
def test_an_expression_that_takes_others_for_ever(stage: Stage, bomb: str) -> None:
    """A regular expression that backtracks for ever fits no label or is refused as too slow."""
    answer = stage.range(f'count(some{{n=~"{bomb}"}})')
    if answer.status == 200:
        assert values(answer) == []
    else:
        refused(answer, 422, "the expressions of the labels take too long: use shorter ones, or fewer of them")


def test_an_expression_beyond_the_budget(stage: Stage) -> None:
    """A regular expression that is too slow or grows too large is refused, with the reason."""
    slow = "(?:a?){200}" * 3 + "b"
    refused(stage.range(f'some{{n=~"{slow}"}}'), 422, "the expressions of the labels take too long")
    steps = "it comes to more than 2000 steps"
    refused(stage.range(f'some{{n=~"{slow}{slow}"}}'), 400, steps)
    refused(stage.range('some{n=~"(?:a?){900}b"}'), 400, "can't be used: a repeat of more than 200")
    refused(stage.range('some{n=~"(((a{200}){200}){200})b"}'), 400)


ENDLESS = {
    "signs": "+".join(["1"] * 2_600), "selectors": " or ".join(["some"] * 21), "brackets": "(" * 101 + "1" + ")" * 101,
    "calls": "abs(" * 101 + "some" + ")" * 101, "minus": "-" * 401 + "1", "no end": "sum(some", "quotes": 'some{n="',
    "braces": "{" * 4_000, "ranges": "some" + "[5m]" * 1_000, "letters": "a" * 60_000,
}  # fmt: skip


@pytest.mark.parametrize("query", ENDLESS.values(), ids=ENDLESS)
def test_a_question_without_an_end(stage: Stage, query: str) -> None:
    """A query that is endless or no PromQL is refused with 400, and the next one is answered."""
    refused(stage.range(query), 400)
    assert values(stage.range("1", step=3_600)) == ["1", "1"]


def test_a_century(stage: Stage) -> None:
    """A range of a hundred years has its steps, and a window or an offset of that length is refused."""
    span = {"start": 0, "end": CENTURY, "resolution": ""}
    assert values(stage.range("count(some)", step=86_400 * 30, **span)) in ([], [str(SOME)])
    refused(stage.range("count(some)", step="1d", **span), 400, "exceeded maximum resolution of 11000 points")
    refused(stage.range("count_over_time(some[100y])"), 400, "longer than 10 years")
    refused(stage.range("some offset 100y"), 400, "10 years")
    assert json.loads(stage.ask("series", **{"match[]": "some", "start": 0, "end": CENTURY}).raw)["status"] == "success"
