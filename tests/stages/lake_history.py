"""Makes seeded histories of two Helens, and remembers what is true of them. Times are unix seconds.

They have links that are cut for hours, so that results come late; two kills of one Helen; counters that begin again;
metrics that come and go; huge and tiny values; asked and passive results; outages by transitions;
an agent that moved before its last results were acknowledged, so that both Helens have them.
"""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

from attrs import define, field

HOUR, DAY = 3600.0, 86_400.0


@define
class Truth:
    """Holds what a correct history says: results by (agent, check, spool, sequence), and the states of each check."""

    results: dict[tuple[str, str, str, int], dict[str, Any]] = field(factory=dict)
    states: dict[str, list[tuple[float, int]]] = field(factory=lambda: defaultdict(list))
    away: dict[int, list[tuple[float, float]]] = field(factory=lambda: defaultdict(list))
    owner: dict[str, int] = field(factory=dict)
    heard: dict[int, list[float]] = field(factory=lambda: defaultdict(list))  # when each Helen got results

    def silent(self, helen: int) -> list[tuple[float, float]]:
        """Return the spans from the last result that a Helen got before each of its absences until it was back."""
        return [(max(at for at in self.heard[helen] if at < gone), back) for gone, back in self.away[helen]]


@define
class Maker:
    """Writes one history segment by segment, in the order in which its Helen got things."""

    written: Any  # of conftest.Written
    things: list[tuple[float, Any]] = field(factory=list)  # when it came, and what makes the record

    def close(self, per_segment: int = 400) -> None:
        self.things.sort(key=lambda each: each[0])
        for at in range(0, len(self.things), per_segment):
            self.written.segment(*(make() for _, make in self.things[at : at + per_segment]))


def make(histories: list[Any], seed: int, begin: float, days: int, agents: int, step: float) -> Truth:
    """Write both histories: `agents` with two checks each, a result each `step` seconds, for so many days."""
    rng, truth = random.Random(seed), Truth()
    makers = [Maker(each) for each in histories]
    end = begin + days * DAY
    kills = [(begin + days * DAY * share + rng.uniform(0, HOUR), rng.uniform(1, 4) * HOUR) for share in (0.3, 0.7)]
    truth.away[0] = [(at, at + lasted) for at, lasted in kills]
    for helen, maker in enumerate(makers):
        starts = [begin - HOUR, *(until for _, until in truth.away[helen])]
        for at in starts:
            maker.things.append((at, _change(maker, "helen_start", at)))
    for number in range(agents):
        _agent(rng, truth, makers, f"web{number}", number % 2, begin, end, step)
    for maker in makers:
        maker.close()
    return truth


def _agent(
    rng: random.Random, truth: Truth, makers: list[Maker], agent: str, helen: int, begin: float, end: float, step: float
) -> None:
    truth.owner[agent] = helen
    cuts = [(at, at + rng.uniform(0.5, 8) * HOUR) for at in (rng.uniform(begin, end - 9 * HOUR) for _ in range(2))]
    away = sorted([*cuts, *truth.away[helen]])
    sequence = 0
    for check in ("disk", "net"):
        total, at = 0.0, begin + rng.uniform(1, step)
        while at < end - 9 * HOUR:
            sequence += 1
            received = at + rng.uniform(0.01, 2)
            for cut, back in away:
                if cut <= received < back:
                    received = back + rng.uniform(0.01, 30)
            total = 0.0 if rng.random() < 0.01 else total + rng.randrange(10_000)
            _result(rng, truth, makers, helen, agent, check, sequence, at, received, total)
            at += step + rng.uniform(-20, 20)
        _outages(rng, truth, makers[helen], f"{agent}/{check}", begin, end)


def _result(
    rng: random.Random, truth: Truth, makers: list[Maker], helen: int, agent: str, check: str, sequence: int,
    started: float, received: float, total: float,
) -> None:  # fmt: skip
    status = rng.choice(("ok", "ok", "ok", "warning", "critical", "unknown"))
    gauge = rng.choice((rng.uniform(-9, 9), rng.uniform(0, 1e6), 1e150, -1e150, 5e-324)) if rng.random() < 0.02 else 7.5
    metrics = [{"name": "used", "value": gauge, "unit": "%", "labels": {"path": "/ü"}}]
    if check == "net":
        metrics.append({"name": "sent", "value": total, "unit": "B", "kind": "counter"})
    metrics = metrics[rng.random() < 0.02 :]
    more = {
        "spool": f"spool-{agent}", "sequence": sequence, "origin": rng.choice((0,) * 20 + (1, 2)), "metrics": metrics,
        "started": round(started, 6), "took_ms": rng.choice((None, 2.5)), "cpu_ms": rng.choice((None, 1.25)),
    }  # fmt: skip
    doubled = rng.random() < 0.002 and not any(gone <= received < back for gone, back in truth.away[1 - helen])
    for place in (0, 1) if doubled else (helen,):
        truth.heard[place].append(received)
        maker = makers[place]
        maker.things.append((received, lambda m=maker: m.written.result(f"{agent}/{check}", received, status, **more)))
    truth.results[agent, check, more["spool"], sequence] = {"status": status, "received": received, **more}


def _outages(rng: random.Random, truth: Truth, maker: Maker, series: str, begin: float, end: float) -> None:
    """Record transitions as Helen does: they are confirmed at once, and some hours apart."""
    at, now = begin + 60.0, 0
    _transition(maker, series, at, 3, 0, "pending")
    truth.states[series].append((at, 0))
    while True:
        at += rng.uniform(0.2, 40) * HOUR
        if at > end - 9 * HOUR:
            return
        after = rng.choice([status for status in range(4) if status != now])
        if not any(gone <= at < back for gone, back in truth.away[truth.owner[series.partition("/")[0]]]):
            _transition(maker, series, at, now, after)
            truth.states[series].append((at, after))
            now = after


def _transition(maker: Maker, series: str, at: float, was: int, now: int, reason: str | None = None) -> None:
    words = ("ok", "warning", "critical", "unknown")
    document = {
        "number": 0, "at": at, "why": "",
        "was": {"status": words[was], "kind": "hard", "since": at, "reason": reason, "attempt": 0},
        "now": {"status": words[now], "kind": "hard", "since": at, "reason": None, "attempt": 0},
    }  # fmt: skip
    maker.things.append((at, lambda: maker.written.change("transition", at, series, **document)))


def _change(maker: Maker, kind: str, at: float) -> Any:
    return lambda: maker.written.change(kind, at)
