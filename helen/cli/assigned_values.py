"""Print where each value of a check on an agent comes from: `helen assign --explain AGENT/CHECK`."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import click

from groundwork.durations import words_of
from groundwork.terminal import echo
from helen.assignments.assignments_text import read
from helen.assignments.origins import Explained, Value, explain
from helen.assignments.schedule import AssignmentsError, CheckTable, schedule
from helen.cli.base.client import Client, Failed, Missing
from helen.cli.base.options import plain, print_json


def show_values(client: Client, key: str, as_json: bool) -> None:
    """Print the values of a check and their places. `key`: AGENT/CHECK.

    Raises Missing if the agent is not known, or is not to run such a check, and Failed if the file has a fault.
    """
    agent, slash, check_id = key.partition("/")
    if not (agent and slash and check_id):
        raise click.UsageError(f"--explain {key}: write AGENT/CHECK, such as web-1/disk")
    known = client.get(f"/api/v1/agents/{quote(agent, safe='')}")
    labels, is_target = known["labels"], known["kind"] == "host"
    tables = tables_of(client.get("/api/v1/checks")["checks"])
    try:
        assignments = read(client.get("/api/v1/assignments")["text"])
    except AssignmentsError as error:
        raise Failed(f"assignments.toml is not used, mend it first: {error}") from error
    found = explain(assignments, tables, agent, labels, check_id, is_target)
    if found is None and is_target:
        raise Missing(f"nobody is to run {check_id} for {agent}: `helen targets` shows what is looked at")
    if found is None:
        ids = [each.id for each in schedule(assignments, tables, agent, labels)]
        raise Missing(f"{agent} is not to run {check_id}; it runs {', '.join(ids) or 'nothing'}")
    if as_json:
        print_json(_document(agent, check_id, found))
        return
    echo(f"{plain(agent)}/{plain(check_id)} is the check {plain(found.check)}, by {found.entry}")
    for each in found.settings:
        echo(f"  {each.name} = {words_of(each.value)}: {each.why}")
    for each in found.args:
        over = f", over {', '.join(each.over)}" if each.over else ""
        echo(
            f"  args.{plain(each.name)} = {plain(json.dumps(each.value, ensure_ascii=False))}: {plain(each.why + over)}"
        )


def tables_of(checks: list[dict[str, Any]]) -> dict[str, CheckTable]:
    """Return the tables of published checks, as `GET /api/v1/checks` lists them, by name."""
    return {
        each["name"]: CheckTable(each["name"], each["every"], each["timeout"], args=each.get("args") or {})
        for each in checks
    }  # fmt: skip


def _document(agent: str, check_id: str, found: Explained) -> dict[str, Any]:
    """Return `{"agent", "id", "check", "entry", "settings": [VALUE], "args": [VALUE]}`."""
    return {
        "agent": agent, "id": check_id, "check": found.check, "entry": found.entry,
        "settings": [_value(each) for each in found.settings], "args": [_value(each) for each in found.args],
    }  # fmt: skip


def _value(value: Value) -> dict[str, Any]:
    """Return `{"name", "value", "from", "over"}`."""
    return {"name": value.name, "value": value.value, "from": value.why, "over": list(value.over)}
