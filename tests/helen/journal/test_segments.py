"""Tests segments as the contract with the pipeline: schema, rows, numbers, and when one is closed."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from journal_running import NOW, Running, blob, entry

from equus_protocol.result_fields import OK, ResultDocument
from helen.journal.columns import CHANGES, METRIC, RESULTS, result_batch
from helen.journal.document import Document, Metric, from_result
from helen.journal.limits import Limits
from helen.journal.series import MOST_PER_AGENT, OVERFLOW_CHECK_ID, SERIES, Series
from helen.journal.values import Entry, Origin, StoredResult

SMALL = Limits(results_per_segment=10, group_records=4)


def fill(running: Running, first: int, last: int) -> None:
    for number in range(first, last + 1):
        running.journal.append(entry(number))


def test_a_row(start: Callable[..., Running]) -> None:
    """A row holds each part of a full result, as the pipeline reads it."""
    running = start(Limits(results_per_segment=1))
    content = blob(
        "critical",
        metrics=[
            {
                "name": "used", "value": 91, "unit": "%", "kind": "gauge", "labels": {"mount": "/"}, "warn": "80:",
                "crit": "90:", "min": 0, "max": 100,
            },
            {"name": "files", "value": 12, "kind": "counter"},
        ],
        started=NOW - 1.5, took_ms=2.25, cpu_ms=1.5, peak_kib=2048, check="disk", code="c" * 64,
        truncated={"output": 70_000},
    )  # fmt: skip
    running.journal.append(Entry("web1", "disk-root", "disk", "s1", 1, Origin.PASSIVE, NOW, content, -2_500))
    running.until_segment(1)
    assert running.rows() == [
        {
            "at": 1, "series_id": 0, "received": datetime.fromtimestamp(NOW, UTC),
            "started": datetime.fromtimestamp(NOW - 1.5, UTC), "took_ms": 2.25, "cpu_ms": 1.5, "peak_kib": 2048.0,
            "status": 2, "origin": 2, "reason": None, "code": "c" * 64, "spool": "s1", "sequence": 1,
            "summary": "fine",
            "metrics": [
                {
                    "name": "used", "value": 91.0, "unit": "%", "kind": "gauge", "labels": [("mount", "/")],
                    "warn": "80:", "crit": "90:", "min": 0.0, "max": 100.0,
                },
                {
                    "name": "files", "value": 12.0, "unit": "", "kind": "counter", "labels": [], "warn": None,
                    "crit": None, "min": None, "max": None,
                },
            ],
            "raw": content, "truncated": [("output", 70_000)], "clock_offset_ms": -2_500,
        }
    ]  # fmt: skip
    assert pq.read_table(running.history / "series.parquet").to_pylist() == [
        {"series_id": 0, "agent": "web1", "check_id": "disk-root", "check": "disk"}
    ]


def test_a_row_with_nothing_in_it(start: Callable[..., Running]) -> None:
    """A blob that is no result has nulls where nothing is known, and the blob."""
    running = start(Limits(results_per_segment=1))
    running.journal.append(entry(1, content=b"\xff\x00"))
    running.until_segment(1)
    row = running.rows()[0]
    nulls = {name for name, value in row.items() if value is None}
    assert nulls == {"started", "took_ms", "cpu_ms", "peak_kib", "code", "clock_offset_ms"}
    assert (row["status"], row["reason"], row["summary"], row["raw"]) == (3, "opaque-result", "", b"\xff\x00")
    assert (row["metrics"], row["truncated"]) == ([], [])


def test_the_schema_on_disk(start: Callable[..., Running]) -> None:
    """Segments and series have the schema of docs/results.rst on disk, and are compressed by ZSTD."""
    running = start(Limits(results_per_segment=1))
    running.journal.append(entry(1))
    running.journal.change("flap", {}, "web1", "cpu")
    running.until_segment(1)
    running.journal.close()
    start().journal.close()
    for name, schema in (("seg-00000001", RESULTS), ("chg-00000001", CHANGES)):
        stored = pq.read_schema(running.segments / f"{name}.parquet")
        assert stored.remove_metadata() == schema
    assert pq.read_schema(running.history / "series.parquet").remove_metadata() == SERIES
    metadata = pq.read_metadata(running.segments / "seg-00000001.parquet")
    assert metadata.row_group(0).column(0).compression == "ZSTD"


def test_segments_are_closed_by_count(start: Callable[..., Running]) -> None:
    """Segments of 10 results are closed by count: of 25 results five stay in the WAL, and `at` goes on over all."""
    running = start(SMALL)
    fill(running, 1, 25)
    running.until_segment(2)
    running.until_records(25)
    assert [pq.read_metadata(running.segments / name).num_rows for name in running.names()] == [10, 10]
    assert [row["at"] for row in running.rows()] == list(range(1, 21))
    assert [path.name for path in (running.state / "journal").glob("wal-*")] == ["wal-00000003.log"]


def test_segments_are_closed_by_time(start: Callable[..., Running]) -> None:
    """A segment is closed `segment_seconds` after its first result, even if nothing follows."""
    running = start(Limits(segment_seconds=0.1))
    running.journal.append(entry(1))
    running.until_segment(1)
    assert len(running.rows()) == 1


def test_segments_are_closed_by_bytes(start: Callable[..., Running]) -> None:
    """Great blobs close a segment early, so that memory stays bounded."""
    running = start(Limits(segment_bytes=100_000, group_bytes=1))
    for number in range(1, 6):
        running.journal.append(entry(number, content=b"x" * 40_000))
    running.until_segment(1)
    assert pq.read_metadata(running.segments / "seg-00000001.parquet").num_rows == 3


def test_segments_are_closed_by_memory(start: Callable[..., Running], monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment is closed by the memory of its rows, too: a thousand metrics in 13 kB take more than their blob."""
    monkeypatch.setattr("helen.journal.rows.BATCH_BYTES", 1)
    content = blob(metrics=[{"name": "a"}] * 1000)
    running = start(Limits(segment_bytes=10 * len(content), group_bytes=1))
    for number in range(1, 10):
        running.journal.append(entry(number, content=content))
        running.until_records(number)
    running.until_segment(1)
    assert 1 <= pq.read_metadata(running.segments / "seg-00000001.parquet").num_rows < 9


def test_results_and_changes_are_numbered_apart(start: Callable[..., Running]) -> None:
    """Segments of results and of changes are numbered apart, and a WAL without one kind takes no number of it."""
    running = start(Limits(segment_seconds=0.05))
    running.journal.change("helen_start", {})
    running.until(lambda: running.names() == ["chg-00000001.parquet"])
    running.journal.append(entry(1))
    running.until(lambda: running.names() == ["chg-00000001.parquet", "seg-00000001.parquet"])
    running.journal.append(entry(2))
    running.journal.change("link", {"up": True}, "web1")
    running.until_segment(2)
    running.until(lambda: len(running.names()) == 4)
    assert [(row["at"], row["kind"], row["series_id"]) for row in running.rows("chg")] == [
        (1, "helen_start", None), (4, "link", None),
    ]  # fmt: skip
    assert [row["at"] for row in running.rows()] == [2, 3]


def test_a_wal_of_nothing_but_floors_takes_no_number(start: Callable[..., Running]) -> None:
    """A WAL with floors alone takes no number, so that `loaded` of a thousand agents makes no empty segments."""
    running = start(Limits(segment_seconds=0.05))
    running.journal.forget_below("web1", "s1", 9)
    running.until(lambda: (running.state / "journal" / "marks.json").exists())
    running.journal.append(entry(9))
    running.until_segment(1)
    assert running.names() == ["seg-00000001.parquet"]
    assert running.high() == 9


def test_numbers_go_on_after_restarts(start: Callable[..., Running]) -> None:
    """Numbers of segments and `at` stay dense over restarts, and series keep their numbers."""
    for first in (1, 6, 11):
        running = start(SMALL)
        fill(running, first, first + 4)
        running.journal.append(entry(first, agent="db1", check_id="load"))
        running.until(lambda: running.high() == first + 4)  # noqa: B023
        running.journal.close()
    start(SMALL).journal.close()
    assert running.names() == ["seg-00000001.parquet", "seg-00000002.parquet", "seg-00000003.parquet"]
    rows = running.rows()
    assert [row["at"] for row in rows] == list(range(1, 19))
    assert {(row["series_id"], row["sequence"]) for row in rows if row["series_id"] == 1} == {(1, 1), (1, 6), (1, 11)}


def test_the_check_name_seen_last(start: Callable[..., Running]) -> None:
    """A check_id that runs another check later keeps its series, which has the name seen last."""
    running = start(Limits(results_per_segment=1))
    for number, check in enumerate((None, "cpu", "cpu2", None), 1):
        running.journal.append(Entry("web1", "c", check, "s1", number, Origin.SCHEDULED, NOW, b"x"))
    running.until_segment(4)
    assert pq.read_table(running.history / "series.parquet").to_pylist() == [
        {"series_id": 0, "agent": "web1", "check_id": "c", "check": "cpu2"}
    ]


def test_series_per_agent_are_bounded() -> None:
    """Check ids of an agent beyond the limit share one series, and other agents are not affected."""
    series = Series()
    for number in range(MOST_PER_AGENT):
        assert series.number("bad", f"c{number}", None) == number
    extra = series.number("bad", "one-more", None)
    assert series.number("bad", "another", None) == extra == MOST_PER_AGENT
    assert series.names()[extra] == ("bad", OVERFLOW_CHECK_ID)
    assert series.number("good", "cpu", None) == MOST_PER_AGENT + 1
    assert series.fixed().number("bad", "a third", None) == extra


texts = st.text(max_size=5) | st.just("\ud800half")
floats = st.none() | st.floats(allow_nan=False, allow_infinity=False)
metrics = st.builds(
    Metric, texts, floats, texts, texts, st.dictionaries(texts, texts, max_size=2), st.none() | texts,
    st.none() | texts, floats, floats, st.none() | texts,
)  # fmt: skip
documents = st.builds(
    Document, st.sampled_from(["ok", "unknown"]), texts, st.lists(metrics, max_size=3).map(tuple), st.none() | texts,
    st.none() | texts, floats, floats, floats, floats, st.none() | texts, st.none() | texts,
    st.dictionaries(texts, st.integers(0, 2**63 - 1), max_size=2),
)  # fmt: skip


@settings(deadline=None, max_examples=50)
@given(st.lists(documents, min_size=1, max_size=5))
def test_every_document_becomes_a_row(found: list[Document]) -> None:
    """Every document that a reader can give becomes a valid row with its metrics and its duration."""
    records = [StoredResult(at, entry(at), document) for at, document in enumerate(found, 1)]
    batch: pa.RecordBatch = result_batch(records, Series())
    batch.validate(full=True)
    rows: list[dict[str, Any]] = batch.to_pylist()
    assert [len(row["metrics"]) for row in rows] == [len(document.metrics) for document in found]
    assert [row["took_ms"] for row in rows] == [document.took_ms for document in found]


@pytest.mark.parametrize(
    ("started", "shown"),
    [
        (0, datetime(1970, 1, 1, tzinfo=UTC)),
        (1.25, datetime(1970, 1, 1, 0, 0, 1, 250_000, tzinfo=UTC)),
        (-1, None),
        (253_402_300_799, datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
        (253_402_300_800, None),
        (1e300, None),
    ],
)
def test_start_times_that_no_reader_can_show(started: float, shown: datetime | None) -> None:
    """A start time outside of 1970..9999 is null in its row; the blob keeps it."""
    record = StoredResult(1, entry(1), from_result(ResultDocument(OK, started=started)))
    assert result_batch([record], Series()).column("started").to_pylist() == [shown]


@pytest.mark.parametrize(
    ("heading", "fields"),
    [
        ("Segments of results", [*RESULTS, *METRIC]),
        ("Series", list(SERIES)),
        ("Changes", list(CHANGES)),
    ],
)
def test_the_page_lists_every_column(heading: str, fields: list[pa.Field]) -> None:
    """docs/results.rst lists the columns of each file in order, with their nullability."""
    page = (Path(__file__).parents[3] / "docs" / "results.rst").read_text()
    section = page.split(f"\n{heading}\n---")[1].split("\n\n\n")[0]
    listed = re.findall(r"^``(\w+)`` .*? (yes|no) ", section, re.MULTILINE)
    assert listed == [(field.name, "yes" if field.nullable else "no") for field in fields]


@pytest.mark.parametrize(("ids", "left_out"), [(3, {}), (4, {"web1": 1}), (9, {"web1": 6})])
def test_both_sides_of_the_quota_of_series(start: Callable[..., Running], ids: int, left_out: dict[str, int]) -> None:
    """Check ids of an agent above the quota share one series, which a start with a smaller quota leaves as it is
    (F51)."""
    running = start(Limits(series_per_agent=3))
    for number in range(1, ids + 1):
        running.journal.append(entry(number, check_id=f"c{number}"))
    running.until_records(ids)
    running.journal.close()
    sealed = start(Limits(series_per_agent=3))
    expected = ["c1", "c2", "c3", *([OVERFLOW_CHECK_ID] if left_out else [])]
    assert (names_of(sealed), sealed.journal.without_series) == (expected, left_out)
    sealed.journal.close()
    assert names_of(start(Limits(series_per_agent=1))) == expected


def names_of(running: Running) -> list[str]:
    assert running.journal._series is not None
    return [name for _, name in running.journal._series.names()]
