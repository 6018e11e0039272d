"""`helen notify`: try a channel, check the file, see to what could not be delivered."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from helen.cli.client import Client, Failed
from helen.cli.judgement import moment
from helen.cli.options import for_a_helen, output, plain, print_json, table

PATIENCE = 320.0  # seconds: the longest timeout of a channel, and some


def read_file(path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Failed(f"{path} can't be read: {error}") from error


@click.group()
def notify() -> None:
    """Who is told, and whether it works."""


@notify.command("test")
@click.argument("channel")
@output
@for_a_helen
def test(client: Client, channel: str, as_json: bool) -> None:
    """Send a test to CHANNEL now, and show what the other side says. Secrets are masked.

    Exit status 1: it did not work; 3: there is no such channel.
    """
    [found] = client.stream("/api/v1/notifications/test", {"channel": channel}, PATIENCE)
    if as_json:
        print_json(found)
    else:
        about = found["channel"]
        where = about.get("url") or about.get("host") or " ".join(about.get("argv", ()))
        click.echo(f"{plain(channel)} ({about['type']}, {plain(where)}), {found['took']:.2f} s")
        click.echo(f"{'ok' if found['ok'] else 'FAILED'}: {plain(found['said'])}")
    if not found["ok"]:
        raise SystemExit(1)


@notify.command("check")
@click.argument("path", type=click.Path(exists=True, dir_okay=False))
@output
@for_a_helen
def check(client: Client, path: str, as_json: bool) -> None:
    """Say all that is wrong with a notifications.toml before it is put in force."""
    found = client.post("/api/v1/notifications/check", {"text": read_file(path)})
    print_json(found) if as_json else click.echo(f"fine: {len(found['channels'])} channels")


@notify.command("list")
@output
@for_a_helen
def list_(client: Client, as_json: bool) -> None:
    """Show the channels, what waits to be delivered, and what was given up."""
    found = client.get("/api/v1/notifications")
    if as_json:
        print_json(found)
        return
    for line in notes(found):
        click.echo(line, err=True)
    counts = found["channels"]
    rows = [
        [each["name"], each["type"], each.get("url") or each.get("host") or each.get("argv", [""])[0],
         *(counts[each["name"]][outcome] for outcome in ("sent", "failed", "dead"))]
        for each in found["settings"]
    ]  # fmt: skip
    table(["CHANNEL", "TYPE", "WHERE", "SENT", "FAILED", "GIVEN UP"], rows)
    if found["outbox"]:
        click.echo()
        table(["MESSAGE", "CHANNEL", "STATE", "SINCE", "TRIES", "WHAT IS WRONG"], [_row(e) for e in found["outbox"]])


def _row(each: dict[str, Any]) -> list[Any]:
    state = "given up" if each["state"] == "dead" else "waiting"
    return [each["id"], each["channel"], state, moment(each["created"]), each["tries"], each["error"]]


@notify.command("retry")
@click.argument("message")
@for_a_helen
def retry(client: Client, message: str) -> None:
    """Try a message again that was given up."""
    client.post(f"/api/v1/notifications/{quote(message, safe='')}/retry")
    click.echo(f"{plain(message)} is tried again")


@notify.command("drop")
@click.argument("message")
@for_a_helen
def drop(client: Client, message: str) -> None:
    """Forget a message that was given up: somebody has seen to it."""
    client.post(f"/api/v1/notifications/{quote(message, safe='')}/drop")
    click.echo(f"{plain(message)} is dropped")


def notes(found: dict[str, Any]) -> list[str]:
    """What somebody should look at: one line each. Also in `helen status`."""
    lines = []
    if found["fault"]:
        lines.append(f"notifications.toml is not used: {plain(found['fault'])}")
    if not found["configured"]:
        lines.append("notifications: nobody is told anything, there is no notifications.toml")
    if found["dead"]:
        why = f" ({plain(found['last_error'])})" if found["last_error"] else ""
        lines.append(f"notifications: {found['dead']} could not be delivered{why}: see `helen notify list`")
    if found["waiting"]:
        lines.append(f"notifications: {found['waiting']} wait to be delivered")
    return lines
