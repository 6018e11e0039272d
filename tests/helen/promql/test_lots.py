"""Tests lots of files: commits change few of them, lists read their span alone, and memory comes before all kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rollup_questions import BEGIN, DAYS, Scene, row, sums

from helen.pipeline.lake.lake import Lake
from helen.promql import bucket_files
from helen.promql.bucket_files import BucketFiles
from helen.promql.kept_pieces import KeptPieces, Piece

read_files = BucketFiles.read


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


@pytest.fixture
def days_read(monkeypatch: pytest.MonkeyPatch) -> list[set[int]]:
    """Return the days of each lot that is read, as numbers of days since the scene's first one."""
    found, first = list[set[int]](), datetime.fromtimestamp(BEGIN, UTC).date().toordinal()

    def read(self: BucketFiles, lot: Sequence[str]) -> Iterator[Piece]:
        days = {datetime.fromisoformat(path.split("day=")[1][:10]).toordinal() for path in lot}
        found.append({day - first for day in days})
        return read_files(self, lot)

    monkeypatch.setattr(BucketFiles, "read", read)
    return found


def publish(scene: Scene, series: int, begin: int, metric: str) -> None:
    """Publish one bucket of one metric."""
    table = pa.Table.from_pylist([row(series, begin, metric, "gauge", [7.0, 8.0, 9.0], None)],
                                 schema=scene.lake.tables["m5"].arrow)  # fmt: skip
    scene.lake.lock()
    scene.lake.publish("m5", scene.lake.stage_rows("m5", table), {f"{metric}-{begin}": begin})
    scene.lake.unlock()


# ---------------------------------------------------------------------------------------------- commits


@pytest.mark.parametrize("resolution", ["m5", "h1", "d1"])
@pytest.mark.parametrize("day", [DAYS - 1, DAYS - 2])
def test_a_commit_of_a_newest_day_has_that_day_read_again(
    scene: Scene, days_read: list[set[int]], resolution: str, day: int
) -> None:
    """A commit of a newest day has no other day read again, whatever days share a lot at that level."""
    if resolution != "m5":
        for each in range(DAYS):
            sums(scene.lake, each, version=1, level=resolution)
    query, span = "max_over_time(used[2d])", (0.0, float(DAYS))
    scene.ask(query, resolution=resolution, days=span)
    assert set().union(*days_read) == set(range(DAYS))
    days_read.clear()
    sums(scene.lake, day, (("fresh", "gauge"),), version=None if resolution == "m5" else 1, level=resolution)
    again = scene.ask(query, resolution=resolution, days=span)
    assert days_read == [{day}]
    assert again == scene.ask(query, KeptPieces(), resolution=resolution, days=span) != []


@pytest.mark.parametrize("resolution", ["m5", "h1", "d1"])
def test_a_late_result_has_its_own_day_read_again(scene: Scene, days_read: list[set[int]], resolution: str) -> None:
    """Only the late result's day is read again, though it shares its lot with others."""
    if resolution != "m5":
        for each in range(DAYS):
            sums(scene.lake, each, version=1, level=resolution)
    query, span = "max_over_time(used[2d])", (0.0, float(DAYS))
    scene.ask(query, resolution=resolution, days=span)
    days_read.clear()
    sums(scene.lake, 1, (("used", "gauge"), ("fresh", "gauge")), version=None if resolution == "m5" else 2,
         level=resolution)  # fmt: skip
    again = scene.ask(query, resolution=resolution, days=span)
    assert days_read == [{1}]
    assert again == scene.ask(query, KeptPieces(), resolution=resolution, days=span) != []


def test_a_new_day_leaves_the_lots_of_old_days(scene: Scene, days_read: list[set[int]]) -> None:
    """A new day is read with the days of the one lot that yesterday joins."""
    query, last = "used", DAYS + 6
    for day in range(DAYS, last):
        sums(scene.lake, day, (("used", "gauge"),))
        for _ in range(3):
            answer = scene.ask(query, days=(0.5, day + 1))
    assert answer == scene.ask(query, KeptPieces(), days=(0.5, last))
    days_read.clear()
    sums(scene.lake, last, (("used", "gauge"),))
    scene.ask(query, days=(0.5, last + 1))
    size = scene.lake.levels["m5"].read_days
    assert {last} in days_read and len(set().union(*days_read)) <= 1 + size


# ---------------------------------------------------------------------------------------------- lists


def test_a_list_of_an_hour_reads_the_buckets_of_an_hour(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list reads the hour's buckets alone, so that others neither count against it nor take the room
    of dashboards.
    """
    monkeypatch.setattr(bucket_files, "MOST_ROWS", 40)
    for match, count in (('{agent="web-1"}', 5), ("used", 6), ('{path="/var"}', 3), ("helen_ok", 3)):
        found = scene.series(match, (2.5, 2.5 + 1 / 24))
        assert found["status"] == "success" and len(found["data"]) == count, found
    assert scene.kept.size == 0


def test_a_list_of_days_counts_series(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list counts series and not their buckets; one that has too many series is refused."""
    monkeypatch.setattr(bucket_files, "MOST_ROWS", 200)
    assert len(scene.series("sent", (0.2, 3.9))["data"]) == 3
    monkeypatch.setattr(bucket_files, "MOST_ROWS", 2)
    assert "more than 2 buckets are to be read" in scene.series("sent", (0.2, 3.9))["error"]


def test_a_list_has_the_series_of_its_span_alone(scene: Scene) -> None:
    """A sample counts at its last value; a list begins a bucket earlier, as questions do."""
    publish(scene, 1, BEGIN + 2 * 86_400 + 43_200, "noon")
    noon, bucket = 2.5, 300 / 86_400
    for begin, end, count in ((0, 4, 1), (noon, noon + bucket, 1), (noon, noon + 0.5 * bucket, 0),
                              (noon + 3 * bucket, 3, 0), (1.0, noon - bucket, 0), (noon - 1, noon + 1, 1)):  # fmt: skip
        found = scene.series("noon", (begin, end))["data"]
        assert len(found) == count, (begin, end)
        assert all(each["agent"] == "web-2" for each in found)


def test_replaced_rows_are_in_no_list(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A newer version of a bucket that lacks the metric takes it out of lists, in an older format; h1 has lists of
    days.
    """
    for day in range(DAYS):
        sums(scene.lake, day, version=1, level="h1")
    for day in range(DAYS):
        sums(scene.lake, day, (("", "gauge"), ("used", "gauge")), version=2, level="h1")
    monkeypatch.setattr(Lake, "is_live", lambda lake, table: False)
    assert scene.series("sent", (1.0, 3.5))["data"] == []
    assert len(scene.series("used", (1.0, 3.5))["data"]) == 3


# ---------------------------------------------------------------------------------------------- memory


def test_what_is_kept_gives_way_to_a_question(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A question that finds no room drops all that is kept, and is answered once more."""
    expected = scene.ask("rate(sent[1h])", KeptPieces())
    scene.ask("used")
    assert scene.kept.size > 0

    def read(self: BucketFiles, lot: Any) -> Iterator[Piece]:
        if scene.kept.size:
            raise pa.ArrowMemoryError("malloc")
        return read_files(self, lot)

    monkeypatch.setattr(BucketFiles, "read", read)
    assert scene.ask("rate(sent[1h])") == expected != []
    assert scene.kept.size == 0


def test_a_question_without_room_is_refused(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A question without room is refused behind its second try; the next one is answered."""
    scene.ask("used")
    tries = list[Any]()

    def read(self: BucketFiles, lot: Any) -> Iterator[Piece]:
        tries.append(lot)
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(BucketFiles, "read", read)
        with pytest.raises(AssertionError, match="more memory than a question may have: ask for fewer series"):
            scene.ask("sent")
    assert len(tries) == 2 and scene.kept.size == 0
    assert len(scene.ask("used")) == 6


def test_a_lake_that_finds_no_room_is_opened_again(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lake is opened again without the kept pieces, since its list of files takes memory before
    anything is read.
    """
    expected, listed = scene.ask("used"), Lake.rows

    def rows(self: Lake, table: str, days: Any = None) -> Any:
        if scene.kept.size:
            raise pa.ArrowMemoryError("malloc")
        return listed(self, table, days)

    monkeypatch.setattr(Lake, "rows", rows)
    assert scene.ask("used") == expected != []
