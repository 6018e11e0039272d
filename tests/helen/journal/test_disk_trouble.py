"""Tests that a full disk stops acks and nothing else, and a failing one ends Helen. Failures are injected at the
system calls."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from journal_running import Running, blob, entry, mark_of

from helen.journal import segments
from helen.journal.disk import Disk
from helen.journal.limits import Limits
from helen.journal.values import Ack
from helen.journal.verify import check_history

QUICK = Limits(retry_seconds=0.05)


class SmallDisk(Disk):
    """Play a disk with `room` bytes: a write that does not fit writes a part, as on a real one."""

    def __init__(self, code: int = errno.ENOSPC) -> None:
        self.room = 10**9
        self.code = code
        self.only = ""
        self.failures = 0

    def write(self, descriptor: int, data: bytes, offset: int) -> None:
        concerned = self.only in os.readlink(f"/proc/self/fd/{descriptor}")
        if concerned and len(data) > self.room:
            self.failures += 1
            super().write(descriptor, memoryview(data)[: self.room], offset)
            raise OSError(self.code, os.strerror(self.code))
        super().write(descriptor, data, offset)


class FailingDisk(Disk):
    """Raise EIO once from fdatasync, which would succeed afterwards, as a kernel does."""

    def __init__(self, only: str) -> None:
        self.only = only
        self.armed = False
        self.calls: list[str] = []

    def sync(self, descriptor: int) -> None:
        name = os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))
        self.calls.append(name)
        if self.armed and self.only in name:
            self.armed = False
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().sync(descriptor)


@pytest.mark.adversary(53)
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk(start: Callable[..., Running], code: int) -> None:
    """A full disk stops acks, says one sentence and leaves no half record; all results are acked once there is
    space."""
    disk = SmallDisk(code)
    running = start(QUICK, disk=disk)
    running.journal.append(entry(1))
    running.until(lambda: running.high() == 1)
    path = running.state / "journal" / "wal-00000001.log"
    size = path.stat().st_size
    disk.room = 30
    for number in range(2, 50):
        running.journal.append(entry(number))
    running.until(lambda: disk.failures >= 3)
    assert running.high() == 1
    assert [trouble.fatal for trouble in running.troubles] == [False]
    assert running.troubles[0].sentence.startswith(f"No space for {path} (")
    assert path.stat().st_size in (size, size + 30)  # between a failed try and its truncation
    disk.room = 10**9
    freed = time.monotonic()
    running.until(lambda: running.high() == 49)
    assert time.monotonic() - freed < 60
    assert [trouble.over for trouble in running.troubles] == [False, True]
    running.journal.close()
    assert check_history(running.state, [Ack("web1", "s1", 49)]).problems == ()


def test_a_disk_that_became_read_only(start: Callable[..., Running]) -> None:
    """A disk that became read-only stops acks but not Helen, and all is acknowledged once it can be written again
    (F33)."""
    disk = SmallDisk(errno.EROFS)
    running = start(QUICK, disk=disk)
    running.journal.append(entry(1))
    running.until(lambda: running.high() == 1)
    disk.room = 0
    running.journal.append(entry(2))
    running.until(lambda: disk.failures >= 3)
    path = running.state / "journal" / "wal-00000001.log"
    assert (running.high(), [trouble.fatal for trouble in running.troubles]) == (1, [False])
    assert running.troubles[0].sentence.startswith(
        f"{path} can't be written (Read-only file system): results are taken"
    )
    disk.room = 10**9
    running.until(lambda: running.high() == 2)
    assert [trouble.over for trouble in running.troubles] == [False, True]
    running.journal.close()
    assert check_history(running.state, [Ack("web1", "s1", 2)]).problems == ()


def test_a_read_only_disk_under_the_segments(start: Callable[..., Running]) -> None:
    """With read-only segments results are acknowledged, and are sealed once the disk can be written again (F33)."""
    disk = SmallDisk(errno.EROFS)
    disk.only, disk.room = "seg-", 100
    running = start(Limits(retry_seconds=0.05, results_per_segment=2, group_records=2), disk=disk)
    for number in range(1, 5):
        running.journal.append(entry(number))
    running.until(lambda: running.high() == 4 and disk.failures >= 2)
    assert [trouble.fatal for trouble in running.troubles] == [False]
    disk.room = 10**9
    running.until_segment(1)


class NoDescriptor(Disk):
    """Fail to open a file whose name has `only` in it, or a folder, while armed, as if all descriptors were in use."""

    def __init__(self, call: str, only: str) -> None:
        self.call, self.only = call, only
        self.armed = False
        self.failures = 0

    def _open(self, call: str, path: Path) -> None:
        if self.armed and call == self.call and self.only in path.name:
            self.failures += 1
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    def create_log(self, path: Path) -> int:
        self._open("create_log", path)
        return super().create_log(path)

    def create(self, path: Path, mode: int) -> int:
        self._open("create", path)
        return super().create(path, mode)

    def sync_folder(self, folder: Path) -> None:
        self._open("sync_folder", folder)
        super().sync_folder(folder)


@pytest.mark.parametrize(("call", "only"), [("create_log", "wal-00000001"), ("sync_folder", "journal")])
def test_no_descriptor_is_left_for_a_wal(start: Callable[..., Running], call: str, only: str) -> None:
    """Without a descriptor for a WAL nothing is acked and Helen goes on; all is acknowledged once a file can be
    opened."""
    disk = NoDescriptor(call, only)
    running = start(QUICK, disk=disk)
    disk.armed = True
    running.journal.append(entry(1))
    running.until(lambda: disk.failures >= 3)
    path = running.state / "journal" / "wal-00000001.log"
    assert (running.high(), [trouble.fatal for trouble in running.troubles]) == (0, [False])
    assert running.troubles[0].sentence == (
        f"{path} can't be opened (Too many open files): results are taken but not acknowledged; agents keep them. Raise"
        " LimitNOFILE of Helen's unit (ulimit -n), or look who holds so many connections; it is tried again each"
        " second."
    )
    disk.armed = False
    running.until(lambda: running.high() == 1)
    assert [trouble.over for trouble in running.troubles] == [False, True]
    running.journal.close()
    assert check_history(running.state, [Ack("web1", "s1", 1)]).problems == ()


SEALING_STEPS = [("create", "series"), ("create", "seg-"), ("create", "marks"), ("sync_folder", "segments")]


@pytest.mark.parametrize(("call", "only"), SEALING_STEPS)
def test_no_descriptor_is_left_for_a_segment(start: Callable[..., Running], call: str, only: str) -> None:
    """Without a descriptor for a segment results are acknowledged, and sealed once each as soon as a file can be
    opened."""
    disk = NoDescriptor(call, only)
    running = start(Limits(retry_seconds=0.05, results_per_segment=2, group_records=2), disk=disk)
    disk.armed = True
    for number in range(1, 5):
        running.journal.append(entry(number))
    running.until(lambda: running.high() == 4 and disk.failures >= 2)
    assert [trouble.fatal for trouble in running.troubles] == [False]
    said = "can't be opened (Too many open files): results that were acknowledged are safe"
    assert said in running.troubles[0].sentence
    disk.armed = False
    running.until_segment(2)
    running.journal.close()
    assert check_history(running.state, [Ack("web1", "s1", 4)]).problems == ()


def test_no_descriptor_is_left_to_look_at_a_segment(
    start: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A segment of the first try that the next try cannot open is not taken for a foreign file, and is sealed later."""
    disk = NoDescriptor("create", "marks")
    running = start(Limits(retry_seconds=0.05, results_per_segment=2, group_records=2), disk=disk)
    looks = 0

    def read_schema(path: Path) -> pa.Schema:
        nonlocal looks
        looks += 1
        if disk.armed:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return pq.read_schema(path)

    monkeypatch.setattr(segments.pq, "read_schema", read_schema)
    disk.armed = True
    for number in range(1, 5):
        running.journal.append(entry(number))
    running.until(lambda: running.high() == 4 and looks >= 2)
    assert [trouble.fatal for trouble in running.troubles] == [False]
    disk.armed = False
    running.until_segment(2)
    running.journal.close()
    assert check_history(running.state, [Ack("web1", "s1", 4)]).problems == ()


def test_what_is_acknowledged_is_said_behind_the_sync(start: Callable[..., Running]) -> None:
    """Two errors of one group are one trouble, which is over only when the group can be acknowledged."""
    disk = NoDescriptor("create_log", "wal-00000001")
    running = start(QUICK, disk=disk)
    disk.armed = True
    running.journal.append(entry(1))
    running.until(lambda: disk.failures >= 2)
    disk.call, disk.only, disk.failures = "sync_folder", "journal", 0
    running.until(lambda: disk.failures >= 2)
    assert ([trouble.over for trouble in running.troubles], running.high()) == ([False], 0)
    disk.armed = False
    running.until(lambda: running.high() == 1)
    assert [trouble.over for trouble in running.troubles] == [False, True]


@pytest.mark.adversary(53)
def test_a_crash_while_the_disk_is_full(start: Callable[..., Running]) -> None:
    """After a crash on a full disk the acked results are there, the half record is cut, and the numbers are dense."""
    disk = SmallDisk()
    disk.truncate = lambda descriptor, size: None  # type: ignore[method-assign]  # killed before it could be cut
    running = start(QUICK, disk=disk)
    running.journal.append(entry(1))
    running.until(lambda: running.high() == 1)
    disk.room = 30
    running.journal.append(entry(2))
    running.until(lambda: disk.failures >= 1)
    running.journal.close()
    again = start()
    assert (again.recovery.results, again.recovery.cut_bytes, again.recovery.quarantined) == (1, 30, 0)
    assert check_history(running.state, [Ack("web1", "s1", 1)]).problems == ()


def test_no_space_to_begin_with(start: Callable[..., Running]) -> None:
    """A disk without space for the header of a WAL delays the ack until there is space."""
    disk = SmallDisk()
    disk.room = 0
    running = start(QUICK, disk=disk)
    running.journal.append(entry(1))
    running.until(lambda: disk.failures >= 2)
    disk.room = 10**9
    running.until(lambda: running.high() == 1)


def test_closing_while_the_disk_is_full(start: Callable[..., Running]) -> None:
    """The journal closes quickly on a full disk, and leaves results without an ack to the agents."""
    disk = SmallDisk()
    disk.room = 0
    running = start(Limits(retry_seconds=600), disk=disk)
    running.journal.append(entry(1))
    running.until(lambda: disk.failures >= 1)
    began = time.monotonic()
    running.journal.close()
    assert time.monotonic() - began < 90
    assert running.acks == []


def test_no_space_for_segments(start: Callable[..., Running]) -> None:
    """Without space for segments acks go on, WALs stay, few rows stay in memory; with space all is sealed in order."""
    disk = SmallDisk()
    disk.only, disk.room = "seg-", 100
    running = start(Limits(retry_seconds=0.05, results_per_segment=2, group_records=2), disk=disk)
    for number in range(1, 12):
        running.journal.append(entry(number))
    running.until(lambda: running.high() == 11 and disk.failures >= 2)
    assert [trouble.fatal for trouble in running.troubles] == [False]
    assert running.troubles[0].sentence.startswith("No space for a segment")
    assert len(list((running.state / "journal").glob("wal-*"))) == 6
    assert sum(closed.rows is not None for closed in running.journal._sealer._closed) == 2
    disk.room = 10**9
    running.until_segment(5)
    assert [row["sequence"] for row in running.rows()] == list(range(1, 11))
    assert running.troubles[-1].over
    running.journal.close()
    assert check_history(running.state, [Ack("web1", "s1", 11)]).problems == ()


def test_a_start_on_a_full_disk(start: Callable[..., Running]) -> None:
    """Helen starts on a full disk, takes results, and seals those of its WAL once there is space."""
    running = start()
    running.journal.append(entry(1))
    running.until(lambda: running.high() == 1)
    running.journal.close()
    disk = SmallDisk()
    disk.only, disk.room = "parquet", 10
    again = start(QUICK, disk=disk)
    assert again.recovery.sentences == (
        "1 result and 0 changes were durable and in no segment yet; they are kept until there is space for one now.",
    )
    assert mark_of(again.journal, "web1", "s1")[0] == 1
    again.journal.append(entry(2))
    again.until(lambda: again.high() == 2)
    disk.room = 10**9
    again.until_segment(1)
    assert [row["sequence"] for row in again.rows()] == [1]


@pytest.mark.adversary(54)
def test_a_failing_fsync_is_the_end(start: Callable[..., Running]) -> None:
    """A failing fdatasync is fatal: nothing of that group is acked, and fdatasync is not called on that file again."""
    disk = FailingDisk("wal-")
    running = start(disk=disk)
    running.journal.append(entry(1))
    running.until(lambda: running.high() == 1)
    disk.armed = True
    running.journal.append(entry(2))
    running.until(lambda: any(trouble.fatal for trouble in running.troubles))
    assert disk.calls == ["wal-00000001.log"] * 2
    assert [trouble.fatal for trouble in running.troubles] == [True]
    assert "what the disk holds is unknown" in running.troubles[0].sentence
    running.journal.append(entry(3))
    running.journal.close()
    assert running.high() == 1
    assert disk.calls == ["wal-00000001.log"] * 2
    again = start()
    again.journal.append(entry(2))
    again.journal.append(entry(3))
    again.until(lambda: again.high() == 3)
    again.journal.close()
    assert check_history(again.state, [Ack("web1", "s1", 3)]).problems == ()


def test_a_failing_write_is_the_end(start: Callable[..., Running]) -> None:
    """A write that fails with EIO is fatal at once, since it does not pass as a full disk does."""
    disk = SmallDisk(errno.EIO)
    disk.room = 0
    running = start(disk=disk)
    running.journal.append(entry(1))
    running.until(lambda: any(trouble.fatal for trouble in running.troubles))
    assert running.acks == []


@pytest.mark.adversary(54)
def test_a_failing_fsync_of_a_segment(start: Callable[..., Running]) -> None:
    """A failing fsync of a segment is fatal; the WAL has everything, and the next start seals it."""
    disk = FailingDisk("seg-")
    disk.armed = True
    running = start(Limits(results_per_segment=1), disk=disk)
    running.journal.append(entry(1))
    running.until(lambda: any(trouble.fatal for trouble in running.troubles))
    assert "Nothing acknowledged is lost" in running.troubles[0].sentence
    running.journal.close()
    assert start().names() == ["seg-00000001.parquet"]


LIMITED = """
import pathlib, resource, sys, time
from journal_running import Running, entry
from helen.journal.limits import Limits
running = Running(pathlib.Path(sys.argv[1]), limits=Limits(retry_seconds=0.05)).open()
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
running.journal.append(entry(1))
running.until_records(1)  # else one write could have all, and none would be stored
for number in range(2, 401):
    running.journal.append(entry(number))
    time.sleep(0.0005)
running.until(lambda: bool(running.troubles))
print(running.high(), flush=True)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
running.until(lambda: running.high() == 400)
print(running.high())
running.journal.close()
"""


def test_the_kernels_own_limit(tmp_path: Path) -> None:
    """A write that RLIMIT_FSIZE ends in the middle of a record leaves a whole history, without an injected failure."""
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, tmp_path], capture_output=True, text=True, check=False, timeout=60,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "stages")},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    stopped_at, end = map(int, done.stdout.split())
    assert 0 < stopped_at < 400
    assert end == 400
    report = check_history(tmp_path, [Ack("web1", "s1", 400)])
    assert (report.results, report.problems) == (400, ())


def test_a_bug_is_not_silent(start: Callable[..., Running], monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug in a reader of records is a fatal trouble with its name, and is raised for Helen's log."""
    monkeypatch.setattr("threading.excepthook", lambda arguments: None)
    monkeypatch.setattr("helen.journal.digest.stored_result", lambda at, entry: 1 / 0)
    running = start()
    running.journal.append(entry(1, content=blob()))
    with pytest.raises(ZeroDivisionError):
        running.until(lambda: any(trouble.fatal for trouble in running.troubles))
    running.journal.close()  # the thread ends while its exception is still caught above
    assert "ZeroDivisionError" in running.troubles[0].sentence
