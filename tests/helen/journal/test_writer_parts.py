"""Tests the writer without its thread: the size of a group, acks, the end of a WAL, and waits."""

from __future__ import annotations

import errno
import sys
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from attrs import evolve
from journal_running import blob, entry

from helen.journal import writer as writer_module
from helen.journal.digest import Digest
from helen.journal.disk import Disk
from helen.journal.folder import Folder
from helen.journal.hand_over import HandOver
from helen.journal.intake import RECORD_OVERHEAD, Intake, Queued
from helen.journal.limits import Limits
from helen.journal.marks import Marks
from helen.journal.numbering import Numbering
from helen.journal.recovery import State
from helen.journal.retention import Retention
from helen.journal.sealer import Sealer, _SegmentList
from helen.journal.series import Series
from helen.journal.snapshot import Snapshot
from helen.journal.values import REFUSING, SEALING, WRITING, Ack, Batch, Change, Entry, Floor, StoredChange, Trouble
from helen.journal.writer import Writer, _Broken


class FailingDisk(Disk):
    """Raise `errors` one after the other, at the named call."""

    def __init__(self) -> None:
        self.errors: dict[str, list[OSError]] = {}
        self.steps: list[str] = []

    def _may_fail(self, call: str) -> None:
        if self.errors.get(call):
            raise self.errors[call].pop(0)

    def write(self, descriptor: int, data: Any, offset: int) -> None:
        self._may_fail("write")
        super().write(descriptor, data, offset)

    def sync(self, descriptor: int) -> None:
        self._may_fail("sync")
        super().sync(descriptor)

    def reached(self, step: str) -> None:
        self.steps.append(step)


class Stage:
    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, **limits: Any) -> None:
        self.now = 100.0
        monkeypatch.setattr(writer_module, "time", SimpleNamespace(monotonic=lambda: self.now))
        self.disk = FailingDisk()
        self.folder = Folder(folder / "journal", folder / "history", self.disk)
        self.folder.lock()
        self.intake = Intake()
        self.limits = evolve(Limits(group_seconds=0.0, calm_seconds=0.0, retry_seconds=0.0), **limits)
        self.closed: list[Any] = []
        self.batches: list[Batch] = []
        self.troubles: list[Trouble] = []
        self.calls: deque[Callable[[], None]] = deque()
        state = State(Snapshot(), Marks(), Series(), 0, 1)
        self.numbering = Numbering(self.folder, state, self.limits, self.intake, self.troubles.append)
        self.digest = Digest(
            self.intake, state.series, self.limits, SimpleNamespace(put=self.closed.append),  # type: ignore[arg-type]
            self.batches.append, self.numbering.close_wal, state.wal, self.troubles.append,
        )  # fmt: skip
        hand_over = HandOver(self.calls.append, self.batches.append, self.digest.take, lambda: True)
        self.writer = Writer(
            self.folder, self.intake, self.numbering.wal, self.limits, hand_over, self.numbering.close_wal,
            self.troubles.append,
        )  # fmt: skip

    def push(self, *records: Entry | Change | Floor, size: int = 0) -> None:
        for record in records:
            if isinstance(record, Entry):
                self.numbering.entry(record, size)
            elif isinstance(record, Change):
                self.numbering.change(record)
            else:
                self.numbering.floor(record)

    def turn(self, *records: Entry | Change | Floor, size: int = 0) -> bool:
        """Let records come, and the writer take a group; then the caller's thread has its turns."""
        self.push(*records, size=size)
        goes_on = self.writer._turn() if len(self.intake) or self.intake.closing else True
        while self.calls:
            self.calls.popleft()()
        return goes_on

    def acks(self) -> list[tuple[str, int]]:
        return [(ack.spool, ack.sequence) for batch in self.batches for ack in batch.acks]

    def records(self) -> list[int]:
        return [record.at for batch in self.batches for record in batch.records]


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    made: list[Stage] = []

    def make(**limits: Any) -> Stage:
        made.append(Stage(tmp_path, monkeypatch, **limits))
        return made[-1]

    yield make
    for each in made:
        each.writer._wal.close()
        each.folder.unlock()


def queued(number: int, size: int) -> Queued:
    return Queued(b"", size, number, entry(number), number)


def change(kind: str = "link") -> Change:
    return Change(kind, 1.0, "web1", None, b"{}")


# ------------------------------------------------------------------------------------------------ groups


def test_a_group_is_acked_and_then_handed_over(stage: Any) -> None:
    """A group's acks come alone and first, then its new records of all kinds, after one write and one sync."""
    one = stage()
    assert one.turn(entry(1), change(), entry(1), entry(2), Floor("web1", "s2", 5), entry(1, spool="helen"))
    assert [(len(batch.acks), [record.at for record in batch.records]) for batch in one.batches] == [
        (2, []), (0, [1, 2, 3, 5]),
    ]  # fmt: skip
    assert one.acks() == [("s1", 2), ("s2", 4)]
    assert (one.numbering.at, one.numbering.refused, one.intake.backlog_bytes, one.disk.steps) == (
        5, 0, 0, ["wal-written", "wal-synced"],
    )  # fmt: skip


def test_what_was_there_already_is_acked_again_and_not_written(stage: Any) -> None:
    """A known sequence is acked again, since the agent did not hear its ack, and is not written again."""
    one = stage()
    one.turn(entry(1))
    one.disk.steps.clear()
    one.batches.clear()
    assert one.turn(entry(1), Floor("web1", "s1", 2), Floor("web1", "s1", 1))
    assert (one.acks(), one.records(), one.disk.steps) == ([("s1", 1)], [], [])
    one.turn(Floor("web1", "s1", 3))
    assert (one.numbering.at, one.acks()[-1]) == (2, ("s1", 2))


@pytest.mark.parametrize(
    ("spool", "told"), [("s1", "s1"), ("~helen", "helen"), ("~~helen", "~helen"), ("~other", "~other")]
)
def test_a_spool_is_acked_by_the_name_that_its_agent_uses(stage: Any, spool: str, told: str) -> None:
    """A spool is acked by the name that its agent uses; Helen's own spool `helen` is acked to nobody."""
    one = stage()
    one.turn(entry(1, spool=spool), entry(1, spool="helen"))
    assert [(ack.agent, ack.spool, ack.sequence) for batch in one.batches for ack in batch.acks] == [("web1", told, 1)]


def test_a_hole_is_not_acked(stage: Any) -> None:
    """Results behind a hole are kept, and the ack waits for the missing ones."""
    one = stage()
    one.turn(entry(2))
    assert (one.acks(), one.records()) == ([], [1])
    one.turn(entry(1))
    assert one.acks() == [("s1", 2)]


def test_what_cannot_be_counted_is_dropped_and_said_once(stage: Any) -> None:
    """A sequence that cannot be counted is dropped and counted each time, and reported once with the spool's name."""
    one = stage()
    one.turn(entry(0), entry(-1), entry(1))
    assert (one.numbering.refused, one.records()) == (2, [1])
    assert one.troubles == [
        Trouble("A sequence of web1's spool s1 can't be counted: dropped, and not acknowledged.", part=REFUSING)
    ]
    assert [each.part for each in one.troubles] == [REFUSING]
    one.turn(change(), entry(2))
    assert (one.numbering.refused, one.records()) == (2, [1, 2, 3])


@pytest.mark.parametrize(("most", "sizes"), [(1, [1, 1, 1, 1, 1]), (2, [2, 2, 1]), (5, [5]), (6, [5])])
def test_records_go_to_the_reactor_in_small_batches(stage: Any, most: int, sizes: list[int]) -> None:
    """Records go to the reactor in batches of at most `batch_records`, so that it is not held up."""
    one = stage(batch_records=most)
    one.turn(*(entry(number) for number in range(1, 6)))
    assert [len(batch.records) for batch in one.batches if batch.records] == sizes


@pytest.mark.parametrize(("limits", "size", "taken"), [
    ({"group_records": 2}, 0, 2), ({"group_bytes": RECORD_OVERHEAD + 1}, 0, 2),
    ({"group_bytes": RECORD_OVERHEAD}, 0, 1),
    ({"results_per_segment": 3}, 0, 3), ({}, 0, 5),
])  # fmt: skip
def test_how_much_one_group_takes(stage: Any, limits: dict[str, Any], size: int, taken: int) -> None:
    """A group takes so many bytes and so many records, and no more than its segment has room for."""
    one = stage(**limits)
    one.turn(*(entry(number) for number in range(1, 6)), size=size)
    assert (len(one.records()), len(one.intake)) == (taken, 5 - taken)


def test_room_of_a_segment_is_what_it_has_left(stage: Any) -> None:
    """A group takes no more results than its segment has left, also when two groups share a segment."""
    one = stage(results_per_segment=4, group_records=3)
    one.push(*(entry(number) for number in range(1, 8)))
    taken = []
    while len(one.intake):
        before = len(one.intake)
        one.turn()
        taken.append(before - len(one.intake))
    assert (taken, len(one.closed)) == ([3, 2, 3], 1)  # the end of the segment is queued, too


def test_the_end_of_the_queue(stage: Any) -> None:
    """Queued records are still written after the intake closes, and then the writer ends."""
    one = stage()
    one.push(entry(1))
    one.intake.close()
    assert one.turn() is True
    assert one.turn() is False
    assert one.records() == [1]


@pytest.mark.parametrize(("ago", "closing", "size", "waits"), [
    (0.0, False, 0, 0.5), (0.25, False, 0, 0.25), (0.5, False, 0, None), (9.0, False, 0, None), (0.0, True, 0, None),
    (0.0, False, 10_000 - RECORD_OVERHEAD, None), (0.0, False, 9_999 - RECORD_OVERHEAD, 0.5),
])  # fmt: skip
def test_a_busy_journal_lets_a_group_grow(
    stage: Any, ago: float, closing: bool, size: int, waits: float | None
) -> None:
    """A busy journal waits until `group_seconds` after the last group, but not when closing or with a whole group
    there."""
    one = stage(group_seconds=0.5, group_bytes=10_000)
    waited: list[float] = []
    one.writer._stopping = SimpleNamespace(wait=waited.append)
    one.writer._last_commit = one.now - ago
    one.push(entry(1), size=size)
    if closing:
        one.intake.close()
    one.writer._let_a_group_grow()
    assert (waited, one.writer._last_commit) == ([] if waits is None else [pytest.approx(waits)], one.now)


FEW, SMALL = 3, 3 * 1_000


@pytest.mark.parametrize(("count", "size", "ago", "waits"), [
    (FEW - 1, 100, 0.0, 0.5), (FEW - 1, 100, 0.2, 0.3), (FEW, 100, 0.0, None), (FEW - 1, 2_000, 0.0, None),
    (FEW - 1, SMALL // (FEW - 1) - RECORD_OVERHEAD - 1, 0.0, 0.5), (2, 100, 0.6, -0.1), (1, 100, 0.0, None),
])  # fmt: skip
def test_few_results_wait_longer(stage: Any, count: int, size: int, ago: float, waits: float | None) -> None:
    """A calm group waits longer, but not a single result, a greater group, great results or a change."""
    one = stage(calm_seconds=0.5, calm_least=2, calm_records=FEW, calm_bytes=SMALL)
    waited: list[float] = []
    one.intake.wait_for_urgent = lambda seconds, most: waited.append(seconds)
    one.writer._last_commit = one.now - ago
    one.push(*(entry(number) for number in range(1, count + 1)), size=size)
    one.writer._let_a_group_grow()
    assert waited == ([] if waits is None else [pytest.approx(waits)])
    one.push(change())
    waited.clear()
    one.writer._let_a_group_grow()
    assert waited == []
    taken = one.intake.take(10**6, 10**3)
    assert (len(taken), one.intake.is_urgent) == (count + 1, False)


def test_an_urgent_record_that_is_left_stays_urgent() -> None:
    """An urgent record that is left when a group is cut at the end of a segment stays urgent."""
    intake = Intake()
    intake.push(queued(1, 10))
    intake.push(queued(2, 10), is_urgent=True)
    assert (len(intake.take(10**6, 1)), intake.is_urgent) == (1, True)
    assert (len(intake.take(10**6, 1)), intake.is_urgent) == (1, False)


def test_great_records_end_the_wait_for_urgent_ones() -> None:
    """Records of enough bytes end the wait for urgent ones, before and during the wait, since they count as backlog."""
    intake, waits = Intake(), []
    wake = intake._wake
    intake._wake = SimpleNamespace(clear=wake.clear, set=wake.set, wait=lambda seconds: waits.append(seconds))  # type: ignore[assignment]
    intake.push(queued(1, 100))
    intake.wait_for_urgent(0.5, 1_000)
    intake.push(queued(2, 1_000))  # before the wait
    intake.wait_for_urgent(0.5, 1_000)
    assert (waits, wake.is_set()) == ([0.5], False)
    assert len(intake.take(10**6, 10)) == 2
    during = []

    def wait(seconds: float) -> None:
        for number in (3, 4):
            intake.push(queued(number, 1_000 - RECORD_OVERHEAD - 500))
            during.append(wake.is_set())

    intake._wake.wait = wait  # type: ignore[method-assign]
    intake.wait_for_urgent(0.5, 1_000)
    assert during == [False, True]


@pytest.mark.parametrize("is_urgent", [False, True])
def test_a_thread_that_waits_is_woken_once(is_urgent: bool) -> None:
    """A waiting thread is woken once by many records, since setting an event costs more than the rest of a push."""
    intake, sets = Intake(), []
    wake = intake._wake

    def wait(seconds: float | None) -> None:
        for number in range(10):
            intake.push(queued(number + 1, 10), is_urgent=is_urgent)

    intake._wake = SimpleNamespace(clear=wake.clear, set=lambda: sets.append(wake.set()), wait=wait)  # type: ignore[assignment]
    assert intake.wait(None) and len(sets) == 1
    assert len(intake.take(10**6, 10)) == 10
    intake.push(queued(11, 10), is_urgent=is_urgent)  # nobody waits
    assert len(sets) == 1
    intake._wake.wait = lambda seconds: pytest.fail("one record is there")  # type: ignore[method-assign]
    assert intake.wait(None)


def test_no_record_is_left_asleep() -> None:
    """Each record is taken although no wait has a time limit and two threads change places as often as Python
    allows."""
    intake, taken, most = Intake(), [], 3_000

    def take() -> None:
        while len(taken) < most:
            if intake.wait(None):
                intake.wait_for_urgent(1e-6, 10**6)
                taken.extend(intake.take(10**6, 7))

    thread = threading.Thread(target=take, daemon=True)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        thread.start()
        for number in range(most):
            intake.push(queued(number + 1, 10), is_urgent=number % 3 == 0)
        thread.join(60.0)
    finally:
        sys.setswitchinterval(before)
    assert [each.at for each in taken] == list(range(1, most + 1)) and not thread.is_alive()


# ------------------------------------------------------------------------------------------------ the disk


def test_no_space_is_waited_for(stage: Any) -> None:
    """The writer waits for space and reports it once at the begin and once at the end; nothing is acked meanwhile."""
    one = stage()
    one.disk.errors["write"] = [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EDQUOT, "Quota exceeded"),
    ]
    assert one.turn(entry(1))
    first, last = one.troubles
    assert first.sentence.startswith(
        f"No space for {one.folder.wal(1)} (No space left on device): results are taken but"
    )
    assert (first.fatal, first.over, first.part) == (False, False, WRITING)
    assert last == Trouble("The disk takes results again: they are durable and acknowledged.", over=True)
    assert one.acks() == [("s1", 1)]


def test_no_space_until_the_end(stage: Any) -> None:
    """A journal that closes without space gives no ack, and the agents keep their results."""
    one = stage()
    one.disk.errors["write"] = [OSError(errno.ENOSPC, "No space left on device")] * 3
    one.writer.stop()
    assert one.turn(entry(1)) is False
    assert (one.batches, one.intake.backlog_bytes, len(one.troubles)) == ([], RECORD_OVERHEAD, 1)


@pytest.mark.parametrize(("call", "said"), [("write", "Writing {} failed"), ("sync", "fsync of {} failed")])
def test_a_disk_that_fails_ends_it(stage: Any, call: str, said: str) -> None:
    """An EIO of a write or a sync ends the writer with a fatal trouble, and nothing more is acked."""
    one = stage()
    one.disk.errors[call] = [OSError(errno.EIO, "Input/output error")]
    with pytest.raises(_Broken, match=said.format(one.folder.wal(1))):
        one.turn(entry(1))
    assert (one.batches, one.intake.backlog_bytes) == ([], RECORD_OVERHEAD)
    one.disk.errors[call] = [OSError(errno.EIO, "Input/output error")]
    one.push(entry(2))
    one.writer._run()
    assert [(each.fatal, each.part) for each in one.troubles] == [(True, WRITING)]


# ------------------------------------------------------------------------------------------------ closing a WAL


DUE = [  # (limits, records of one group, closed)
    ({"results_per_segment": 3}, [entry(1), entry(2)], False), ({"results_per_segment": 2}, [entry(1), entry(2)], True),
    ({"changes_per_segment": 3}, [change(), change()], False), ({"changes_per_segment": 2}, [change(), change()], True),
    ({"results_per_segment": 2}, [entry(1), change()], False), ({"segment_bytes": 80}, [entry(1)], True),
    ({"segment_bytes": 1_000_000}, [entry(1)], False),
]  # fmt: skip


@pytest.mark.parametrize(("limits", "records", "closed"), DUE)
def test_when_a_wal_is_full(stage: Any, limits: dict[str, Any], records: list[Any], closed: bool) -> None:
    """A WAL is full by its results, its changes or its bytes."""
    one = stage(**limits)
    one.turn(*records)
    number = 2 if closed else 1
    assert (len(one.closed) == 1, one.writer._wal.number, one.numbering.wal.number) == (closed, number, number)


def test_a_wal_that_is_just_full_by_bytes(stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A WAL is full by the bytes of its records, or of its rows in memory once a batch of them is converted."""
    one = stage()
    one.turn(entry(1))
    size = one.numbering._bytes
    for most, following in ((2 * size + 1, 1), (3 * size, 2)):
        one.numbering._limits = evolve(one.limits, segment_bytes=most)
        one.turn(entry(following + 1))
        assert (one.numbering.wal.number, len(one.closed)) == (following, following - 1)
    monkeypatch.setattr("helen.journal.rows.BATCH_ROWS", 1)
    for most, number in ((10**6, 2), (1, 3)):
        one.digest._limits = evolve(one.limits, segment_bytes=most)
        one.turn(entry(number + 2))
        assert one.numbering.wal.number == number


@pytest.mark.parametrize(
    ("later", "left", "is_due"), [(0.0, 10.0, False), (9.5, 0.5, False), (10.0, 0.0, True), (99.0, 0.0, True)]
)
def test_a_wal_has_so_long(stage: Any, later: float, left: float, is_due: bool) -> None:
    """A WAL is due so many seconds after its first record, and never without one."""
    one = stage()
    assert one.writer._seconds_left() is None
    one.turn(entry(1))
    one.now += later
    assert one.writer._seconds_left() == left
    one.turn(entry(2))  # then it is asked for the end of it
    assert (len(one.intake), one.writer._seconds_left() is None) == (is_due, is_due)
    one.turn()
    assert (len(one.closed), one.numbering.wal.number) == (is_due, 1 + is_due)


def test_what_a_closed_wal_takes_along(stage: Any) -> None:
    """A closed WAL takes its number, its last `at`, its rows and copies of marks and series; the next one begins
    empty."""
    one = stage(results_per_segment=2)
    one.turn(entry(1), change(), entry(2))
    one.turn()
    (closed,) = one.closed
    assert (closed.number, closed.at, closed.rows.results, closed.rows.changes) == (1, 3, 2, 1)
    assert closed.marks == [("web1", "s1", 2, 3, [], [])]
    assert closed.series().to_pylist() == [{"series_id": 0, "agent": "web1", "check_id": "cpu", "check": None}]
    assert (one.writer._wal.number, one.digest._rows.results, one.writer._first_at) == (2, 0, None)
    one.now += 99.0
    one.turn(entry(3), entry(4))
    assert [(each.number, each.at, each.series) for each in one.closed[1:]] == [(2, 5, None)]


def test_a_thread_that_never_began() -> None:
    """Limits wait a second before a further try, and Retention keeps seven days, without other settings."""
    assert (Limits().retry_seconds, Retention().keep_days) == (1.0, 7.0)


# ------------------------------------------------------------------------------------------------ the sealer


def sealer(one: Stage, **limits: Any) -> Sealer:
    state = State(Snapshot(), Marks(), Series(), 0, 1)
    return Sealer(one.folder, state, evolve(one.limits, **limits), Retention(), lambda: 0.0, one.troubles.append)


def test_closed_wals_keep_their_rows_up_to_a_limit(stage: Any) -> None:
    """Closed WALs keep their rows in memory up to a limit, and the others are read back from disk."""
    one = stage(results_per_segment=1)
    for number in range(1, 5):
        one.turn(entry(number))
    made = sealer(one, sealed_in_memory=2)
    assert not made._wake.is_set()
    for closed in one.closed:
        made.put(closed)
    assert [each.rows is not None for each in made._closed] == [True, True, False, False]
    assert made._wake.is_set()
    made.stop()
    assert made._stopping.is_set()


def test_space_for_segments_is_waited_for(stage: Any) -> None:
    """The sealer waits for space and reports it at the begin and at the end; another error is raised."""
    one = stage()
    made, tries = sealer(one), list[int]()

    def act(failures: int, number: int = errno.ENOSPC) -> Any:
        tries.append(1)
        if len(tries) <= failures:
            raise OSError(number, "words")

    assert made._until_possible(lambda: act(2)) is True
    assert [(each.over, each.part) for each in one.troubles] == [(False, SEALING), (True, SEALING)]
    assert one.troubles[0].sentence.startswith(f"No space for a segment in {one.folder.segments} (words)")
    one.troubles.clear()
    assert made._until_possible(lambda: act(0)) is True
    assert one.troubles == []
    made.stop()
    assert made._until_possible(lambda: act(99)) is False
    assert [each.over for each in one.troubles] == [False]
    with pytest.raises(OSError, match="words"):
        made._until_possible(lambda: act(99, errno.EIO))


def test_a_list_of_segments_follows_the_folder(tmp_path: Path) -> None:
    """A list of segments follows the folder up to the first hole, and an empty one begins with the newest number."""
    path = lambda number: tmp_path / str(number)  # noqa: E731
    for number, size in ((3, 10), (4, 20)):
        path(number).write_bytes(b"x" * size)
    found = _SegmentList.of([2, 3, 4], path, "committed")
    assert [(each.number, each.size) for each in found.files] == [(3, 10), (4, 20)]
    assert found.files[0].closed == path(3).stat().st_mtime
    for number in (5, 6, 8):
        path(number).write_bytes(b"")
    found.look(6)
    assert [each.number for each in found.files] == [3, 4, 5, 6]
    nothing = _SegmentList.of([], path, "committed")
    nothing.look(0)  # none is made yet
    assert nothing.files == []
    nothing.look(5)
    assert [each.number for each in nothing.files] == [5, 6]


# ------------------------------------------------------------------------------------------------ the intake


def test_the_intake_counts_what_is_not_delivered_yet() -> None:
    """The intake counts each record's blob and overhead until it is delivered."""
    intake = Intake()
    assert (intake.backlog_bytes, len(intake), intake.closing, intake.wait(0.0)) == (0, 0, False, False)
    intake.push(queued(1, 100))
    intake.push(queued(2, 0))
    assert (intake.backlog_bytes, len(intake), intake.wait(None)) == (100 + 2 * RECORD_OVERHEAD, 2, True)
    (first,) = intake.take(10**9, 1)
    assert (first.size, len(intake), intake.backlog_bytes, intake.queued_bytes) == (612, 1, 1_124, 512)
    intake.done(first)
    assert (intake.backlog_bytes, intake.count_in, intake.count_out) == (512, 2, 1)
    assert intake.take(0, 9) == [] and intake.take(9, 0) == []
    (second,) = intake.take(1, 9)
    intake.done(second)
    assert (second.size, intake.backlog_bytes, intake.queued_bytes, intake.wait(0.0)) == (512, 0, 0, False)
    intake.close()
    assert (intake.closing, intake.wait(None)) == (True, False)


def test_a_change_comes_back_as_it_is(stage: Any) -> None:
    """A change comes back as the same object, by which its writer knows it."""
    one, given = stage(), change("ack")
    one.turn(given, entry(1, content=blob("critical")))
    first, second = one.batches[-1].records
    assert isinstance(first, StoredChange) and first.change is given
    assert second.document.status == 2
    assert one.batches[0].acks == (Ack("web1", "s1", 1),)
