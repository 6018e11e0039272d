"""Tests that a real Prometheus with the same series as a history of ours gives the same answers."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from a_prometheus import Prometheus, Series
from attrs import frozen
from written_history import Written

from helen.promql.archive import Archive, Facts
from helen.promql.parameters import Parameters
from helen.promql.questions import Question

BEGIN = 1_790_000_000.0
MINUTES = 90
AGENTS = {"web-1": "shop", "web-2": "shop", "db-1": "bank"}
RANGE = {"start": BEGIN + 1200, "end": BEGIN + 5000, "step": 137}


@frozen
class Both:
    """Holds Helen's history and Prometheus with the same series."""

    helen: Path
    prometheus: Prometheus

    def ask_helen(self, path: str, **given: Any) -> Any:
        """Return Helen's answer as plain data."""
        agents = {name: {"team": team} for name, team in AGENTS.items()}
        archive = Archive(Facts(self.helen, self.helen / "history" / "lake", agents, lambda name: True))
        texts = {name: value if isinstance(value, list) else [str(value)] for name, value in given.items()}
        return json.loads(Question(Parameters(texts, round(BEGIN * 1000)), archive).answer(path)[1])


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    folder = tmp_path_factory.mktemp("prometheus")
    written = Written(folder / "helen")
    prometheus = Prometheus(folder, make(written))
    yield Both(folder / "helen", prometheus)
    prometheus.end()


def make(written: Written) -> list[Series]:
    """Make the same figures for both: results some 15 s apart, with gaps, resets, and values that are hard to add."""
    dice, series, results = random.Random(20), dict[tuple[str, ...], Series](), []
    for agent, team in AGENTS.items():
        total, at = 5e6, BEGIN + dice.random()
        while at < BEGIN + MINUTES * 60:
            at = round(at + dice.uniform(12, 18), 3)
            if dice.random() < 0.02:
                at = round(at + dice.uniform(60, 500), 3)  # away for a while
            total = dice.uniform(0, 900) if dice.random() < 0.01 else total + dice.expovariate(0.01)
            status, value = (
                dice.choice((0, 0, 0, 1, 2, 3)),
                dice.choice((dice.gauss(50, 20), -dice.random(), dice.gauss(1e9, 1e3), dice.gauss(0, 1))),
            )
            results.append((at, agent, status, value, total))
            base = {"agent": agent, "check": "net", "team": team}
            for name, figure, more in (
                ("used", value, {"path": "/"}),
                ("used", -value / 3, {"path": "/var"}),
                ("sent", total, {}),
                ("helen_state", status, {}),
                ("helen_ok", status == 0, {}),
            ):
                labels = {"__name__": name, **base, **more}
                series.setdefault((agent, name, *more.values()), (labels, []))[1].append((at, float(figure)))
    records = [written.result(f"{agent}/net", at, ("ok", "warning", "critical", "unknown")[status], metrics=[
        {"name": "used", "value": value, "labels": {"path": "/"}},
        {"name": "used", "value": -value / 3, "labels": {"path": "/var"}},
        {"name": "sent", "value": total, "kind": "counter", "unit": "B"},
    ]) for at, agent, status, value, total in sorted(results)]  # fmt: skip
    for first in range(0, len(records), 200):
        written.segment(*records[first : first + 200])
    return list(series.values())


QUESTIONS = """
used
used{agent="web-1"}
used{agent=~"web-.*", path!="/"}
used{agent=~"web-1|db-1"}
used{agent!~"web-.+", team="bank"}
used{nothing=""}
{__name__=~"us.*|sent"}
used offset 7m
used @ 1790003000.5
used @ end() - used @ start()
rate(sent[5m])
rate(sent[1m])
rate(sent[5m] offset 3m)
increase(sent[10m])
irate(sent[5m])
delta(used[5m])
idelta(used[2m])
changes(helen_state[10m])
resets(sent[20m])
avg_over_time(used[5m])
min_over_time(used[5m])
max_over_time(used[5m])
sum_over_time(used{path="/var"}[5m])
count_over_time(used[5m])
last_over_time(used[10m])
present_over_time(used[10m])
stddev_over_time(used{path="/var"}[5m])
stdvar_over_time(sent[3m])
quantile_over_time(0.9, used[5m])
quantile_over_time(2, used[5m])
avg_over_time(helen_ok[30m])
sum(used)
sum by (agent) (used)
sum without (agent, path) (used)
avg by (team) (rate(sent[5m]))
min by (path) (used)
max by (path, nothing) (used)
count by (team) (helen_state > 0)
count(helen_state == 2) by (agent)
group by (agent) (used)
topk(2, used)
topk by (agent) (1, used)
bottomk(1, sent)
sum(topk(3, used)) / 2
used + 1
-used
2 ^ used{path="/var"} % 7
used / used
used{path="/"} + on (agent) sent
used * on (agent) group_left (team) helen_state
helen_state * on (agent) group_right used
used{path="/"} - ignoring (path) used{path="/var"}
used > 40
40 < used
used > bool 40
used{path="/"} > ignoring (path) used{path="/var"}
used{path="/"} >= bool ignoring (path) used{path="/var"}
sent == sent
used and on (agent) helen_state == 0
used unless on (agent) helen_state == 0
sum by (agent) (used) or sum by (team) (used)
used or sent
1 + 2 * 3 - 4 % 3
1 > bool 2
time() - 1790000000
vector(time())
scalar(sum(used)) + 1
scalar(used)
abs(used)
ceil(used{path="/var"})
floor(used{path="/var"})
round(used{path="/var"}, 5)
sqrt(used)
clamp(used, 0, 100)
clamp_min(used, 3)
clamp_max(used, 3)
0 / 0
-1 / 0
used atan2 sent
sum(rate(sent[5m])) by (team) > bool 0.5
max_over_time(helen_state[15m]) >= 2
"""
LISTED = [line for line in QUESTIONS.splitlines() if line]


@pytest.mark.parametrize("question", LISTED)
def test_a_range_is_what_prometheus_says(both: Both, question: str) -> None:
    """A range has Prometheus's values to 1e-9, at each step, and not a series more or less."""
    ours, theirs = (
        both.ask_helen("query_range", query=question, **RANGE),
        both.prometheus.ask("query_range", query=question, **RANGE),
    )
    assert theirs["status"] == "success"
    compare(ours, theirs)


@pytest.mark.parametrize("question", [*LISTED, "used[90s]", "sent[5m] offset 1m", '"words"', "sort(used)",
                                      "sort_desc(used)"])  # fmt: skip
def test_an_instant_is_what_prometheus_says(both: Both, question: str) -> None:
    """An instant has Prometheus's values at one time, and its order if that was asked for."""
    given = {"query": question, "time": BEGIN + 4321.25}
    ours, theirs = both.ask_helen("query", **given), both.prometheus.ask("query", **given)
    assert theirs["status"] == "success"
    is_sorted = question.startswith(("topk(", "sort"))
    compare(ours, theirs, in_order=is_sorted)


def test_there_are_fifty_questions() -> None:
    """The list has at least fifty questions."""
    assert len(LISTED) >= 50


@pytest.mark.parametrize(
    "question",
    [
        "used + on (agent) used",
        'used{path="/"} + on (team) sent',
        'rate({agent="web-1"}[5m])',
        "used +",
        "rate(used)",
        "sum(1)",
        "used and 1",
        "1 == 2",
        "nosuch(used)",
        'used{path=~"("}',
        "{}",
        "topk(used, 2)",
    ],
)
def test_what_prometheus_refuses_is_refused(both: Both, question: str) -> None:
    """A question that Prometheus refuses is refused with the same kind of error."""
    ours, theirs = (
        both.ask_helen("query", query=question, time=BEGIN + 2000),
        both.prometheus.ask("query", query=question, time=BEGIN + 2000),
    )
    assert (ours["status"], ours["errorType"]) == (theirs["status"], theirs["errorType"]), (ours, theirs)


def test_lists_are_what_prometheus_says(both: Both) -> None:
    """Lists of series, names of labels, and values of each are those of Prometheus."""
    span = {"start": BEGIN, "end": BEGIN + MINUTES * 60}
    for path, given in (
        ("series", {"match[]": ["used", "sent{agent=\"db-1\"}"]}), ("series", {"match[]": "{team=~\"b.*\"}"}),
        ("labels", {}), ("labels", {"match[]": "sent"}),
    ):  # fmt: skip
        ours, theirs = both.ask_helen(path, **given, **span), both.prometheus.ask(path, **given, **span)
        key = json.dumps if path == "series" else str
        assert sorted(map(_plain, ours["data"]), key=key) == sorted(map(_plain, theirs["data"]), key=key)
    for name in ("agent", "check", "team", "path", "__name__", "nothing"):
        assert both.ask_helen(f"label/{name}/values", **span)["data"] == VALUES.get(name, [])


VALUES = {"agent": ["db-1", "web-1", "web-2"], "check": ["net"], "team": ["bank", "shop"], "path": ["/", "/var"],
          "__name__": ["helen_ok", "helen_state", "sent", "used"]}  # fmt: skip


def _plain(value: Any) -> Any:
    return dict(sorted(value.items())) if isinstance(value, dict) else value


def compare(ours: Any, theirs: Any, in_order: bool = False) -> None:
    """Fail unless both answers are the same, values to 1e-9."""
    assert ours["status"] == "success", ours
    mine, yours = ours["data"], theirs["data"]
    assert mine["resultType"] == yours["resultType"]
    if mine["resultType"] in ("scalar", "string"):
        assert _same(mine["result"], yours["result"]), (mine, yours)
        return
    key = (lambda each: 0) if in_order else (lambda each: json.dumps(each["metric"], sort_keys=True))
    left, right = sorted(mine["result"], key=key), sorted(yours["result"], key=key)
    assert [each["metric"] for each in left] == [each["metric"] for each in right]
    for one, other in zip(left, right, strict=True):
        pairs = [(each.get("values") or [each["value"]]) for each in (one, other)]
        assert [at for at, _ in pairs[0]] == [at for at, _ in pairs[1]]
        wrong = [(a, b) for a, b in zip(*pairs, strict=True) if not _same(a, b)]
        assert not wrong, (one["metric"], wrong[:3])


def _same(one: list[Any], other: list[Any]) -> bool:
    if one[1] == other[1]:
        return bool(one[0] == other[0])
    first, second = float(one[1]), float(other[1])
    return (math.isnan(first) and math.isnan(second)) or math.isclose(first, second, rel_tol=1e-9, abs_tol=1e-9)
