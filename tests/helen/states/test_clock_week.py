"""Tests a week in which clocks are set and Helen sleeps: people are told the same as in one without.

The same week is lived twice. Once every clock is right. Once Helen's clock and those of some agents are wrong for up to
an hour at a time, by seconds or by a month, and Helen or its machine stands still for some minutes now and then.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import fleet as fleets
import pytest
from attrs import evolve
from fleet import DAY, Fleet, Record

from helen.states.downtimes import read_window, spans
from helen.states.fleet_timeline import Timeline
from helen.states.model import Rule

AGENTS, EVERY = 60, 600.0
NIGHTS = {
    "spring": 1_774_483_200.0,
    "autumn": 1_792_627_200.0,
}  # days before 2026-03-29 and 2026-10-25, when clocks change
STEPS = 40  # of Helen's clock
SIZES = (3.0, 90.0, 3_600.0, 7_200.0, DAY, 30 * DAY)
Told = dict[tuple[str, str], list[tuple[float, str, int]]]


class Tight(Fleet):
    """Is a fleet whose checks are stale soon: a sleep would make them so, if it counted."""

    def rule(self, number: int) -> Rule:
        return evolve(super().rule(number), stale=1.2 * self.every)


class Troubles:
    """Holds the wrong times of one clock, and Helen's sleeps, by true time."""

    def __init__(self, rng: random.Random, fleet: Fleet, steps: int) -> None:
        self._busy = [(begin - 3_600.0, end + 3_600.0) for begin, end in fleet.absences]
        self.wrong: list[tuple[float, float, float]] = []
        while len(self.wrong) < steps // 2:
            begin = rng.uniform(fleets.START + 1_800.0, fleet.end - 5_000.0)
            end = begin + rng.uniform(60.0, 3_000.0)
            if all(end + 60.0 < busy or then + 60.0 < begin for busy, then in self._busy):
                self._busy.append((begin, end))
                self.wrong.append((begin, end, rng.choice((-1.0, 1.0)) * rng.choice(SIZES)))
        self.wrong.sort()

    def offset(self, at: float) -> float:
        return next((by for begin, end, by in self.wrong if begin <= at < end), 0.0)

    def edges(self) -> list[tuple[float, float]]:
        """Return when the clock is set, and by how much."""
        return sorted([(begin, by) for begin, _, by in self.wrong] + [(end, -by) for _, end, by in self.wrong])

    def sleeps(self, rng: random.Random, records: list[Record], fleet: Fleet, wanted: int) -> list[tuple[float, float]]:
        """Return sleeps in which nothing else begins or ends: what Helen can't see in time it can't tell in time."""
        eventful = [record.received for record in records if record.kind != "result"]
        for record in records:
            if record.kind in ("downtime", "silence") and "begin" in record.content:
                window = read_window({"kind": record.kind, **record.content}, record.received)
                for begin, end in spans(window, fleets.START):
                    if begin > fleet.end:
                        break
                    eventful += [begin, end]
        eventful += [record.content["until"] for record in records if record.kind == "ack"]
        eventful += [at for at, _ in self.edges()]
        found: list[tuple[float, float]] = []
        for _ in range(20_000):
            begin = rng.uniform(fleets.START + 1_800.0, fleet.end - 5_000.0)
            end = begin + rng.uniform(3.0, EVERY)
            apart = all(end + 100.0 < at or at < begin - 100.0 for at in (*eventful, *(e for s in found for e in s)))
            if apart and len(found) < wanted:
                found.append((begin, end))
        return sorted(found)


def told_by(timeline: Timeline, steps: Iterable[tuple[float, Any]]) -> Told:
    """Step everything; return what people are told of each check, and at which true time."""
    told: Told = defaultdict(list)
    for now, events in steps:
        for each in events:
            document = {} if each is None or not each.event.KIND else each.event.to_json()
            if each is not None and document.get("action") == "notify":
                told[each.agent, each.check_id].append((now, document["what"], document["status"]))
    return told


def plainly(timeline: Timeline, records: Iterable[Record], end: float) -> Iterator[tuple[float, Any]]:
    for record in records:
        yield record.received, record.apply(timeline)
    yield end, timeline.advance(end)


def restless(
    timeline: Timeline, records: Iterable[Record], end: float, helen: Troubles, agents: dict[str, Troubles],
    sleeps: list[tuple[float, float]],
) -> Iterator[tuple[float, Any]]:  # fmt: skip
    """Yield the same records as a Helen has them whose clock is set, that sleeps, and whose agents' clocks are set."""
    jumps = [(at, {"stepped": by, "slept": 0.0}) for at, by in helen.edges()]
    jumps += [(until, {"stepped": 0.0, "slept": until - begin}) for begin, until in sleeps]
    jumps.sort(key=lambda jump: jump[0])
    late = 0.0
    for record in records:
        at = record.received
        at = next((until + 0.001 for begin, until in sleeps if begin <= at <= until), at)
        at, late = max(at, late), max(at, late)
        while jumps and jumps[0][0] <= at:
            moment, document = jumps.pop(0)
            yield moment, timeline.change("clock", moment + helen.offset(moment), None, None, document)
        yield at, moved(record, at, helen.offset(at), agents).apply(timeline)
    yield end, timeline.advance(end)


def moved(record: Record, at: float, ahead: float, agents: dict[str, Troubles]) -> Record:
    """Return a record as it looks by the wrong clocks."""
    content = record.content
    if record.kind == "result":
        ran = content.ended
        wrong = agents[record.agent].offset(record.received) if record.agent in agents else 0.0
        content = evolve(content, at=at + ahead, ended=ran + wrong)
    elif record.kind == "ack":
        content = content | {"until": content["until"] + ahead}
    elif record.kind in ("downtime", "silence") and content.get("begin") == record.received:
        until = content["until"]
        content = content | {"begin": at + ahead, "until": None if until is None else until + ahead}
    return evolve(record, received=at + ahead, content=content)


@pytest.mark.parametrize("night", NIGHTS)
@pytest.mark.parametrize("seed", [20_261_128, 7])
def test_people_are_told_what_a_week_without_troubles_tells(
    night: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each check's messages are the same, in the same order, each within one interval of its time (F3, F4)."""
    monkeypatch.setattr(fleets, "START", NIGHTS[night])
    rng = random.Random(seed)
    fleet = Tight(seed, AGENTS, 7, every=EVERY)
    records = list(fleet.records())
    helen = Troubles(rng, fleet, STEPS)
    agents = {name: Troubles(rng, fleet, 6) for name in fleet.names() if rng.random() < 0.3}
    sleeps = helen.sleeps(rng, records, fleet, 40)
    assert len(helen.edges()) == STEPS
    assert len(sleeps) > 10
    calm, wild = Timeline(), Timeline()
    expected = told_by(calm, plainly(calm, records, fleet.end))
    got = told_by(wild, restless(wild, records, fleet.end, helen, agents, sleeps))
    assert sum(map(len, expected.values())) > 300
    for key in sorted(expected.keys() | got.keys()):
        words = [each[1:] for each in expected[key]]
        assert [each[1:] for each in got[key]] == words, key
        for (was, *_), (now, *_) in zip(expected[key], got[key], strict=True):
            assert abs(now - was) <= EVERY + 1.0, (key, was, now)
