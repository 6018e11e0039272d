"""Print agents: as a table, or one with its labels, its link, its checks and its troubles."""

from __future__ import annotations

import base64
import time
from typing import Any

from equus_protocol.host_key import fingerprint
from groundwork.durations import words_of
from groundwork.terminal import echo
from helen.cli.base.ages import ago
from helen.cli.base.labels import in_words
from helen.cli.base.options import plain, table
from helen.cli.label import lines_of
from helen.cli.shown.state_lines import NO_RESULT, counts, state_cells, summary_of


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
