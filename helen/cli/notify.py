"""Implement `helen notify`: test a channel, check a settings file, and deal with messages that failed."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from groundwork.counts import count
from groundwork.terminal import echo
from helen.cli.base.client import Client, Failed
from helen.cli.base.options import for_a_helen, output, plain, print_json, table
from helen.cli.downtimes import moment

PATIENCE = 320.0  # seconds: the longest timeout of a channel, and some


def read_file(path: str) -> str:
    """Return the text of a file; raises Failed if it can't be read, or is no UTF-8."""
    try:
        return Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Failed(f"{path} can't be read: {error}") from error


@click.group()
def notify() -> None:
    """Test channels, check notifications.toml, and deal with messages that failed."""


@notify.command("test")
@click.argument("channel")
@output
@for_a_helen
def test(client: Client, channel: str, as_json: bool) -> None:
    """Send a test message to CHANNEL now, and show the answer. Secrets are masked.

    Exit status 1: the message was not accepted; 3: there is no such channel.
    """
    [found] = client.stream("/api/v1/notifications/test", {"channel": channel}, PATIENCE)
    if as_json:
        print_json(found)
    else:
        about = found["channel"]
        where = about.get("url") or about.get("host") or " ".join(about.get("argv", ()))
        echo(f"{plain(channel)} ({about['type']}, {plain(where)}), {found['took']:.2f} s")
        echo(f"{'ok' if found['ok'] else 'FAILED'}: {plain(found['said'])}")
    if not found["ok"]:
        raise SystemExit(1)


@notify.command("check")
@click.argument("path", type=click.Path(exists=True, dir_okay=False))
@output
@for_a_helen
def check(client: Client, path: str, as_json: bool) -> None:
    """List every fault of a notifications.toml, before it is used. Exit status 1: it has faults."""
    found = client.post("/api/v1/notifications/check", {"text": read_file(path)})
    print_json(found) if as_json else echo(f"fine: {count(len(found['channels']), 'channel')}")


@notify.command("list")
@output
@for_a_helen
def list_(client: Client, as_json: bool) -> None:
    """List the channels, and the outbox. It has messages that wait, and those that were given up."""
    found = client.get("/api/v1/notifications")
    if as_json:
        print_json(found)
        return
    for line in notes(found):
        echo(line, err=True)
    counts = found["channels"]
    rows = [
        [each["name"], each["type"], each.get("url") or each.get("host") or each.get("argv", [""])[0],
         *(counts[each["name"]][outcome] for outcome in ("sent", "failed", "dead"))]
        for each in found["settings"]
    ]  # fmt: skip
    table(["CHANNEL", "TYPE", "WHERE", "SENT", "FAILED", "GIVEN UP"], rows)
    if found["outbox"]:
        echo()
        table(["MESSAGE", "CHANNEL", "STATE", "SINCE", "TRIES", "ERROR"], [_row(e) for e in found["outbox"]])


def _row(each: dict[str, Any]) -> list[Any]:
    state = "given up" if each["state"] == "dead" else "waiting"
    return [each["id"], each["channel"], state, moment(each["created"]), each["tries"], each["error"]]


@notify.command("retry")
@click.argument("message")
@for_a_helen
def retry(client: Client, message: str) -> None:
    """Send a message again that was given up."""
    client.post(f"/api/v1/notifications/{quote(message, safe='')}/retry")
    echo(f"{plain(message)} is tried again")


@notify.command("drop")
@click.argument("message")
@for_a_helen
def drop(client: Client, message: str) -> None:
    """Remove a message that was given up."""
    client.post(f"/api/v1/notifications/{quote(message, safe='')}/drop")
    echo(f"{plain(message)} is dropped")


def notes(found: dict[str, Any]) -> list[str]:
    """Return a line for each thing that needs an operator, for `helen notify list` and `helen status`."""
    lines = []
    if found.get("muted"):
        lines.append("notifications: none are sent, since Helen was started with --mute")
    if found["fault"]:
        lines.append(f"notifications.toml is not used: {plain(found['fault'])}")
    if not found["configured"]:
        lines.append("notifications: none are sent, since there is no notifications.toml")
    if found["dead"]:
        why = f" ({plain(found['last_error'])})" if found["last_error"] else ""
        lines.append(f"notifications: {found['dead']} could not be delivered{why}: see `helen notify list`")
    if found["waiting"]:
        lines.append(f"notifications: {found['waiting']} wait to be delivered")
    return lines
