"""What `helen top` has Helen do about one row, and how her answers read. Calls block; an answer is lines of text.

Text of agents is made safe to show here: nothing in it can move a cursor.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from helen.cli import explain
from helen.cli.client import Client, Failed
from helen.cli.judgement import moment, whoever
from helen.cli.options import plain
from helen.cli.show import ago, number
from helen.durations import seconds
from helen.top.board import LINK, Row

RUN_SECONDS = 30.0  # that a check may take which is run now
PATIENCE = 15.0  # seconds beyond that for Helen to say what became of it


def run_now(client: Client, row: Row) -> list[str]:
    """As it is scheduled: the check behind the row, with its arguments. Raises Failed."""
    agent = client.get(f"/api/v1/agents/{quote(row.agent, safe='')}")
    entry = next((entry for entry in agent["schedule"] if entry["id"] == row.check), None)
    if entry is None:
        raise Failed(f"{row.agent} runs no {row.shown_check} by a schedule, so it can't be run from here")
    body = {"check": entry["check"], "on": [row.agent], "args": entry["args"], "timeout": RUN_SECONDS}
    for line in client.stream("/api/v1/runs", body, RUN_SECONDS + PATIENCE):
        if "agent" in line:
            result = line["result"] or {}
            word = result.get("status", line["outcome"]).upper()
            said = result.get("summary") or line.get("why") or result.get("reason") or ""
            return [f"run now: {word} {plain(said)}".rstrip()]
    raise Failed("Helen went away")


def acknowledge(client: Client, row: Row, comment: str) -> list[str]:
    body = {"agent": row.agent, "check": row.check, "owner": whoever(), "comment": comment or None}
    client.post("/api/v1/acks", body)
    return [f"acknowledged: {row.agent}/{row.shown_check}"]


def downtime(client: Client, row: Row, words: str) -> list[str]:
    """`30m`, or `2h new disks`. Raises Failed for what is no duration."""
    lasting, _, comment = words.strip().partition(" ")
    try:
        span = seconds(lasting)
    except ValueError as error:
        raise Failed(f"how long? Write 30m, or 2h and why: {error}") from error
    now = time.time()
    body: dict[str, Any] = {"kind": "downtime", "agents": [row.agent], "checks": [row.check], "begin": now}
    body |= {"until": now + span, "author": whoever(), "comment": comment.strip()}
    found = client.post("/api/v1/windows", body)
    return [f"downtime {found['window']['id']} until {moment(now + span)}"]


def why(client: Client, row: Row) -> list[str]:
    """The answer of `helen explain`."""
    found = client.get(f"/api/v1/explain/{quote(row.agent, safe='')}/{quote(row.check, safe='')}")
    lines = []
    for key, question in explain.QUESTIONS.items():
        if found[key]:
            lines += ["", question]
            lines += [f"  {moment(each['at']) if each['at'] else '':<24}  {plain(each['text'])}" for each in found[key]]
    return lines[1:] or ["nothing is known"]


def detail(row: Row, now: float) -> list[str]:
    """All that is known of a row, without asking anybody."""
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
        took = f", took {result['took_ms']:g} ms" if result.get("took_ms") is not None else ""
        lines.append(f"last result {ago(now, row.heard)} ago, at {moment(row.heard)}{took}")
    if row.check == LINK:
        lines.append("this is the agent's connection; its checks are rows of their own")
    metrics = result.get("metrics") or ()
    if metrics:
        lines += ["", *_metrics(metrics)]
    labels = ", ".join(f"{key}={value}" for key, value in sorted(row.labels.items()))
    return lines + (["", f"labels: {plain(labels)}"] if labels else [])


def _metrics(metrics: Any) -> list[str]:
    head = ["METRIC", "VALUE", "UNIT", "WARN", "CRIT", "LABELS"]
    rows = [head, *(_cells(metric) for metric in metrics)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(head))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _cells(metric: Mapping[str, Any]) -> list[str]:
    labels = ", ".join(f"{key}={value}" for key, value in (metric.get("labels") or {}).items())
    cells = [
        metric["name"],
        number(metric["value"]),
        metric.get("unit"),
        metric.get("warn"),
        metric.get("crit"),
        labels,
    ]
    return ["" if cell is None else plain(cell) for cell in cells]
