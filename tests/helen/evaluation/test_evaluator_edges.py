"""Tests the evaluator at its edges: how much of a turn it takes, which counts it keeps, when it saves,
what it writes.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from evaluator_scene import BAD, WALL, Scene
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock

from groundwork.clock_watch import Jump
from groundwork.start_clock import Boot
from helen.agents.roster import Agent
from helen.assignments.schedule import ScheduleEntry
from helen.assignments.state_rules import NO_SETTINGS
from helen.evaluation import evaluator as evaluator_module
from helen.evaluation import state_snapshot
from helen.evaluation.evaluator import OUTPUTS, RECENT, SAVE_SECONDS, WINDOWS, Evaluator, _is_passive
from helen.journal.values import Change, JournalError, StoredChange
from helen.states.agent_rules import AgentRules
from helen.states.events import Again, Decision
from helen.states.fleet_states import CheckEvent
from helen.states.fleet_timeline import Timeline
from helen.states.model import LINK, Rule
from helen.states.timeline_snapshot import STATES_A_STEP

GOOD = b'{"status": "ok"}'


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    (tmp_path / "history" / "segments").mkdir(parents=True)
    return Scene(tmp_path)


def change(at: int, kind: str = "notice", **document: Any) -> StoredChange:
    return StoredChange(at, Change(kind, WALL, "a", "c", json.dumps(document).encode()))


def documents(scene: Scene, kind: str) -> list[Any]:
    return [
        json.loads(each.change.document)
        for each in (*scene.paper.records, *scene.paper.waiting)
        if isinstance(each, StoredChange) and each.change.kind == kind
    ]


class Meter:
    """Is a steady clock of which each look costs so many seconds."""

    def __init__(self, cost: float) -> None:
        self.cost, self.now = cost, -cost

    def __call__(self) -> float:
        self.now += self.cost
        return self.now


# ------------------------------------------------------------------------------------------------ turns


def test_all_that_there_is_time_for_is_one_turn(scene: Scene) -> None:
    """A clock that stands still allows everything: no turn of the reactor is waited for."""
    scene.evaluator.durable([change(at) for at in range(1, 51)])
    assert (scene.evaluator.at, scene.clock.getDelayedCalls()) == (50, [])


@pytest.mark.parametrize(("cost", "of_a_turn"), [(0.00025, 2), (0.000125, 4), (0.0005, 1), (1.0, 1), (0.00049, 2)])
def test_a_turn_takes_half_a_millisecond(tmp_path: Path, cost: float, of_a_turn: int) -> None:
    """A turn ends with the record in which half a millisecond is over; the next one begins in the
    reactor's next turn.
    """
    meter = Meter(cost)
    scene = Scene(tmp_path, steady=meter)
    meter.now = -cost
    scene.evaluator.durable([change(at) for at in range(1, 13)])
    assert scene.evaluator.at == of_a_turn
    [call] = scene.clock.getDelayedCalls()
    assert call.getTime() == 0.0
    scene.evaluator.durable([change(13)])
    assert scene.evaluator.at == of_a_turn, "while a turn is waited for, records only wait"
    while scene.clock.getDelayedCalls():
        scene.clock.advance(0)
    assert scene.evaluator.at == 13
    assert [each.at for each in scene.evaluator.recent] == list(range(1, 14))


EVENT = CheckEvent("a", "c", Decision(1, WALL, "hold", "problem", 2, "so"))


@pytest.mark.parametrize(
    ("given", "steps"), [(EVENT, [(1, 0), (2, 0), (3, 0), (3, 1)]), (None, [(0, 0)] * 3 + [(0, 1)])]
)
def test_a_record_that_takes_longer_than_a_turn_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: CheckEvent | None, steps: list[tuple[int, int]]
) -> None:
    """A long record is gone on with at a pause or behind any event; nobody hears that it was evaluated
    before its end.
    """
    meter = Meter(0.005)
    scene = Scene(tmp_path, steady=meter)
    ended, written, heard = list[int](), list[str](), list[int]()

    def long(timeline: Any, record: Any) -> Any:
        yield from [given] * 3
        ended.append(record.at)

    monkeypatch.setattr(evaluator_module, "_evaluate", long)
    monkeypatch.setattr(scene.paper, "change", lambda kind, *_: written.append(kind))
    scene.evaluator.when_evaluated(1).addCallback(lambda _: heard.append(1))
    meter.now = -0.005
    scene.evaluator.durable([change(1)])
    taken = [(len(written), scene.evaluator.at)]
    while not ended:
        [turn] = scene.clock.getDelayedCalls()
        turn.cancel()
        scene.evaluator._work()
        taken.append((len(written), scene.evaluator.at))
    assert taken == steps
    assert (scene.evaluator.at, scene.evaluator.events_written, heard) == (1, len(written), [1])


def test_a_stop_leaves_the_rest_for_the_next_start(tmp_path: Path) -> None:
    """Nothing is evaluated any more, and no turn waits; events that become durable still count."""
    meter = Meter(0.004)
    scene = Scene(tmp_path, steady=meter)
    scene.evaluator.durable([change(1), change(2)])
    scene.evaluator.stop()
    assert (scene.evaluator.at, scene.clock.getDelayedCalls(), scene.evaluator._next_turn) == (1, [], None)
    scene.evaluator.stop()
    scene.evaluator.durable([change(3, "transition"), change(4, "decision"), change(5, "flap"), change(6, "rule")])
    assert (scene.evaluator.events_durable, scene.evaluator.at) == (3, 1)
    scene.evaluator.durable([change(7, "flap")])
    assert scene.evaluator.events_durable == 4


def test_the_newest_records_are_kept_for_questions(scene: Scene) -> None:
    """The evaluator keeps as many of the newest records as a segment that is still open has."""
    assert (scene.evaluator.recent.maxlen, RECENT) == (20_000, 20_000)
    assert (scene.evaluator.at, scene.evaluator.events_written, scene.evaluator.events_durable) == (0, 0, 0)


def test_callers_hear_in_the_order_of_records(scene: Scene) -> None:
    """Two callers of one record are told in order; one of an evaluated record is told at once, and none too early."""
    heard: list[str] = []
    for word, at in (("c", 3), ("a", 1), ("a2", 1), ("b", 2), ("now", 0)):
        scene.evaluator.when_evaluated(at).addCallback(lambda _, word=word: heard.append(word))
    assert heard == ["now"]
    for at, so_far in ((1, ["a", "a2"]), (2, ["b"]), (4, ["c"])):
        heard.clear()
        scene.evaluator.durable([change(at)])
        assert heard == so_far
    assert scene.evaluator.when_evaluated(4).called
    assert not scene.evaluator.when_evaluated(5).called


# ------------------------------------------------------------------------------------------------ observers


def test_each_observer_hears_of_its_kind(scene: Scene) -> None:
    """Each observer hears of its events, acknowledgements or windows, and not of the others."""
    heard: list[str] = []
    scene.evaluator.observers.append(lambda stored: heard.append(f"event {stored.change.kind}"))
    scene.evaluator.ack_observers.append(lambda stored: heard.append(f"ack {stored.at}"))
    scene.evaluator.window_observers.append(lambda kind, document: heard.append(f"{kind} {document['id']}"))
    window = {"id": "w1", "begin": WALL, "until": WALL + 60.0}
    for at, (kind, document) in enumerate(
        [("ack", {"owner": "anna"}), ("downtime", window), ("silence", window | {"id": "w2"}), ("rule", None),
         ("transition", {}), ("flap", {}), ("decision", {}), ("notice", {})], 1
    ):  # fmt: skip
        if document is not None:
            scene.evaluator.durable([change(at, kind, **document)])
    assert heard == ["ack 1", "downtime w1", "silence w2", "event transition", "event flap", "event decision"]
    assert scene.evaluator.events_durable == 3
    assert sorted(WINDOWS) == ["downtime", "silence"] and sorted(OUTPUTS) == ["decision", "flap", "transition"]


# ------------------------------------------------------------------------------------------------ what is written


def test_an_event_that_cannot_be_written_does_not_count(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event that cannot be written is logged, and the next start evaluates its record again."""
    told: list[dict[str, Any]] = []
    monkeypatch.setattr(Evaluator, "log", SimpleNamespace(error=lambda text, **about: told.append(about)))

    def refuse(*_: Any) -> None:
        raise JournalError("closed")

    decision = Decision(0, WALL, "notify", "problem", 2, "so")
    scene.evaluator.write_decision("a", "c", decision)
    assert (scene.evaluator.events_written, documents(scene, "decision")) == (1, [decision.to_json()])
    monkeypatch.setattr(scene.paper, "change", refuse)
    scene.evaluator.write_decision("a", "c", decision)
    scene.evaluator.jumped(Jump(WALL, 5.0, 0.0))
    assert scene.evaluator.events_written == 1
    assert [(each.get("agent"), str(each["error"])) for each in told] == [("a", "closed"), (None, "closed")]


def test_runs_out_of_turn_are_bounded(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The waiting runs are bounded; each is asked for when its time has come, and one of the past at once."""
    monkeypatch.setattr(evaluator_module, "MAX_RERUNS", 3)
    scene.evaluator.timeline.clock = WALL
    for check, later in (("c3", 3.0), ("c1", 1.0), ("past", -9.0), ("none", 0.5)):
        scene.evaluator._write(CheckEvent("a", check, Again(WALL + later)))
    asked = []
    for _ in range(4):
        scene.evaluator.tick()
        asked.append([check for _, check in scene.asked])
        scene.clock.advance(1.0)
    assert asked == [["past"], ["past", "c1"], ["past", "c1"], ["past", "c1", "c3"]]
    assert scene.evaluator.events_written == 0


@pytest.mark.parametrize(("boot", "said"), [(None, {}), (Boot("b1", 7.0), {"boot": {"id": "b1", "began": 7.0}})])
@pytest.mark.parametrize("stepped", [0.0, 90.0, -90.0])
def test_a_start_is_written_behind_a_step(tmp_path: Path, boot: Boot | None, said: Any, stepped: float) -> None:
    """The step is that of a clock that was set while there was no Helen; the start has the boot for the next one."""
    scene = Scene(tmp_path, boot=None if boot is None else lambda: boot)
    scene.evaluator.began(stepped, {"version": "1"})
    kinds = [each.change.kind for each in scene.paper.waiting if isinstance(each, StoredChange)]
    assert kinds == (["clock"] if stepped else []) + ["helen_start"]
    assert documents(scene, "helen_start") == [{"version": "1"} | said]
    assert documents(scene, "clock") == ([{"stepped": stepped, "slept": 0.0} | said] if stepped else [])


def test_a_step_is_written_to_the_microsecond(scene: Scene) -> None:
    """More digits would be noise."""
    scene.evaluator.jumped(Jump(WALL, 1.23456749, 2.00000051))
    assert documents(scene, "clock") == [{"stepped": 1.234567, "slept": 2.000001}]


# ------------------------------------------------------------------------------------------------ time and saving


def saves(monkeypatch: pytest.MonkeyPatch, done: Callable[[], Deferred[None]] = lambda: succeed(None)) -> list[int]:
    saved: list[int] = []

    def thread(work: Any, folder: Path, at: int, timeline: Timeline) -> Deferred[None]:
        assert work is state_snapshot.save
        saved.append(at)
        return done()

    monkeypatch.setattr(evaluator_module, "deferToThread", thread)
    return saved


def test_states_are_saved_each_five_minutes(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """States are saved five minutes after the save before, one save at a time."""
    waiting = [Deferred[None](), Deferred[None]()]
    saved = saves(monkeypatch, lambda: waiting[len(saved) - 1])
    scene.begin()
    for seconds, count in ((SAVE_SECONDS - 1.0, 0), (1.0, 1), (SAVE_SECONDS, 1)):
        scene.clock.advance(seconds)
        scene.evaluator.tick()
        scene.paper.deliver(scene.evaluator)
        assert len(saved) == count
    waiting[0].callback(None)
    scene.evaluator.tick()
    assert len(saved) == 2
    assert saved[1] == scene.evaluator.at


def test_a_save_that_fails_is_tried_again_in_its_turn(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is logged; evaluation goes on."""
    told: list[str] = []
    monkeypatch.setattr(Evaluator, "log", SimpleNamespace(error=lambda text, why: told.append(why)))
    failing = Deferred[None]()
    saved = saves(monkeypatch, lambda: failing)
    scene.begin()
    for seconds in (100.0, SAVE_SECONDS - 100.0):
        scene.clock.advance(seconds)
        scene.evaluator.tick()
        scene.paper.deliver(scene.evaluator)
    failing.errback(OSError("disk full"))
    assert (told, scene.evaluator._saving, len(saved)) == (["disk full"], None, 1)


def test_before_helen_listens_no_time_passes_and_nothing_is_saved(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No time passes and nothing is saved before a start is durable, after a stop, and while records wait."""
    saved = saves(monkeypatch)
    scene.clock.advance(SAVE_SECONDS)
    scene.evaluator.tick()
    assert (saved, scene.evaluator.timeline.clock) == ([], 0.0)
    scene.begin()
    clock = scene.evaluator.timeline.clock
    scene.clock.advance(50.0)
    scene.evaluator._next_turn = scene.clock.callLater(9.0, lambda: None)
    scene.evaluator.tick()
    assert scene.evaluator.timeline.clock == clock
    scene.evaluator.stop()
    scene.evaluator.tick()
    assert (saved, scene.evaluator.timeline.clock) == ([], clock)


def test_the_last_save(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last save is not made in the middle of a record, before a start was durable, or ahead of the journal."""
    saved = saves(monkeypatch)
    scene.evaluator.save()
    scene.begin()
    scene.evaluator._events = iter(())
    scene.evaluator.save()
    scene.evaluator._events = None
    scene.evaluator.events_written += 1
    scene.evaluator.save()
    assert saved == []
    scene.evaluator.events_durable += 1
    assert scene.evaluator.save().called
    assert saved == [scene.evaluator.at]


# ------------------------------------------------------------------------------------------------ starts


def test_what_a_start_says(scene: Scene) -> None:
    """A start tells nothing without records, and else how many it evaluated, or that the file can't be read."""
    assert scene.evaluator.open([]) == []
    next_one, sentences = scene.next([change(1)])
    assert sentences == ["1 record was evaluated that the states on disk didn't have yet"]
    assert next_one.evaluator.at == 1
    state_snapshot.save(scene.folder, 5, Timeline())
    after, sentences = scene.next([change(4), change(5), change(7), change(6)])
    assert sentences == ["2 records were evaluated that the states on disk didn't have yet"]
    assert after.evaluator.at == 7
    (scene.folder / state_snapshot.NAME).write_bytes(gzip.compress(b"[]"))
    _, sentences = scene.next([])
    assert len(sentences) == 1 and sentences[0].endswith("states are made again from the journal")


def test_numbers_go_on_after_a_replay_that_began_in_the_middle(scene: Scene) -> None:
    """The next event of a check takes the number behind the highest that is written, whatever the states say."""
    scene.begin()
    for sequence in range(1, 4):
        scene.paper.result(BAD if sequence % 2 else GOOD, sequence)
        scene.paper.deliver(scene.evaluator)
    number = scene.evaluator.timeline.states["a", "c"].number
    tail = scene.paper.records[-4:]
    after, _ = scene.next([scene.paper.records[0], *tail])
    assert number > 3
    assert after.evaluator.timeline.states["a", "c"].number == number
    assert after.evaluator._unwritten == []


def test_after_saved_states_only_what_is_missing_is_written(scene: Scene) -> None:
    """The events whose number is not in the journal are written; a wish for a run is no event."""
    scene.begin(Rule(attempts=2, retry=5.0))
    state_snapshot.save(scene.folder, scene.evaluator.at, scene.evaluator.timeline)
    at = scene.evaluator.at
    scene.paper.result(BAD, 1)
    scene.paper.result(BAD, 2)
    scene.paper.deliver(scene.evaluator)
    records = [each for each in scene.paper.records if each.at > at]
    events = [each for each in records if isinstance(each, StoredChange)]
    results = [each for each in records if each not in events]
    for kept in range(len(events) + 1):
        after, _ = scene.next([*results, *events[:kept]])
        assert len(after.evaluator._unwritten) == len(events) - kept


# ------------------------------------------------------------------------------------------------ rules


def entries(*names: str) -> list[ScheduleEntry]:
    return [ScheduleEntry(name, name, 10.0, 0.0, 5.0, {}, rule=Rule(attempts=7)) for name in names]


def test_rules_are_written_when_they_change(scene: Scene) -> None:
    """Rules are written when an agent first comes, and then for each difference; `rule_of` is what was written last."""
    evaluator, agent = scene.evaluator, Agent("a", link=object())  # type: ignore[arg-type]
    assert (evaluator.has_rules("a"), evaluator.rule_of("a", "c")) == (False, None)
    for names, count in ((("c",), 1), (("c",), 1), (("c", "d"), 2), ((), 3), ((), 3)):
        evaluator.write_rules(agent, entries(*names), NO_SETTINGS)
        assert len(documents(scene, "rule")) == count
        assert evaluator.has_rules("a")
    evaluator.write_rules(agent, entries("d"), NO_SETTINGS)
    assert (evaluator.rule_of("a", "d"), evaluator.rule_of("a", "c"), evaluator.rule_of("b", "d")) == (
        Rule(attempts=7), None, None,
    )  # fmt: skip
    evaluator.stop()
    evaluator.write_rules(agent, [], NO_SETTINGS)
    evaluator.forget("a")
    assert (len(documents(scene, "rule")), documents(scene, "link")) == (4, [])


def test_an_agent_that_never_came_has_no_rules_but_passive_ones(tmp_path: Path) -> None:
    """A passive check has rules without an agent. One that has come once keeps its rules while it is away."""
    passive = {"new": {"ping": Rule(passive=True)}}
    scene = Scene(tmp_path, passive_rules=lambda agent: passive.get(agent, {}))
    scene.evaluator.write_rules(Agent("none"), entries("c"), NO_SETTINGS)
    assert documents(scene, "rule") == []
    scene.evaluator.write_rules(Agent("new"), entries("c"), NO_SETTINGS)
    assert [list(each["checks"]) for each in documents(scene, "rule")] == [["ping"]]
    scene.evaluator.write_rules(Agent("new", link=object()), entries("c"), NO_SETTINGS)  # type: ignore[arg-type]
    scene.evaluator.write_rules(Agent("new"), entries("c", "d"), NO_SETTINGS)
    assert [list(each["checks"]) for each in documents(scene, "rule")[1:]] == [["ping", "c"], ["ping", "c", "d"]]
    scene.evaluator.timeline.states["was", LINK] = scene.evaluator.timeline._create_state(("was", LINK))
    scene.evaluator.write_rules(Agent("was"), entries("c"), NO_SETTINGS)
    assert list(documents(scene, "rule")[-1]["checks"]) == ["c"]
    passive.clear()
    scene.evaluator.write_rules(Agent("new"), [], NO_SETTINGS)
    assert documents(scene, "rule")[-1]["checks"] == {}


@pytest.mark.parametrize(("checks", "is_passive"), [
    ({}, False), ({"c": Rule()}, False), ({"p": Rule(passive=True)}, True),
    ({"p": Rule(passive=True), "c": Rule()}, False),
])  # fmt: skip
def test_rules_of_passive_checks_alone(checks: dict[str, Rule], is_passive: bool) -> None:
    """An agent without any check has no passive rules."""
    assert _is_passive(AgentRules({}, checks)) is is_passive


def test_an_agent_is_forgotten_with_a_reason(scene: Scene) -> None:
    """A reason is written if there is one; the agent's rules are written anew when it comes back."""
    agent = Agent("a", link=object())  # type: ignore[arg-type]
    scene.evaluator.write_rules(agent, entries("c"), NO_SETTINGS)
    scene.evaluator.forget("a")
    assert not scene.evaluator.has_rules("a")
    scene.evaluator.write_rules(agent, entries("c"), NO_SETTINGS)
    scene.evaluator.forget("a", "it has gone to helen-2")
    assert documents(scene, "link") == [
        {"agent": "a", "event": "forgotten"}, {"agent": "a", "event": "forgotten", "why": "it has gone to helen-2"},
    ]  # fmt: skip
    assert len(documents(scene, "rule")) == 2


def test_the_usual_passive_rules() -> None:
    """No agent has any."""
    evaluator = Evaluator(Clock(), Path("/nowhere"), None, lambda *_: None)  # type: ignore[arg-type]
    assert evaluator._passive_rules("a") == {}


def test_states_are_copied_in_turns_and_none_is_evaluated_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The saved states are of one moment: a record that comes while a great fleet is copied waits for the last step."""
    (tmp_path / "history" / "segments").mkdir(parents=True)
    saved = list[tuple[int, dict[Any, Any]]]()
    monkeypatch.setattr(evaluator_module, "deferToThread", lambda work, *args: succeed(work(*args)))
    monkeypatch.setattr(
        evaluator_module.state_snapshot, "save", lambda folder, at, copy: saved.append((at, dict(copy.states)))
    )
    scene = Scene(tmp_path).begin()
    states = scene.evaluator.timeline.states
    states |= {("b", f"c{number}"): states["a", "c"] for number in range(3 * STATES_A_STEP)}
    before, at = dict(states), scene.evaluator.at
    scene.evaluator._saved_at -= 1_000.0
    meter = Meter(0.005)  # each look at the clock ends a turn
    scene.evaluator._steady = meter
    scene.evaluator.tick()
    scene.paper.result(BAD, 1)
    scene.evaluator.durable(scene.paper.waiting)
    turns = 0
    while not saved:
        assert scene.evaluator.at == at and states == before
        [turn] = scene.clock.getDelayedCalls()
        turn.cancel()
        scene.evaluator._work()
        turns += 1
    assert turns == len(before) // STATES_A_STEP + 2  # one that is not full, and one that finds no more
    assert saved == [(at, before)]
    scene.evaluator._steady = lambda: 0.0
    while scene.clock.getDelayedCalls():
        scene.clock.advance(0)
    assert scene.evaluator.at > at and states["a", "c"].shown.status == 2
