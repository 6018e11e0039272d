"""Makes a result of what was found, so that the number of findings without a check is a series like any other. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from groundwork.counts import count

MOST_SERIES = 900  # agents with a series of their own; a result has 1,000 metrics at most


def result_of(host: str, check: str, unwatched: Mapping[str, int], silent: Sequence[str]) -> dict[str, Any]:
    """Return the body of POST /api/v1/passive/results.

    `unwatched` has the number of findings without a check of each agent that has answered, `silent` the other agents.
    The status is "ok" if all have answered, else "unknown": the sum is then too small. Limits are for the operator.
    """
    total = sum(unwatched.values())
    summary = f"{count(total, 'finding')} without a check on {count(len(unwatched), 'agent')}"
    if silent:
        summary += f"; {count(len(silent), 'agent')} did not answer"
    most = sorted(unwatched, key=lambda agent: (-unwatched[agent], agent))[:MOST_SERIES]
    metrics: list[dict[str, Any]] = [
        {"name": "unwatched", "value": total, "unit": "findings"},
        {"name": "silent", "value": len(silent), "unit": "agents"},
    ]
    metrics += [
        {"name": "unwatched_on", "value": unwatched[agent], "unit": "findings", "labels": {"agent": agent}}
        for agent in most
    ]
    status = "unknown" if silent else "ok"
    return {"host": host, "check": check, "status": status, "summary": summary, "metrics": metrics}
