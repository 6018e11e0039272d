"""Build the agent's report on itself: the result document that Helen shows as the check `equus`. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from groundwork.counts import count

CHECK = "equus"
EVERY = 60.0  # seconds between two self-reports
WORST = 20  # entries named in the output


@frozen
class Health:
    """Holds figures of the agent at one moment; counters run since the agent started."""

    version: str
    totals: Mapping[str, int]  # by the names in equus.schedule.runner.TOTALS
    worst: Sequence[tuple[str, int]]
    entries: int
    spool_depth: int
    spool_bytes: int
    worker_kills: int
    waiting: int
    resident: int  # bytes
    uptime: float  # seconds
    code: str
    policy: str
    isolation: str
    refused: int  # files that don't compile, old version kept or not
    trouble: Mapping[str, str] | None
    spool_fault: str | None = None  # the reason why results are in memory only
    unbound_secrets: Sequence[str] = ()  # names of secrets without destinations
    news: Sequence[str] = ()  # a sentence for each sign that news are kept from the agent


def document(health: Health, now: float) -> dict[str, Any]:
    """Return the result document; `now` is unix seconds, wall clock.

    Its keys are `status`, `summary`, `check`, `code`, `started`, `metrics` and `output`. The status is critical if the
    disk of the state folder fails, a warning if code was refused or news are kept back; all other figures are for
    thresholds at Helen.
    """
    lost = health.totals["skipped"] + health.totals["missed"]
    status, summary = (
        "ok",
        f"{count(health.totals['runs'], 'run')}, {lost} that did not happen, {health.spool_depth} in the spool",
    )
    if health.spool_fault is not None:
        status = "critical"
        summary = f"the state folder can't be written ({health.spool_fault}): results are in memory"
        summary += " and are lost if the agent ends. Mend the disk, then restart the agent"
    elif health.trouble is not None:
        status, summary = "warning", f"the new check set is refused: {health.trouble['text']}"
    elif health.news:
        status, summary = "warning", health.news[0]
    elif health.refused:
        status, summary = "warning", f"{health.refused} check files do not compile; `loaded` names them"
    return {
        "status": status,
        "summary": summary,
        "check": CHECK,
        "code": health.code,
        "started": now,
        "metrics": _metrics(health),
        "output": "".join(f"{text}\n" for text in health.news[:WORST])
        + "".join(f"{name}: {count(runs, 'run')} did not happen\n" for name, runs in health.worst)
        + "".join(f"secret {name} has no `to`: it goes to any address\n" for name in health.unbound_secrets[:WORST]),
    }


def _metrics(health: Health) -> list[dict[str, Any]]:
    def metric(name: str, value: float, unit: str = "", kind: str = "gauge", **labels: str) -> dict[str, Any]:
        return {"name": name, "value": value, "unit": unit, "kind": kind, "labels": labels}

    return [
        metric("spool_depth", health.spool_depth),
        metric("spool_size", health.spool_bytes, "B"),
        *[
            metric(f"{name}_runs" if name != "runs" else name, total, kind="counter")
            for name, total in health.totals.items()
        ],
        metric("worker_kills", health.worker_kills, kind="counter"),
        metric("waiting", health.waiting),
        metric("entries", health.entries),
        metric("resident", health.resident, "B"),
        metric("uptime", health.uptime, "s"),
        metric("info", 1, version=health.version, code=health.code, policy=health.policy, isolation=health.isolation),
    ]
