"""Tests the data source `helen`: the segments of a batch, the content of a row, and Helen's `committed`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from helen.pipeline.ingest.histories import CHANGES, RESULTS, History, open_history
from helen.pipeline.ingest.offsets import EVERYTHING, Options, initial, latest, ranges
from helen.pipeline.lake.errors import PipelineError

T = 1_790_000_000.0


def spans(options: Options, start: Any, end: Any) -> list[tuple[int, int, int]]:
    return [(part.helen, part.first, part.last) for part in ranges(options, start, end)]


def options(*written: Any, **more: Any) -> Options:
    return Options({"histories": json.dumps([str(each.folder) for each in written]), **more})


def one(helen: Any, count: int) -> None:
    for _ in range(count):
        helen.segment(helen.result("web1/disk", T), helen.change("link", T, "web1", up=True))


def test_a_batch_is_what_is_new_within_the_limit(history: Any) -> None:
    """A batch has the new segments up to the limit, in tasks of perTask; nothing new gives the same offset."""
    given = options(history, maxsegments="4", pertask="2")
    start = initial(given)
    assert start == {"0": {"seg": 0, "chg": 0}}
    assert latest(given, start, 4) == start
    one(history, 5)
    first = latest(given, start, 4)
    assert first == {"0": {"seg": 4, "chg": 4}}
    assert spans(given, start, first) == [(0, 1, 2), (0, 3, 4)]
    rest = latest(given, first, 4)
    assert rest == {"0": {"seg": 5, "chg": 5}}
    assert spans(given, first, rest) == [(0, 5, 5)]
    assert latest(given, rest, 4) == rest
    assert latest(given, start, EVERYTHING) == rest
    assert latest(given, start, EVERYTHING, first) == first


@pytest.mark.parametrize(
    ("cores", "count", "sizes"),
    [
        (0, 12, [5, 5, 2]), (2, 3, [3]), (2, 6, [3, 3]), (2, 12, [6, 6]), (4, 12, [4, 4, 4]), (2, 29, [15, 14]),
        (2, 31, [8, 8, 8, 7]), (1, 16, [8, 8]), (4, 50, [13, 13, 13, 11]), (200, 12, [4, 4, 4]),
    ],
)  # fmt: skip
def test_tasks_are_as_many_as_cores(history: Any, cores: int, count: int, sizes: list[int]) -> None:
    """Tasks are even, of five segments or more where there are so many, and of fifteen at most."""
    for _ in range(count):
        history.segment(history.result("web1/disk", T))
    given = options(history, cores=str(cores))
    end = latest(given, initial(given), EVERYTHING)
    assert [last - first + 1 for _, first, last in spans(given, initial(given), end)] == sizes


def test_each_helen_has_her_share(histories: Any) -> None:
    """Each Helen has its share of a batch, so that a long backlog does not delay the others."""
    one(histories[0], 5)
    one(histories[1], 1)
    given = options(*histories, helens="[7, 9]")
    end = latest(given, initial(given), 4)
    assert end == {"7": {"seg": 2, "chg": 2}, "9": {"seg": 1, "chg": 1}}
    assert spans(given, initial(given), end) == [(7, 1, 2), (9, 1, 1)]


def test_a_stream_goes_on_behind_segments_that_are_gone(history: Any) -> None:
    """A stream begins with the first segment that is left, since Helen may have deleted older ones."""
    one(history, 5)
    for number in (1, 2, 3):
        History(history.folder).path(RESULTS, number).unlink()
    given = options(history)
    end = latest(given, initial(given), EVERYTHING)
    assert end == {"0": {"seg": 5, "chg": 5}}
    assert spans(given, initial(given), end) == [(0, 4, 5)]


def test_helen_is_told_and_never_told_less(history: Any) -> None:
    """`committed` and `committed-changes` only rise, and an unreadable one counts as 0."""
    told = History(history.folder)
    told.commit(RESULTS, 7)
    told.commit(CHANGES, 3)
    told.commit(RESULTS, 5)
    assert (history.folder / "committed").read_text() == "7\n"
    assert (history.folder / "committed-changes").read_text() == "3\n"
    (history.folder / "committed").write_text("seven")
    assert told.committed(RESULTS) == 0


def test_a_history_keeps_its_name(history: Any, tmp_path: Path) -> None:
    """A history keeps its name when moved, and a folder without one is refused with the two places tried."""
    name = open_history(history.state).identity()
    history.folder.rename(tmp_path / "moved")
    assert open_history(tmp_path / "moved").identity() == name
    with pytest.raises(PipelineError, match=r"nowhere/history/segments nor .*nowhere/segments exists. Give the state"):
        open_history(tmp_path / "nowhere")


def test_rows_come_through_as_they_were_stored(spark: Any, history: Any) -> None:
    """Rows come through with every column as stored, and their Helen and segment in front."""
    metric = {"name": "used", "value": 91.5, "unit": "%", "labels": {"path": "/"}, "warn": "80", "max": 100.0}
    history.segment(
        history.result("web1/disk", T, "warning", summary="91 %", metrics=[metric], started=T - 1, took_ms=3.5,
                       cpu_ms=1.5, peak_kib=9.0, code="9f", truncated={"output": 9}, clock_offset_ms=-2500),
        history.result("web2/load", T + 1, origin=1, blob=b"\xff"),
    )  # fmt: skip
    frame = spark.read.format("helen").load(str(history.folder))
    first, second = (row.asDict(True) for row in frame.orderBy("at").collect())
    times = {name: first.pop(name).timestamp() for name in ("received", "started")}
    assert times == {"received": T, "started": T - 1}
    raw = json.loads(first.pop("raw"))
    assert raw["metrics"] == [metric]
    assert first == {
        "helen": 0, "segment": 1, "at": 1, "series_id": 0, "took_ms": 3.5, "cpu_ms": 1.5, "peak_kib": 9.0, "status": 1,
        "origin": 0, "reason": None, "code": "9f", "spool": "spool-web1", "sequence": 1, "summary": "91 %",
        "metrics": [{"name": "used", "value": 91.5, "unit": "%", "kind": "gauge", "labels": {"path": "/"},
                     "warn": "80", "crit": None, "min": None, "max": 100.0}], "truncated": {"output": 9},
        "clock_offset_ms": -2500,
    }  # fmt: skip
    assert (second["at"], second["series_id"], second["origin"], second["reason"]) == (2, 1, 1, "opaque-result")
    assert bytes(second["raw"]) == b"\xff"


def test_the_source_equals_spark_own_reader(spark: Any, history: Any) -> None:
    """The data source finds the same rows as Spark's own Parquet reader."""
    for at in range(3):
        history.segment(*(history.result(f"web{n}/disk", T + at, "critical", took_ms=float(n)) for n in range(40)))
    ours = spark.read.format("helen").option("perTask", 1).load(str(history.folder)).drop("helen", "segment")
    theirs = spark.read.parquet(str(history.segments / "seg-*.parquet"))
    columns = [name for name in theirs.columns if name not in ("metrics", "truncated")]
    assert ours.columns == theirs.columns
    assert ours.count() == 120
    assert ours.select(columns).exceptAll(theirs.select(columns)).count() == 0


def test_a_stream_reads_each_row_once_and_commits(spark: Any, history: Any, tmp_path: Path) -> None:
    """A stream run twice from one checkpoint reads each row once, and commits each batch when the next begins."""
    seen: list[list[int]] = []

    def run() -> None:
        stream = spark.readStream.format("helen").option("maxSegments", 2).option("commit", "true")
        query = (
            stream.load(str(history.folder)).writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
            .foreachBatch(lambda frame, number: seen.append(sorted(row.at for row in frame.select("at").collect())))
            .trigger(availableNow=True).start()
        )  # fmt: skip
        query.awaitTermination()

    for _ in range(3):
        history.segment(*(history.result("web1/disk", T) for _ in range(2)))
    run()
    assert seen == [[1, 2, 3, 4], [5, 6]]
    history.segment(history.result("web1/disk", T))
    run()
    assert seen[2:] == [[7]]
    assert History(history.folder).committed(RESULTS) == 3  # the last batch is committed when the next one begins
