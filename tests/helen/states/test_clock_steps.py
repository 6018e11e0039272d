"""Tests that states, deadlines, windows and acknowledgements go on when Helen's clock is set, or Helen stands still."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise

import pytest
from acting import play

from helen.states import clock_offset, clock_steps
from helen.states.downtimes import read_window
from helen.states.fleet_states import CheckEvent, run
from helen.states.fleet_timeline import Timeline
from helen.states.inputs import Result
from helen.states.model import Rule
from helen.states.timeline_snapshot import header_of, restore

DAY = 86_400.0
NOW = 1_800_000_000.0
STEPS = [-30 * DAY, -DAY, -7_200.0, -90.0, 90.0, 7_200.0, 30 * DAY]


class Scene:
    """Plays a fleet of one check under a wall clock that can be set, and that restarts at will."""

    def __init__(self, rule: Rule = Rule(attempts=1, stale=100.0), ahead: float = 0.0) -> None:  # noqa: B008  # frozen
        self.timeline, self.wall, self.sequence = Timeline(), NOW + ahead, 0
        self.said: list[str] = []
        self.change("helen_start", {})
        self.change("rule", {"labels": {}, "checks": {"c": rule.to_json()}}, "a")
        self.change("link", {"event": "up"}, "a")

    def _hear(self, said: list[CheckEvent]) -> None:
        for each in said:
            document = each.event.to_json() if each.event.KIND else {}
            if document.get("action") == "notify":
                self.said.append(f"{document['what']} {document['status']}")

    def change(
        self, kind: str, document: dict[str, object], agent: str | None = None, check: str | None = None
    ) -> None:
        self._hear(run(self.timeline.change(kind, self.wall, agent, check, document)))

    def result(self, status: int, agent_clock: float = 0.0) -> None:
        self.sequence += 1
        given = Result(self.wall, status, self.wall + agent_clock, "s", self.sequence)
        self._hear(run(self.timeline.result("a", "c", given)))

    def wait(self, seconds: float, tick: float = 10.0) -> None:
        until = self.wall + seconds
        while self.wall < until:
            self.wall = min(until, self.wall + tick)
            self._hear(run(self.timeline.advance(self.wall - 2.0)))

    def step(self, by: float) -> None:
        """Set the wall clock as the running Helen notices it."""
        self.wall += by
        self.change("clock", {"stepped": by, "slept": 0.0})

    def sleep(self, seconds: float) -> None:
        self.wall += seconds
        self.change("clock", {"stepped": 0.0, "slept": seconds})

    def save_and_restore(self) -> None:
        header = json.loads(json.dumps(header_of(self.timeline)))
        self.timeline = restore(header, [(*key, state) for key, state in self.timeline.states.items()])

    @property
    def status(self) -> tuple[int, str | None]:
        shown = self.timeline.states["a", "c"].shown
        return shown.status, shown.reason


@pytest.mark.parametrize("ahead", [100.0, 7_200.0, DAY, 40 * DAY])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_clock_that_was_ahead_holds_up_nothing(ahead: float, restarts: bool) -> None:
    """No record tells of the step but those that come after it; the wrong time was stored as well (F3)."""
    scene = Scene(ahead=ahead)
    for _ in range(20):
        scene.result(0)
        scene.wait(30.0)
    scene.wall -= ahead
    if restarts:
        scene.save_and_restore()
        scene.change("helen_start", {})
        scene.change("link", {"event": "up"}, "a")
    scene.result(2)
    assert scene.said == ["problem critical"]
    assert scene.timeline.clock == scene.wall
    scene.wait(200.0)
    assert scene.status == (3, "stale")


@pytest.mark.adversary(56)
@pytest.mark.parametrize("by", STEPS)
def test_a_step_makes_nothing_stale_and_stops_no_deadline(by: float) -> None:
    """A check is stale when it was silent for its deadline, by the time that passed (F3, F4)."""
    scene = Scene()
    scene.result(0)
    scene.wait(60.0)
    scene.step(by)
    scene.wait(30.0)
    assert scene.status == (0, None)
    scene.wait(30.0)
    assert scene.status == (3, "stale")


@pytest.mark.parametrize("seconds", [75.0, 3_600.0, 9 * 3_600.0])
def test_time_slept_counts_against_no_check(seconds: float) -> None:
    """Time slept makes no check stale and no agent away; what was heard before counts on (F4)."""
    scene = Scene(Rule(attempts=1, stale=100.0, away=60.0))
    scene.result(0)
    scene.wait(60.0)
    scene.change("link", {"event": "down"}, "a")
    scene.sleep(seconds)
    scene.wait(50.0)
    assert scene.said == []
    scene.wait(30.0)
    assert scene.said == ["problem critical"]  # the link: it was away for 60 s in which Helen listened


@pytest.mark.parametrize("agent_steps", [False, True])
@pytest.mark.parametrize("by", STEPS)
def test_results_count_at_once_after_a_step(by: float, agent_steps: bool) -> None:
    """Results count at once after a step, whether the agent has a clock of its own or Helen's (F3, F4)."""
    scene = Scene()
    for _ in range(5):
        scene.result(0)
        scene.wait(10.0)
    scene.step(by)
    scene.result(2, 0.0 if agent_steps else -by)
    assert scene.said == ["problem critical"]


@pytest.mark.adversary(56)
@pytest.mark.parametrize("by", [-7_200.0, -DAY])
def test_an_agent_whose_clock_was_set_back_is_not_silent(by: float) -> None:
    """The agent's results count again after a minute; meanwhile the check is not called stale (F1)."""
    scene = Scene(Rule(attempts=1, stale=41.0))
    for _ in range(20):
        scene.result(0)
        scene.wait(3.0)
    for _ in range(40):
        scene.result(0, by)
        scene.wait(3.0)
        assert scene.status == (0, None)
    scene.result(2, by)
    assert scene.said == ["problem critical"]


@pytest.mark.parametrize("by", STEPS)
@pytest.mark.parametrize("saved", [False, True])
def test_an_acknowledgement_lasts_as_long_as_it_was_given_for(by: float, saved: bool) -> None:
    """An acknowledgement of ten minutes lasts ten, whatever the clock does meanwhile (F3)."""
    scene = Scene(Rule(attempts=1))
    scene.result(2)
    scene.change("ack", {"action": "set", "owner": "kim", "until": scene.wall + 600.0}, "a", "c")
    scene.wait(300.0)
    scene.step(by)
    if saved:
        scene.save_and_restore()
    scene.wait(290.0)
    assert scene.timeline.states["a", "c"].ack is not None
    scene.wait(20.0)
    assert scene.timeline.states["a", "c"].ack is None
    assert scene.said == ["problem critical", "still critical"]


@pytest.mark.parametrize("by", STEPS)
def test_a_downtime_from_now_on_lasts_as_long_as_it_was_given_for(by: float) -> None:
    """A downtime keeps its length over a step, also one that was given under the wrong clock (F3)."""
    scene = Scene(Rule(attempts=1))
    scene.change("downtime", {"id": "w", "begin": scene.wall, "until": scene.wall + 600.0})
    scene.wait(300.0)
    scene.step(by)
    scene.result(2)
    scene.wait(290.0)
    assert scene.said == []
    scene.wait(20.0)
    assert scene.said == ["problem critical"]
    assert not scene.timeline.windows


def planned(scene: Scene, later: float, lasting: float) -> dict[str, object]:
    return {"id": "w", "begin": scene.wall + later, "until": scene.wall + later + lasting, "created": scene.wall}


def nightly(scene: Scene, later: float, lasting: float) -> dict[str, object]:
    """Return a nightly window in UTC, to the minute: NOW is on one."""

    def clock(at: float) -> str:
        return f"{int(at % DAY // 3_600):02}:{int(at % 3_600 // 60):02}"

    begin = scene.wall + later
    times = {"begin": clock(begin), "end": clock(begin + lasting), "zone": "UTC"}
    return {"id": "w", "begin": scene.wall, "until": None, "created": scene.wall, "recurrence": times}


@pytest.mark.parametrize("by", STEPS)
@pytest.mark.parametrize("made", [planned, nightly])
def test_a_clock_that_is_wrong_for_minutes_neither_loses_nor_ends_a_planned_window(
    by: float, made: Callable[[Scene, float, float], dict[str, object]]
) -> None:
    """A planned window counts once by the right clock, whether the clock was wrong before it or in it (F3, F4)."""
    scene = Scene(Rule(attempts=1))
    scene.change("downtime", made(scene, 1_200.0, 1_800.0))
    scene.wait(600.0)
    scene.step(by)  # wrong
    scene.wait(300.0)
    scene.step(-by)  # put right
    scene.wait(360.0)
    assert list(scene.timeline.active) == ["w"]
    scene.step(by)
    scene.result(2)
    scene.save_and_restore()
    scene.wait(300.0)
    scene.step(-by)
    assert scene.said == []
    assert scene.timeline.lag == 0.0
    scene.wait(1_500.0)
    assert scene.said == ["problem critical"]


def test_planned_windows_go_by_the_new_time_once_it_has_stood() -> None:
    """A window of two hours from now is over in an hour, by a clock that was two hours behind and is right now."""
    scene = Scene(Rule(attempts=1))
    scene.change("downtime", planned(scene, 9_000.0, 900.0))
    scene.step(7_200.0)
    scene.wait(3_500.0)
    assert list(scene.timeline.windows) == ["w"]
    scene.wait(200.0)
    assert not scene.timeline.windows


def test_a_window_reads_as_it_was_written() -> None:
    """A moved window shows its end by the clock of now."""
    scene = Scene()
    scene.change("silence", {"id": "s", "begin": scene.wall, "until": scene.wall + 60.0})
    scene.step(7_200.0)
    window = scene.timeline.windows["s"]
    assert window.until == NOW + 7_260.0
    assert read_window(window.to_json(), 0.0) == window


def test_the_wait_for_a_first_result_moves_too() -> None:
    """A new check is stale after its deadline, not at the step."""
    play("""
    0     clock stepped=5000       |
    5099  tick                     |
    5100  tick                     | -> unknown (stale); notify problem unknown
    """, c=Rule(attempts=1, stale=100.0))  # fmt: skip


def test_an_expected_result_and_a_passive_one() -> None:
    """The announced deadline moves as well; no connection is needed for it."""
    play("""
    0     ok                       | -> ok
    10    expect within=50         |
    -3960 clock stepped=-4000      |
    -3941 tick                     |
    -3920 tick                     | @-3940 -> unknown (stale); @-3940 notify problem unknown
    """, c=Rule(attempts=1, passive=True))  # fmt: skip


@pytest.mark.parametrize("restored", [False, True])
@pytest.mark.parametrize(("after", "offset"), [(59.0, 0.0), (60.0, -7_200.0), (61.0, -7_200.0)])
def test_an_agents_clock_that_is_set_back_is_believed_after_a_minute(
    after: float, offset: float, restored: bool
) -> None:
    """The two results are of one connection: a result a minute after the one before can't have waited, one that came
    sooner might have.
    """
    scene = Scene()
    scene.result(0)
    if restored:
        scene.save_and_restore()
    scene.wait(after)
    scene.result(2, agent_clock=-7_200.0)
    assert (scene.timeline.clocks["a"].offset, scene.timeline.newest["a"].doubted) == (offset, offset == 0.0)
    assert scene.status[0] == (2 if offset else 0)


@pytest.mark.parametrize("back", [90.0, 7_200.0, DAY])
def test_a_state_of_the_wrong_time_began_as_long_ago_as_it_seemed(back: float) -> None:
    """A state that began ahead of now by the wrong clock is as old as before by the right one."""
    scene = Scene()
    scene.result(0)
    scene.result(2)
    scene.wait(30.0)
    age = scene.wall - scene.timeline.states["a", "c"].shown.since
    scene.step(-back)
    moved = scene.timeline.states["a", "c"]
    assert scene.wall - moved.shown.since == scene.wall - moved.hard.since == age == 30.0


def test_a_fleet_is_moved_some_at_a_time() -> None:
    """Between two pauses no more agents, and no more states, are moved than a turn of the reactor has time for."""
    timeline, agents = Timeline(), 3 * clock_steps.PAUSE_AGENTS + 1
    for number in range(agents):
        run(timeline.result(f"a{number:04}", "c", Result(NOW, 0, NOW, "s", 1)))
    sizes = list[tuple[int, int]]()
    heard, states, clocks = dict(timeline.newest), dict(timeline.states), dict(timeline.clocks)
    for event in timeline.jump(NOW + 90.0, 90.0):
        if event is None:
            moved = [agent for agent, newest in timeline.newest.items() if newest is not heard[agent]]
            other = [key for key, state in timeline.states.items() if state is not states[key]]
            sizes.append((len(moved), len(other)))
    assert len(sizes) > agents / clock_steps.PAUSE_STATES
    for before, after in pairwise(sizes):
        assert after[0] - before[0] <= clock_steps.PAUSE_AGENTS
        assert after[1] - before[1] <= clock_steps.PAUSE_STATES
    assert {newest.received for newest in timeline.newest.values()} == {NOW + 90.0}
    stepped = {agent: clock_offset.after_step(clocks.get(agent, clock_steps.RIGHT), 90.0) for agent in heard}
    assert timeline.clocks == stepped
