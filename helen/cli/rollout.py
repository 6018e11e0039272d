"""Implement `helen rollout`, which shows a push on its way from ring to ring, and pauses, resumes or undoes it."""

from __future__ import annotations

import time
from typing import Any

import click

from groundwork.counts import count
from groundwork.durations import words_of
from groundwork.terminal import echo, echo_json
from helen.cli.base.client import Client, Failed
from helen.cli.base.options import for_a_helen, output, plain, print_json
from helen.cli.base.rollout_steps import Steps, figures_text

LOOK_SECONDS = 0.2
WATCH_SECONDS = 60.0  # that agents have to run a set without a gate before it; later ones are not waited for
CURRENT = "/api/v1/rollouts/current"
INTERRUPTED = 130  # exit status after Ctrl-C, as shells have it


@click.group()
def rollout() -> None:
    """Show a push on its way from ring to ring, and steer it. `helen push` begins one."""


@rollout.command()
@output
@for_a_helen
def status(client: Client, as_json: bool) -> None:
    """Show the rollout that is under way, or the last one. Exit status 3: there never was one."""
    shown = client.get(CURRENT)
    print_json(shown) if as_json else show(shown)


@rollout.command()
@output
@for_a_helen
def watch(client: Client, as_json: bool) -> None:
    """Show the rollout live until it is over. Exit status 1: it was taken back."""
    raise SystemExit(follow(client, as_json))


def _steering(name: str, line: str, done: str) -> None:
    """Add one of the three commands that only send Helen a request."""

    @rollout.command(name, help=line)
    @click.option("--dry-run", is_flag=True, help="Show the rollout that would change, and change nothing.")
    @output
    @for_a_helen
    def steer(client: Client, dry_run: bool, as_json: bool) -> None:
        shown = client.post(f"/api/v1/rollouts/{name}", {"dry_run": dry_run})
        if as_json:
            print_json(shown)
            return
        if not dry_run:
            echo(f"version {shown['version']} {done}")
        show(shown)


_steering("pause", "Keep the rollout in its open ring. A gate that fails still takes it back.", "is paused")
_steering("resume", "Let a paused rollout go on.", "goes on")
_steering("undo", "Take the rollout back. All agents get the set that was promoted last.", "is taken back")


@rollout.command()
@click.argument("agent")
@click.option("--dry-run", is_flag=True, help="Only find out whether AGENT is set aside.")
@output
@for_a_helen
def readmit(client: Client, agent: str, dry_run: bool, as_json: bool) -> None:
    """Listen again to AGENT, which was set aside.

    Two versions were taken back on its word. Exit status 1: it is not set aside.
    """
    done = client.post("/api/v1/rollouts/readmit", {"agent": agent, "dry_run": dry_run})
    if as_json:
        print_json(done)
    else:
        echo(f"{plain(agent)} {'would be' if dry_run else 'is'} listened to again")


def show(shown: dict[str, Any]) -> None:
    """Print a rollout: its version, its rings, and the figures of each."""
    state = plain(shown["state"]) + (f": {plain(shown['why'])}" if shown["why"] else "")
    echo(f"version {shown['version']} by {plain(shown['author'])}, {state}")
    echo(f"{plain(shown['files'])}; compared with version {shown['base']}")
    for ring in shown["rings"]:
        agents = f", {count(ring['size'], 'agent')}" if "size" in ring else ""
        why = f": {plain(ring['why'])}" if ring.get("why") else ""
        if ring["state"] == "open":
            why = f": {ring['confirmed']} run it; it waits for {plain(ring['waits_for'])}"
        echo(f"  ring {ring['number']} ({plain(ring['ring'])}){agents}, {ring['state']}{why}")
        for file, said in sorted(ring.get("refused", {}).items()):
            for member, error in sorted(said.items()):
                echo(f"    {plain(member)} can't use {plain(file)}: {plain(error)}")
        for each in ring.get("figures", []):
            echo(f"    {figures_text(each)}")
    if shown["waits"]:
        echo(plain(shown["waits"]))
    for line in aside_lines(shown.get("set_aside", {})):
        echo(line)


def aside_lines(aside: dict[str, list[int]]) -> list[str]:
    """Return a line for each agent that is set aside; `aside` has the versions that were taken back on its word."""
    return [
        f"rollouts: {plain(name)} is set aside, because versions {' and '.join(map(str, versions))} were taken back on"
        f" its word: `helen rollout readmit {plain(name)}` has it listened to again"
        for name, versions in sorted(aside.items())
    ]


def follow(client: Client, as_json: bool, expected: int = 0) -> int:
    """Print each step of the rollout until it is over, or until Ctrl-C; return the exit status of `helen push`.

    `expected`: the agents that were connected before. Agents that go away meanwhile still count, but are not waited for
    if another one runs the set. Raises Failed if agents don't run a finished or undone set within WATCH_SECONDS.
    """
    steps, shown = Steps(), dict[str, Any]()
    until: float | None = None
    try:
        while True:
            shown, now = client.get(CURRENT), time.monotonic()
            connected, expected = shown["agents"], max(expected, shown["agents"])
            shown["agents"] = expected
            for step in steps.since(shown, now):
                _print(step.event, step.text, {"version": shown["version"], **step.more}, as_json)
            if shown["state"] in ("finished", "undone"):
                until = now + WATCH_SECONDS if until is None else until
                is_confirmed = shown["loaded"] > 0 or not expected
                if (shown["loaded"] >= connected and is_confirmed) or (shown["state"] == "undone" and shown["rings"]):
                    break
                if now >= until:
                    running = f"{shown['loaded']} of {shown['agents']} agents run it"
                    raise Failed(f"after {words_of(WATCH_SECONDS)} {running}; it goes on")
            time.sleep(LOOK_SECONDS)
    except KeyboardInterrupt:
        echo("\nthe rollout goes on: `helen rollout watch` shows it, `helen rollout undo` takes it back", err=True)
        return INTERRUPTED
    if as_json:
        _print("end", "", shown, True)
    for agent, broken in shown["kept_old"].items():
        for file, error in broken.items():
            echo(f"{plain(agent)} keeps the old {plain(file)}: {plain(error)}", err=True)
    return 1 if shown["kept_old"] or shown["state"] == "undone" else 0


def _print(event: str, text: str, more: dict[str, Any], as_json: bool) -> None:
    if as_json:
        echo_json({"event": event, **more})
    elif text:
        echo(text)
