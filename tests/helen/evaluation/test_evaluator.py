"""Tests the keeper of states over a journal that is a list, and over a real one: nothing lost, nothing said twice."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from itertools import chain, repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from evaluator_scene import BAD, WALL, Scene
from twisted.internet.defer import succeed

from groundwork.clock_watch import Jump
from helen.agents.roster import Agent
from helen.assignments.state_rules import NO_SETTINGS
from helen.evaluation import replay, state_snapshot
from helen.evaluation.evaluator import LAG_SECONDS, Evaluator
from helen.evaluation.segment_footers import newest, oldest
from helen.journal.journal import Journal
from helen.journal.limits import Limits
from helen.journal.values import Batch, Change, Entry, Origin, StoredChange
from helen.states.clock_offset import offset_ms
from helen.states.model import Rule


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    (tmp_path / "history" / "segments").mkdir(parents=True)
    return Scene(tmp_path)


def test_results_become_states_and_events_become_records(scene: Scene) -> None:
    """Observers are told a record when it is durable, not before."""
    heard: list[str] = []
    scene.evaluator.observers.append(lambda stored: heard.append(stored.change.kind))
    scene.begin()
    scene.paper.result(b'{"status": "ok"}', 1)
    scene.paper.result(BAD, 2)
    scene.evaluator.durable(scene.paper.waiting)
    before = list(heard)
    scene.paper.waiting = scene.paper.waiting[2:]
    scene.paper.deliver(scene.evaluator)
    assert before == ["transition"]  # of the link
    assert heard == ["transition", "transition", "transition", "decision"]
    assert scene.paper.written() == [
        ("transition", "ok"), ("transition", "ok"), ("transition", "critical"), ("decision", "notify"),
    ]  # fmt: skip
    assert scene.evaluator.events_written == scene.evaluator.events_durable == 4


def test_a_question_steps_nothing(scene: Scene) -> None:
    """A question schedules nothing, as somebody only looked."""
    scene.begin()
    scene.paper.result(BAD, 1, Origin.ASKED)
    scene.paper.deliver(scene.evaluator)
    assert scene.evaluator.timeline.states["a", "c"].seen is None
    scene.paper.result(BAD, 1, Origin.PASSIVE)
    scene.paper.deliver(scene.evaluator)
    assert scene.evaluator.timeline.states["a", "c"].shown.status == 2


def test_time_passes_only_while_helen_listens(scene: Scene) -> None:
    """Time does not pass before the start is durable nor while records wait, and passes a little later
    than the clock.
    """
    scene.begin()
    scene.paper.result(b'{"status": "ok"}', 1)
    scene.paper.deliver(scene.evaluator)
    scene.clock.advance(60.0 + LAG_SECONDS - 0.5)
    scene.evaluator.tick()
    assert scene.evaluator.timeline.states["a", "c"].shown.status == 0
    scene.clock.advance(1.0)
    scene.paper.has_undelivered = True
    scene.evaluator.tick()
    assert scene.evaluator.timeline.states["a", "c"].shown.status == 0
    scene.paper.has_undelivered = False
    scene.evaluator.tick()
    assert scene.evaluator.timeline.states["a", "c"].shown.reason == "stale"

    unborn = Scene(scene.folder, scene.clock)
    unborn.evaluator.timeline = scene.evaluator.timeline
    clock = unborn.evaluator.timeline.clock
    scene.clock.advance(1_000.0)
    unborn.evaluator.tick()
    assert unborn.evaluator.timeline.clock == clock


def test_a_restart_goes_on_where_it_was(scene: Scene) -> None:
    """States, rules and what was told are as before; nothing is written again."""
    scene.begin()
    scene.paper.result(BAD, 1)
    scene.paper.deliver(scene.evaluator)
    scene.evaluator.stop()
    state_snapshot.save(scene.folder, scene.evaluator.at, scene.evaluator.timeline)
    written = scene.paper.written()
    after, sentences = scene.next()
    assert sentences == []
    assert after.evaluator.timeline.states == scene.evaluator.timeline.states
    after.begin()
    assert after.paper.written() == written
    assert after.paper.written("rule") == [("rule", None)]  # unchanged, so not again


def test_a_crash_repeats_what_was_not_written_and_nothing_else(scene: Scene) -> None:
    """Records after the copy are evaluated again; what is missing of their outputs is written, after the start."""
    scene.begin()
    state_snapshot.save(scene.folder, scene.evaluator.at, scene.evaluator.timeline)
    at = scene.evaluator.at
    scene.paper.result(BAD, 1)
    scene.paper.deliver(scene.evaluator)
    lost = scene.paper.records.pop()  # the decision had not reached the disk
    assert isinstance(lost, StoredChange)
    assert lost.change.kind == "decision"
    after, sentences = scene.next([each for each in scene.paper.records if each.at > at])
    assert sentences == ["2 records were evaluated that the states on disk didn't have yet"]
    assert scene.paper.waiting == []
    after.begin()
    assert after.paper.written()[-1] == ("decision", "notify")
    assert after.paper.written("decision") == [("decision", "notify")]
    assert after.evaluator.timeline.states["a", "c"].notice.told == 2


def test_a_damaged_copy_costs_no_message_twice(scene: Scene) -> None:
    """States are made from the journal; what is known to be written is not written again, and numbers go on."""
    scene.begin()
    scene.paper.result(BAD, 1)
    scene.paper.deliver(scene.evaluator)
    (scene.folder / state_snapshot.NAME).write_bytes(b"\x1f\x8b nonsense")
    after, sentences = scene.next(scene.paper.records)
    assert "can't be read" in sentences[0]
    assert after.evaluator.timeline.states == scene.evaluator.timeline.states
    written = scene.paper.written()
    after.begin()
    assert after.paper.written() == written


def test_a_copy_is_not_made_before_its_records_are_durable(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy waits until its records are durable, or a crash in between would lose a message for good."""
    saved: list[int] = []

    def save(folder: Path, at: int, timeline: Any) -> None:
        saved.append(at)

    monkeypatch.setattr("helen.evaluation.evaluator.deferToThread", lambda work, *args: succeed(work(*args)))
    monkeypatch.setattr(state_snapshot, "save", save)
    scene.begin()
    scene.paper.result(BAD, 1)
    scene.evaluator.durable(scene.paper.waiting)
    scene.paper.waiting = scene.paper.waiting[1:]
    scene.clock.advance(400.0)
    scene.evaluator.tick()
    assert saved == []
    scene.paper.deliver(scene.evaluator)
    scene.evaluator.tick()
    assert saved == [scene.evaluator.at]


def test_states_are_saved_at_the_end_if_all_is_durable(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that became durable after `stop` counts, though it is not evaluated any more; before a start nothing is
    saved.
    """
    saved: list[int] = []
    monkeypatch.setattr("helen.evaluation.evaluator.deferToThread", lambda work, *args: succeed(work(*args)))
    monkeypatch.setattr(state_snapshot, "save", lambda folder, at, timeline: saved.append(at))
    scene.evaluator.save()
    assert saved == []
    scene.begin()
    scene.evaluator.save()
    assert saved == [scene.evaluator.at]
    scene.paper.result(BAD, 1)
    scene.evaluator.durable([scene.paper.waiting.pop()])
    scene.clock.advance(0)
    outputs = scene.paper.waiting
    assert [each.change.kind for each in outputs] == ["transition", "decision"]  # type: ignore[union-attr]
    scene.evaluator.save()
    scene.evaluator.stop()
    scene.evaluator.save()
    assert saved == [outputs[0].at - 2]
    scene.evaluator.durable([*outputs, StoredChange(99, Change("rule", WALL, "a", None, b"{}"))])
    scene.evaluator.save()
    assert saved == [outputs[0].at - 2, outputs[0].at - 1]


def test_steps_of_the_clock_are_written_until_the_end(scene: Scene) -> None:
    """A step is written with its length and Helen's standstill; after `stop` nothing is written to the journal."""
    scene.begin()
    scene.evaluator.jumped(Jump(WALL, -7200.0000001, 0.25))
    [step] = [each for each in scene.paper.waiting if isinstance(each, StoredChange)]
    assert (step.change.kind, json.loads(step.change.document)) == ("clock", {"stepped": -7200.0, "slept": 0.25})
    scene.evaluator.stop()
    scene.evaluator.jumped(Jump(WALL, 60.0, 0.0))
    assert scene.paper.waiting == [step]


@pytest.mark.parametrize("header", ["[]", "null", '{"format": 2, "at": 1}', '{"at": 1}', "1"])
def test_states_of_another_version(tmp_path: Path, header: str) -> None:
    """The sentence about states of another version says so, and that nothing is lost."""
    (tmp_path / state_snapshot.NAME).write_bytes(gzip.compress(header.encode()))
    with pytest.raises(state_snapshot.StatesUnreadable, match="is of another version; states are made again"):
        state_snapshot.load(tmp_path)


def test_segments_that_can_not_be_read(tmp_path: Path) -> None:
    """The times of such a segment are the distant past, so that a search opens it."""
    (tmp_path / "chg-1.parquet").write_bytes(b"x")
    assert newest(tmp_path / "chg-1.parquet") == oldest(tmp_path / "none.parquet") == 0.0


def test_runs_out_of_turn(scene: Scene) -> None:
    """A run out of turn is asked for when it is time, once."""
    scene.begin(Rule(attempts=3, retry=5.0))
    scene.paper.result(BAD, 1)
    scene.paper.deliver(scene.evaluator)
    scene.clock.advance(4.0)
    scene.evaluator.tick()
    assert scene.asked == []
    scene.clock.advance(1.0)
    scene.evaluator.tick()
    scene.evaluator.tick()
    assert scene.asked == [("a", "c")]


def test_rules_of_whom_nobody_has_seen(scene: Scene) -> None:
    """An agent that never came gets no rules: a certificate that was made is no agent to wait for."""
    scene.evaluator.write_rules(Agent("new"), [], NO_SETTINGS)
    assert scene.paper.waiting == []


def test_a_record_that_breaks_it_stops_no_other(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that breaks the evaluator is logged, and the next one counts."""
    told: list[str] = []
    monkeypatch.setattr(Evaluator, "log", SimpleNamespace(failure=lambda text, **about: told.append(text)))
    scene.begin()
    scene.paper.change("downtime", {"id": "no end"})
    scene.paper.result(BAD, 1)
    scene.paper.deliver(scene.evaluator)
    assert told == ["evaluating the record {at}"]
    assert scene.evaluator.timeline.states["a", "c"].shown.status == 2


def test_a_caller_waits_for_a_record(scene: Scene) -> None:
    """A caller is told once its record is evaluated, or at once if it was."""
    scene.begin()
    heard: list[str] = []
    for word, at in (("far", scene.paper.at + 2), ("near", scene.paper.at + 1), ("past", scene.paper.at)):
        scene.evaluator.when_evaluated(at).addCallback(lambda _, word=word: heard.append(word))
    assert heard == ["past"]
    scene.paper.result(b'{"status": "ok"}', 1)
    scene.evaluator.durable(scene.paper.waiting)
    assert heard == ["past", "near"]
    scene.paper.deliver(scene.evaluator)
    assert heard == ["past", "near", "far"]


def test_the_history_gives_the_same_states(tmp_path: Path) -> None:
    """The segments of a real journal replay to the states that were live."""
    history, waiting = tmp_path / "history", list[Batch]()

    def call(work: Callable[..., Any], *args: Any) -> None:
        work(*args)

    limits = Limits(segment_seconds=0.05)
    journal = Journal(tmp_path / "journal", history, call, waiting.append, lambda trouble: None, limits=limits)
    journal.open()
    journal.change("helen_start", {})
    journal.change("link", {"event": "up"}, "a")
    for sequence in range(1, 6):
        blob = json.dumps({"status": "critical", "started": WALL + sequence / 3, "took_ms": 0.3}).encode()
        journal.append(Entry("a", "c", None, "s", sequence, Origin.SCHEDULED, WALL + sequence / 3 + 1.23456789, blob))
    journal.close()
    journal = Journal(tmp_path / "journal", history, call, waiting.append, lambda trouble: None)
    journal.open()  # seals what the last run left
    journal.close()
    live, replayed = Scene(tmp_path / "elsewhere").evaluator, Scene(tmp_path).evaluator
    live.open([record for batch in waiting for record in batch.records])
    (sentence,) = replayed.open(())
    count = len(list(replay.since(history, 0)))
    assert sentence == f"{count} records were evaluated that the states on disk didn't have yet"
    assert replayed.timeline.states == live.timeline.states
    assert replayed.timeline.clocks == live.timeline.clocks
    assert replayed.timeline.states["a", "c"].hard.status == 2
    assert replayed.at == live.at


def test_the_clock_of_an_agent_is_told_for_the_history(scene: Scene) -> None:
    """The offset of an agent's clock is None before it is measured, and for the second that any result takes."""
    scene.begin()
    assert offset_ms(scene.evaluator.timeline.clocks.get("a")) is None
    for sequence, ahead in enumerate((-1.0, 90.0), 1):
        document = {"status": "ok", "started": WALL + scene.clock.seconds() + ahead, "took_ms": 0}
        scene.paper.result(json.dumps(document).encode(), sequence)
        scene.paper.deliver(scene.evaluator)
        assert offset_ms(scene.evaluator.timeline.clocks.get("a")) == {1: None, 2: 90_000}[sequence]


def test_it_tells_when_it_has_caught_up(scene: Scene) -> None:
    """Connections that wait for the states go on at once, and not with the next tick."""
    told: list[int] = []
    scene.begin()
    scene.evaluator.on_caught_up = lambda: told.append(len(scene.evaluator.waiting))
    seconds = chain([0.0], repeat(1.0))  # the step is over with its first record
    scene.evaluator._steady = lambda: next(seconds)
    for _ in range(2):
        scene.paper.result(BAD, 1)
    scene.evaluator.durable(scene.paper.waiting)
    assert (told, len(scene.evaluator.waiting)) == ([], 1)
    scene.clock.advance(0)
    assert (told, len(scene.evaluator.waiting)) == ([0], 0)
