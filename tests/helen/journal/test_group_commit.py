"""Tests that a busy journal writes and syncs once for all records of a group's time, and an idle one at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from journal_running import Running, entry

from helen.journal.disk import Disk
from helen.journal.folder import Folder
from helen.journal.limits import Limits
from helen.journal.values import Origin
from helen.journal.wal import OpenWal

NEVER = 60.0  # seconds of a group that no test waits for


class CountingDisk(Disk):
    """Count the groups that have been synced."""

    groups = 0

    def reached(self, step: str) -> None:
        self.groups += step == "wal-synced"


def test_an_idle_journal_writes_at_once_and_a_busy_one_waits(start: Callable[..., Running]) -> None:
    """An idle journal writes its first result at once; those that follow share one sync when the group's time is
    over."""
    disk = CountingDisk()
    running = start(Limits(group_seconds=NEVER), disk=disk)
    running.journal.append(entry(1))
    running.until_records(1)
    for number in range(2, 102):
        running.journal.append(entry(number))
    time.sleep(0.2)
    assert (disk.groups, running.high()) == (1, 1)
    running.journal.close()
    assert (disk.groups, running.high()) == (2, 101)


def test_somebody_who_waits_ends_the_wait_of_a_calm_group(start: Callable[..., Running]) -> None:
    """A change or an answer to a query ends the wait of a calm group, which is written with all that has come so
    far."""
    disk = CountingDisk()
    running = start(Limits(group_seconds=0.2, calm_seconds=NEVER), disk=disk)
    running.journal.append(entry(1))
    running.until_records(1)
    for number in range(2, 12):
        running.journal.append(entry(number))
    time.sleep(0.5)
    assert (disk.groups, running.high()) == (1, 1)
    running.journal.change("silence", {"id": "s"}, "web1")
    running.until_records(12)
    assert (disk.groups, running.high()) == (2, 11)
    for number in range(12, 12 + Limits().calm_records):
        running.journal.append(entry(number))
    running.journal.append_own("web1", "cpu", "cpu", Origin.ASKED, 1.0, b"{}")
    running.until_records(13 + Limits().calm_records)
    assert running.high() == 11 + Limits().calm_records


def test_a_calm_journal_syncs_each_40_ms(start: Callable[..., Running]) -> None:
    """A calm journal with the product's limits needs far fewer syncs than the 400 results that arrive slowly.

    They come in tens: however slow the machine is, a ten is calm, and costs two syncs at most.
    """
    limits = Limits()
    assert (limits.group_seconds, limits.calm_seconds) == (pytest.approx(0.010), pytest.approx(0.040))
    disk = CountingDisk()
    running = start(disk=disk)
    began = time.monotonic()
    for first in range(1, 401, 10):
        for number in range(first, first + 10):
            running.journal.append(entry(number))
        time.sleep(0.010)
    running.until_records(400)
    assert disk.groups <= (time.monotonic() - began) / 0.010 + 2
    assert disk.groups < 100
    assert running.high() == 400


def test_the_name_of_a_log_is_durable_with_its_first_group(tmp_path: Path) -> None:
    """A WAL syncs its folder with its first group alone, since a crash could take its name; later groups sync the
    content."""
    synced: list[Path] = []

    class NotingDisk(Disk):
        def sync_folder(self, folder: Path) -> None:
            synced.append(folder)
            super().sync_folder(folder)

    folder = Folder(tmp_path, tmp_path / "history", NotingDisk())
    wal = OpenWal(folder, 1)
    for _ in range(3):
        wal.append(b"x")
        wal.sync_content()
        wal.sync_name()
        assert synced == [wal.path.parent]
    wal.close()


def test_a_batch_between_the_threads_is_not_delivered(start: Callable[..., Running]) -> None:
    """A batch that waits between the threads is not delivered yet: a reader whose deadline depends on it must wait."""
    running = start()
    running.journal.append(entry(1))
    deadline = time.monotonic() + 60.0
    while not running._calls:
        time.sleep(0.001)
        assert time.monotonic() < deadline
    position = running.journal.position
    assert running.journal.has_undelivered and not running.journal.has_delivered(position)
    running.turn()
    assert (running.journal.has_undelivered, running.high()) == (False, 1)
    running.journal._writer._limits = Limits(group_seconds=NEVER)  # type: ignore[union-attr]
    running.journal.append(entry(2))  # another agent's, say
    assert running.journal.has_undelivered and running.journal.has_delivered(position)
    assert not running.journal.has_delivered(running.journal.position)
