"""Shows agents and their latest results as the API answers them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, TypedDict

from equus_protocol.results import STATUS_WORDS, Metric
from groundwork.target_ids import source_of
from helen.agents.roster import Agent, Latest
from helen.assignments.schedule import ScheduleEntry
from helen.evaluation.replay import HistoryRecord
from helen.library.published import Published
from helen.states.fleet_timeline import Timeline
from helen.web.json_types import Counts, Object, Status, words

ORIGINS = ("scheduled", "asked", "passive", "target")


class MetricJson(TypedDict):
    """Holds one figure of a result."""

    name: str
    value: Any
    unit: str
    labels: dict[str, str]
    warn: str | None
    crit: str | None


class LatestJson(TypedDict):
    """Holds the latest result of one check. `received` and `since` are unix seconds."""

    check_id: str
    status: Status
    summary: str
    received: float
    since: float
    kept: bool
    reason: str | None
    code: str | None
    took_ms: float | None
    metrics: list[MetricJson]


class RecentResultJson(TypedDict):
    """Holds one result. `time` and `received` are unix seconds, the first by the agent's clock.

    `ran` is the agent that looked at a target; null for a result of an agent itself, or from outside.
    """

    time: float | None
    received: float
    status: Status
    origin: Annotated[str, words(*ORIGINS)]
    ran: str | None
    reason: str | None
    code: str | None
    summary: str
    metrics: list[MetricJson]


class AgentJson(TypedDict):
    """Describes one agent, or a host that only reports from outside. Times are unix seconds.

    `labels` are those that steer: the `given` ones, and of the `claimed` ones those with a trusted key. After more than
    `ephemeral` seconds away the agent is forgotten; null: it is expected back.
    """

    name: str
    kind: str
    connected: bool
    since: float | None
    last_seen: float | None
    address: str
    protocol: int | None
    equus: str
    labels: dict[str, str]
    given: dict[str, str]
    claimed: dict[str, str]
    ephemeral: float | None
    host: Object
    isolation: str | None
    policy: str | None
    clock_offset: float | None
    spool: Object
    troubles: dict[str, str]
    clash: Object | None
    noticed: dict[str, str]
    revoked: float | None
    current: bool
    checks: Counts
    kept: int


class EntryJson(TypedDict):
    """Describes one entry of an agent's schedule, and what people are to know of it.

    `every` and `timeout` are seconds.
    """

    id: str
    check: str
    every: float | None
    timeout: float | None
    args: Object
    overlap: Any
    runbook: str | None
    owner: str | None
    notes: str | None


def count_checks(timeline: Timeline, agents: Iterable[Agent]) -> Counts:
    """Return how many checks of these agents are judged to have each status, by its word: a stale one is unknown."""
    sums = [0] * len(STATUS_WORDS)
    for agent in agents:
        for status, count in enumerate(timeline.tallies.get(agent.name, ())):
            sums[status] += count
    return dict(zip(STATUS_WORDS, sums, strict=True))


def show_agent(agent: Agent, offered: Published | None, timeline: Timeline, now: float) -> AgentJson:
    """Return an agent as the list of agents has it. `offered` is the set that it should run, `now` unix seconds."""
    return {
        "name": agent.name,
        "kind": "host" if agent.is_host else "agent",
        "connected": agent.link is not None,
        "since": agent.connected_at,
        "last_seen": now if agent.link is not None else agent.last_seen,
        "address": agent.address,
        "protocol": agent.version or None,
        "equus": agent.equus_version,
        "labels": agent.labels,
        "given": dict(agent.given),
        "claimed": agent.claimed,
        "ephemeral": agent.ephemeral,
        "host": agent.host,
        "isolation": agent.isolation,
        "policy": agent.policy,
        "clock_offset": agent.clock_offset,
        "spool": agent.spool,
        "troubles": agent.troubles,
        "clash": agent.clash,
        "noticed": agent.noticed,
        "revoked": agent.revoked_at,
        "current": offered is not None and agent.digest == offered.digest,
        "checks": count_checks(timeline, [agent]),
        "kept": agent.kept,
    }


def show_entry(entry: ScheduleEntry) -> EntryJson:
    """Return an entry of a schedule as the API answers it."""
    return {
        "id": entry.id, "check": entry.check, "every": entry.every, "timeout": entry.timeout, "args": entry.args,
        "overlap": entry.overlap, "runbook": entry.notes.runbook,
        "owner": entry.notes.owner, "notes": entry.notes.notes,
    }  # fmt: skip


def show_latest(latest: Latest) -> LatestJson:
    """Return the latest result of a check as the API answers it."""
    return {
        "check_id": latest.check_id,
        "status": STATUS_WORDS[latest.status],
        "summary": latest.summary,
        "received": latest.received,
        "since": latest.since,
        "kept": latest.kept,
        "reason": latest.reason,
        "code": latest.code,
        "took_ms": latest.took_ms,
        "metrics": [show_metric(metric) for metric in latest.metrics],
    }


def show_metric(metric: Metric) -> MetricJson:
    """Return a figure of a result as the API answers it."""
    return {
        "name": metric.name, "value": metric.value, "unit": metric.unit, "labels": dict(metric.labels),
        "warn": metric.warn, "crit": metric.crit,
    }  # fmt: skip


def show_result(past: HistoryRecord) -> RecentResultJson:
    """Return a result of the history as the API answers it."""
    result = past.result
    assert result is not None
    ran = None if past.agent is None else source_of(past.agent, result.spool)[0]
    return {
        "ran": None if ran == past.agent else ran,
        "time": result.ended, "received": past.received, "status": STATUS_WORDS[result.status],
        "origin": ORIGINS[past.origin], "reason": result.reason, "code": result.code, "summary": result.summary or "",
        "metrics": [show_metric(metric) for metric in past.metrics],
    }  # fmt: skip
