"""Tests whose clock is wrong: counts of peers ahead, right and behind, and steps of the broker's own clock."""

from __future__ import annotations

import pytest
from scale0_stage import Stage, broker_config

from scale0.broker import clocks
from scale0.broker.clocks import Clocks

LIMIT = 30.0


@pytest.fixture
def stage() -> Stage:
    return Stage(broker_config(max_skew=LIMIT))


@pytest.fixture
def told(stage: Stage) -> Clocks:
    return stage.broker.sessions.clocks


def at(stage: Stage, seconds: float) -> None:
    stage.broker.context.now = seconds


def test_the_limits_are_those_of_the_documentation() -> None:
    assert (clocks.MOST_NAMES, clocks.FRESH, clocks.FEWEST) == (10_000, 120.0, 3)
    assert (clocks.STEP_TRUSTED, clocks.STEPS, clocks.LARGEST) == (300.0, 100, 1e9)


@pytest.mark.parametrize("skew, ours", [(30.0, True), (30.1, False), (-30.0, True), (-30.1, False)])
def test_one_peer_alone_is_judged_by_its_own_clock(told: Clocks, skew: float, ours: bool) -> None:
    told.note("a", skew)
    assert told.is_ours(skew) is ours


@pytest.mark.parametrize("way", [1, -1])
def test_three_peers_that_are_most_outvote_the_broker(stage: Stage, told: Clocks, way: int) -> None:
    for name in ("a", "b"):
        told.note(name, 31.0 * way)
    assert not told.is_ours(31.0 * way)
    told.note("c", 31.0 * way)
    assert told.is_ours(31.0 * way) and not told.is_ours(-31.0 * way)
    assert list(stage.broker.context.alarms) == [
        f"the clocks of 3 of 3 peers differ from this broker's, one by {31 * way:+d} s: is the clock of this machine"
        " right? No peer is refused for it"
    ]
    assert told.is_ours(31.0 * way) and len(stage.broker.context.alarms) == 1
    for name in ("d", "e"):
        told.note(name, 30.0)
    assert told.is_ours(31.0 * way), "three of five"
    told.note("f", -30.0)
    assert not told.is_ours(31.0 * way), "three of six"


def test_the_suspicion_ends_when_most_agree_again(stage: Stage, told: Clocks) -> None:
    def lines() -> int:
        return sum("agree with the clock" in effect.text for effect in stage.broker.context.effects)

    for name in ("a", "b", "c"):
        told.note(name, 40.0)
    assert told.is_ours(40.0)
    told.note("d", 0.0)
    assert lines() == 0
    told.note("a", 0.0)
    assert lines() == 1 and not told.is_ours(40.0)
    told.note("a", 0.0)
    assert lines() == 1
    told.note("a", 40.0)
    assert told.is_ours(40.0) and len(stage.broker.context.alarms) == 2


def test_what_a_peer_told_counts_for_two_minutes(stage: Stage, told: Clocks) -> None:
    at(stage, 1000.0)
    for name in ("a", "b"):
        told.note(name, 40.0)
    at(stage, 1120.0)
    told.note("c", 40.0)
    assert told.is_ours(40.0)
    at(stage, 1120.1)
    told.note("c", 40.0)
    assert not told.is_ours(40.0) and list(told._told) == ["c"]


def test_the_clock_that_was_told_longest_ago_is_forgotten(monkeypatch, told: Clocks) -> None:
    monkeypatch.setattr(clocks, "MOST_NAMES", 3)
    for name in ("a", "b", "c", "a", "d"):
        told.note(name, 40.0)
    assert list(told._told) == ["c", "a", "d"] and told._sides[1] == 3


def test_any_number_may_be_told(told: Clocks) -> None:
    for name, skew in (("a", 1e300), ("b", float("inf")), ("c", -1e300), ("d", -1e9)):
        told.note(name, skew)
    assert [skew for _, skew in told._told.values()] == [1e9, 1e9, -1e9, -1e9]


@pytest.mark.parametrize("step, said", [(30.0, ""), (31.0, "ahead by 31 s"), (-30.0, ""), (-31.0, "back by 31 s")])
def test_a_step_of_the_broker_moves_what_peers_differ_by(stage: Stage, told: Clocks, step: float, said: str) -> None:
    told.note("a", 5.0)
    stage.broker.context.alarms.clear()
    told.stepped(step)
    assert [skew for _, skew in told._told.values()] == [5.0 - step]
    assert told._sides == {(5.0 - step > 30) - (5.0 - step < -30): 1}
    alarms = [f"the clock of this broker's machine went {said}, or it was suspended"] if said else []
    assert list(stage.broker.context.alarms) == alarms


def test_steps_explain_what_peers_differ_by_for_five_minutes(stage: Stage, told: Clocks) -> None:
    at(stage, 1000.0)
    told.stepped(100.0)
    at(stage, 1010.0)
    told.stepped(50.0)
    for skew, ours in ((-150.0, True), (-120.0, True), (-119.0, False), (-180.0, True), (-181.0, False)):
        assert told.is_ours(skew) is ours, skew
    at(stage, 1300.0)
    assert told.is_ours(-150.0)
    at(stage, 1300.1)
    assert not told.is_ours(-150.0) and told.is_ours(-50.0)
    at(stage, 1310.1)
    assert not told.is_ours(-50.0)


def test_a_new_limit_counts_anew(stage: Stage, told: Clocks) -> None:
    for name in ("a", "b", "c"):
        told.note(name, 20.0)
    assert not told._are_most(1)
    stage.run(stage.broker.configured(broker_config(max_skew=10.0), 8, stage.now, stage.wall))
    assert told._are_most(1) and told.is_ours(20.0)
