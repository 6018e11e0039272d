"""Perform the actions of `helen top` on one row, and turn Helen's answers into lines of text. Calls block.

Text of agents is made safe to show here: nothing in it can move the cursor.
"""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import quote

from groundwork.durations import parse_duration
from groundwork.figures import figure
from helen.cli import explain
from helen.cli.base.ages import ago
from helen.cli.base.client import Client, Failed
from helen.cli.base.metric_rows import HEADINGS, metric_rows
from helen.cli.base.options import plain
from helen.cli.downtimes import caller_name, moment
from helen.web.rows.row import LINK, Row

RUN_SECONDS = 30.0  # that a check may take which is run now
PATIENCE = 15.0  # seconds beyond that for Helen to send the outcome


def run_now(client: Client, row: Row) -> list[str]:
    """Run a row's check now, with the arguments of its schedule; raises Failed if it has no schedule or no answer."""
    agent = client.get(f"/api/v1/agents/{quote(row.agent, safe='')}")
    entry = next((entry for entry in agent["schedule"] if entry["id"] == row.check), None)
    if entry is None:
        raise Failed(f"{row.agent} runs no {row.shown_check} by a schedule, so it can't be run from here")
    body = {"check": entry["check"], "on": [row.agent], "args": entry["args"], "timeout": RUN_SECONDS}
    for line in client.stream("/api/v1/runs", body, RUN_SECONDS + PATIENCE):
        if "agent" in line:
            result = line["result"] or {}
            status = result.get("status", line["outcome"]).upper()
            text = result.get("summary") or line.get("why") or result.get("reason") or ""
            return [f"run now: {status} {plain(text)}".rstrip() + f" ({plain(row.name)})"]
    raise Failed("Helen closed the connection before the agent had answered")


def acknowledge(client: Client, row: Row, comment: str) -> list[str]:
    """Acknowledge a row's problem in the name of this user."""
    body = {"agent": row.agent, "check": row.check, "owner": caller_name(), "comment": comment or None}
    client.post("/api/v1/acks", body)
    return [f"acknowledged: {plain(row.name)}"]


def downtime(client: Client, row: Row, words: str) -> list[str]:
    """Make a downtime from `30m`, or `2h new disks`; raises Failed if the text doesn't begin with a duration."""
    lasting, _, comment = words.strip().partition(" ")
    try:
        span = parse_duration(lasting)
    except ValueError as error:
        raise Failed(f"write a duration, and a comment if you like: 30m, or 2h new disks ({error})") from error
    now = time.time()
    body: dict[str, Any] = {"kind": "downtime", "agents": [row.agent], "checks": [row.check], "begin": now}
    body |= {"until": now + span, "author": caller_name(), "comment": comment.strip()}
    found = client.post("/api/v1/windows", body)
    return [f"downtime {found['window']['id']} until {moment(now + span)}: {plain(row.name)}"]


def why(client: Client, row: Row) -> list[str]:
    """Return the answer of `helen explain`."""
    found = client.get(f"/api/v1/explain/{quote(row.agent, safe='')}/{quote(row.check, safe='')}")
    lines = []
    for key, question in explain.QUESTIONS.items():
        if found[key]:
            lines += ["", question]
            lines += [f"  {moment(each['at']) if each['at'] else '':<24}  {plain(each['text'])}" for each in found[key]]
    return lines[1:] or ["nothing is known"]


def detail(row: Row, now: float) -> list[str]:
    """Return everything that a row holds, without asking Helen; `now` is unix time in seconds."""
    result, state = row.result, row.state
    lines = [f"{row.status.upper()} for {ago(now, row.since)}{f', attempt {row.soft}' if row.soft else ''}"]
    lines += [plain(row.summary)] if row.summary else []
    lines += [f"reason: {plain(row.reason)}"] if row.reason else []
    ack = state.get("acknowledged")
    if ack:
        until = f" until {moment(ack['until'])}" if ack["until"] else ""
        lines.append(plain(f"acknowledged by {ack['owner']}{until}: {ack['comment']}").rstrip(": "))
    lines += [f"no alerts: {plain(hold['detail'] or hold['kind'])}" for hold in state.get("held_by") or ()]
    if row.heard is not None:
        took = f", took {figure(result['took_ms'], 'ms')}" if result.get("took_ms") is not None else ""
        lines.append(f"last result {ago(now, row.heard)} ago, at {moment(row.heard)}{took}")
    if row.check == LINK:
        lines.append("this is the agent's connection; its checks are rows of their own")
    metrics = result.get("metrics") or ()
    if metrics:
        lines += ["", *_metrics(metrics)]
    labels = ", ".join(f"{key}={value}" for key, value in sorted(row.labels.items()))
    return lines + (["", f"labels: {plain(labels)}"] if labels else [])


def _metrics(metrics: Any) -> list[str]:
    rows = [HEADINGS, *([plain(cell) for cell in row] for row in metric_rows(metrics))]
    widths = [max(len(row[at]) for row in rows) for at in range(len(HEADINGS))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
