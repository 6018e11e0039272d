"""Tests how durable records are digested: in short steps, great documents read by the writer, a WAL closed with
marks of its moment."""

from __future__ import annotations

import contextlib
import struct
import sys
from collections.abc import Callable
from threading import current_thread, main_thread
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from journal_running import Running, blob, entry, mark_of

from helen.journal import stored, writer
from helen.journal.columns import RESULTS
from helen.journal.limits import Limits
from helen.journal.marks import Marks
from helen.journal.record import encode_frame
from helen.journal.rows import Rows
from helen.journal.series import Series
from helen.journal.stored import stored_result
from helen.journal.values import JournalError, StoredResult


def test_great_documents_are_read_by_the_writer(start: Callable[..., Running], monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer's thread reads great documents and the reactor's thread small ones; order stays, and acks wait for
    neither."""
    readers: list[tuple[int, bool]] = []

    def note(at: int, record: Any) -> Any:
        readers.append((at, current_thread() is main_thread()))
        return stored_result(at, record)

    monkeypatch.setattr("helen.journal.digest.stored_result", note)
    monkeypatch.setattr("helen.journal.writer.stored_result", note)
    running = start(Limits(great_bytes=10_000))
    for number, size in ((1, 10), (2, 20_000), (3, 10)):
        running.journal.append(entry(number, content=blob(output="x" * size)))
    running.until_records(3)
    assert sorted(readers) == [(1, True), (2, False), (3, True)]
    assert [len(record.document.output) for record in running.records] == [10, 20_000, 10]
    acked = [number for number, batch in enumerate(running.batches) if any(ack.sequence >= 2 for ack in batch.acks)]
    stored_in = [number for number, batch in enumerate(running.batches) if any(each.at == 2 for each in batch.records)]
    assert acked[0] < stored_in[0]
    assert writer.stored_result is not stored.stored_result


def test_great_results_are_framed_by_the_writer(start: Callable[..., Running], monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer's thread sums up each great blob for its frame, and all results are read back from the WAL."""
    framed: list[tuple[int, bool]] = []

    def note(head: bytes, content: bytes, salt: int) -> bytes:
        framed.append((len(content), current_thread() is main_thread()))
        return encode_frame(head, content, salt)

    monkeypatch.setattr("helen.journal.writer.encode_frame", note)
    running = start(Limits(great_bytes=10_000))
    contents = [blob(output="x" * size) for size in (10, 20_000, 30_000, 10, 40_000)]
    for number, content in enumerate(contents, 1):
        running.journal.append(entry(number, content=content))
    running.until_records(5)
    assert framed == [(len(contents[number]), False) for number in (1, 2, 4)]
    running.journal.close()
    recovery = start(Limits()).recovery
    assert [each.entry.blob for each in recovery.records if isinstance(each, StoredResult)] == contents
    assert (recovery.quarantined, recovery.cut_bytes) == (0, 0)


@pytest.mark.parametrize(
    ("sizes", "steps"),
    [([10] * 45, [20, 20, 5]), ([9_000] * 8, [4, 4]), ([15_000] * 5, [3, 2]), ([300_000] * 3, [1, 1, 1])],
)
def test_a_step_is_short(start: Callable[..., Running], sizes: list[int], steps: list[int]) -> None:
    """A step of digestion ends after a number of records or of bytes, including records that are read already."""
    running = start(Limits(group_seconds=1.0))
    running.journal.append(entry(1))
    running.until_records(1)
    for number, size in enumerate(sizes, 2):
        running.journal.append(entry(number, content=blob(output="x" * size)))
    running.until_records(1 + len(sizes))
    assert [len(batch.records) for batch in running.batches if batch.records][1:] == steps


@pytest.mark.parametrize(
    ("content", "count", "batches"),
    [
        (blob(), 499, 0),
        (blob(), 500, 1),
        (blob(metrics=[{"name": "m", "value": 1}] * 500), 3, 0),
        (blob(metrics=[{"name": "m", "value": 1}] * 500), 4, 1),
        (blob(output="x" * 131_100), 1, 0),
        (blob(output="x" * 131_100), 2, 1),
    ],
)
def test_columns_are_made_of_few_values(content: bytes, count: int, batches: int) -> None:
    """A batch of columns is made once its rows, metrics or bytes suffice, one column in each step."""
    rows = Rows(Series())
    rows.extend([stored_result(at, entry(at, content=content)) for at in range(1, count + 1)])
    steps = 0
    while rows.convert_some():
        steps += 1
    assert (len(rows._result_batches), steps) == (batches, batches * (len(RESULTS) + 1))


def faults_are_logged(running: Running) -> None:
    """Let the calls of the threads go on after a fault, as the reactor does."""

    def turn() -> None:
        while running._calls:
            function, given = running._calls.popleft()
            with contextlib.suppress(MemoryError):
                function(*given)

    running.turn = running.journal.turn = turn  # type: ignore[method-assign]


@pytest.mark.parametrize("where", ["helen.journal.rows.result_columns", "helen.journal.digest.stored_result"])
def test_a_fault_keeps_the_wal(start: Callable[..., Running], monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """A fault of columns or of a reader is one fatal trouble, seals nothing and keeps the WAL; the next start has
    all rows."""
    limits = Limits(results_per_segment=6, group_seconds=0.0, calm_seconds=0.0)
    running = start(limits)
    faults_are_logged(running)
    module, _, name = where.rpartition(".")
    real = getattr(sys.modules[module], name)
    calls: list[object] = []

    def failing(*given: Any) -> Any:
        calls.append(given)
        if len(calls) == 1:
            raise MemoryError("once")
        return real(*given)

    monkeypatch.setattr(where, failing)
    for number in range(1, 13):
        running.journal.append(entry(number))
    running.until(lambda: running.high() == 12 and not running.journal.has_undelivered)
    assert [(trouble.fatal, "MemoryError" in trouble.sentence) for trouble in running.troubles] == [(True, True)]
    assert running.names() == []
    running.journal.close()
    again = start(limits)
    again.until(lambda: len(again.rows()) == 12)
    assert sorted(row["sequence"] for row in again.rows()) == [*range(1, 13)]


def test_what_can_not_be_encoded_is_not_acknowledged_later(start: Callable[..., Running]) -> None:
    """A record that cannot be encoded ends the journal, which acknowledges nothing later: a successor's ack would
    cover it."""
    running = start(Limits(group_seconds=0.0, calm_seconds=0.0))
    running.journal.append(entry(1))
    with pytest.raises(struct.error):
        running.journal.append(entry(2, check_id="c" * 70_000))
    with pytest.raises(JournalError):
        running.journal.append(entry(3))
    running.until(lambda: running.high() == 1)
    running.journal.close()
    assert [trouble.fatal for trouble in running.troubles] == [True]
    assert running.high() == 1


def test_great_rows_close_their_own_wal(start: Callable[..., Running]) -> None:
    """Rows that take too many bytes close their own WAL alone, and not each one begun since."""
    running = start(Limits(segment_bytes=400_000, group_seconds=0.0, calm_seconds=0.0))
    many = blob(metrics=[{"name": f"m{number}", "value": number} for number in range(40)])
    for number in range(1, 1_001):
        running.journal.append(entry(number, content=many))
        if number % 200 == 0:
            running.turn()
    running.until_records(1_000)
    running.journal.close()
    again = start()
    rows = [pq.read_metadata(path).num_rows for path in sorted(again.segments.glob("seg-*"))]
    assert sum(rows) == 1_000
    assert min(rows[:-1]) > 100, rows


def test_nobody_is_held_for_duplicates(start: Callable[..., Running]) -> None:
    """Duplicates have no batch of records, but one that tells when the journal is not behind any more."""
    running = start(Limits(records_behind=5))
    for number in range(1, 4):
        running.journal.append(entry(number))
    running.until_records(3)
    seen: list[bool] = []
    take = running._batches.append
    running.journal._writer._hand_over._digest.__self__._on_durable = lambda batch: (  # type: ignore[union-attr,attr-defined]
        seen.append(running.journal.is_behind),
        take(batch),
    )
    for number in (*range(1, 4), *range(1, 4)):
        running.journal.append(entry(number))
    assert running.journal.is_behind
    running.until(lambda: not running.journal.has_undelivered)
    assert seen[-1] is False


def test_a_closed_wal_has_the_marks_of_its_end(start: Callable[..., Running]) -> None:
    """A closed WAL has the marks of its last record, without later ones, which a start would take for seen."""
    limits = Limits(results_per_segment=3, group_seconds=0.0, calm_seconds=0.0)
    running = start(limits)
    for number in range(1, 8):
        running.journal.append(entry(number))
    running.until_segment(2)
    running.until_records(7)
    snapshot = running.journal._sealer.snapshot  # type: ignore[union-attr]
    assert [(row[2], row[3]) for row in snapshot.marks] == [(6, 6)]
    assert mark_of(running.journal, "web1", "s1") == (7, [])
    running.journal.close()
    again = start(limits)
    assert mark_of(again.journal, "web1", "s1") == (7, [])
    assert sorted(row["sequence"] for row in again.rows()) == [*range(1, 8)]


NAMES = st.sampled_from(["a", "b", "c", "d"])


@given(st.lists(st.tuples(NAMES, st.integers(1, 6)), max_size=20), st.lists(st.tuples(NAMES, st.integers(1, 9))))
def test_a_copy_is_of_its_moment(before: list[tuple[str, int]], after: list[tuple[str, int]]) -> None:
    """A copy of marks holds their state at its begin, whatever is counted while it is made."""
    marks = Marks()
    for at, (agent, sequence) in enumerate(before):
        marks.add(agent, "s", sequence, at)
    expected = sorted(marks.rows())
    copy = marks.begin_copy()
    for at, (agent, sequence) in enumerate(after):
        marks.add(agent, "s", sequence, 100 + at)
        marks.skip_below(agent, "t", sequence, 100 + at)
        if at % 3 == 0:
            copy.copy_some(1)
    while not copy.copy_some(1):
        pass
    assert sorted(copy.rows) == expected


def test_a_copy_ends_before_the_next_begins() -> None:
    """A second copy of marks finishes the first one, since two segments may be full before that is made."""
    marks = Marks()
    marks.add("a", "s", 1, 1)
    first = marks.begin_copy()
    second = marks.begin_copy()
    marks.add("a", "s", 2, 2)
    assert (first.copy_some(0), first.rows) == (True, [("a", "s", 1, 1, [], [])])
    assert (second.copy_some(0), second.rows) == (True, [("a", "s", 1, 1, [], [])])
