"""The agent's own health as a result document: what Helen shows under `equus`. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

CHECK = "equus"
EVERY = 60.0  # seconds between two self-reports
WORST = 20  # entries named in the output


@frozen
class Health:
    """Figures of one moment; counters since the agent started."""

    version: str
    totals: Mapping[str, int]  # of rounds.TOTALS
    worst: Sequence[tuple[str, int]]
    entries: int
    spool_depth: int
    spool_bytes: int
    worker_kills: int
    waiting: int
    resident: int
    uptime: float
    code: str
    policy: str
    isolation: str
    refused: int  # files that don't compile, old version kept or not
    trouble: Mapping[str, str] | None


def document(health: Health, now: float) -> dict[str, Any]:
    """A warning when code was refused: everything else is for thresholds at Helen's."""
    lost = health.totals["skipped"] + health.totals["missed"]
    status, summary = (
        "ok",
        f"{health.totals['runs']} runs, {lost} that did not happen, {health.spool_depth} in the spool",
    )
    if health.trouble is not None:
        status, summary = "warning", f"the new check set is refused: {health.trouble['text']}"
    elif health.refused:
        status, summary = "warning", f"{health.refused} check files do not compile; `loaded` names them"
    return {
        "status": status,
        "summary": summary,
        "check": CHECK,
        "code": health.code,
        "started": now,
        "metrics": _metrics(health),
        "output": "".join(f"{name}: {count} runs did not happen\n" for name, count in health.worst),
    }


def _metrics(health: Health) -> list[dict[str, Any]]:
    def metric(name: str, value: float, unit: str = "", kind: str = "gauge", **labels: str) -> dict[str, Any]:
        return {"name": name, "value": value, "unit": unit, "kind": kind, "labels": labels}

    return [
        metric("spool_depth", health.spool_depth),
        metric("spool_size", health.spool_bytes, "B"),
        *[
            metric(f"{name}_runs" if name != "runs" else name, count, kind="counter")
            for name, count in health.totals.items()
        ],
        metric("worker_kills", health.worker_kills, kind="counter"),
        metric("waiting", health.waiting),
        metric("entries", health.entries),
        metric("resident", health.resident, "B"),
        metric("uptime", health.uptime, "s"),
        metric("info", 1, version=health.version, code=health.code, policy=health.policy, isolation=health.isolation),
    ]
