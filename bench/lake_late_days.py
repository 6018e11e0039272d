"""Simulates results that come for days that are over: files, runs and CPU, by the pipeline's own rule. Pure.

Agents come back at any time of the day. Each sends what it kept in one batch: a file of `results` and one of `m5` for
each day that its outage has a part in. Hours follow each five minutes, days once an hour; where a day has fewer
rows than Policy.add_from, the files that have a part of the agent are written again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from attrs import define, field, frozen
from lake_settings import Costs, Fleet, Policy
from lake_store import Store

from helen.pipeline.file_runs import together
from helen.pipeline.lake.levels import D1, H1, M5
from helen.pipeline.lake.schema import RESULTS

NAMES = (RESULTS.name, M5.name, H1.name, D1.name)
HOURS, SAMPLES = 24.0, 480
Work = Callable[[str, list[float], int], float]  # CPU seconds to put files with so many rows each together in parts


@frozen
class Part:
    """Says what outages have in a day that was over so many days ago: how many of them, and how long each."""

    days: int
    share: float
    hours: float


def parts_of(outage: float) -> list[Part]:
    """Return the parts of an outage, of agents that come back at any time of a day."""
    found, days = [], 1
    while True:
        begin = -HOURS * days
        backs = [(at + 0.5) * HOURS / SAMPLES for at in range(SAMPLES)]
        hours = [max(0.0, min(back, begin + HOURS) - max(back - outage, begin)) for back in backs]
        touched = [each for each in hours if each > 0]
        if not touched:
            return found
        found.append(Part(days, len(touched) / SAMPLES, sum(touched) / len(touched)))
        days += 1


@define
class LateDays:
    """Holds the runs, as (rows, files), of days that are over and still get rows; the last one first."""

    fleet: Fleet
    policy: Policy
    costs: Costs
    runs: list[dict[str, list[tuple[float, int]]]] = field(factory=list)
    waiting: dict[tuple[int, str], float] = field(factory=dict)  # parts of files that have not come yet
    parts: list[Part] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.parts = parts_of(self.fleet.outage)

    def close(self, whole: Mapping[str, tuple[float, int]]) -> None:
        """Note a day that is over: its rows and files."""
        self.runs.insert(0, {name: [whole[name]] for name in NAMES})
        del self.runs[len(self.parts) :]

    def hour(self, stores: Mapping[str, Store], work: Work, rows_per_file: Callable[[str], float]) -> float:
        """Let an hour pass, with upkeep at its end. Returns the CPU seconds of late rows once they are taken in."""
        spent = 0.0
        for part in self.parts[: len(self.runs)] if self.fleet.back else ():
            agents = self.fleet.agents * self.fleet.back * part.share / HOURS
            for name in NAMES:
                spent += self._come(part, name, agents, stores[name])
                spent += self._put_together(part.days, name, stores[name], work, rows_per_file(name))
        return spent

    def rows(self, part: Part, name: str) -> float:
        """Return the rows of an agent for a day."""
        if name == RESULTS.name:
            return self.fleet.checks * part.hours * 3600 / self.fleet.seconds
        seconds = {level.name: level.seconds for level in (M5, H1, D1)}[name]
        return self.fleet.checks * self.costs.rows_per_bucket * max(1.0, part.hours * 3600 / seconds)

    def _come(self, part: Part, name: str, agents: float, store: Store) -> float:
        """Note the files of an hour; returns what it costs to follow them."""
        often = {H1.name: round(3600 / self.policy.follow), D1.name: round(3600 / self.policy.upkeep)}.get(
            name, math.inf
        )
        due = self.waiting.get((part.days, name), 0.0) + min(agents, often)
        files, self.waiting[part.days, name] = int(due), due % 1
        rows, day = agents * self.rows(part, name), self.runs[part.days - 1][name]
        if not files:
            return 0.0
        there = sum(each for each, _ in day)
        if name in (H1.name, D1.name) and there < self.policy.add_from:
            each = max(1.0, agents / files) * self.policy.part_rows  # an agent's checks lie side by side: in one file
            return files * min(there, each) * self.costs.merge
        day += [(rows / files, 1)] * files
        store.change(part.days, files, files, 0, rows * self.costs.final[name])
        source = {H1.name: M5.name, D1.name: H1.name}.get(name)
        return 0.0 if source is None else agents * self.rows(part, source) * self.costs.follow

    def _put_together(self, days: int, name: str, store: Store, work: Work, per_file: float) -> float:
        day = sorted(self.runs[days - 1][name])
        count = together([(math.ceil(rows), files) for rows, files in day], math.ceil(per_file))
        if not count:
            return 0.0
        rows, gone = sum(each for each, _ in day[:count]), sum(files for _, files in day[:count])
        needed = max(1, math.ceil(rows / per_file))
        self.runs[days - 1][name] = [*day[count:], (rows, needed)]
        store.change(days, 1, needed, gone, 0.0)
        return work(name, [each for each, _ in day[:count]], needed)
