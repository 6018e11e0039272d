"""Tests that a command is answered when it is durable and evaluated, or by a sentence if the disk is late."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock, Cooperator

from helen.evaluation import commands
from helen.evaluation.commands import DURABLE_SECONDS, EVALUATED_SECONDS, MANY_A_TURN, Commands, NotDurable
from helen.journal.values import Change, StoredChange


class Paper:
    """Stands in for a journal that is told when to be done."""

    def __init__(self) -> None:
        self.written: list[Change] = []

    def change(self, kind: str, document: Any, agent: str | None, check_id: str | None) -> Change:
        self.written.append(Change(kind, 0.0, agent, check_id, b"{}"))
        return self.written[-1]


class Stage:
    def __init__(self) -> None:
        self.clock, self.paper = Clock(), Paper()
        self.evaluated: dict[int, Deferred[None]] = {}
        self.commands = Commands(self.clock, self.paper, self._when_evaluated)  # type: ignore[arg-type]

    def _when_evaluated(self, at: int) -> Deferred[None]:
        return self.evaluated.setdefault(at, Deferred())

    def write(self) -> list[Any]:
        told: list[Any] = []
        Deferred.fromCoroutine(self.commands.write("ack", {}, "a", "c")).addBoth(told.append)
        return told


def test_durable_and_evaluated() -> None:
    """Two equal commands are told apart; neither is answered before it is on disk and in the states."""
    stage = Stage()
    first, second = stage.write(), stage.write()
    stage.commands.durable([StoredChange(7, stage.paper.written[1])])
    stage.clock.advance(0.1)
    assert (first, second) == ([], [])
    stage.evaluated[7].callback(None)
    assert (first, second) == ([], [7])
    other = StoredChange(9, Change("x", 0.0, None, None, b""))
    stage.commands.durable([StoredChange(8, stage.paper.written[0]), other])
    assert first == []
    stage.evaluated[8].callback(None)
    assert first == [8]
    assert not stage.clock.getDelayedCalls()


def test_many_are_written_in_turns_and_answered_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reactor has a turn between slices; nobody is told before the last change is durable and evaluated."""
    stage, told = Stage(), list[Any]()
    turns = Cooperator(lambda: lambda: True, lambda call: stage.clock.callLater(1.0, call))  # one step a turn
    monkeypatch.setattr(commands, "cooperate", turns.cooperate)
    total = 2 * MANY_A_TURN + 1
    documents = [(("a", f"c{number}"), {"owner": "anna"}) for number in range(total)]
    Deferred.fromCoroutine(stage.commands.write_many("ack", documents)).addBoth(told.append)
    counts = list[int]()
    while len(stage.paper.written) < total:
        stage.clock.advance(1.0)
        counts.append(len(stage.paper.written))
    assert counts[-3:] == [MANY_A_TURN, 2 * MANY_A_TURN, total]
    assert [each.check_id for each in stage.paper.written] == [check for (_, check), _ in documents]
    stage.clock.advance(1.0)
    for at, change in enumerate(stage.paper.written):
        assert told == []
        stage.commands.durable([StoredChange(at, change)])
        stage.evaluated[at].callback(None)
    assert told == [None]


def test_an_evaluator_that_is_far_behind() -> None:
    """A durable change is told, even if thousands of results are to be evaluated before it."""
    stage = Stage()
    told = stage.write()
    stage.commands.durable([StoredChange(7, stage.paper.written[0])])
    stage.clock.advance(EVALUATED_SECONDS - 0.1)
    assert told == []
    stage.clock.advance(0.2)
    assert told == [7]
    stage.evaluated[7].callback(None)


def test_a_disk_that_is_late() -> None:
    """The caller is told neither that it was done, nor that it never will be."""
    stage = Stage()
    told = stage.write()
    stage.clock.advance(DURABLE_SECONDS - 0.1)
    assert told == []
    stage.clock.advance(0.2)
    with pytest.raises(NotDurable, match="It takes effect when the disk does"):
        told[0].raiseException()
    stage.commands.durable([StoredChange(7, stage.paper.written[0])])


def test_many_of_which_one_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is told as it is, and the others may take effect all the same."""
    stage, told = Stage(), list[Any]()
    turns = Cooperator(lambda: lambda: True, lambda call: stage.clock.callLater(0.0, call))
    monkeypatch.setattr(commands, "cooperate", turns.cooperate)
    Deferred.fromCoroutine(stage.commands.write_many("ack", [(("a", "c"), {}), (("a", "d"), {})])).addBoth(told.append)
    for _ in range(3):
        stage.clock.advance(0.0)
    assert len(stage.paper.written) == 2
    stage.commands.durable([StoredChange(1, stage.paper.written[0])])
    stage.clock.advance(DURABLE_SECONDS)
    assert isinstance(told[0].value, NotDurable)
    stage.evaluated[1].callback(None)


def test_records_of_others_are_passed_over() -> None:
    """Results are passed over, and so are changes that nobody waits for."""
    stage = Stage()
    told = stage.write()
    stage.commands.durable(["a result", StoredChange(3, Change("ack", 0.0, "a", "c", b"{}"))])  # type: ignore[list-item]
    stage.clock.advance(0.0)
    assert told == []
    stage.commands.durable([StoredChange(4, stage.paper.written[0])])
    stage.evaluated[4].callback(None)
    assert told == [4]
    assert stage.commands._waiting == {}
