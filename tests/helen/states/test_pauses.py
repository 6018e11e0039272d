"""Tests that a record which concerns thousands of checks pauses after some of them, so that nothing waits for all."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

from equus_protocol.results import CRITICAL, OK
from helen.states.agent_rules import AgentRules
from helen.states.calm_results import MOST_PUT_OFF
from helen.states.fleet_states import PAUSE_KEYS, Events, run
from helen.states.fleet_timeline import Timeline
from helen.states.inputs import Result
from helen.states.model import Rule, State

CHECKS, AGENTS = 1_000, 20
NAMES = [f"c{number}" for number in range(CHECKS)]


def between_pauses(events: Events, done: Callable[[], int]) -> list[int]:
    """Return by how much `done()` has grown from one pause to the next, up to the end."""
    found, before = list[int](), done()
    for event in events:
        if event is None:
            found.append(done() - before)
            before = done()
    return [*found, done() - before]


def heard(timeline: Timeline, at: float, sequence: int, status: int = OK) -> None:
    for agent in range(AGENTS):
        for number in range(CHECKS // AGENTS):
            name = f"a{agent}"
            run(timeline.result(name, NAMES[number], Result(at, status, None, "s", sequence)))


def fleet(at: float = 1_000.0) -> Timeline:
    """Make one of AGENTS agents with CHECKS checks that were heard once, and are stale 100 s later."""
    timeline = Timeline()
    run(timeline.helen_started(at))
    rules = AgentRules({}, {name: Rule(stale=100.0) for name in NAMES[: CHECKS // AGENTS]})
    for agent in range(AGENTS):
        run(timeline.link(f"a{agent}", True))
        run(timeline.set_rules(f"a{agent}", rules))
    heard(timeline, at, 1)
    return timeline


def counted(timeline: Timeline) -> SimpleNamespace:
    """Return the count of looks at deadlines from now on."""
    counts, pop = SimpleNamespace(pops=0), timeline._deadlines.pop

    def note() -> object:
        counts.pops += 1
        return pop()

    timeline._deadlines.pop = note  # type: ignore[assignment, method-assign]
    return counts


def test_deadlines_that_are_put_off() -> None:
    """A deadline that is put off gives no event: a great fleet has thousands a second, and they were 22 ms in one
    piece.
    """
    timeline = fleet()
    heard(timeline, 1_060.0, 2)
    counts = counted(timeline)
    sizes = between_pauses(timeline.advance(1_110.0), lambda: counts.pops)
    assert (max(sizes), sum(sizes)) == (PAUSE_KEYS, CHECKS)
    assert timeline.clock == 1_110.0 and not timeline._deadlines.next <= 1_110.0


def test_a_calm_result_puts_off_some_only() -> None:
    """The rest is for `result`, which pauses; both come to the same."""
    timeline, other = fleet(), fleet()
    for each in (timeline, other):
        heard(each, 1_060.0, 2)
    counts, given = counted(timeline), Result(1_110.0, OK, None, "s", 3)
    assert not timeline.calm("a0", "c0", given)
    assert counts.pops == MOST_PUT_OFF
    assert run(timeline.result("a0", "c0", given)) == run(other.result("a0", "c0", given)) == []
    assert timeline.states == other.states and timeline.clock == other.clock
    assert timeline._deadlines.planned == other._deadlines.planned and counts.pops == CHECKS


def test_rules_of_many_checks() -> None:
    timeline = Timeline()
    rules = AgentRules({}, {name: Rule(attempts=2) for name in NAMES})
    sizes = between_pauses(timeline.set_rules("a", rules), lambda: len(timeline.states))
    assert (max(sizes), sum(sizes), len(timeline.states)) == (PAUSE_KEYS, CHECKS, CHECKS)


def test_a_trial_begins_and_ends_one_agent_a_pause() -> None:
    """A trial begins and ends agent by agent, in order: to sort 500,000 names at once took half a second."""
    timeline, checks = fleet(), NAMES[: CHECKS // AGENTS]
    opened = timeline.change("rollout", 1_001.0, None, None, {
        "action": "open", "version": 7, "ring": 1, "agents": None, "without": [], "checks": checks, "detail": "ring 1",
    })  # fmt: skip
    sizes = between_pauses(opened, lambda: len(timeline.tried.get("7", ())))
    assert (max(sizes), sum(sizes)) == (len(checks), CHECKS)
    heard(timeline, 1_002.0, 2, CRITICAL)
    ended = list[tuple[str, str]]()
    events = timeline.change("rollout", 1_003.0, None, None, {"action": "passed", "version": 7, "why": "good"})
    pause = list[int]()
    for event in events:
        if event is None:
            pause.append(len(timeline.tried.get("7", ())))
        elif (event.agent, event.check_id) not in ended:
            ended.append((event.agent, event.check_id))
    left = [before - after for before, after in zip(pause, [*pause[1:], 0], strict=True)]
    assert max(left) == len(checks) and sum(left) == CHECKS
    assert ended == sorted(ended) and timeline.tried == {}


def test_a_copy_while_checks_come_and_go() -> None:
    """A copy has each state that stays, as it was or is, while others come and go."""
    timeline = fleet()
    before = dict(timeline.states)
    assert timeline.copied() == before

    class Busy(dict[tuple[str, str], State]):
        """Lets a check come, one change and an agent go, when it is asked for the first time."""

        is_asked = False

        def get(self, key: tuple[str, str], default: State | None = None) -> State | None:  # type: ignore[override]
            if not self.is_asked:
                self.is_asked = True
                run(timeline.result("a1", "new", Result(1_001.0, OK, None, "s", 2)))
                run(timeline.result("a2", "c0", Result(1_001.0, CRITICAL, None, "s", 2)))
                run(timeline.forget("a3"))
            return super().get(key, default)

    timeline.states = Busy(timeline.states)
    copied = timeline.copied()
    stays = {key: state for key, state in before.items() if key[0] != "a3" and key != ("a2", "c0")}
    assert stays.items() <= copied.items()
    assert copied["a2", "c0"] in (before["a2", "c0"], timeline.states["a2", "c0"])
    assert copied.keys() <= before.keys() | {("a1", "new")} and len(timeline.states) == len(before) - 50
