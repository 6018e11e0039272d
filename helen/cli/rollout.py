"""`helen rollout`: how a push goes from ring to ring; pause it, let it go on, take it back. `follow` shows it live."""

from __future__ import annotations

import json
import time
from typing import Any

import click

from helen.cli.client import Client, Failed
from helen.cli.options import for_a_helen, output, plain, print_json
from helen.cli.steps import Steps, figures_text

LOOK_SECONDS = 0.2
WATCH_SECONDS = 60.0  # that agents have to run a set that has no gate before it; it goes on without us
CURRENT = "/api/v1/rollouts/current"
INTERRUPTED = 130  # exit status after Ctrl-C, as shells have it


@click.group()
def rollout() -> None:
    """See how a push goes from ring to ring, and steer it: `helen push` begins one."""


@rollout.command()
@output
@for_a_helen
def status(client: Client, as_json: bool) -> None:
    """The rollout that is under way, or the last one."""
    shown = client.get(CURRENT)
    print_json(shown) if as_json else show(shown)


@rollout.command()
@output
@for_a_helen
def watch(client: Client, as_json: bool) -> None:
    """Show it live until it is over. Exit status 1: it went back."""
    raise SystemExit(follow(client, as_json))


def _steering(word: str, line: str, done: str) -> None:
    """One of the three commands that only tell Helen something."""

    @rollout.command(word, help=line)
    @click.option("--dry-run", is_flag=True, help="Say what would be concerned, and change nothing.")
    @output
    @for_a_helen
    def steer(client: Client, dry_run: bool, as_json: bool) -> None:
        shown = client.post(f"/api/v1/rollouts/{word}", {"dry_run": dry_run})
        if as_json:
            print_json(shown)
            return
        if not dry_run:
            click.echo(f"version {shown['version']} {done}")
        show(shown)


_steering("pause", "Stay in the open ring; a gate that fails takes it back all the same.", "is paused")
_steering("resume", "Let a paused rollout go on.", "goes on")
_steering("undo", "Take it back: all agents get what was promoted last.", "is taken back")


def show(shown: dict[str, Any]) -> None:
    """All of it, for people."""
    state = plain(shown["state"]) + (f": {plain(shown['why'])}" if shown["why"] else "")
    click.echo(f"version {shown['version']} by {plain(shown['author'])}, {state}")
    click.echo(f"{plain(shown['files'])}; compared with version {shown['base']}")
    for ring in shown["rings"]:
        agents = f", {ring['size']} agents" if "size" in ring else ""
        why = f": {plain(ring['why'])}" if ring.get("why") else ""
        if ring["state"] == "open":
            why = f": {ring['confirmed']} run it; it waits for {plain(ring['waits_for'])}"
        click.echo(f"  ring {ring['number']} ({plain(ring['ring'])}){agents}, {ring['state']}{why}")
        for each in ring.get("figures", []):
            click.echo(f"    {figures_text(each)}")
    if shown["waits"]:
        click.echo(plain(shown["waits"]))


def follow(client: Client, as_json: bool) -> int:
    """Say how it goes until it is over, or until Ctrl-C. The exit status of `helen push`."""
    steps, shown = Steps(), dict[str, Any]()
    until: float | None = None
    try:
        while True:
            shown, now = client.get(CURRENT), time.monotonic()
            for step in steps.since(shown, now):
                _print(step.event, step.text, {"version": shown["version"], **step.more}, as_json)
            if shown["state"] in ("finished", "undone"):
                until = now + WATCH_SECONDS if until is None else until
                if shown["loaded"] >= shown["agents"] or (shown["state"] == "undone" and shown["rings"]):
                    break
                if now >= until:
                    raise Failed(
                        f"after {WATCH_SECONDS:g} s {shown['loaded']} of {shown['agents']} agents run it; it goes on"
                    )
            time.sleep(LOOK_SECONDS)
    except KeyboardInterrupt:
        click.echo(
            "\nthe rollout goes on: `helen rollout watch` shows it, `helen rollout undo` takes it back", err=True
        )
        return INTERRUPTED
    if as_json:
        _print("end", "", shown, True)
    for agent, broken in shown["kept_old"].items():
        for file, error in broken.items():
            click.echo(f"{plain(agent)} keeps the old {plain(file)}: {plain(error)}", err=True)
    return 1 if shown["kept_old"] or shown["state"] == "undone" else 0


def _print(event: str, text: str, more: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"event": event, **more}, ensure_ascii=False))
    elif text:
        click.echo(text)
