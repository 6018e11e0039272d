"""Implement `helen status`: the summary of a Helen, of one agent, or of one check."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import quote

import click

from groundwork.counts import count
from groundwork.durations import words_of
from groundwork.terminal import echo
from helen.cli import notify, rollout
from helen.cli.base.ages import ago
from helen.cli.base.client import Client, Missing
from helen.cli.base.options import for_a_helen, output, plain, print_json
from helen.cli.forwards import commands as forwards
from helen.cli.shown.agent_lines import show_agent
from helen.cli.shown.state_lines import counts, show_result, show_unheard


@click.command()
@click.argument("what", required=False)
@output
@for_a_helen
def status(client: Client, what: str | None, as_json: bool) -> None:
    """Show the state of everything, of an AGENT, or of one check on it (AGENT/CHECK).

    Exit status 3: there is no such agent or check.
    """
    if what is None:
        found = client.get("/api/v1/status")
        print_json(found) if as_json else show_all(found)
        return
    name, _, check = what.partition("/")
    agent = client.get(f"/api/v1/agents/{quote(name, safe='')}")
    if not check:
        print_json(agent) if as_json else show_agent(agent)
        return
    for result in agent["results"]:
        if result["check_id"] == check:
            print_json(result) if as_json else show_result(result)
            return
    for state in agent["unheard"]:
        if state["check_id"] == check:
            print_json(state) if as_json else show_unheard(state)
            return
    raise Missing(f"{name} runs no check {check!r}: `helen status {name}` lists its checks")


def show_all(found: dict[str, Any]) -> None:
    """Print the summary of a Helen: agents, checks, code, history, and every trouble."""
    manifest, agents, faults = found["manifest"], found["agents"], found["assignments"]["fault"]
    echo(f"Helen {found['version']}, up {ago(time.time(), found['started'])}")
    hosts = f", and {count(agents['hosts'], 'host reports', 'hosts report')} without one" if agents["hosts"] else ""
    echo(f"agents: {agents['connected']} connected of {agents['known']}{hosts}")
    echo(f"checks: {counts(found['checks']) or 'no result yet'}")
    echo(f"code: version {manifest['version']}" if manifest else "code: nothing is published yet")
    if (line := clock_line(found.get("clock"), time.time())) is not None:
        echo(line, err=True)
    if found.get("restored"):
        echo(plain(found["restored"]), err=True)
    if faults:
        echo(f"assignments.toml is not used: {plain(faults)}", err=True)
    for line in rollout.aside_lines(found.get("set_aside", {})):
        echo(line, err=True)
    for line in found.get("label_warnings", ()):
        echo(plain(line), err=True)
    for line in notify.notes(found["notifications"]):
        echo(line, err=True)
    for line in forwards.notes(found.get("forwards")):
        echo(line, err=True)
    network = found.get("network") or {}
    for trouble in (*([network["insecure"]] if "insecure" in network else []), *network.get("troubles", ())):
        echo(plain(trouble), err=True)
    if found["pipeline"] is not None:
        echo(pipeline_line(found["pipeline"], time.time()))
    for part in ("journal", "store"):
        if found[part]["trouble"]:
            echo(f"{part}: {plain(found[part]['trouble'])}", err=True)


def clock_line(clock: dict[str, Any] | None, now: float) -> str | None:
    """Return what became of Helen's clock within a day as a line, None if nothing did. `now`: unix seconds."""
    if clock is not None and clock.get("held") and clock["last"] is None:
        return f"clock: it may be {ago(clock['held'], 0.0)} ahead: nothing expires before it has stood for an hour"
    last = None if clock is None else clock["last"]
    if clock is None or last is None or now - last["at"] > 86_400.0:
        return None
    when, total = ago(now, last["at"]), sum(clock["steps"].values())
    if not last["stepped"]:
        return f"clock: Helen stood still for {ago(last['slept'], 0.0)}, {when} ago"
    way = "back" if last["stepped"] < 0 else "ahead"
    often = f"; {total} steps since Helen's start" if total > 1 else ""
    return f"clock: Helen's clock was set {way} by {ago(abs(last['stepped']), 0.0)}, {when} ago{often}"


def pipeline_line(status: dict[str, Any], now: float) -> str:
    """Return the pipeline's progress as a line; `now` is unix time in seconds."""
    heard = ago(now, status["heard"])
    if status["state"] == "silent":
        return f"history: the pipeline has been silent for {heard}: `helen pipeline doctor` says more"
    if status["state"] == "failed":
        return f"history: the pipeline failed {heard} ago: {plain(status['error'])}"
    if status["state"] == "ended":
        return f"history: the pipeline ended {heard} ago, with segment {status['segment']}"
    pace = f"{status['results_per_second']:,.0f} results/s in a batch of {status['batch_seconds']:.1f} s"
    failing = f"; {plain(status['error'])}" if status["error"] else ""
    if status["behind"] == 0:
        return f"history: all segments are in the lake; {pace}{failing}"
    late = f"{count(status['behind'], 'segment')} ({words_of(round(status['behind_seconds']))})"
    return f"history: {late} behind; {pace}{failing}"
