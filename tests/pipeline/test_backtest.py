"""The recorded results once more: with the same rules the same timeline, with other rules what would have been."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from helen.judged import Result, Rule, Transition
from helen.pipeline.backtest import RECORDED, TRIED, Replay, backtest, changed, read_overrides, summary, teams_of
from helen.pipeline.errors import PipelineError
from helen.pipeline.lake import Lake
from helen.timeline import AgentRules, Timeline, rules_to_json, run

T = 1_790_035_200.0
STATUS = ("ok", "warning", "critical", "unknown")


def row(at: int, received: float, status: int, agent: str = "web1", check: str = "disk") -> dict[str, Any]:
    return {"team": 0, "helen": 0, "at": at, "received": datetime.fromtimestamp(received, UTC), "kind": "result",
            "agent": agent, "check_id": check, "started": None, "took_ms": None, "status": status, "spool": "s",
            "sequence": at, "reason": None, "code": None, "document": None}  # fmt: skip


def rule_row(at: int, received: float, **checks: Rule) -> dict[str, Any]:
    document = json.dumps({"agent": "web1", **rules_to_json(AgentRules({}, dict(checks)))})
    return {**row(at, received, 0), "kind": "rule", "check_id": None, "document": document}


def test_other_rules_change_what_follows_from_them() -> None:
    """One bad result more is needed: the same outage is confirmed a minute later; rules not meant stay as they are."""
    rows = [rule_row(1, T, disk=Rule(attempts=2), load=Rule(attempts=1))]
    rows += [row(2 + n, T + 60 * n, 0 if n < 2 else 2) for n in range(6)]
    rows += [row(9, T + 400, 2, check="load")]

    def hard(overrides: Any) -> list[tuple[str, float]]:
        replay = Replay(overrides)
        events = [event for each in rows for event in replay.feed(each)]
        return [(event["check_id"], event["at"] - T) for event in events if event["what"] == "hard"]

    assert hard(()) == [("disk", 0), ("disk", 180), ("load", 400)]
    assert hard([("disk*", {"attempts": 3})]) == [("disk", 0), ("disk", 240), ("load", 400)]


def test_unassigned_checks_are_tried_as_well() -> None:
    """A passive check has the usual rule; a pattern may change it."""
    rows = [row(n, T + 60 * n, 2, check="passive") for n in range(1, 4)]
    replay = Replay([("pass*", {"attempts": 1})])
    assert [event["what"] for event in replay.feed(rows[0])] == ["hard", "notify problem"]
    assert changed("disk", Rule(), [("d*", {"attempts": 9}), ("*k", {"attempts": 8})]) == Rule(attempts=8)


def test_those_who_depend_on_each_other_are_one_team() -> None:
    """However far round; the others are spread."""
    teams = teams_of(["a", "b", "c", "d"], [("a", "b"), ("c", "b")])
    assert teams["a"] == teams["b"] == teams["c"] != teams["d"]


WRONG = {
    "": "changes nothing: write a table such as",
    "x = 1": r'\["x"\] takes attempts, recover',
    "['disk']\nattemps = 3": "takes attempts, recover, .*none of these",
    "['disk']\nattempts = 'many'": "attempts of .*is a number, not 'many'",
    "[": "can't be read",
}


@pytest.mark.parametrize(("text", "said"), WRONG.items(), ids=list(WRONG.values()))
def test_a_wrong_file_is_told_what_to_write(tmp_path: Path, text: str, said: str) -> None:
    """Each mistake with its place and what is allowed."""
    path = tmp_path / "rules.toml"
    path.write_text(text)
    with pytest.raises(PipelineError, match=said):
        read_overrides(path)


def test_a_replay_of_the_lake_is_the_live_timeline(spark: Any, history: Any, take_in: Any, tmp_path: Path) -> None:
    """Results in four batches, with the transitions that a live timeline had of them: the replay has the same."""
    rng, live, transitions = random.Random(11), Timeline(), []
    documents = {f"web{n}": rules_to_json(AgentRules({}, {"disk": Rule(attempts=2, stale=300.0)})) for n in range(3)}
    begin = [history.change("rule", T, None, agent=agent, **rules) for agent, rules in documents.items()]
    for agent, rules in documents.items():
        transitions += run(live.change("rule", T, agent, None, rules))
    history.segment(*begin)
    for batch in range(4):
        records = []
        for n in range(30):
            received = T + 60 + (batch * 30 + n) * 40
            status, agent = rng.choice((0, 0, 0, 2)), f"web{rng.randrange(3)}"
            record = history.result(f"{agent}/disk", received, STATUS[status])
            given = Result(received, status, None, record.entry.spool, record.entry.sequence)
            transitions += run(live.result(agent, "disk", given))
            records.append(record)
        history.segment(*records)
    lake = Lake(tmp_path / "lake")
    take_in(lake, history.state, most=1)
    begin_us, end_us = round((T - 60) * 1e6), round((T + 86_400) * 1e6)
    events = backtest(spark, lake, begin_us, end_us, [("disk", {"attempts": 5})])
    was = [
        (said.agent, said.check_id, said.event.at, "hard" if not said.event.now.attempt else "soft")
        for said in transitions
        if isinstance(said.event, Transition)
    ]
    again = [(e["agent"], e["check_id"], e["at"], e["what"]) for e in events
             if e["side"] == RECORDED and e["kind"] == "transition"]  # fmt: skip
    assert sorted(again) == sorted(was)
    assert len(was) > 20
    total = summary(events, begin_us, end_us).rows[-1]
    assert total["check"] == "(all)"
    assert 0 < total["alerts_tried"] < total["alerts"]
    assert {event["side"] for event in events} == {RECORDED, TRIED}
