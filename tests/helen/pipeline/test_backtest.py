"""Tests that recorded results replayed with the same rules give the same timeline, and with other rules another one."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pytest

from helen.pipeline.lake.errors import PipelineError
from helen.pipeline.lake.lake import Lake
from helen.pipeline.reports.backtest import (
    OUTPUTS,
    RECORDED,
    TRIED,
    Replay,
    backtest,
    changed,
    groups_of,
    pairs_of_rules,
    read_overrides,
)
from helen.pipeline.reports.backtest_summary import comparison, recorded_events, summary
from helen.states.agent_rules import AgentRules, rules_to_json
from helen.states.events import Decision, Flapping, Transition
from helen.states.fleet_states import run
from helen.states.fleet_timeline import Timeline
from helen.states.inputs import Result
from helen.states.model import Rule

T = 1_790_035_200.0
STATUS = ("ok", "warning", "critical", "unknown")


def row(at: int, received: float, status: int, agent: str = "web1", check: str = "disk") -> dict[str, Any]:
    return {"agent_group": 0, "helen": 0, "at": at, "received": datetime.fromtimestamp(received, UTC), "kind": "result",
            "agent": agent, "check_id": check, "started": None, "took_ms": None, "status": status, "spool": "s",
            "sequence": at, "reason": None, "code": None, "document": None}  # fmt: skip


def rule_row(at: int, received: float, **checks: Rule) -> dict[str, Any]:
    document = json.dumps({"agent": "web1", **rules_to_json(AgentRules({}, dict(checks)))})
    return {**row(at, received, 0), "kind": "rule", "check_id": None, "document": document}


def test_other_rules_change_what_follows_from_them() -> None:
    """A rule that needs one bad result more confirms the same outage a minute later, and other checks stay as they
    are."""
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
    """A passive check is replayed with the usual rule, and a pattern may change it."""
    rows = [row(n, T + 60 * n, 2, check="passive") for n in range(1, 4)]
    replay = Replay([("pass*", {"attempts": 1})])
    assert [event["what"] for event in replay.feed(rows[0])] == ["hard", "notify problem"]
    assert changed("disk", Rule(), [("d*", {"attempts": 9}), ("*k", {"attempts": 8})]) == Rule(attempts=8)


def test_those_who_depend_on_each_other_are_one_team() -> None:
    """Agents that depend on each other, directly or not, are in one group, and others are in another."""
    groups = groups_of(["a", "b", "c", "d"], [("a", "b"), ("c", "b")])
    assert groups["a"] == groups["b"] == groups["c"] != groups["d"]


WRONG = {
    "": "changes nothing: write a table such as",
    "x = 1": r'\["x"\] takes attempts, recover',
    "['disk']\nattemps = 3": "takes attempts, recover, .*and no other field",
    "['disk']\nattempts = 'many'": "attempts of .*is a number, not 'many'",
    "[": "can't be read",
}


@pytest.mark.parametrize(("text", "said"), WRONG.items(), ids=list(WRONG.values()))
def test_a_wrong_file_is_told_what_to_write(tmp_path: Path, text: str, said: str) -> None:
    """A wrong file of rules raises PipelineError with the place and the allowed values."""
    path = tmp_path / "rules.toml"
    path.write_text(text)
    with pytest.raises(PipelineError, match=said):
        read_overrides(path)


EventKey = tuple[str, str, float, str]


def recorded(helen: Any, rng: random.Random, splits: int) -> list[EventKey]:
    """Record three agents in segments of any size with Helen's own events, as Helen writes them; return these events.

    Nobody asks the timeline at the same moments as the replay will: Helen looks at its clock whenever it likes.
    """
    live, said, records = Timeline(), [], []

    def hear(spoken: Any) -> None:
        for each in run(spoken):
            if isinstance(each.event, Transition | Flapping | Decision):
                said.append(each)
                records.append(helen.change(each.event.KIND, live.clock, f"{each.agent}/{each.check_id}",
                                            **each.event.to_json()))  # fmt: skip

    for agent in ("web0", "web1", "web2"):
        document = rules_to_json(AgentRules({}, {"disk": Rule(attempts=2, stale=300.0)}))
        records.append(helen.change("rule", T, None, agent=agent, **document))
        hear(live.change("rule", T, agent, None, document))
    for n in range(240):
        at, agent = T + 60 + n * 40, f"web{rng.randrange(3)}"
        status = rng.choice((0, 0, 0, 2) if n < 160 or agent != "web1" else (0, 2))
        record = helen.result(f"{agent}/disk", at, STATUS[status])
        records.append(record)
        hear(live.result(agent, "disk", Result(at, status, None, record.entry.spool, record.entry.sequence)))
        if rng.random() < 0.2:
            hear(live.advance(at + rng.uniform(0, 39)))
    told = {"action": "sent", "what": "problem", "channel": "mail", "rule": "a", "why": "250"}
    records.append(helen.change("notice", T + 9600, "web1/disk", **told))
    cuts = sorted({0, len(records), *rng.sample(range(len(records)), splits)})
    for first, last in pairwise(cuts):
        helen.segment(*records[first:last])
    return sorted(
        (each.agent, each.event.KIND, round(each.event.at, 3), WORDS[type(each.event)](each.event)) for each in said
    )


WORDS: dict[type, Any] = {
    Transition: lambda event: "soft" if event.now.attempt else "hard",
    Flapping: lambda event: "begun" if event.on else "ended",
    Decision: lambda event: f"{event.action} {event.what}",
}


def again(events: list[dict[str, Any]]) -> list[EventKey]:
    return sorted((each["agent"], each["kind"], round(each["at"], 3), each["what"]) for each in events)


@pytest.mark.parametrize("seed", range(6))
def test_a_replay_is_the_live_timeline_however_it_was_cut(
    history: Any, take_in: Any, tmp_path: Path, seed: int
) -> None:
    """A replay of the recorded rows gives Helen's events of that time, however segments and batches were cut."""
    rng = random.Random(seed)
    said = recorded(history, rng, rng.randrange(1, 30))
    lake = Lake(tmp_path / "lake")
    take_in(lake, history.state, most=rng.randrange(1, 9))
    names = {each["series"]: each for each in lake.rows("series")}
    rows = [{**each, "kind": "result"} for each in lake.rows("results")]
    rows += [each for each in lake.rows("changes") if each["kind"] not in OUTPUTS]
    replay, events = Replay(()), []
    for each in sorted(rows, key=lambda each: each["at"]):
        name = names.get(each["series"], {"agent": None, "check_id": None})
        events += replay.feed({**each, "agent": name["agent"], "check_id": name["check_id"]})
    assert again(events) == said
    assert {kind for _, kind, _, _ in said} == {"transition", "flap", "decision"}


def test_a_back_test_of_the_lake(spark: Any, history: Any, take_in: Any, tmp_path: Path) -> None:
    """A back test of a lake by Spark gives the recorded events with the recorded rules, and fewer alerts with laxer
    ones."""
    said = recorded(history, random.Random(11), 4)
    lake = Lake(tmp_path / "lake")
    take_in(lake, history.state, most=1)
    begin, end = round((T - 60) * 1e6), round((T + 86_400) * 1e6)
    events = backtest(spark, lake, begin, end, [("disk", {"attempts": 5})])
    found = [row.asDict() for row in events.collect()]
    assert again([event for event in found if event["side"] == RECORDED]) == said
    wrote = recorded_events(lake, spark, begin, end)
    assert comparison(events, wrote) == (
        f"The replay by the recorded rules gave all {len(said)} changes, flaps and decisions that Helen wrote."
    )
    one = spark.createDataFrame([("web9", "disk", "flap", "begun", 1000)], wrote.schema)
    assert f"gave {len(said)} of the {len(said) + 1} changes" in comparison(events, wrote.unionAll(one))
    rows = summary(events, begin, end).rows
    total = rows[-1]
    assert [row["check"] for row in rows] == ["disk", "(all)"]
    assert 0 < total["alerts_tried"] < total["alerts"]
    assert {event["side"] for event in found} == {RECORDED, TRIED}
    for row in rows:
        for side, end_of in ((RECORDED, ""), (TRIED, "_tried")):
            assert {name: row[name + end_of] for name in counted(found, side)} == counted(found, side)
    events.unpersist()


def counted(events: list[dict[str, Any]], side: str) -> dict[str, Any]:
    """Return the figures of a report for a side, event by event."""
    chosen = [event for event in events if event["side"] == side]
    delays = [event["delay"] for event in chosen if event["delay"] is not None]
    alerts = [event["what"] for event in chosen if event["what"].startswith("notify")]
    return {
        "alerts": len([what for what in alerts if what != "notify recovery"]),
        "recoveries": alerts.count("notify recovery"),
        "held": len([event for event in chosen if event["what"].startswith("hold")]),
        "flaps": len([event for event in chosen if (event["kind"], event["what"]) == ("flap", "begun")]),
        "changes": len([event for event in chosen if event["what"] == "hard"]),
        "delay_s": round(median(delays), 1) if delays else None,
    }


def test_pairs_of_rules_come_once(tmp_path: Path) -> None:
    """Pairs of dependent agents come once, however often rules were recorded."""
    documents = [{"agent": "a", "checks": {"disk": {"depends": ["b/link", "own"]}}}] * 50
    documents += [{"checks": {"disk": {"depends": ["c/link"]}}}, {"agent": "d"}]
    batch = pa.RecordBatch.from_pydict({"document": [json.dumps(each) for each in documents]})
    (found,) = pairs_of_rules([batch])
    assert found.to_pylist() == [{"agent": "a", "parent": "b"}]
