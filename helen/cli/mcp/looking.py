"""Offer the six tools that only look: status, problems, agents, explain, history and query."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import quote, urlencode

import click

from groundwork.counts import count
from groundwork.durations import parse_duration
from helen.cli.explain import read_moment
from helen.cli.mcp.arguments import Field
from helen.cli.mcp.tool_calls import PATIENCE, Tool, ToolCalls

Given = dict[str, Any]
MOST_ROWS, USUAL_ROWS = 200, 50
ROWS = Field(f"How many rows: {USUAL_ROWS} if left out.", "integer", most=MOST_ROWS)
NEXT = Field("`next` of the answer before, to go on behind it.")
AGENT, CHECK = Field("An agent, by its name.", needed=True), Field("The id of a check on it.", needed=True)
AGO = Field("How long ago it begins, such as 30m, 6h or 7d; left out: 1d.")
LEFT_OUT = ("at", "look", "groups")  # of a board: what joins it to a stream


def seconds(name: str, text: str) -> float:
    """Return a duration in seconds. Raises UsageError if the text is none."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise click.UsageError(f"{name}: {error}") from error


def key_path(given: Given) -> str:
    """Return the part of a path that names a check on an agent."""
    return f"{quote(given['agent'], safe='')}/{quote(given['check'], safe='')}"


def _ask(calls: ToolCalls, path: str, **parameters: Any) -> Any:
    asked = urlencode({name: value for name, value in parameters.items() if value is not None}, doseq=True)
    return calls.client.get(f"/api/v1/{path}{'?' if asked else ''}{asked}", PATIENCE)


def status(calls: ToolCalls, given: Given) -> tuple[str, Any]:
    """Answer with the state of the server in a few words, and what this token may do."""
    found = _ask(calls, "status")
    calls.look()
    may = "it may change something, by `plan` and `confirm`" if calls.may_write else "it only looks"
    return f"The state of this Helen; of this token: {may}.", found


def problems(calls: ToolCalls, given: Given) -> tuple[str, Any]:
    """Answer with checks that are not well, the worst first; each row as an object."""
    shown = _ask(
        calls, "rows", filter=given.get("filter"), all="true" if given.get("all") else None,
        limit=given.get("rows", USUAL_ROWS), cursor=given.get("next"),
    )  # fmt: skip
    names = shown.pop("fields")
    rows = [dict(zip(names, row, strict=False)) for row in shown.pop("rows")]
    document = {name: value for name, value in shown.items() if name not in LEFT_OUT} | {"rows": rows}
    return (
        f"{count(len(rows), 'row')}; status 0 ok, 1 warning, 2 critical, 3 unknown; times are unix seconds.",
        document,
    )


def agents(calls: ToolCalls, given: Given) -> tuple[str, Any]:
    """Answer with agents, connected or not."""
    limit = given.get("rows", USUAL_ROWS)
    found = _ask(calls, "agents", on=given.get("on"), limit=limit, cursor=given.get("next"))
    return f"{count(len(found['agents']), 'agent')}.", found


def explain(calls: ToolCalls, given: Given) -> tuple[str, Any]:
    """Answer with the reasons for a state, from the records of the decisions."""
    at = None if "at" not in given else read_moment(given["at"], time.time(), option="at")
    return "Why the check is in this state, and who was told.", _ask(calls, f"explain/{key_path(given)}", at=at)


def history(calls: ToolCalls, given: Given) -> tuple[str, Any]:
    """Answer with the newest results of a check, and with what changed about it since a time."""
    rows, ago = given.get("rows", USUAL_ROWS), seconds("ago", given.get("ago", "1d"))
    changes = _ask(
        calls, "changes", on=given["agent"], check=given["check"], limit=rows, cursor=given.get("next"),
        **({} if "next" in given else {"from": time.time() - ago}),
    )  # fmt: skip
    said = "Changes, the oldest first, and the results of the last hour, the newest first."
    if "next" in given:
        return said, {"changes": changes}
    recent = _ask(calls, "recent", agent=given["agent"], check=given["check"], limit=rows)
    return said, {"changes": changes, "results": recent["results"]}


def query(calls: ToolCalls, given: Given) -> tuple[str, Any]:
    """Answer a question in PromQL, at this moment or over some time."""
    if "ago" not in given:
        return "The answer at this moment.", _ask(calls, "query", query=given["query"])
    now, ago = time.time(), seconds("ago", given["ago"])
    step = seconds("step", given["step"]) if "step" in given else max(1.0, round(ago / 100))
    asked = {"query": given["query"], "start": f"{now - ago:.0f}", "end": f"{now:.0f}", "step": f"{step:.12g}"}
    return f"The answer at each {step:.12g} s.", _ask(calls, "query_range", **asked)


LOOKING = (
    Tool("status", "Show the state of the server in short: agents, results, faults.", {}, status),
    Tool("problems", "List checks that are not well, the worst first, with counts.", {
        "filter": Field("Words that must all hold: state:crit, agent:web-*, check:disk, ack:no, KEY:VALUE of labels."),
        "all": Field("Those that are well, too.", "boolean"), "rows": ROWS, "next": NEXT,
    }, problems),
    Tool("agents", "List agents, connected or not, with labels and versions.", {
        "on": Field("Names, patterns (web-*), or labels (role=web); left out: all.", "array"), "rows": ROWS,
        "next": NEXT,
    }, agents),
    Tool("explain", "Explain a state: why, who was told, when it runs, what else broke, what changed.", {
        "agent": AGENT, "check": CHECK,
        "at": Field("A time in the past: 14:00, 2026-11-28T14:00, or unix seconds; left out: now."),
    }, explain),
    Tool("history", "Show what changed about a check since a time, and its newest results.", {
        "agent": AGENT, "check": CHECK, "ago": AGO, "rows": ROWS, "next": NEXT,
    }, history),
    Tool("query", "Ask in PromQL for metrics of checks, with the labels agent and check, and for helen_state.", {
        "query": Field("PromQL, such as max by (agent) (load1).", needed=True),
        "ago": Field("Over the time since then, such as 6h; left out: at this moment."),
        "step": Field("Between two points of it, such as 5m; left out: a hundred points."),
    }, query),
)  # fmt: skip
