"""Tests a question while it is open: who is asked when, and that it ends. A clock by hand, and no threads."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from plays import WALL, Play
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.python.failure import Failure

from helen.agents.roster import Agent
from helen.jobs import answer_writer, asking, fleet_tasks, job_folder, jobs, task_targets
from helen.jobs.errors import JobsUnavailable
from helen.jobs.fleet_tasks import RESTART_GRACE
from helen.queries.live_queries import OUTCOMES
from helen.sessions.fair_turns import FairTurns
from zerotask import errors
from zerotask.errors import TaskFailed


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Play]:
    for module in (fleet_tasks, answer_writer):
        monkeypatch.setattr(module, "deferToThread", maybeDeferred)
    one = Play(tmp_path)
    yield one
    assert one.tasks.open == {}
    assert [call for call in one.clock.getDelayedCalls() if call.active()] == []


def test_without_a_deadline_nobody_is_waited_for(play: Play) -> None:
    """A question without a deadline is over as soon as present agents have answered, or their time is over."""
    play.site.has("a", "b")
    play.site.agents["c"] = Agent("c")
    play.ask()
    play.site.answers("a")
    assert play.outcome is None
    play.pass_time(10.5)
    assert play.outcomes == {"a": "answered", "b": "expired", "c": "offline"}
    assert play.told[0] == ("asking", {
        "targets": 3, "counts": {"answered": 1, "failed": 0, "refused": 0, "offline": 1, "expired": 0, "open": 1},
        "recent": play.told[0][1]["recent"],
    })  # fmt: skip


def test_a_great_fleet_that_is_away(play: Play) -> None:
    """A few agents are looked at in each turn; names are looked up, not held against every agent."""
    names = [f"a{number}" for number in range(3 * asking.A_TURN)]
    for name in names:
        play.site.agents[name] = Agent(name)
    play.ask(agents=names)
    assert play.site.steps == []
    assert len(play.tasks.open["t1"].question.outcomes) == asking.A_TURN
    play.clock.advance(0)
    assert len(play.outcomes) == len(names)
    assert set(play.outcomes.values()) == {"offline"}


def test_patterns_are_held_against_some_agents_at_a_time(play: Play) -> None:
    """A pattern fits agents that can be asked: not a host without an agent, and none that was revoked."""
    for number in range(3 * task_targets.LOOKED_AT_ONCE):
        play.site.agents[f"a{number}"] = Agent(f"a{number}", labels={"role": f"r{number % 3}"})
    play.site.agents["a2"].enrolled = False
    play.site.agents["a5"].revoked_at = 5.0
    play.ask(agents=["role=r2"])
    assert play.site.steps == [task_targets.LOOKED_AT_ONCE] * 3
    play.clock.advance(0)
    assert sorted(play.outcomes) == sorted(f"a{number}" for number in range(8, 3 * task_targets.LOOKED_AT_ONCE, 3))


def test_those_who_come_back_are_asked_together(play: Play) -> None:
    """Agents that come back are asked a second later; at the deadline the others are offline, with a second for those
    asked.
    """
    play.site.has("a")
    for name in ("b", "c", "d"):
        play.site.agents[name] = Agent(name)
    play.ask(deadline=WALL + 20)
    play.site.answers("a")
    play.site.has("b", "c", "stranger")
    assert play.site.asked == ["a"]
    play.pass_time(1.0)
    assert play.site.asked == ["a", "b", "c"]
    play.site.answers("c")
    play.pass_time(18.5)
    assert play.outcome is None
    play.pass_time(2.0)
    assert play.outcomes == {"a": "answered", "b": "expired", "c": "answered", "d": "offline"}


def test_a_query_that_only_waits_for_agents_says_so(play: Play) -> None:
    """A query that only waits tells its node, which has the slot for others, and tells when it goes on (F58)."""
    told: list[tuple[str, bool]] = []
    play.tasks.on_waiting.subscribe(lambda task_id, waits: told.append((task_id, waits)))
    play.site.has("a")
    play.site.agents["b"] = Agent("b")
    play.ask(agents=["a", "b", "ghost"], deadline=WALL + 60)
    assert told == []
    play.site.answers("a")
    assert told == [("t1", True)]
    assert play.tasks.open["t1"].away() == ["b", "ghost"]
    statuses = len(play.told)
    play.pass_time(5.0)
    assert len(play.told) == statuses
    play.site.has("b")
    assert told[1:] == [("t1", False)]
    play.pass_time(1.5)
    play.site.answers("b")
    assert told[2:] == [("t1", True)]
    play.pass_time(60.0)
    assert play.outcomes == {"a": "answered", "b": "answered", "ghost": "offline"}


def test_few_queries_that_wait_keep_much_in_memory(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query that keeps much in memory keeps its slot while it waits, since slots are bounded (F58)."""
    monkeypatch.setattr(fleet_tasks, "WAITING_OUTCOMES", 1)
    told: list[tuple[str, bool]] = []
    play.tasks.on_waiting.subscribe(lambda task_id, waits: told.append((task_id, waits)))
    play.site.has("a", "b")
    play.ask(agents=["a", "b", "ghost"], deadline=WALL + 10)
    play.site.answers("a"), play.site.answers("b")
    assert told == [] and play.tasks.open["t1"].away() == ["ghost"]
    play.pass_time(10.5)
    assert play.outcomes == {"a": "answered", "b": "answered", "ghost": "offline"}


def test_a_further_attempt_asks_the_others(play: Play) -> None:
    """A further attempt keeps answers; agents have some time to come back to a Helen that was restarted."""
    play.site.has("a", "b")
    play.ask()
    play.site.answers("a")
    play.pass_time(0.5)
    play.tasks.cancel("t1")
    assert isinstance(play.outcome, Failure)
    assert play.outcome.check(TaskFailed)
    assert play.site.cancelled == [2]
    play.site.agents["a"].link = play.site.agents["b"].link = None
    play.outcome = None
    play.ask(attempt=2)
    play.site.has("b")
    play.pass_time(1.0)
    assert play.site.asked == ["a", "b", "b"]
    play.site.queries.gone(play.site.agents["b"].link, "it went away")
    play.pass_time(0.5)
    assert play.outcomes == {"a": "answered", "b": "failed"}


def test_an_id_that_is_used_again_is_a_new_question(play: Play) -> None:
    """A first attempt knows nothing of what was said to a task that had the id before."""
    play.site.has("a")
    play.ask()
    play.site.answers("a")
    assert play.outcomes == {"a": "answered"}
    play.outcome = None
    play.site.has("b")
    play.ask(agents=["a", "b"])
    assert play.site.asked == ["a", "a", "b"]
    play.site.answers("b")
    play.pass_time(10.5)
    assert play.outcomes == {"a": "expired", "b": "answered"}


def test_where_answers_cannot_be_kept_nobody_is_asked(play: Play) -> None:
    """A question whose answers cannot be kept fails and may be tried again, as a full disk may have room then."""
    play.site.has("a")
    play.tasks.folder.joinpath("jobs").write_text("")
    play.tasks.folder = play.tasks.folder / "jobs" / "below"
    play.ask()
    assert (play.outcome.value.code, play.outcome.value.retry) == (-32000, True)
    assert "cannot be kept in" in play.outcome.value.message
    assert play.site.asked == []


def test_a_job_that_cannot_be_written_down_is_refused(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that cannot be written down is refused and not on record afterwards."""
    monkeypatch.setattr(job_folder, "deferToThread", maybeDeferred)
    (play.tasks.folder / "full").write_text("")
    play.tasks.folder = play.tasks.folder / "full"
    several = jobs.Jobs(play.clock, None, play.tasks, "equus.check.h1", None, lambda: WALL)
    refused = Deferred.fromCoroutine(several.submit("echo", ["a"], ["a"], {}, 10.0, 60.0))
    said = refused.addErrback(lambda failure: failure.value).result
    assert isinstance(said, JobsUnavailable)
    assert ("No agent was asked" in str(said), len(several)) == (True, 0)


def test_a_restart_without_agents_ends(play: Play) -> None:
    """The agents of a restarted question are offline after the grace."""
    play.site.agents["a"] = Agent("a")
    play.ask(attempt=2)
    play.pass_time(RESTART_GRACE - 0.5)
    assert play.outcome is None
    play.pass_time(1.0)
    assert play.outcomes == {"a": "offline"}


@pytest.mark.parametrize(("full_for", "outcome"), [(3.0, "answered"), (30.0, "expired")])
def test_while_too_much_is_asked(play: Play, full_for: float, outcome: str) -> None:
    """A question is tried again each second, for as long as an answer may take."""
    play.site.has("a")
    play.site.full = True
    play.ask()
    play.pass_time(full_for)
    play.site.full = False
    play.pass_time(1.5)
    if outcome == "answered":
        play.site.answers("a")
        play.pass_time(0.5)
    assert play.outcomes == {"a": outcome}


def test_nobody_to_ask(play: Play) -> None:
    """A question to nobody has failed for good: another attempt would find nobody either."""
    play.ask(agents=["none-[0-9]"])
    assert (play.outcome.value.code, play.outcome.value.retry) == (-32602, False)
    play.ask(agents=["Not A Name"])
    assert "is no name for an agent" in play.outcome.value.message


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_every_target_has_one_outcome(play: Play, seed: int) -> None:
    """The outcomes add up to the targets in the end, whatever agents and Helen do, and an answered one stays so."""
    dice = random.Random(seed)
    names = [f"a{number}" for number in range(dice.randrange(1, 9))]
    for name in names:
        play.site.agents[name] = Agent(name)
    play.site.has(*(name for name in names if dice.random() < 0.5))
    deadline = WALL + 40.0 if dice.random() < 0.8 else None
    answered: set[str] = set()
    play.ask(agents=names, deadline=deadline)
    attempt = 1
    while play.outcome is None and play.clock.seconds() < 300.0:
        name, event = dice.choice(names), dice.random()
        link = play.site.agents[name].link
        if event < 0.3 and link is None:
            play.site.has(name)
        elif event < 0.4 and link is not None:
            play.site.goes(name)
        elif event < 0.6 and play.site.answer_of(name):
            answered.add(name)
        elif event < 0.65:
            play.site.full = not play.site.full
        elif event < 0.7 and attempt < 5 and play.outcome is None:
            play.restarts()
            attempt += 1
            play.ask(attempt=attempt, agents=names, deadline=deadline)
        play.pass_time(dice.choice([0.5, 1.0, 3.0]))
    assert set(play.outcomes) == set(names)
    assert set(play.outcomes.values()) <= set(OUTCOMES)
    assert sum(play.outcome["counts"].values()) == len(names)
    assert answered <= {name for name, outcome in play.outcomes.items() if outcome == "answered"}


def test_agents_that_cannot_be_looked_through(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault with some agents fails the task, which does not go on without them."""
    for number in range(2 * task_targets.LOOKED_AT_ONCE):
        play.site.agents[f"a{number}"] = Agent(f"a{number}")
    monkeypatch.setattr(play.site.agents["a120"], "labels", None)
    play.ask(agents=["role=db"])
    assert isinstance(play.outcome, Failure) and not play.outcome.check(TaskFailed)
    assert play.site.asked == []


def test_helen_stops_while_agents_are_looked_through(play: Play) -> None:
    """The task ends at once, cancelled, and waits for no turn that nobody gives any more."""
    play.site.fair_turns = FairTurns(play.clock, play.clock.seconds)
    for number in range(3 * task_targets.LOOKED_AT_ONCE):
        play.site.agents[f"a{number}"] = Agent(f"a{number}")
    play.ask(agents=["a*"])
    assert play.outcome is None
    play.site.fair_turns.stop()
    assert isinstance(play.outcome, Failure) and play.outcome.check(TaskFailed)
    assert (play.outcome.value.code, play.outcome.value.message) == (errors.CANCELLED, "Helen is stopping")
    play.clock.advance(0)
