"""Whoever gives a command hears of it when it is durable and judged, or that the disk is late."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from helen.changing import DURABLE_SECONDS, JUDGED_SECONDS, Changes, NotDurable
from helen.journal.values import Change, StoredChange


class Paper:
    """A journal that is told when to be done."""

    def __init__(self) -> None:
        self.written: list[Change] = []

    def change(self, kind: str, document: Any, agent: str | None, check_id: str | None) -> Change:
        self.written.append(Change(kind, 0.0, agent, check_id, b"{}"))
        return self.written[-1]


class Desk:
    def __init__(self) -> None:
        self.clock, self.paper, self.judged = Clock(), Paper(), 0
        self.changes = Changes(self.clock, self.paper, lambda: self.judged)  # type: ignore[arg-type]

    def write(self) -> list[Any]:
        told: list[Any] = []
        Deferred.fromCoroutine(self.changes.write("ack", {}, "a", "c")).addBoth(told.append)
        return told


def test_durable_and_judged() -> None:
    """Two that are equal are told apart; neither is answered before it is on disk and in the states."""
    desk = Desk()
    first, second = desk.write(), desk.write()
    desk.changes.durable([StoredChange(7, desk.paper.written[1])])
    desk.clock.advance(0.1)
    assert (first, second) == ([], [])
    desk.judged = 7
    desk.clock.advance(0.1)
    assert (first, second) == ([], [7])
    desk.changes.durable([StoredChange(8, desk.paper.written[0]), StoredChange(9, Change("x", 0.0, None, None, b""))])
    desk.judged = 9
    desk.clock.advance(0.1)
    assert first == [8]


def test_a_judge_that_is_far_behind() -> None:
    """It is durable: that is said, even if thousands of results are to be judged before it."""
    desk = Desk()
    told = desk.write()
    desk.changes.durable([StoredChange(7, desk.paper.written[0])])
    for _ in range(int(JUDGED_SECONDS / 0.01) + 2):
        desk.clock.advance(0.01)
    assert told == [7]


def test_a_disk_that_is_late() -> None:
    """Not as if it had been done, and not as if it never would be."""
    desk = Desk()
    told = desk.write()
    desk.clock.advance(DURABLE_SECONDS - 0.1)
    assert told == []
    desk.clock.advance(0.2)
    with pytest.raises(NotDurable, match="It takes effect when the disk does"):
        told[0].raiseException()
    desk.changes.durable([StoredChange(7, desk.paper.written[0])])
