"""Tests the event log at its edges: what memory keeps, which segments a place needs, and how ids are read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helen.evaluation import event_log, replay
from helen.evaluation.event_log import EventLog, Line, TooOld
from helen.evaluation.replay import HistoryRecord, changes_since, record_of, series_names, since, to_microsecond
from helen.evaluation.segment_footers import first_at, first_from, last_at, newest, oldest
from helen.journal.document import read_document
from helen.journal.values import Batch, Change, Entry, Origin, StoredChange, StoredResult
from helen.states.inputs import Result

EPOCH = "0a1b2c3d"
DAY = 1_800_000_000.0


def stored(at: int, document: bytes = b"{}", **change: Any) -> StoredChange:
    given = {"kind": "link", "received": DAY + at, "agent": "a", "check_id": None} | change
    return StoredChange(at, Change(document=document, **given))


def result(at: int, agent: str = "a") -> StoredResult:
    blob = b'{"status": "warning", "started": 1799999999.5, "took_ms": 250.0, "summary": "so"}'
    entry = Entry(agent, "c", None, "s", at, Origin.SCHEDULED, DAY + at, blob)
    return StoredResult(at, entry, read_document("c", blob))


def batch(*records: StoredResult | StoredChange) -> Batch:
    return Batch(records=records)


def segment(folder: Path, number: int, ats: Sequence[int], statistics: bool = True, groups: int = 1_000) -> Path:
    """Write a segment of changes of these numbers, each received so many seconds after DAY, and return its path."""
    path = folder / "segments" / f"chg-{number:012}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    moments = [datetime.fromtimestamp(DAY + at, UTC) for at in ats]
    table = pa.table({
        "at": pa.array(ats, pa.int64()), "series_id": pa.array([1 if at % 2 else None for at in ats], pa.int32()),
        "received": pa.array(moments, pa.timestamp("us", "UTC")), "kind": ["link"] * len(ats),
        "document": [json.dumps({"agent": "web-1", "number": at}) for at in ats],
    })  # fmt: skip
    parquet.write_table(table, path, row_group_size=groups, write_statistics=statistics)
    return path


def series(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    parquet.write_table(
        pa.table({"series_id": [1], "agent": ["db-1"], "check_id": ["disk"]}), folder / "series.parquet"
    )


# ------------------------------------------------------------------------------------------------ memory


def test_a_young_log(tmp_path: Path) -> None:
    """A young log has nothing; everything up to its newest record is in segments."""
    log = EventLog(EPOCH, tmp_path, lambda: 7, newest=7)
    assert (log.newest, log.floor, log.after(0, 9), log.kept_above(0), log.is_sealed()) == (7, 7, [], [], True)
    assert Line(1, "link", None, None, b"").received == 0.0


def test_what_comes_in(tmp_path: Path) -> None:
    """Listeners are told of changes alone; a record that is there already is passed over; results count
    for `newest`.
    """
    log, heard = EventLog(EPOCH, tmp_path, lambda: 0, newest=0), list[int]()
    log.listeners.append(lambda: heard.append(log.newest))
    log.take(batch(result(1)))
    assert (heard, log.newest) == ([], 1)
    log.take(batch(stored(2), result(3), stored(4)))
    log.take(batch(stored(4), stored(2), stored(3)))
    assert (heard, log.newest, [line.at for line in log.after(0, 9)]) == ([4], 4, [2, 4])
    assert [line.at for line in log.after(2, 9)] == [4]
    assert [line.at for line in log.after(0, 1)] == [2]
    assert log._bytes == sum(len(line.frame) for line in log.after(0, 9))


def test_who_follows_an_agent_hears_of_its_results(tmp_path: Path) -> None:
    """A listener of an agent is told its results, and neither those of others nor changes."""
    log, heard = EventLog(EPOCH, tmp_path, lambda: 0, newest=0), list[int]()
    log.watched["a"] = [lambda record: heard.append(record.at), lambda record: heard.append(-record.at)]
    log.take(batch(result(1), result(2, "b"), stored(3), result(4)))
    assert heard == [1, -1, 4, -4]


def test_what_is_recalled_at_a_start(tmp_path: Path) -> None:
    """Memory has all from its first record on; nothing is recalled, nothing changes."""
    log = EventLog(EPOCH, tmp_path, lambda: 0, newest=9)
    heard: list[int] = []
    log.listeners.append(lambda: heard.append(1))
    log.recall([])
    assert (log.floor, log.is_sealed()) == (9, False)
    log.recall([result(5), stored(6), stored(9)])
    assert (log.floor, [line.at for line in log.kept_above(0)], heard) == (4, [6, 9], [])
    other = EventLog(EPOCH, tmp_path, lambda: 3, newest=3)
    other.recall([stored(9)])
    assert (other.floor, other.newest) == (3, 9)


@pytest.mark.parametrize(("sealed", "is_sealed"), [(8, False), (9, True), (10, True)])
def test_segments_have_what_memory_has_not(tmp_path: Path, sealed: int, is_sealed: bool) -> None:
    """The log reads segments once they reach the floor, itself included."""
    log = EventLog(EPOCH, tmp_path, lambda: sealed, newest=9)
    assert log.is_sealed() is is_sealed
    assert (log.older(0) is not None) is is_sealed


def test_lines_above_the_limit_are_dropped_seldom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are dropped when there is one more than the slack, and down to the limit then."""
    monkeypatch.setattr(event_log, "MOST_LINES", 5)
    monkeypatch.setattr(event_log, "SLACK", 2)
    log = EventLog(EPOCH, tmp_path, lambda: 0, newest=0)
    kept = []
    for at in range(1, 11):
        log.take(batch(stored(at)))
        kept.append(len(log.kept_above(0)))
        assert log._bytes == sum(len(line.frame) for line in log.kept_above(0))
        assert log.floor == at - kept[-1]
    assert kept == [1, 2, 3, 4, 5, 6, 7, 5, 6, 7]


def test_bytes_above_the_limit_are_dropped_to_three_quarters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes above the limit are dropped to three quarters; exactly the limit is still kept."""
    log = EventLog(EPOCH, tmp_path, lambda: 0, newest=0)
    log.take(batch(stored(1)))
    size = log._bytes
    monkeypatch.setattr(event_log, "MOST_BYTES", 8 * size)
    kept = [1]
    for at in range(2, 10):
        log.take(batch(stored(at)))
        kept.append(len(log.kept_above(0)))
    assert kept == [1, 2, 3, 4, 5, 6, 7, 8, 6]
    assert (log.floor, log._bytes) == (3, 6 * size)
    monkeypatch.setattr(event_log, "MOST_BYTES", 10)
    log.take(batch(stored(10)))
    assert (log.kept_above(0), log.floor, log._bytes) == ([], 10, 0)


def test_a_line_letter_for_letter(tmp_path: Path) -> None:
    """A client gets this line, with this JSON in it; times are given to the microsecond."""
    log = EventLog(EPOCH, tmp_path, lambda: 0, newest=0)
    log.take(batch(stored(7, b'{"x": 1}', received=DAY + 0.12345678, check_id="c")))
    [line] = log.kept_above(0)
    data = b'{"kind": "link", "received": 1800000000.123457, "agent": "a", "check_id": "c", "document": {"x": 1}}'
    assert line == Line(7, "link", "a", "c", b"id: 0a1b2c3d.7\nevent: link\ndata: " + data + b"\n\n", DAY + 0.123457)
    assert line.data == data


@pytest.mark.parametrize(("event_id", "found"), [
    (f"{EPOCH}.0", 0), (f"{EPOCH}.12", 12), (f"{EPOCH}.13", "newer"), ("0a1b2c3e.1", "another Helen"), ("", "another"),
    (f"{EPOCH}.", "another"), (f"{EPOCH}.1x", "another"), (f"{EPOCH}.{'9' * 19}", "another"),
    (f"{EPOCH}.{'0' * 17}5", 5), (f"{EPOCH.upper()}.1", "another"),
])  # fmt: skip
def test_places(tmp_path: Path, event_id: str, found: int | str) -> None:
    """A place is one of this Helen, and not of a future."""
    log = EventLog(EPOCH, tmp_path, lambda: 0, newest=12)
    assert log.id_of(12) == f"{EPOCH}.12"
    if isinstance(found, int):
        assert log.place(event_id) == found
        return
    with pytest.raises(TooOld, match=found):
        log.place(event_id)


# ------------------------------------------------------------------------------------------------ segments


def read(log: EventLog, at: int) -> tuple[list[int], int]:
    found = log.older(at)
    assert found is not None
    return [line.at for line in found[0]], found[1]


@pytest.fixture
def history(tmp_path: Path) -> Path:
    series(tmp_path)
    for number, ats in ((1, (2, 3)), (2, (5, 6, 4)), (3, (9,)), (4, (12, 10))):
        segment(tmp_path, number, ats)
    return tmp_path


@pytest.mark.parametrize(("at", "ats"), [
    (0, [2, 3, 4, 5, 6, 9, 10, 12]), (2, [3, 4, 5, 6, 9, 10, 12]), (3, [4, 5, 6, 9, 10, 12]), (5, [6, 9, 10, 12]),
    (6, [9, 10, 12]), (8, [9, 10, 12]), (9, [10, 12]), (11, [12]), (12, []),
])  # fmt: skip
def test_what_is_older(history: Path, at: int, ats: list[int]) -> None:
    """All changes above the place come in their order, whatever the order of a file is, up to where memory begins."""
    assert read(EventLog(EPOCH, history, lambda: 99, newest=12), at) == (ats, 12)
    assert read(EventLog(EPOCH, history, lambda: 99, newest=10), at) == ([each for each in ats if each <= 10], 10)


def test_lines_of_segments_have_their_names(history: Path) -> None:
    """A line has the name of a series, or of an agent as a whole, which stands in the document; else none."""
    log = EventLog(EPOCH, history, lambda: 99, newest=12)
    found = log.older(0)
    assert found is not None
    assert [(line.at, line.agent, line.check_id, line.received) for line in found[0][:2]] == [
        (2, "web-1", None, DAY + 2), (3, "db-1", "disk", DAY + 3),
    ]  # fmt: skip
    (history / "series.parquet").unlink()
    found = log.older(0)
    assert found is not None and {(line.agent, line.check_id) for line in found[0]} == {("web-1", None)}
    unnamed = log.line_of(HistoryRecord(1, DAY, "silence", None, None, document='{"agent": 7}'))
    assert (unnamed.agent, json.loads(unnamed.data)["document"]) == (None, {"agent": 7})


@pytest.mark.parametrize(("enough", "steps"), [
    (1, [[2, 3], [4, 5, 6], [9], [10, 12]]), (2, [[2, 3], [4, 5, 6], [9, 10, 12]]), (3, [[2, 3, 4, 5, 6], [9, 10, 12]]),
    (6, [[2, 3, 4, 5, 6, 9], [10, 12]]), (8, [[2, 3, 4, 5, 6, 9, 10, 12]]), (99, [[2, 3, 4, 5, 6, 9, 10, 12]]),
])  # fmt: skip
def test_a_replay_in_steps(history: Path, enough: int, steps: list[list[int]], monkeypatch: pytest.MonkeyPatch) -> None:
    """A step ends with the file that makes it enough, and the next one begins behind its last line."""
    monkeypatch.setattr(event_log, "ENOUGH", enough)
    log, at, found = EventLog(EPOCH, history, lambda: 99, newest=12), 0, []
    while at < 12:
        ats, at = read(log, at)
        found.append(ats)
    assert [each for each in found if each] == steps


def test_what_is_missing(history: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each gap has its sentence, and a place behind it none."""
    log = EventLog(EPOCH, history, lambda: 99, newest=12)
    files = sorted((history / "segments").iterdir())
    for limit, fails in ((4, False), (3, True)):
        monkeypatch.setattr(event_log, "MOST_FILES", limit)
        if fails:
            with pytest.raises(TooOld, match="that is more than 3 segments ago"):
                log.older(0)
        else:
            assert len(read(log, 0)[0]) == 8
    monkeypatch.undo()
    kept = files[2].read_bytes()
    files[2].unlink()
    for at in (0, 5):
        with pytest.raises(TooOld, match="a segment of the history is missing since then"):
            log.older(at)
    assert read(log, 9) == ([10, 12], 12)
    files[2].write_bytes(kept)
    files[0].unlink()
    for at in (0, 3):
        with pytest.raises(TooOld, match="that is longer ago than the history is kept"):
            log.older(at)
    assert read(log, 6) == ([9, 10, 12], 12)
    files[3].write_bytes(b"x")
    with pytest.raises(TooOld, match=r"can't be read: chg-000000000004\.parquet"):
        log.older(6)


def test_an_empty_history(tmp_path: Path) -> None:
    """An empty history has nothing older, and nothing is missing."""
    assert read(EventLog(EPOCH, tmp_path, lambda: 0, newest=0), 0) == ([], 0)


# ------------------------------------------------------------------------------------------------ footers


def test_bounds_of_a_segment(tmp_path: Path) -> None:
    """The bounds are those of all groups of rows, in whatever order they are."""
    path = segment(tmp_path, 1, (50, 10, 90, 30, 70, 20), groups=2)
    assert (first_at(path), last_at(path), oldest(path), newest(path)) == (10, 90, DAY + 10, DAY + 90)


@pytest.mark.parametrize("kind", ["none", "damaged", "no statistics", "no rows", "other columns"])
def test_bounds_that_nobody_knows(tmp_path: Path, kind: str) -> None:
    """A file with unknown bounds is opened by every search, and is older than all others."""
    path = segment(tmp_path, 1, () if kind == "no rows" else (1, 2), statistics=kind != "no statistics")
    if kind == "none":
        path.unlink()
    elif kind == "damaged":
        path.write_bytes(b"x")
    elif kind == "other columns":
        parquet.write_table(pa.table({"x": [1]}), path)
    assert (first_at(path), last_at(path), oldest(path), newest(path)) == (None, 2**62, 0.0, 0.0)


def test_bounds_of_a_group_without_statistics(tmp_path: Path) -> None:
    """One group without statistics makes the bounds of the whole file unknown."""
    path = tmp_path / "mixed.parquet"
    table = pa.table({"at": pa.array([1, None], pa.int64())})
    parquet.write_table(table, path, row_group_size=1)
    assert (first_at(path), last_at(path)) == (None, 2**62)


@given(st.lists(st.integers(0, 20), max_size=12), st.integers(0, 21))
def test_a_search_by_halves(ends: list[int], wanted: int) -> None:
    """The search finds the first file that is not before, or the end if all are."""
    files, ends = [Path(str(at)) for at in range(len(ends))], sorted(ends)
    found = first_from(files, lambda path: ends[int(path.name)] <= wanted)
    assert found == next((at for at, end in enumerate(ends) if end > wanted), len(ends))


# ------------------------------------------------------------------------------------------------ replays


def test_the_newest_segments_are_read(history: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments are read back to the first that has something at the place or before it, and only a bounded number."""
    for at, ats in ((0, [2, 3, 4, 5, 6, 9, 10, 12]), (5, [6, 9, 10, 12]), (12, []), (99, [])):
        assert [each.at for each in changes_since(history, at)] == ats
        assert [each.at for each in since(history, at)] == ats
    monkeypatch.setattr(replay, "MOST_SEGMENTS", 2)
    assert [each.at for each in changes_since(history, 0)] == [9, 10, 12]


def test_a_segment_behind_the_first_that_is_known_is_not_read(history: Path) -> None:
    """Reading goes backwards and ends there, though an older file says that it has something newer."""
    segment(history, 1, (99,))
    assert [each.at for each in changes_since(history, 4)] == [5, 6, 9, 10, 12]
    (history / "segments" / "chg-000000000003.parquet").write_bytes(b"x")
    assert [each.at for each in changes_since(history, 4)] == [5, 6, 10, 12]


def test_records_of_segments(history: Path) -> None:
    """Records have their names and times; a series that nobody knows has no name, nor has a record without one."""
    found = {each.at: each for each in changes_since(history, 0)}
    assert found[3] == HistoryRecord(3, DAY + 3, "link", "db-1", "disk", document='{"agent": "web-1", "number": 3}')
    assert (found[2].agent, found[2].check_id, found[2].result, found[2].origin, found[2].metrics) == (
        None, None, None, 0, (),
    )  # fmt: skip
    assert series_names(history / "series.parquet") == {1: ("db-1", "disk")}
    (history / "series.parquet").write_bytes(b"x")
    assert (series_names(history / "series.parquet"), changes_since(history, 9)[0].agent) == ({}, None)


@pytest.mark.parametrize(("started", "took", "ended"), [
    (1_799_999_999.5, 250.0, 1_799_999_999.75), (1_799_999_999.5, None, 1_799_999_999.5), (None, 250.0, None),
    (0.0, None, 0.0), (-1.0, None, None), (1e12, None, None),
])  # fmt: skip
def test_a_result_as_a_segment_will_have_it(started: float | None, took: float | None, ended: float | None) -> None:
    """A result has times to the microsecond; an end follows from the begin, if that is a time at all."""
    blob = json.dumps({"status": "warning", "started": started, "took_ms": took, "summary": "so"}).encode()
    entry = Entry("a", "c", None, "s", 7, Origin.PASSIVE, DAY + 0.12345678, blob)
    found = record_of(StoredResult(3, entry, read_document("c", blob)))
    assert found.result is not None
    assert found.result.ended == ended
    assert found == HistoryRecord(
        3, DAY + 0.123457, "result", "a", "c", Result(DAY + 0.123457, 1, ended, "s", 7, None, None, "so"), 2,
        metrics=found.metrics, started=started, took_ms=took,
    )  # fmt: skip
    change = record_of(StoredChange(4, Change("link", DAY + 0.12345678, "a", None, b'{"x": 1}')))
    assert change == HistoryRecord(4, DAY + 0.123457, "link", "a", None, document='{"x": 1}')


@pytest.mark.parametrize(("moment", "rounded"), [(1.0000004, 1.0), (1.0000006, 1.000001), (0.0, 0.0), (2.5, 2.5)])
def test_microseconds(moment: float, rounded: float) -> None:
    """A moment is rounded to the nearest microsecond."""
    assert to_microsecond(moment) == rounded
