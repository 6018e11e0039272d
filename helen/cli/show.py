"""Implement `helen agents`, `helen checks` and `helen status`, which print agents, checks and states."""

from __future__ import annotations

import base64
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from equus_protocol.host_key import fingerprint
from groundwork.counts import count
from groundwork.durations import words_of
from groundwork.terminal import echo
from helen.cli import notify, rollout
from helen.cli.base.client import Client, Missing
from helen.cli.base.labels import in_words
from helen.cli.base.metric_rows import HEADINGS, metric_rows
from helen.cli.base.options import chosen_helen, for_a_helen, output, plain, print_json, table, which_helen
from helen.cli.forwards import commands as forwards
from helen.cli.label import lines_of

NO_RESULT = "no result yet"


class AgentsGroup(click.Group):
    """Take the name of an agent where a subcommand may stand: `helen agents web-1` shows it."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a subcommand, or one that shows the agent of this name."""
        return super().get_command(ctx, cmd_name) or one_agent(cmd_name)


@click.group(cls=AgentsGroup, invoke_without_command=True, subcommand_metavar="[NAME | forget NAME...]")
@click.option("--on", multiple=True, help="Only agents that fit: a name, a pattern (web*), or a label (role=web).")
@output
@which_helen
@click.pass_context
def agents(
    ctx: click.Context, on: tuple[str, ...], state: Path | None, url: str | None, token: str | None, as_json: bool
) -> None:
    """List the agents, connected or not; NAME shows one, `helen agents forget NAME` removes it from the list.

    Exit status 3: no agent fits --on, or has that name.
    """
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


def one_agent(name: str) -> click.Command:
    """Return a command that shows the agent of this name."""

    @click.command(name, help=f"Show the agent {name}: its labels, its link, and the states of its checks.")
    @output
    @which_helen
    @click.pass_context
    def show(ctx: click.Context, /, as_json: bool, **which: Any) -> None:
        agent = chosen_helen(ctx, which).get(f"/api/v1/agents/{quote(name, safe='')}")
        print_json(agent) if as_json else show_agent(agent)

    return show


@agents.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@output
@which_helen
@click.pass_context
def forget(ctx: click.Context, /, names: tuple[str, ...], as_json: bool, **which: Any) -> None:
    """Shut agents out and remove them from all lists. Use it for machines that are gone for good. Their history stays.

    Exit status 1: an agent is connected. 3: no agent has that name.
    """
    client = chosen_helen(ctx, which)
    done = [client.post(f"/api/v1/agents/{quote(name, safe='')}/forget")["agent"] for name in names]
    if as_json:
        print_json({"forgotten": done})
    else:
        echo(f"forgotten: {', '.join(map(plain, done))}")


def show_agents(agents: list[dict[str, Any]], now: float) -> None:
    """Print agents as a table; `now` is unix time in seconds."""
    rows = [
        [
            agent["name"],
            link(agent, now),
            in_words(agent["labels"]),
            agent["equus"],
            agent["isolation"],
            counts(agent["checks"]) + (f" ({agent['kept']} from before Helen's start)" if agent["kept"] else ""),
        ]
        for agent in agents
    ]
    table(["AGENT", "LINK", "LABELS", "EQUUS", "ISOLATION", "CHECKS"], rows)
    for agent in agents:
        for line in notes(agent, now):
            echo(line, err=True)
    if not rows:
        echo("No agents yet. `helen token` prints the command that makes a machine an agent.")


def link(agent: dict[str, Any], now: float) -> str:
    """Return the link of an agent as text, with its age; `now` is unix time in seconds.

    A host without an agent has none.
    """
    if agent["kind"] == "host":
        return "no agent"
    if agent["connected"]:
        return f"connected {ago(now, agent['since'])}"
    if agent["revoked"] is not None:
        return f"revoked {ago(now, agent['revoked'])}"
    stay = "" if agent.get("ephemeral") is None else f" (forgotten after {words_of(agent['ephemeral'])})"
    return (f"away {ago(now, agent['last_seen'])}" if agent["last_seen"] is not None else "never seen") + stay


def notes(agent: dict[str, Any], now: float) -> list[str]:
    """Return a line for each trouble of an agent that needs an operator; `now` is unix time in seconds."""
    name = plain(agent["name"])
    lines = [f"{name}: the newest {plain(what)} is not used: {plain(why)}" for what, why in agent["troubles"].items()]
    lines += [plain(sentence) for what, sentence in agent.get("noticed", {}).items() if what != "copy"]
    if agent["clash"] is not None:
        twin, when = plain(agent["clash"]["address"]), ago(now, agent["clash"]["at"])
        lines.append(f"{name}: a second machine with its identity was refused {when} ago, from {twin}: is it a clone?")
    return lines


def show_checks(found: dict[str, Any], as_json: bool) -> None:
    """Print the published checks. Faults of other files in the folder go to standard error."""
    if as_json:
        print_json(found)
        return
    rows = [
        [check["name"], every(check["every"]), ", ".join(check["needs"]), check["sha256"][:12], check["summary"]]
        for check in found["checks"]
    ]
    table(["CHECK", "EVERY", "NEEDS", "CODE", "SUMMARY"], rows)
    for problem in found["problems"]:
        line = f":{problem['line']}" if problem["line"] else ""
        echo(f"{plain(problem['file'])}{line}: {problem['severity']}: {plain(problem['text'])}", err=True)
    for each in found["refused"]:
        what = "its removal was" if each["removed"] else "it was"
        text = f"{what} taken back with version {each['version']} ({plain(each['why'])}); the version before is kept"
        echo(f"{plain(each['file'])}: {text} until it changes, or until `helen push` names it", err=True)
    if found["waits"]:
        echo(plain(found["waits"]), err=True)


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


def host_key_of(agent: dict[str, Any]) -> str:
    """Return the fingerprint of an agent's SSH host key, as the agent says it."""
    try:
        return fingerprint(base64.b64decode(agent["shell"]["host_key"].split()[1]))
    except (KeyError, IndexError, ValueError):
        return "none that can be read"


def show_agent(agent: dict[str, Any]) -> None:
    """Print one agent: its link, its checks with their states, and its troubles."""
    now = time.time()
    equus = f", {agent['equus']}" if agent["equus"] else ""
    echo(f"{plain(agent['name'])}: {link(agent, now)}{equus}")
    if agent["clock_offset"] is not None and abs(agent["clock_offset"]) > 5:
        echo(f"its clock is {agent['clock_offset']:+.1f} s off")
    for line in lines_of(agent):
        echo(line)
    if agent["shell"]:
        echo(f"people may log in by `helen ssh`: its host key is {host_key_of(agent)}")
    listed = [(result["state"], summary_of(result, now)) for result in agent["results"]]
    listed += [(state, NO_RESULT) for state in agent["unheard"]]
    listed.sort(key=lambda each: (each[0]["status"] == "ok", each[0]["check_id"]))
    rows = [[state["check_id"], *state_cells(state, now), summary] for state, summary in listed]
    table(["CHECK", "STATUS", "SINCE", "SUMMARY"], rows)
    for line in notes(agent, now):
        echo(line, err=True)
    for name, file in sorted(agent["files"].items()):
        if file.get("state") != "active":
            echo(f"{plain(name)} is {plain(file.get('state'))} there: {plain(file.get('error'))}", err=True)


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


def ago(now: float, moment: float | None) -> str:
    """Return the time since `moment` in one unit, such as `5m`; both times are unix seconds.

    The unit is the largest of which there are two, in what is written: 7,199.9 s are `2h` and not `120m`.
    """
    if moment is None:
        return "?"
    lasting = max(0.0, now - moment)
    for size, unit, smaller in ((86_400, "d", 3_600), (3_600, "h", 60), (60, "m", 1)):
        if round(lasting / smaller) * smaller >= 2 * size:
            return f"{lasting / size:.0f}{unit}"
    return f"{lasting:.0f}s"


def every(interval: float | None) -> str:
    """Return an interval in seconds as a check's table has it, such as `5m`; empty for None."""
    if interval is None:
        return ""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if interval >= size and interval % size == 0:
            return f"{interval // size:g}{unit}"
    return f"{interval:.12g}s"


def counts(checks: dict[str, int]) -> str:
    return ", ".join(f"{count} {status}" for status, count in checks.items() if count)
