"""One write and one sync for all that came within 10 ms: an idle journal writes at once, a busy one does not."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from journal_running import Running, entry

from helen.journal.disk import Disk
from helen.journal.limits import Limits

NEVER = 60.0  # seconds of a group that no test waits for


class CountingDisk(Disk):
    """Knows how many groups have been synced."""

    groups = 0

    def reached(self, step: str) -> None:
        self.groups += step == "wal-synced"


def test_an_idle_journal_writes_at_once_and_a_busy_one_waits(start: Callable[..., Running]) -> None:
    """The first result of a quiet hour is durable now; what follows shares one sync when a group's time is over."""
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


def test_a_hundred_groups_a_second_at_most(start: Callable[..., Running]) -> None:
    """With the limits of the product: 400 results that drip in cost a sync for each 10 ms, not one each."""
    assert Limits().group_seconds == pytest.approx(0.010)
    disk = CountingDisk()
    running = start(disk=disk)
    began = time.monotonic()
    for number in range(1, 401):
        running.journal.append(entry(number))
        time.sleep(0.001)
    running.until_records(400)
    assert disk.groups <= (time.monotonic() - began) / 0.010 + 2
    assert disk.groups < 200
    assert running.high() == 400
