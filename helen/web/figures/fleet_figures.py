"""Counts agents for /metrics, and names the series of single ones: some agents a step, since there may be 10,000.

Series of single checks and agents are written while there are MOST_SERIES at most, and left out as a whole beyond:
`helen_series_left_out` says how many. `?on=PATTERN` picks agents, so that several scrapes share a great fleet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter

from helen.agents.roster import Agent
from helen.parts import Parts
from helen.states.model import LINK
from helen.web.figures.exposition import Family, Sample, one
from helen.web.sight.agents_in_turns import AGENTS_A_STEP, meant_by, steps_of

MOST_SERIES = 10_000  # checks with series of their own: three lines each make 2 MB, which Prometheus reads at ease


class FleetFigures:
    """Holds counts of agents, and those of `patterns` by name; they are whole after `steps` have been taken."""

    def __init__(self, parts: Parts, patterns: Sequence[str]) -> None:
        self.known = self.hosts = self.connected = self.current = 0
        self.picked: list[Agent] = []
        self.checks = 0  # of the picked ones
        self._parts, self._is_meant = parts, meant_by(patterns, revoked=not patterns)

    def steps(self, agents: Sequence[Agent]) -> Iterator[None]:
        """Count agents, AGENTS_A_STEP a step."""
        yield from steps_of(agents, self._take)
        self.picked.sort(key=attrgetter("name"))
        yield

    def _take(self, agents: Iterable[Agent]) -> None:
        for agent in agents:
            self.known += is_expected(agent)
            self.hosts += agent.is_host
            if agent.link is not None:
                self.connected += 1
                self.current += self._is_current(agent)
            if self._is_meant is None or self._is_meant(agent):
                self.picked.append(agent)
                self.checks += len(agent.latest)

    def _is_current(self, agent: Agent) -> bool:
        if self._parts.library.published is None:
            return False
        offered = self._parts.library.offered(agent.name)
        return offered is not None and agent.digest == offered.digest


def is_expected(agent: Agent) -> bool:
    """Return True if a connection can be expected: a host has no agent, and a revoked agent is let in no more."""
    return not agent.is_host and agent.revoked_at is None


def single_families(parts: Parts, fleet: FleetFigures) -> Iterator[Family]:
    """Yield series of the picked agents and their checks, or how many there would be."""
    timeline, agents = parts.evaluator.timeline, fleet.picked
    left_out = fleet.checks + len(agents) if max(fleet.checks, len(agents)) > MOST_SERIES else 0
    said = f"Checks and agents without series of their own: more than {MOST_SERIES}; pick some with ?on=PATTERN."
    yield one("helen_series_left_out", "gauge", said, left_out)
    if left_out:
        return

    def family(name: str, kind: str, help: str, samples: Callable[[Agent], Iterable[Sample]]) -> Family:
        return Family(f"helen_{name}", kind, help, _with_rests(agents, samples))

    yield family("agent_connected", "gauge", "Whether an agent is connected.", lambda agent: (
        ("", {"agent": agent.name}, agent.link is not None) for _ in range(is_expected(agent))
    ))  # fmt: skip
    yield family("agent_clock_offset_seconds", "gauge", "How far an agent's clock is ahead.", lambda agent: (
        () if agent.clock_offset is None else (("", {"agent": agent.name}, agent.clock_offset),)
    ))  # fmt: skip
    yield family("check_status", "gauge", "0 ok, 1 warning, 2 critical, 3 unknown, as it is judged.", lambda agent: (
        ("", {"agent": agent.name, "check": check}, state.shown.status)
        for _, check in timeline.keys_of(agent.name)
        if check != LINK and (state := timeline.states.get((agent.name, check))) is not None  # not retired meanwhile
    ))  # fmt: skip
    owner = "The owner of a check, if its table or its assignment names one."
    yield family("check", "info", owner, lambda agent: (
        ("", {"agent": agent.name, "check": check, "owner": owner}, 1)
        for check, owner in parts.notes.owners(agent.name)
    ))  # fmt: skip
    yield family("check_last_result_timestamp_seconds", "gauge", "When its last result came.", lambda agent: (
        ("", {"agent": agent.name, "check": latest.check_id}, latest.received)
        for latest in list(agent.latest.values())
    ))  # fmt: skip


def _with_rests(agents: Sequence[Agent], samples: Callable[[Agent], Iterable[Sample]]) -> Iterator[Sample | None]:
    """Yield the samples of agents, and None after some agents: thousands in turn may have nothing to tell."""
    for number, agent in enumerate(agents, 1):
        yield from samples(agent)
        if number % AGENTS_A_STEP == 0:
            yield None
