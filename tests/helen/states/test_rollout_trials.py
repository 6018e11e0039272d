"""Tests that nobody is told what a version makes of a check on trial, by tables of (time, input) -> events."""

from __future__ import annotations

import json

import pytest
from acting import Play, play

from helen.states.fleet_states import run
from helen.states.model import Rule, State
from helen.states.timeline_snapshot import header_of, restore

ONE = Rule(attempts=1, flap_start=None)
TABLES: dict[str, tuple[str, dict[str, Rule]]] = {}


def table(title: str, text: str, **rules: Rule) -> None:
    assert title not in TABLES
    TABLES[title] = text, rules


table("what a bad version says is told to nobody, and is gone with it", """
    0    ok                       | -> ok
    10   open version=7           |
    20   critical                 | -> critical; hold problem critical: rollout 7
    30   undone version=7         |
    40   critical                 |
    50   back version=7 agents=a  | -> ok; drop problem ok
    60   ok                       |
    70   critical                 | -> critical; notify problem critical
""", c=ONE)  # fmt: skip

table("what is still wrong when it has passed is told at once, and when it is well again as well", """
    0    ok                       | -> ok
    10   open version=7           |
    20   critical                 | -> critical; hold problem critical: rollout 7
    30   passed version=7         | notify problem critical
    40   ok                       | -> ok; notify recovery ok
""", c=ONE)  # fmt: skip

table("what was soft when it passed is confirmed as ever", """
    0    ok                       | -> ok
    10   open version=7           |
    20   critical                 | -> critical soft 1; hold problem critical: soft, rollout 7
    30   passed version=7         | hold problem critical: soft
    40   critical                 | -> critical; notify problem critical
""", c=Rule(attempts=2, flap_start=None))  # fmt: skip

table("what was bad before keeps alerting", """
    0    critical                 | -> critical; notify problem critical
    10   open version=7           |
    20   warning                  | -> warning; notify change warning
    30   undone version=7         |
    40   back version=7 agents=a  | -> critical; notify change critical
""", c=ONE)  # fmt: skip

table("a recovery that only the new version sees is told to nobody", """
    0    critical                 | -> critical; notify problem critical
    10   open version=7           |
    20   ok                       | -> ok; hold recovery ok: rollout 7
    30   undone version=7         |
    40   back version=7 agents=a  | -> critical; drop recovery critical
    50   critical                 |
""", c=ONE)  # fmt: skip

table("a recovery is told once it has passed", """
    0    critical                 | -> critical; notify problem critical
    10   open version=7           |
    20   ok                       | -> ok; hold recovery ok: rollout 7
    30   passed version=7         | notify recovery ok
""", c=ONE)  # fmt: skip

table("only the ring, only its checks", """
    0    ok                       | -> ok
    1    b/c ok                   | b/c -> ok
    2    a/d ok                   | a/d -> ok
    10   open version=7 agents=a  |
    20   critical                 | -> critical; hold problem critical: rollout 7
    21   b/c critical             | b/c -> critical; b/c notify problem critical
    22   a/d critical             | a/d -> critical; a/d notify problem critical
""", c=ONE, d=ONE, b__c=ONE)  # fmt: skip

table("the ring of all leaves out those who have passed; what is born meanwhile is in it", """
    0    ok                       | -> ok
    10   open version=7 without=a checks=c,e |
    20   critical                 | -> critical; notify problem critical
    21   b/e critical             | b/e -> critical; b/e hold problem critical: rollout 7
    30   passed version=7         | b/e notify problem critical
    31   b/f critical             | b/f -> critical soft 1; b/f hold problem critical: soft
""", c=ONE, b__e=ONE)  # fmt: skip

table("of two versions in a row the state before the first one counts", """
    0    ok                       | -> ok
    10   open version=7           |
    20   critical                 | -> critical; hold problem critical: rollout 7
    30   undone version=7         |
    40   open version=9           | hold problem critical: rollout 9
    50   back version=7 agents=a  |
    60   undone version=9         |
    70   back version=9 agents=a  | -> ok; drop problem ok
""", c=ONE)  # fmt: skip

table("one agent after the other goes back", """
    0    ok                       | -> ok
    1    b/c ok                   | b/c -> ok
    10   open version=7           |
    20   critical                 | -> critical; hold problem critical: rollout 7
    21   b/c critical             | b/c -> critical; b/c hold problem critical: rollout 7
    30   undone version=7         |
    40   back version=7 agents=b  | b/c -> ok; b/c drop problem ok
    41   back version=7 agents=b  |
    50   back version=7 agents=a  | -> ok; drop problem ok
""", c=ONE, b__c=ONE)  # fmt: skip

table("an acknowledgement of what a version made up goes with it", """
    0    ok                       | -> ok
    10   open version=7           |
    20   critical                 | -> critical; hold problem critical: rollout 7
    25   ack owner=eva            | hold problem critical: acknowledged eva, rollout 7
    30   back version=7 agents=a  | -> ok; ack by eva ends; drop problem ok
""", c=ONE)  # fmt: skip

table("a downtime that ends in the middle", """
    0    ok                       | -> ok
    5    downtime id=d until=25   |
    10   open version=7           |
    20   critical                 | -> critical; hold problem critical: downtime d, rollout 7
    30   tick                     | @25 hold problem critical: rollout 7
    40   passed version=7         | notify problem critical
""", c=ONE)  # fmt: skip

table("its agent goes away in the middle: that is no word of the version's", """
    0    ok                       | -> ok
    10   open version=7           |
    20   down                     |
    90   tick                     | @80 a/equus:link -> critical (agent-away); @80 a/equus:link notify problem critical
                                  | @80 -> unknown (agent-away)
                                  | @80 hold problem unknown: dependency a/equus:link, rollout 7
    95   back version=7 agents=a  | hold problem unknown: dependency a/equus:link
    99   up                       | a/equus:link -> ok; a/equus:link notify recovery ok; -> unknown (pending)
                                  | hold problem unknown: pending
    100  ok                       | -> ok; drop problem ok
""", c=ONE, link=Rule(1, 1, flap_start=None))  # fmt: skip

table("a check that flaps under it", """
    0    ok                       | -> ok
    10   open version=7           |
    20   critical                 | -> critical; hold problem critical: rollout 7
    30   ok                       | -> ok; drop problem ok
    40   critical                 | -> critical; hold problem critical: rollout 7
    50   ok                       | -> ok; drop problem ok
    60   critical                 | -> critical; hold problem critical: rollout 7
    70   ok                       | flap on at 34.4; -> ok; hold flapping ok: rollout 7
    80   back version=7 agents=a  | flap off, ok; drop flapping ok
""", c=Rule(attempts=1))  # fmt: skip

table("taken away while it is tried", """
    0    ok                       | -> ok
    10   open version=7           |
    20   critical                 | -> critical; hold problem critical: rollout 7
    30   retire                   | -> unknown (retired); drop closed critical
    40   back version=7 agents=a  |
""", c=ONE)  # fmt: skip

table("a step of another version", """
    0    ok                       | -> ok
    10   open version=7           |
    20   back version=6 agents=a  |
    30   critical                 | -> critical; hold problem critical: rollout 7
""", c=ONE)  # fmt: skip


@pytest.mark.parametrize("title", TABLES)
def test_a_table(title: str) -> None:
    """Each input has the events that stand beside it, and no others."""
    text, rules = TABLES[title]
    play(text, **rules)


def test_a_trial_survives_being_put_away() -> None:
    """A trial survives JSON in the middle: a check that is born later is still in it, and who was tried is known."""
    actors = Play({"a/c": ONE, "b/c": ONE})
    for time, given in ((0, "ok"), (10, "open version=7"), (20, "critical")):
        actors.act(time, given)
    timeline = actors.timeline
    header = json.loads(json.dumps(header_of(timeline)))
    states = [(*key, State.from_json(json.loads(json.dumps(each.to_json())))) for key, each in timeline.states.items()]
    again = restore(header, states)
    assert (again.trial, again.tried, again.states) == (timeline.trial, timeline.tried, timeline.states)
    assert again.tried == {"7": {("a", "c"), ("b", "c")}}
    run(again.change("rollout", 30.0, None, None, {"action": "passed", "version": 7, "why": "it passed"}))
    assert (again.trial, again.tried) == (None, {})
    assert all(state.trial is None for state in again.states.values())
