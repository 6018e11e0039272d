"""Tests the history that pages get of a lake: sums, raw results, pages, and refusals."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.schema import TABLES
from helen.pipeline.reports import check_history
from helen.pipeline.reports.check_history import (
    BadRequest,
    Cursor,
    HistoryRequest,
    LakeUnreadable,
    NotInLake,
    TooMuch,
    read_history,
)
from helen.web.lake_reads import read_lake
from helen.web.problems import Problem
from helen.web.routes.history import read_fields

T = 1_790_035_200.0  # 2026-09-22 00:00:00 UTC
US = 1_000_000


@pytest.fixture(scope="module")
def written(take_in: Any, new_history: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write twenty minutes of web1/disk, a result each minute, in segments that split a bucket, and another check."""
    folder = tmp_path_factory.mktemp("written")
    helen = new_history(folder / "helen")
    for first in range(0, 20, 4):
        helen.segment(
            *(helen.result("web1/disk", T + n * 60, "critical" if n == 7 else "ok", took_ms=float(n), metrics=[
                {"name": "used", "value": 50.0 + n, "unit": "%", "labels": {"path": "/"}},
                {"name": "sent", "value": (n % 8) * 10.0, "unit": "B", "kind": "counter"}])
              for n in range(first, first + 4)),
            helen.result("web2/load", T + first * 60, took_ms=1.0),
        )  # fmt: skip
    take_in(Lake(folder / "lake"), helen.state, most=1)
    return folder


@pytest.fixture
def lake(written: Path, tmp_path: Path) -> Lake:
    """Provide a copy of the lake that a test may change."""
    shutil.copytree(written / "lake", tmp_path / "lake")
    return Lake(tmp_path / "lake")


def ask(lake: Lake, agent: str = "web1", check: str = "disk", begin: float = T, end: float = T + 1200,
        **more: Any) -> dict[str, Any]:  # fmt: skip
    words = {"resolution": None, "limit": None, "cursor": None} | more
    span = {"begin": round(begin * US), "end": round(end * US)}
    return read_history(lake.folder, HistoryRequest.of(agent=agent, check_id=check, **span, **words))


def metric(answer: dict[str, Any], name: str) -> list[dict[str, Any]]:
    (found,) = [each["points"] for each in answer["metrics"] if each["metric"] == name]
    return list(found)


def test_five_minutes_are_added_up_from_all_segments(lake: Lake) -> None:
    """Five minutes are added up from all segments to one point for each bucket and metric, and a counter has a rate."""
    answer = ask(lake)
    assert {name: answer[name] for name in ("agent", "check", "resolution", "from", "to", "step", "next")} == {
        "agent": "web1", "check": "disk", "resolution": "m5", "from": T, "to": T + 1200, "step": 300, "next": None,
    }  # fmt: skip
    assert [(each["metric"], each["unit"], each["kind"]) for each in answer["metrics"]] == [
        ("", "ms", "gauge"), ("sent", "B", "counter"), ('used{path="/"}', "%", "gauge"),
    ]  # fmt: skip
    second = metric(answer, "")[1]
    assert second == {"at": int(T) + 300, "n": 5, "ok": 4, "warning": 0, "critical": 1, "unknown": 0, "min": 5.0,
                      "max": 9.0, "last": 9.0, "mean": 7.0, "rate": None, "cpu_ms": None,
                      "peak_kib": None}  # fmt: skip
    assert [(point["mean"], point["last"]) for point in metric(answer, 'used{path="/"}')] == [
        (52.0, 54.0), (57.0, 59.0), (62.0, 64.0), (67.0, 69.0),
    ]  # fmt: skip
    # 50, 60, 70, 0, 10 after a 40: it gained 10 + 10 + 10 + 0 (began again at 0) + 10 in five minutes
    assert [point["rate"] for point in metric(answer, "sent")][:2] == [40 / 240, 40 / 300]


def test_what_is_asked_for_is_all_that_comes(lake: Lake) -> None:
    """Times, metrics and the check select the points, and a bucket that begins before `from` is whole."""
    answer = ask(lake, begin=T + 601, end=T + 900, metrics=["sent"])
    assert [(each["metric"], [point["at"] for point in each["points"]]) for each in answer["metrics"]] == [
        ("sent", [int(T) + 600]),
    ]  # fmt: skip
    assert [point["n"] for point in metric(ask(lake, "web2", "load"), "")] == [2, 1, 1, 1]
    assert ask(lake, begin=T + 86_400, end=T + 90_000)["metrics"] == []


@pytest.mark.parametrize("limit", [1, 3, 4, 7, 100])
def test_pages_make_the_whole(lake: Lake, limit: int) -> None:
    """Pages of any size together make the whole answer."""
    whole, seen, cursor = ask(lake, metrics=["sent"]), list[Any](), None
    while True:
        page = ask(lake, metrics=["sent"], limit=limit, cursor=cursor)
        seen += metric(page, "sent")
        cursor = page["next"]
        if cursor is None:
            break
    assert seen == metric(whole, "sent")


def test_raw_results_in_pages(history: Any, take_in: Any, tmp_path: Path) -> None:
    """Raw results come in pages in order of time, asked ones too, and several of one microsecond come once each."""
    times = [0, 60, 60, 60, 60, 90_000, 90_001]
    for at in times:
        history.segment(history.result("web1/disk", T + at, "warning", summary=f"at {at}", origin=int(at == 90_000),
                                       metrics=[{"name": "a", "value": 1.0}, {"name": "b", "value": 2.0}]))  # fmt: skip
    lake = Lake(tmp_path / "lake")
    take_in(lake, history.state)
    for limit in (1, 2, 3, 10):
        seen, cursor, turns = list[Any](), None, 0
        while turns == 0 or cursor is not None:
            page = ask(lake, end=T + 100_000, resolution="raw", metrics=["b"], limit=limit, cursor=cursor)
            seen += page["results"]
            cursor, turns = page["next"], turns + 1
            assert turns < 10
        assert [(row["time"] - T, row["sequence"]) for row in seen] == [(at, n) for n, at in enumerate(times, 1)]
    assert seen[5] == {
        "time": T + 90_000, "received": T + 90_000, "started": None, "status": "warning", "origin": "asked",
        "took_ms": None, "cpu_ms": None, "peak_kib": None, "reason": None, "code": None, "spool": "spool-web1",
        "sequence": 6, "summary": "at 90000",
        "metrics": [{"name": "b", "value": 2.0, "unit": "", "kind": "gauge", "labels": {}, "warn": None, "crit": None,
                     "min": None, "max": None}],
    }  # fmt: skip


def hours(lake: Lake, *rows: tuple[float, int, int]) -> None:
    """Publish rows of h1 for series 0, each with its time, number of results and version."""
    nothing = dict.fromkeys(TABLES["h1"].columns.names)
    made = [
        {**nothing, "series": 0, "bucket": datetime.fromtimestamp(at, UTC), "metric": "", "unit": "ms", "kind": "gauge",
         "n": n, "version": version, "day": datetime.fromtimestamp(at, UTC).date()} for at, n, version in rows
    ]  # fmt: skip
    lake.lock()
    lake.publish("h1", lake.stage_rows("h1", pa.Table.from_pylist(made, schema=TABLES["h1"].arrow)), {})
    lake.unlock()


def test_the_span_chooses_the_resolution(lake: Lake) -> None:
    """The span chooses the resolution, and a coarser one if only that reaches back far enough."""
    assert ask(lake, end=T + 2 * 86_400)["resolution"] == "m5"
    assert ask(lake, end=T + 3 * 86_400)["resolution"] == "h1"
    assert ask(lake, end=T + 90 * 86_400)["resolution"] == "d1"
    assert ask(lake, end=T + 90 * 86_400, resolution="m5")["resolution"] == "m5"
    assert ask(lake, begin=T - 86_400, end=T)["resolution"] == "m5"
    hours(lake, (T - 86_400, 60, 0), (T - 86_400, 1, 5), (T - 86_400 * 40, 7, 0))  # late rows add up
    answer = ask(lake, begin=T - 86_400, end=T)
    assert (answer["resolution"], [(point["at"], point["n"]) for point in metric(answer, "")]) == (
        "h1", [(int(T) - 86_400, 61)],
    )  # fmt: skip
    found = metric(ask(lake, begin=T - 50 * 86_400, end=T + 1200, resolution="h1"), "")
    assert [point["n"] for point in found] == [7, 61]


def test_what_cannot_be_answered(lake: Lake, history: Any, take_in: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that cannot be answered raises an error with a next step."""
    with pytest.raises(NotInLake, match="the lake knows no web1/cpu: a new check is there some 20 s after"):
        ask(lake, check="cpu")
    with pytest.raises(BadRequest, match="is one of m5, h1, d1, raw"):
        ask(lake, resolution="m1")
    for cursor in ("m5.1", "x.1.2.3", "m5.1.2.-3", "m5.²", "raw.1.2.1234567890123456789"):
        with pytest.raises(BadRequest, match="`cursor` is the `next` of the answer before"):
            ask(lake, cursor=cursor)
    many = [{"name": f"m{n}", "value": 1.0} for n in range(60)]
    history.segment(history.result("web3/many", T, metrics=many))
    take_in(lake, history.state)
    with pytest.raises(TooMuch, match="has more than 50 metrics: ask for some of them with `metric`, such as m"):
        ask(lake, "web3", "many")
    assert metric(ask(lake, "web3", "many", metrics=["m7", "m9"]), "m9")[0]["n"] == 1
    with pytest.raises(TooMuch, match="one bucket has more than 1 metrics"):
        ask(lake, "web3", "many", metrics=["m7", "m9"], limit=1)
    monkeypatch.setattr(check_history, "MOST_BYTES", 10)
    with pytest.raises(TooMuch, match="too big for one answer: ask for a shorter time"):
        ask(lake)
    assert str(Cursor.parse("raw.17.2.3")) == "raw.17.2.3"


def test_a_page_is_of_one_version(lake: Lake, history: Any, take_in: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer is of one version of the lake, and files that went away meanwhile are looked up again."""
    listed, files = [], Lake.files

    def published_meanwhile(self: Lake, table: str, *more: Any) -> Any:
        found = files(self, table, *more)
        if table == "m5" and not listed:
            listed.append(found)
            self.lock()  # all of it replaced, and swept at once, behind the reader's back
            whole = self.open("m5").to_pyarrow_table()  # type: ignore[union-attr]
            self.publish("m5", self.stage_rows("m5", whole), {}, found, fresh=False)
            self.sweep("m5", 0)
            self.unlock()
        return found

    before = ask(lake)
    monkeypatch.setattr(Lake, "files", published_meanwhile)
    assert ask(lake, resolution="m5") == before
    for file in files(lake, "m5"):
        (lake.path("m5") / file.path).unlink()
    with pytest.raises(LakeUnreadable, match=r"a file of the lake is missing .*`helen pipeline doctor`"):
        ask(lake)


def fields(**given: str | list[str]) -> dict[str, Any]:
    texts = {name.rstrip("_"): [value] if isinstance(value, str) else value for name, value in given.items()}
    return read_fields({name.encode(): [each.encode() for each in value] for name, value in texts.items()}, T + 1200)


def test_over_http(lake: Lake, tmp_path: Path) -> None:
    """A request over HTTP gives JSON, and a missing or damaged lake gives a problem with a sentence."""
    answer = json.loads(read_lake(lake.folder, fields(agent="web1", check="disk", from_="20m", metric="sent")))
    assert [point["n"] for point in metric(answer, "sent")] == [5, 5, 5, 5]
    raw = json.loads(read_lake(lake.folder, fields(agent="web1", check="disk", from_=str(T), resolution="raw")))
    assert len(raw["results"]) == 20
    refused = {
        409: (tmp_path / "nowhere", fields(agent="web1", check="disk"), "yet: `helen pipeline run --state DIR` makes"),
        404: (lake.folder, fields(agent="web7", check="disk"), "the lake knows no web7/disk"),
        400: (lake.folder, fields(agent="web1", check="disk", resolution="s1"), "is one of m5, h1, d1, raw"),
    }
    for status, (folder, given, said) in refused.items():
        with pytest.raises(Problem, match=said) as caught:
            read_lake(folder, given)
        assert caught.value.status == status
    shutil.rmtree(lake.path("m5") / "_delta_log")
    (lake.path("m5") / "_delta_log").mkdir()
    (lake.path("m5") / "_delta_log" / f"{0:020}.json").write_text("{half")
    with pytest.raises(Problem, match="can't be read") as caught:
        read_lake(lake.folder, fields(agent="web1", check="disk"))
    assert caught.value.status == 503


def test_lots_of_days(lake: Lake) -> None:
    """A request from 1970 to the end of time is answered from the days that exist."""
    answer = ask(lake, begin=0, end=253_402_300_800, resolution="m5")
    assert sum(point["n"] for point in metric(answer, "")) == 20
    days = [date(2026, 9, 22) - timedelta(days=n) for n in range(40)]
    hours(lake, *((datetime(d.year, d.month, d.day, tzinfo=UTC).timestamp(), 1, 0) for d in days))
    found = metric(ask(lake, begin=T - 39 * 86_400, end=T + 1, resolution="h1"), "")
    assert [point["n"] for point in found] == [1] * 40
