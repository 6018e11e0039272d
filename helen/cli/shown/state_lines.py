"""Print the state of one check: its status and age, why its alerts are held back, its last result and metrics."""

from __future__ import annotations

import time
from typing import Any

from groundwork.terminal import echo
from helen.cli.base.ages import ago
from helen.cli.base.metric_rows import HEADINGS, metric_rows
from helen.cli.base.options import plain, table

NO_RESULT = "no result yet"


def summary_of(result: dict[str, Any], now: float) -> str:
    """Return a result's summary; for one from before Helen's start, its age. `now` is unix time in seconds."""
    if not result["kept"]:
        return str(result["summary"])
    return f"kept from before Helen's start; the last result is {ago(now, result['received'])} old"


def state_cells(state: dict[str, Any], now: float) -> list[str]:
    """Return state and age of a check, `CRITICAL 1/3` while it is soft; `now` is unix time in seconds."""
    status = state["status"].upper()
    if state["kind"] == "soft":
        status += f" {state['attempt']}/{state['attempts']}"
    if state["reason"] in ("stale", "agent-away", "pending"):
        status += f" ({state['reason']})"
    marks = ["acknowledged"] if state["acknowledged"] else []
    marks += ["flapping"] if state["flapping"] else []
    return [" ".join([status, *marks]), ago(now, state["since"])]


def show_result(result: dict[str, Any]) -> None:
    """Print the state of one check, the reasons that hold back its alerts, and its metrics."""
    now = time.time()
    show_state(result["state"], summary_of(result, now), now)
    echo(f"last result {ago(now, result['received'])} ago" + (f", {result['reason']}" if result["reason"] else ""))
    if result["metrics"]:
        table(HEADINGS, metric_rows(result["metrics"]))


def show_unheard(state: dict[str, Any]) -> None:
    """Print the state of a check that has sent no result yet."""
    show_state(state, NO_RESULT, time.time())


def show_state(state: dict[str, Any], summary: str, now: float) -> None:
    """Print a state, and the reasons that hold back its alerts; `now` is unix time in seconds."""
    status, lasting = state_cells(state, now)
    echo(f"{status} for {lasting}: {plain(summary)}")
    for hold in state["held_by"]:
        echo(f"no alerts: {plain(hold['detail'] or hold['kind'])}")


def counts(checks: dict[str, int]) -> str:
    """Return the number of checks of each status, such as `8 ok, 2 critical`."""
    return ", ".join(f"{count} {status}" for status, count in checks.items() if count)
