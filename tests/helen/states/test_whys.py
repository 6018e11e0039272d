"""Tests the sentence of each event, which people read in messages and in `helen explain`."""

from __future__ import annotations

from typing import Any

import pytest
from acting import Play, word
from attrs import evolve

from helen.states.agent_rules import AgentRules, rules_to_json
from helen.states.alert_decisions import is_handled
from helen.states.events import Again
from helen.states.fleet_states import ENDED_KEPT, run
from helen.states.inputs import Result
from helen.states.model import Ack, Hold, Rule

ONE = Rule(attempts=1, flap_start=None)


def said(rule: Rule, *acts: str, last: int = 1, labels: dict[str, str] | None = None) -> list[str]:
    """Return `EVENT (WHY)` of each event that the last acts caused; an act is `TIME INPUT`."""
    play = Play({"a/c": rule}, labels)
    events = []
    for number, act in enumerate(acts):
        time, _, given = act.partition(" ")
        events += [
            (number, f"{word(each, float(time))} ({getattr(each.event, 'why', '')})")
            for each in play.act(float(time), given)
            if not isinstance(each.event, Again)
        ]
    return [text for number, text in events if number >= len(acts) - last]


WHYS: dict[str, tuple[Rule, list[str], list[str]]] = {
    "one result is enough": (ONE, ["0 critical"], [
        "-> critical (the result says critical)", "notify problem critical (nothing is in its way)"]),
    "the first of three": (Rule(attempts=3), ["0 ok", "60 warning"], [
        "-> warning soft 1 (warning, attempt 1 of 3)", "hold problem warning: soft (attempt 1, not confirmed yet)"]),
    "the last of three": (Rule(attempts=3), ["0 ok", "60 warning", "70 warning", "80 warning"], [
        "-> warning (warning, confirmed by 3 of 3 results)", "notify problem warning (nothing is in its way)"]),
    "not confirmed": (Rule(attempts=3), ["0 ok", "60 warning", "70 ok"], [
        "-> ok (as before; the change was not confirmed)",
        "drop problem ok (it is ok again before anybody was told)"]),
    "another reason": (ONE, ["0 critical reason=dns", "9 critical reason=tls"], [
        "-> critical (tls) (the reason is tls)"]),
    "a reason that is gone": (ONE, ["0 critical reason=dns", "9 critical"], ["-> critical (the reason is gone)"]),
    "stale": (evolve(ONE, stale=100.0), ["0 ok", "100 tick"], [
        "-> unknown (stale) (no result for 100 s; 100 s are allowed)",
        "notify problem unknown (nothing is in its way)"]),
    "stale after a day": (evolve(ONE, stale=93_600.0), ["0 ok", "93600 tick"], [
        "-> unknown (stale) (no result for 26 h; 26 h are allowed)",
        "notify problem unknown (nothing is in its way)"]),
    "expected within a week": (evolve(ONE, stale=9e3), ["0 ok", "10 expect within=604800", "604810 tick"], [
        "-> unknown (stale) (no result for 7 d; it was expected within 7 d)",
        "notify problem unknown (nothing is in its way)"]),
    "stale from the start": (evolve(ONE, stale=90.0), ["90 tick"], [
        "-> unknown (stale) (no result yet; 90 s are allowed)", "notify problem unknown (nothing is in its way)"]),
    "not what was expected": (evolve(ONE, stale=9e3), ["0 ok", "10 expect within=50 why=upgrade", "60 tick"], [
        "-> unknown (stale) (no result for 60 s; it was expected within 50 s (upgrade))",
        "notify problem unknown (nothing is in its way)"]),
    "expected, nobody said why": (evolve(ONE, stale=9e3), ["0 ok", "10 expect within=50", "60 tick"], [
        "-> unknown (stale) (no result for 60 s; it was expected within 50 s)",
        "notify problem unknown (nothing is in its way)"]),
    "acknowledged": (ONE, ["0 critical", "5 ack owner=kim", "9 warning"], [
        "-> warning (the result says warning)", "ack by kim ends (it is warning now)",
        "notify change warning (nothing is in its way)"]),
    "taken back by its owner": (ONE, ["0 critical", "5 ack owner=kim", "9 unack owner=lee"], [
        "ack by kim ends (taken back by lee)",
        "notify still critical (the acknowledgement by kim has ended: taken back by lee)"]),
    "taken back": (ONE, ["0 critical", "5 ack owner=kim", "9 unack"], [
        "ack by kim ends (taken back)", "notify still critical (the acknowledgement by kim has ended: taken back)"]),
    "an acknowledgement that is over": (ONE, ["0 critical", "5 ack owner=kim until=50", "50 tick"], [
        "ack by kim ends (its time is over)",
        "notify still critical (the acknowledgement by kim has ended: its time is over)"]),
    "held for two reasons": (ONE, [
        "0 silence id=s until=90 author=eva comment=move", "1 downtime id=d until=90", "5 critical"], [
        "-> critical (the result says critical)",
        "hold problem critical: silence s, downtime d (silence s by eva: move; downtime d)"]),
    "cancelled": (ONE, ["0 downtime id=d until=90", "5 critical", "9 cancel id=d author=eva"], [
        "notify problem critical (downtime d has been cancelled by eva)"]),
    "cancelled by a program": (ONE, ["0 downtime id=d until=90", "5 critical", "9 cancel id=d"], [
        "notify problem critical (downtime d has been cancelled)"]),
    "over": (ONE, ["0 silence id=s until=90", "5 critical", "90 tick"], [
        "notify problem critical (silence s has ended)"]),
    "narrowed": (ONE, ["0 silence id=s until=90", "5 critical", "9 silence id=s until=90 agents=other"], [
        "notify problem critical (silence s covers it no more)"]),
    "of another kind": (ONE, ["0 silence id=s until=90 agents=a", "5 critical", "9 downtime id=s until=90 agents=b"],
        [
        "notify problem critical (silence s has become a downtime)"]),
    "retired": (ONE, ["0 critical", "9 retire"], [
        "-> unknown (retired) (it is not scheduled any more)",
        "notify closed critical (it is not scheduled any more)"]),
}  # fmt: skip


@pytest.mark.parametrize("case", WHYS)
def test_why(case: str) -> None:
    """The sentence of an event is this one, word for word."""
    rule, acts, expected = WHYS[case]
    assert said(rule, *acts) == expected


# ------------------------------------------------------------------------------------------------ the fleet


def fleet() -> Play:
    play = Play({"a/c": ONE, "a/d": ONE, "b/c": ONE})
    for agent in ("a", "b"):
        for check_id in ("c", "d"):
            play.act(0.0, f"{agent}/{check_id} ok")
    return play


def test_an_agent_that_is_forgotten_leaves_nothing() -> None:
    """An agent that is forgotten leaves no state, rule, clock, deadline or place in a list; others keep theirs."""
    play = fleet()
    timeline = play.timeline
    play.act(1.0, "a/d retire")
    play.act(2.0, "a/c ok ended=1.9")
    assert ("a", "d") in timeline.retired
    play.act(3.0, "forgotten")
    for each in (
        timeline.rules, timeline.connected, timeline.clocks, timeline.newest, timeline.tallies, timeline.touched,
    ):  # fmt: skip
        assert "a" not in each
    assert "b" in timeline.rules and "b" in timeline.connected and "b" in timeline.tallies
    assert (timeline.agents(), list(timeline.keys_of("a")), timeline.retired) == (["b"], [], {})
    assert {key[0] for key in timeline.states} == {"b"}
    assert timeline.rule(("a", "c")) == timeline.rule(("nobody", "c"))
    assert play.act(4.0, "down") == []  # its connection ends after that


def test_tallies_follow_what_is_shown() -> None:
    """Tallies count by agent what is shown, without the link and retired checks."""
    play = fleet()
    assert play.timeline.tallies == {"a": [2, 0, 0, 0], "b": [2, 0, 0, 0]}
    play.act(1.0, "a/c critical")
    play.act(1.0, "b/c warning")
    assert play.timeline.tallies == {"a": [1, 0, 1, 0], "b": [1, 1, 0, 0]}
    play.act(2.0, "a/c ok")
    play.act(2.0, "b/c retire")
    assert play.timeline.tallies == {"a": [2, 0, 0, 0], "b": [1, 0, 0, 0]}


def test_touched_names_the_agents_of_what_changed() -> None:
    """A result as before touches too: it was seen. One that is late does not."""
    play = fleet()
    play.act(99.0, "a/c ok sequence=50")
    play.timeline.touched.clear()
    play.act(100.0, "a/c ok sequence=20")
    assert (play.timeline.touched, play.timeline.late_results) == (set(), 1)
    play.act(101.0, "b/c ok")
    assert play.timeline.touched == {"b"}
    play.timeline.touched.clear()
    play.act(102.0, "a/c critical sequence=60")
    assert play.timeline.touched == {"a"}


def test_a_late_result_says_that_its_agent_lives_only_if_its_clock_is_to_blame() -> None:
    """A late result tells that its agent lives only if its clock is to blame, or a backlog would hide a check that
    hangs.
    """
    play = Play({"a/c": evolve(ONE, stale=100.0)})
    play.act(1_000.0, "ok ended=1000 sequence=10")
    play.act(1_040.0, "ok ended=900 sequence=9")
    state = play.timeline.states["a", "c"]
    assert state.seen is not None and state.seen.at == 1_000.0
    play.act(1_050.0, "ok ended=850 sequence=11")  # the clock was set back by 200 s, or so it seems
    assert play.timeline.newest["a"].doubted is True
    state = play.timeline.states["a", "c"]
    assert state.seen is not None and (state.seen.at, state.seen.sequence) == (1_050.0, 10)


def test_the_checks_that_were_retired_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest is forgotten, so its next result is news again."""
    monkeypatch.setattr("helen.states.fleet_timeline.RETIRED_KEPT", 2)
    play = Play({f"a/{name}": ONE for name in "cdef"})
    for at, name in enumerate("cde", 1):
        play.act(at, f"a/{name} retire")
    assert list(play.timeline.retired) == [("a", "d"), ("a", "e")]
    play.act(9.0, "a/d rule attempts=1")
    assert list(play.timeline.retired) == [("a", "e")]


def test_results_that_are_no_checks() -> None:
    """An agent's own reports advance the time and have no state."""
    play = fleet()
    run(play.timeline.result("a", "equus:gap", Result(500.0, 2, 500.0, "s", 99, None)))
    assert play.timeline.clock == 500.0
    assert ("a", "equus:gap") not in play.timeline.states


def test_passive_results_have_no_clock_of_their_agent() -> None:
    """A passive result changes no clock of its agent, since a program's may be any; Helen's own spool has no order."""
    play = Play({"a/c": evolve(ONE, passive=True), "a/d": ONE})
    play.act(1_000.0, "a/c ok ended=1300")
    assert (play.timeline.clocks, play.timeline.newest) == ({}, {})
    play.act(1_001.0, "a/d ok ended=1301 spool=helen")
    assert (play.timeline.clocks["a"].offset, play.timeline.newest) == (300.0, {})
    play.act(1_002.0, "a/d ok ended=1302 sequence=7")
    newest = play.timeline.newest["a"]
    assert (newest.spool, newest.sequence, newest.ended, newest.doubted) == ("s", 7, 1302.0, False)
    state = play.timeline.states["a", "d"]
    assert state.seen is not None and state.seen.ended == 1_002.0  # by Helen's clock


def test_what_somebody_deals_with_is_not_repeated() -> None:
    """A state that is acknowledged or held by a window is not repeated; one that is gone is neither."""
    play = fleet()
    state = play.timeline.states["a", "c"]
    hold = Hold("silence", "s", "until noon")
    assert not is_handled(state) and not is_handled(None)
    assert is_handled(evolve(state, holds=(hold,)))
    assert is_handled(evolve(state, ack=Ack("kim")))


def test_windows_that_have_ended_are_listed() -> None:
    """The newest ended windows are listed with the time, one that never began as well."""
    play = fleet()
    play.act(1.0, "downtime id=d until=50")
    play.act(2.0, "silence id=s begin=500 until=600")
    play.act(3.0, "cancel id=s")
    play.act(4.0, "cancel id=none")
    play.act(60.0, "tick")
    assert [(window.id, at) for window, at in play.timeline.ended] == [("s", 3.0), ("d", 50.0)]
    assert (play.timeline.windows, play.timeline.active) == ({}, {})
    assert play.timeline.ended.maxlen == ENDED_KEPT == 200


def test_a_window_holds_each_check_once() -> None:
    """A window that is changed while it is on holds new checks, and steps those that stay no second time."""
    play = fleet()
    play.act(1.0, "downtime id=d until=900 agents=a")
    play.act(2.0, "silence id=d2 until=900 agents=a checks=c")
    play.act(3.0, "downtime id=d until=800 agents=a,b checks=c")
    holds = {key: state.holds for key, state in play.timeline.states.items() if key[1] != "equus:link"}
    downtime, silence = Hold("downtime", "d", "downtime d"), Hold("silence", "d2", "silence d2")
    assert holds == {
        ("a", "c"): (downtime, silence), ("a", "d"): (), ("b", "c"): (downtime,), ("b", "d"): (),
    }  # fmt: skip
    assert play.act(801.0, "tick") == []
    assert [*play.timeline.active] == ["d2"]


def test_labels_decide_anew_when_they_change() -> None:
    """A check that a window covers by its agent's labels is released when the agent gets others, and held again."""
    play = Play({"a/c": ONE}, {"role": "web"})
    document: dict[str, Any] = {"id": "d", "until": 900.0, "labels": {"role": "web"}}
    run(play.timeline.change("downtime", 1.0, None, None, document))
    play.act(2.0, "critical")

    def labelled(at: float, role: str) -> list[str]:
        changed = rules_to_json(AgentRules({"role": role}, {"c": ONE}, Rule()))
        return [word(each, at) for each in run(play.timeline.change("rule", at, "a", None, changed))]

    assert labelled(3.0, "web") == []
    assert labelled(4.0, "db") == ["notify problem critical"]
    assert play.timeline.states["a", "c"].holds == ()
    assert labelled(5.0, "web") == []
    assert play.timeline.states["a", "c"].holds == (Hold("downtime", "d", "downtime d"),)


def test_a_retired_check_depends_on_nothing() -> None:
    """A later result of it, without a rule, is not held back by its former parent."""
    play = Play({"a/c": evolve(ONE, depends=("p",)), "a/p": ONE})
    play.act(1.0, "a/p critical")
    assert play.timeline.dependencies.children(("a", "p")) == {("a", "c")}
    play.act(2.0, "retire")
    assert not play.timeline.dependencies.children(("a", "p"))
    assert [word(each, 3.0) for each in play.act(3.0, "critical")][-1] == "hold problem critical: soft"
