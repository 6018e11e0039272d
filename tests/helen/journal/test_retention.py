"""Tests which segments Helen deletes, and that it deletes no others."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from journal_running import NOW, Running, entry

from helen.journal.limits import Limits
from helen.journal.retention import DAY, MOST_AT_ONCE, Retention, SegmentFile, deletable
from helen.journal.verify import check_history

RULE = Retention(keep_days=7, keep_days_alone=90, most_bytes_alone=1000)


def files(*ages_in_days: float, size: int = 1, first: int = 1) -> list[SegmentFile]:
    return [SegmentFile(number, size, NOW - age * DAY) for number, age in enumerate(ages_in_days, first)]


@pytest.mark.parametrize(
    ("found", "committed", "expected"),
    [
        ([], 5, []),
        (files(9, 8, 7.01, 6.99, 0), 4, [1, 2, 3]),  # older than seven days
        (files(9, 8, 7.01, 6.99, 0), 2, [1, 2]),  # and committed
        (files(9, 8, 7.01, 6.99, 0), 0, []),  # Spark hasn't read anything, or its file is unreadable
        (files(9, 9, 9), 99, [1, 2]),  # never the newest
        (files(9, 1, 9, 0), 4, [1]),  # a clock that went back: no hole in the numbers
        (files(91, 90.01, 89.9, 0), None, [1, 2]),  # without Spark by age
        (files(3, 2, 1, 0, size=400), None, [1, 2]),  # and by size: 800 of 1,000 bytes stay
        (files(3, 2, 1, 0, size=250), None, []),  # exactly the limit
        (files(9, 8, 1, 0, size=10_000), 0, []),  # with Spark never by size: what it hasn't read stays
        (files(-90, -90), 9, []),  # from the future
        (files(*range(50, 10, -1), first=7), 99, list(range(7, 7 + MOST_AT_ONCE))),
    ],
)
def test_what_may_go(found: list[SegmentFile], committed: int | None, expected: list[int]) -> None:
    """The segments that may go follow the rule of retention on both sides of each limit."""
    assert deletable(found, committed, NOW, RULE) == expected


@settings(deadline=None)  # a busy machine is no fault of it
@given(
    st.lists(st.tuples(st.integers(0, 500), st.floats(-10, 200)), max_size=30), st.none() | st.integers(0, 40),
)  # fmt: skip
def test_always_the_oldest_and_never_the_newest(found: list, committed: int | None) -> None:
    """The deleted segments are the oldest ones, never the newest, and none uncommitted while there is a pipeline."""
    segments = [SegmentFile(number, size, NOW - age * DAY) for number, (size, age) in enumerate(found, 1)]
    doomed = deletable(segments, committed, NOW, RULE)
    assert doomed == [file.number for file in segments[: len(doomed)]]
    assert len(doomed) <= max(0, min(MOST_AT_ONCE, len(segments) - 1))
    assert committed is None or all(number <= committed for number in doomed)


def make_segments(start: Callable[..., Running], **options: object) -> Running:
    """Make five old segments of results and of changes, and return a journal started with `options`."""
    running = start(Limits(results_per_segment=1))
    for number in range(1, 6):
        running.journal.append(entry(number))
        running.journal.change("flap", {})
        running.until_segment(number)
    running.journal.close()
    start().journal.close()
    for path in running.segments.iterdir():
        os.utime(path, (NOW - 8 * DAY, NOW - 8 * DAY))
    return start(Limits(results_per_segment=1), **options)


def test_committed_segments_are_deleted(start: Callable[..., Running]) -> None:
    """Committed segments of each kind are deleted while sealing, and the history check accepts the later begin."""
    running = make_segments(start)
    (running.history / "committed").write_text("3\n")
    (running.history / "committed-changes").write_text("1\n")
    running.journal.append(entry(6))
    running.until(lambda: "chg-00000001.parquet" not in running.names())
    assert running.names() == [
        *(f"chg-{number:08}.parquet" for number in (2, 3, 4, 5)),
        *(f"seg-{number:08}.parquet" for number in (4, 5, 6)),
    ]
    running.journal.close()
    assert check_history(running.state).problems == ()
    assert start().recovery.sentences == ()


@pytest.mark.parametrize("content", [b"", b"three", b"-1", b"\xff", b"3.0"])
def test_an_unreadable_committed_file_deletes_nothing(start: Callable[..., Running], content: bytes) -> None:
    """An unreadable `committed` file deletes nothing, since there is a pipeline and its progress is unknown."""
    running = make_segments(start, retention=Retention(keep_days_alone=0, most_bytes_alone=0))
    (running.history / "committed").write_bytes(content)
    (running.history / "committed-changes").write_bytes(content)
    running.journal.append(entry(6))
    running.until_segment(6)
    running.journal.close()
    assert len(running.names()) == 11


def test_without_a_pipeline_the_size_counts(start: Callable[..., Running]) -> None:
    """Without a file `committed` the oldest segments go until the rest fits into the size."""
    running = make_segments(start, retention=Retention(most_bytes_alone=0))
    running.journal.append(entry(6))
    running.until(lambda: running.names() == ["chg-00000005.parquet", "seg-00000006.parquet"])


def test_segments_grow_old_by_the_settled_time(start: Callable[..., Running]) -> None:
    """A clock 300 days ahead since before the start deletes nothing until the time has settled."""
    settled = [NOW]
    rule = Retention(keep_days_alone=90, most_bytes_alone=10**9)
    running = make_segments(start, retention=rule, settled=lambda: settled[0], clock=lambda: NOW + 300 * DAY)
    running.journal.append(entry(6))
    running.until_segment(6)
    assert len(running.names()) == 11
    settled[0] = NOW + 300 * DAY
    running.journal.append(entry(7))
    running.until(lambda: running.names() == ["chg-00000005.parquet", "seg-00000007.parquet"])


def test_in_the_first_run_of_a_folder(start: Callable[..., Running]) -> None:
    """The first run of a folder deletes its own segments as well, from the first of each kind on."""
    one = Limits(results_per_segment=1, group_records=1)
    running = start(one, settled=lambda: NOW + 300 * DAY, retention=Retention(keep_days_alone=10_000))
    for number in range(1, 4):
        running.journal.change("link", {"event": "up"}, "web1")
        running.journal.append(entry(number))
    running.until_segment(3)
    assert [name for name in running.names() if name.startswith("seg")] == [f"seg-{n:08}.parquet" for n in (1, 2, 3)]
    running.journal.retain(Retention())
    running.journal.append(entry(4))
    running.until(lambda: len(running.names()) == 2)
    assert [name[:3] for name in running.names()] == ["chg", "seg"]
    assert running.names()[1] == "seg-00000004.parquet"
