"""Simulates a fleet in virtual time, from a seed: results, faults, cuts, spools, wrong clocks, windows and acks.

It gives records in the order in which Helen makes them durable, and keeps what it did, so that tests can hold what was
judged against the truth. Nothing in it knows how states are judged.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterable, Iterator
from typing import Any

from attrs import define, field, frozen

from helen.states.agent_rules import AgentRules, rules_to_json
from helen.states.fleet_states import CheckEvent
from helen.states.fleet_timeline import Timeline
from helen.states.inputs import Result
from helen.states.model import Rule

DAY = 86_400.0
START = 1_767_225_600.0  # 2026-01-01 UTC
CHECK = "c"

Span = tuple[float, float]


@frozen
class Record:
    """Holds a result, or a change with its document."""

    received: float
    order: int
    kind: str
    agent: str | None
    check_id: str | None
    content: Any

    def apply(self, timeline: Timeline) -> Iterator[CheckEvent | None]:
        if self.kind == "result":
            assert self.agent is not None and self.check_id is not None
            return timeline.result(self.agent, self.check_id, self.content)
        return timeline.change(self.kind, self.received, self.agent, self.check_id, self.content)


@define
class Fleet:
    """Simulates agents and Helen from one seed; `crashes` is the share of Helen's restarts that come without a word."""

    seed: int
    agents: int
    days: int
    every: float = 1_800.0
    restarts: int = 4
    windows: int = 12
    rollouts: int = 0  # half of them are taken back
    absences: list[Span] = field(factory=list)
    announced: list[bool] = field(factory=list)

    @property
    def end(self) -> float:
        return START + self.days * DAY

    def names(self) -> list[str]:
        return [f"web-{number:04}" for number in range(self.agents)]

    def records(self) -> Iterator[Record]:
        """Yield all records of the fleet, ordered by time. The order of equal times is fixed by the seed as well."""
        rng = random.Random(self.seed)
        self._restart_helen(rng)
        ways = [self._agent(random.Random(f"{self.seed} {name}"), name, at) for at, name in enumerate(self.names())]
        return heapq.merge(sorted(self._commands(rng), key=_moment), *ways, key=_moment)

    def rule(self, number: int) -> Rule:
        """Return the rule of an agent; every tenth agent depends on the first one."""
        depends = (f"web-0000/{CHECK}",) if number % 10 == 9 else ()
        return Rule(attempts=1 + number % 3, recover=1 + number % 2, stale=2.5 * self.every, depends=depends)

    # ------------------------------------------------------------------------------------------ Helen

    def _restart_helen(self, rng: random.Random) -> None:
        self.absences, self.announced = [], []
        for at in range(self.restarts):
            begin = START + (at + rng.uniform(0.2, 0.7)) * self.days * DAY / self.restarts
            self.absences.append((begin, begin + rng.choice((5.0, 30.0, 420.0, 3_000.0))))
            self.announced.append(rng.random() < 0.6)

    def _commands(self, rng: random.Random) -> Iterator[Record]:
        order = -(10**9)
        for at, ((begin, end), announced) in enumerate(zip(self.absences, self.announced, strict=True)):
            if announced:
                yield Record(begin, order + at, "helen_stop", None, None, {})
            yield Record(end, order + at, "helen_start", None, None, {})
        for at in range(self.windows):
            begin = self._awake(START + rng.uniform(0, self.days - 1) * DAY)
            document: dict[str, Any] = {
                "id": f"w{at}", "agents": [f"web-{rng.randrange(10)}*" if at % 3 else f"web-*{rng.randrange(10)}"],
                "begin": begin + rng.choice((0.0, 1_800.0)), "until": begin + rng.uniform(0.1, 1.0) * DAY,
            }  # fmt: skip
            if at % 4 == 0:
                times = {"begin": f"{rng.randrange(24):02}:30", "end": f"{rng.randrange(24):02}:15"}
                document |= {"recurrence": {**times, "zone": "Europe/Berlin"}, "until": None}
            yield Record(begin, order + 100 + at, rng.choice(("downtime", "silence")), None, None, document)
            if at % 4 in (0, 1):
                cancelled = {"action": "cancel", "id": f"w{at}", "author": "eva"}
                then = self._awake(begin + rng.uniform(0.05, 0.9) * DAY)
                yield Record(then, order + 200 + at, "downtime", None, None, cancelled)

        yield from self._rollouts(rng)

    def _rollouts(self, rng: random.Random) -> Iterator[Record]:
        """Yield the rollouts, one after the other, each to half of the agents."""
        order, span = -(10**8), self.days * DAY / max(1, self.rollouts)
        for at in range(self.rollouts):
            members = [name for name in self.names() if rng.random() < 0.5]
            begin = self._awake(START + at * span + rng.uniform(0.0, 0.3) * span)
            end = max(begin + 1.0, self._awake(begin + rng.uniform(0.1, 0.6) * span))
            step = {"version": at, "why": "it is over"}
            scope = {"ring": 1, "agents": members if at % 3 else None, "without": [], "checks": [CHECK], "detail": ""}
            yield Record(begin, order + 10 * at, "rollout", None, None, {"action": "open", **step, **scope})
            action = "undone" if at % 2 else "passed"
            yield Record(end, order + 10 * at + 1, "rollout", None, None, {"action": action, **step})
            for half in (members[::2], self.names()) if at % 2 else ():
                end += 1.0
                yield Record(
                    end, order + 10 * at + 2, "rollout", None, None, {"action": "back", **step, "agents": half}
                )

    def _awake(self, time: float) -> float:
        """Nobody gives a command to a Helen who isn't there."""
        return next((end + 60.0 for begin, end in self.absences if begin <= time < end + 60.0), time)

    # ------------------------------------------------------------------------------------------ agents

    def _agent(self, rng: random.Random, name: str, number: int) -> Iterator[Record]:
        """Yield the results of an agent by when Helen gets them: at once, or in a rush when a cut is over."""
        skew = rng.choice((-3_600.0, -40.0, 90.0, 5_000.0)) if rng.random() < 0.05 else rng.uniform(-0.5, 0.5)
        cuts, phase, sequence = self._cuts(rng), rng.uniform(1.0, self.every - 1.0), 0
        faults = self._faults(rng)
        rules = rules_to_json(AgentRules({"site": f"s{number % 7}"}, {CHECK: self.rule(number)}))
        yield Record(START, number, "rule", name, None, rules)
        yield Record(START, number, "link", name, None, {"event": "up"})
        spooled: list[Result] = []
        for run in range(int(self.days * DAY / self.every)):
            ended = START + phase + run * self.every
            while cuts and cuts[0][1] <= ended:
                yield from self._reconnect(cuts.pop(0), name, number, spooled)
            status = next((status for begin, end, status in faults if begin <= ended < end), 0)
            if status == 4:
                status = rng.choice((0, 2))
            sequence += 1
            result = Result(ended + 0.02, status, ended + skew, "s", sequence, None, "abc", "a summary")
            if cuts and cuts[0][0] <= ended:
                spooled.append(result)
                continue
            yield Record(result.at, number, "result", name, CHECK, result)
            if status and rng.random() < 0.05:
                ack = {"action": "set", "owner": "kim", "until": ended + 7_200.0}
                yield Record(ended + 0.5, number, "ack", name, CHECK, ack)

    def _reconnect(
        self, cut: tuple[float, float, bool], name: str, number: int, spooled: list[Result]
    ) -> Iterator[Record]:
        down, up, is_said = cut
        if is_said:
            yield Record(down, number, "link", name, None, {"event": "down"})
        yield Record(up, number, "link", name, None, {"event": "up"})
        for at, late in enumerate(spooled):
            received = up + 0.01 * (at + 1)
            moved = Result(received, late.status, late.ended, "s", late.sequence, None, "abc", late.summary)
            yield Record(received, number, "result", name, CHECK, moved)
        spooled.clear()

    def _cuts(self, rng: random.Random) -> list[tuple[float, float, bool]]:
        """Return when an agent is cut off, and whether Helen hears of it: its own cuts, and Helen's absences."""
        found = [(begin, end + rng.uniform(1.0, 30.0), announced)
                 for (begin, end), announced in zip(self.absences, self.announced, strict=True)]  # fmt: skip
        for _ in range(rng.randrange(4)):
            begin = START + rng.uniform(0.01, self.days - 0.7) * DAY
            cut = begin, begin + rng.choice((5.0, 40.0, 900.0, 20_000.0)), True
            if all(cut[1] + 120.0 < begin or end + 120.0 < cut[0] for begin, end, _ in found):
                found.append(cut)
        return sorted(found)

    def _faults(self, rng: random.Random) -> list[tuple[float, float, int]]:
        """Return the faults of an agent: none among the last 24 results, so that all is told when it is over."""
        found = []
        quiet = self.end - 24 * self.every
        for _ in range(rng.randrange(5)):
            begin = rng.uniform(START, quiet - self.every)
            lasting = min(rng.choice((2_000.0, 8_000.0, 30_000.0)), quiet - begin)
            found.append((begin, begin + lasting, rng.choice((1, 2, 2, 3, 4))))
        return found


def _moment(record: Record) -> tuple[float, int]:
    return record.received, record.order


def judge(timeline: Timeline, records: Iterable[Record], end: float) -> Iterator[CheckEvent]:
    """Yield everything that comes of the records, up to the end of time."""
    for record in records:
        for said in record.apply(timeline):
            if said is not None:
                yield said
    for said in timeline.advance(end):
        if said is not None:
            yield said
