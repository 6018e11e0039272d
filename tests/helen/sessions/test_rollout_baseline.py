"""Tests that results from before a rollout are sorted in a thread; later ones are neither lost nor taken twice."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from held_walks import HeldWalks
from twisted.internet.defer import Deferred

from helen.evaluation.replay import HistoryRecord
from helen.journal.values import Origin
from helen.sessions import rollout_control
from helen.sessions.rollout_baseline import Sample, by_check, sample_of
from helen.sessions.rollout_control import RolloutControl
from helen.states.inputs import Result

KEYS = {("a", "disk"), ("b", "disk")}


def record(at: int, agent: str, check: str = "disk", origin: Origin = Origin.SCHEDULED) -> HistoryRecord:
    result = Result(float(at), 0, None, "s", at, None, "code", f"result {at}")
    made = dict.fromkeys(HistoryRecord.__slots__)
    made |= {"at": at, "received": float(at), "agent": agent, "check_id": check, "origin": origin, "result": result}
    return HistoryRecord(**{name: value for name, value in made.items() if not name.startswith("_")})  # type: ignore[arg-type]


def sample(at: int, agent: str) -> Sample:
    found = sample_of(record(at, agent))
    assert found is not None
    return found


def ats(found: dict[tuple[str, str], list[Sample]]) -> dict[str, list[int]]:
    return {agent: [each.at for each in samples] for (agent, _), samples in found.items()}


def test_samples_by_check() -> None:
    """Samples are in the order of the journal, each once; answers to questions and other checks are left out."""
    recent = [
        record(3, "a"),
        record(5, "a"),
        record(6, "a", "cpu"),
        record(7, "b", origin=Origin.ASKED),
        record(8, "b"),
    ]
    found = by_check([sample(5, "a"), sample(1, "b"), sample(2, "a")], recent, KEYS)
    assert ats(found) == {"b": [1, 8], "a": [2, 3, 5]}
    assert by_check((), (), KEYS) == {}


@pytest.mark.parametrize("recent", [[], [record(3, "a")]], ids=["none-before", "one-before"])
def test_what_comes_while_a_thread_sorts(monkeypatch: pytest.MonkeyPatch, recent: list[HistoryRecord]) -> None:
    waiting = list[tuple[Deferred[Any], Callable[[], Any]]]()

    def defer(call: Callable[..., Any], *given: Any) -> Deferred[Any]:
        waiting.append((Deferred(), lambda: call(*given)))
        return waiting[-1][0]

    monkeypatch.setattr(rollout_control, "deferToThread", defer)
    walks, judge = HeldWalks(), SimpleNamespace(recent=deque(recent, maxlen=4))
    sessions: Any = SimpleNamespace(fair_turns=walks, roster=None, delivery=None, journal=None)
    library: Any = SimpleNamespace(releases=None)
    keeper: Any = judge
    control: Any = RolloutControl(sessions, library, keeper, Path(), wall=lambda: 0.0, steady=lambda: 0.0)
    watch: Any = SimpleNamespace(old=None, loaded_at={}, ring=SimpleNamespace(is_compared=False))
    control._watch = watch
    control._sort_history(watch, KEYS, [sample(1, "b")])
    judge.recent += [record(4, "b"), record(5, "a", "cpu"), record(6, "a")]
    [(done, sort)] = waiting
    assert watch.old is None
    done.callback(sort())
    before = [each.at for each in recent]
    assert ats(watch.old) == {"b": [1, 4], "a": [*before, 6]}
    walks.take_all(lambda: 0)
    assert watch.ring.is_compared
