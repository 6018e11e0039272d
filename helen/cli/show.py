"""`helen agents`, `helen checks`, `helen status`: what Helen knows."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from helen.cli import notify
from helen.cli.client import Client, Missing
from helen.cli.options import chosen_helen, for_a_helen, output, plain, print_json, table, which_helen


@click.group(invoke_without_command=True)
@click.option("--on", multiple=True, help="Only those that fit: a name, a pattern (web*), or a label (role=web).")
@output
@which_helen
@click.pass_context
def agents(
    ctx: click.Context, on: tuple[str, ...], state: Path | None, url: str | None, token: str | None, as_json: bool
) -> None:
    """List the agents, connected or not; `helen agents forget NAME` takes one off the list."""
    ctx.obj = {"state": state, "url": url, "token": token}
    if ctx.invoked_subcommand is not None:
        return
    client = Client(state, url, token)
    found = client.get("/api/v1/agents" + "".join(f"{'&' if at else '?'}on={quote(p)}" for at, p in enumerate(on)))
    if as_json:
        print_json(found)
    elif found["agents"] or not on:
        show_agents(found["agents"], time.time())
    if on and not found["agents"]:
        raise Missing(f"no agent fits {', '.join(on)}: `helen agents` lists them")


@agents.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@output
@which_helen
@click.pass_context
def forget(ctx: click.Context, /, names: tuple[str, ...], as_json: bool, **which: Any) -> None:
    """Shut NAMEs out and take them off all lists: machines that are gone for good. Their history stays.

    Exit status 1: it is connected. 3: nobody has that name.
    """
    client = chosen_helen(ctx, which)
    done = [client.post(f"/api/v1/agents/{quote(name, safe='')}/forget")["agent"] for name in names]
    if as_json:
        print_json({"forgotten": done})
    else:
        click.echo(f"forgotten: {', '.join(map(plain, done))}")


def show_agents(agents: list[dict[str, Any]], now: float) -> None:
    rows = [
        [
            agent["name"],
            link(agent, now),
            ", ".join(f"{key}={value}" for key, value in sorted(agent["labels"].items())),
            agent["equus"],
            agent["isolation"],
            counts(agent["checks"]) + (f" ({agent['kept']} of before Helen's start)" if agent["kept"] else ""),
        ]
        for agent in agents
    ]
    table(["AGENT", "LINK", "LABELS", "EQUUS", "ISOLATION", "CHECKS"], rows)
    for agent in agents:
        for line in notes(agent, now):
            click.echo(line, err=True)
    if not rows:
        click.echo("No agents yet. `helen token` prints the line that makes a machine one.")


def link(agent: dict[str, Any], now: float) -> str:
    """Whether it is there, and for how long it has been so; a host without an agent never is."""
    if agent["kind"] == "host":
        return "no agent"
    if agent["connected"]:
        return f"connected {ago(now, agent['since'])}"
    if agent["revoked"] is not None:
        return f"revoked {ago(now, agent['revoked'])}"
    return f"away {ago(now, agent['last_seen'])}" if agent["last_seen"] is not None else "never seen"


def notes(agent: dict[str, Any], now: float) -> list[str]:
    """What somebody should look at: one line each."""
    name = plain(agent["name"])
    lines = [f"{name}: the newest {plain(what)} is not used: {plain(why)}" for what, why in agent["troubles"].items()]
    if agent["clash"] is not None:
        twin, when = plain(agent["clash"]["address"]), ago(now, agent["clash"]["at"])
        lines.append(f"{name}: a second machine with its identity was refused {when} ago, from {twin}: is it a clone?")
    return lines


@click.command()
@output
@for_a_helen
def checks(client: Client, as_json: bool) -> None:
    """List the published checks, and what is wrong with others."""
    found = client.get("/api/v1/checks")
    if as_json:
        print_json(found)
        return
    rows = [
        [check["name"], every(check["every"]), ", ".join(check["needs"]), check["sha256"][:12], check["summary"]]
        for check in found["checks"]
    ]
    table(["CHECK", "EVERY", "NEEDS", "CODE", "WHAT IT DOES"], rows)
    for problem in found["problems"]:
        line = f":{problem['line']}" if problem["line"] else ""
        click.echo(f"{plain(problem['file'])}{line}: {problem['severity']}: {plain(problem['text'])}", err=True)
    for each in found["refused"]:
        what = "its removal was" if each["removed"] else "it was"
        text = f"{what} taken back with version {each['version']} ({plain(each['why'])}); the version before is kept"
        click.echo(f"{plain(each['file'])}: {text} until it changes, or until `helen push` names it", err=True)
    if found["waits"]:
        click.echo(plain(found["waits"]), err=True)


@click.command()
@click.argument("what", required=False)
@output
@for_a_helen
def status(client: Client, what: str | None, as_json: bool) -> None:
    """Say what Helen knows: all in all, of an AGENT, or of one check on it (AGENT/CHECK).

    Exit status 3: nothing is known of it.
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
    scheduled = any(entry["id"] == check for entry in agent["schedule"])
    raise Missing(
        f"{check} on {name} has not been heard of since Helen's start" if scheduled
        else f"{name} runs no check {check!r}: `helen status {name}` lists those that it does"
    )  # fmt: skip


def show_all(found: dict[str, Any]) -> None:
    manifest, agents, faults = found["manifest"], found["agents"], found["assignments"]["fault"]
    click.echo(f"Helen {found['version']}, up {ago(time.time(), found['started'])}")
    hosts = f", and {agents['hosts']} hosts report without one" if agents["hosts"] else ""
    click.echo(f"agents: {agents['connected']} connected of {agents['known']}{hosts}")
    click.echo(f"checks: {counts(found['checks']) or 'no result yet'}")
    click.echo(f"code: version {manifest['version']}" if manifest else "code: nothing is published yet")
    if faults:
        click.echo(f"assignments.toml is not used: {plain(faults)}", err=True)
    for line in notify.notes(found["notifications"]):
        click.echo(line, err=True)
    if found["pipeline"] is not None:
        click.echo(pipeline_line(found["pipeline"], time.time()))
    for part in ("journal", "store"):
        if found[part]["trouble"]:
            click.echo(f"{part}: {plain(found[part]['trouble'])}", err=True)


def pipeline_line(said: dict[str, Any], now: float) -> str:
    """How far the lake is."""
    heard = ago(now, said["heard"])
    if said["state"] == "silent":
        return f"history: the pipeline has not been heard of for {heard}: `helen pipeline doctor` says more"
    if said["state"] == "failed":
        return f"history: the pipeline failed {heard} ago: {plain(said['error'])}"
    if said["state"] == "ended":
        return f"history: the pipeline ended {heard} ago, with segment {said['segment']}"
    pace = f"{said['results_per_second']:,.0f} results/s in a batch of {said['batch_seconds']:.1f} s"
    failing = f"; {plain(said['error'])}" if said["error"] else ""
    if said["behind"] == 0:
        return f"history: all segments are in the lake; {pace}{failing}"
    return f"history: {said['behind']} segments ({said['behind_seconds']:.0f} s) behind; {pace}{failing}"


def show_agent(agent: dict[str, Any]) -> None:
    now = time.time()
    equus = f", {agent['equus']}" if agent["equus"] else ""
    click.echo(f"{plain(agent['name'])}: {link(agent, now)}{equus}")
    if agent["clock_offset"] is not None and abs(agent["clock_offset"]) > 5:
        click.echo(f"its clock is {agent['clock_offset']:+.1f} s off")
    rows = [
        [result["check_id"], *state_cells(result, now), said(result, now)]
        for result in sorted(agent["results"], key=lambda result: (result["status"] == "ok", result["check_id"]))
    ]
    table(["CHECK", "STATUS", "SINCE", "WHAT IT SAYS"], rows)
    for line in notes(agent, now):
        click.echo(line, err=True)
    for name, file in sorted(agent["files"].items()):
        if file.get("state") != "active":
            click.echo(f"{plain(name)} is {plain(file.get('state'))} there: {plain(file.get('error'))}", err=True)


def said(result: dict[str, Any], now: float) -> str:
    """Its words; of what is known from before Helen's start only since when nothing was heard."""
    if not result["kept"]:
        return str(result["summary"])
    return f"kept from before Helen's start; last heard of {ago(now, result['received'])} ago"


def state_cells(result: dict[str, Any], now: float) -> list[str]:
    """The state as it is judged: `CRITICAL 1/3` while it is soft, what nobody has heard of for long is unknown."""
    state = result["state"]
    if state is None:
        return [result["status"].upper(), ago(now, result["since"])]
    word = state["status"].upper()
    if state["kind"] == "soft":
        word += f" {state['attempt']}/{state['attempts']}"
    if state["reason"] in ("stale", "agent-away", "pending"):
        word += f" ({state['reason']})"
    marks = ["acknowledged"] if state["acknowledged"] else []
    marks += ["flapping"] if state["flapping"] else []
    return [" ".join([word, *marks]), ago(now, state["since"])]


def show_result(result: dict[str, Any]) -> None:
    now = time.time()
    word, lasting = state_cells(result, now)
    click.echo(f"{word} for {lasting}: {plain(said(result, now))}")
    for hold in (result["state"] or {}).get("held_by", ()):
        click.echo(f"no alerts: {plain(hold['detail'] or hold['kind'])}")
    click.echo(
        f"last result {ago(now, result['received'])} ago" + (f", {result['reason']}" if result["reason"] else "")
    )
    rows = [
        [metric["name"], number(metric["value"]), metric["unit"], metric["warn"], metric["crit"],
         ", ".join(f"{key}={value}" for key, value in metric["labels"].items())]
        for metric in result["metrics"]
    ]  # fmt: skip
    if rows:
        table(["METRIC", "VALUE", "UNIT", "WARN", "CRIT", "LABELS"], rows)


def ago(now: float, moment: float | None) -> str:
    """How long something has lasted, in one unit."""
    if moment is None:
        return "?"
    lasting = max(0.0, now - moment)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if lasting >= 2 * size:
            return f"{lasting / size:.0f}{unit}"
    return f"{lasting:.0f}s"


def number(value: Any) -> Any:
    """Counts and bytes without the `.0` of a float."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def every(interval: float | None) -> str:
    """An interval as it is written in a check's table."""
    if interval is None:
        return ""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if interval >= size and interval % size == 0:
            return f"{interval // size:g}{unit}"
    return f"{interval:g}s"


def counts(checks: dict[str, int]) -> str:
    return ", ".join(f"{count} {status}" for status, count in checks.items() if count)
