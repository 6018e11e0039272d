"""Implement `helen web-token`, which makes, lists and revokes tokens of the HTTP API."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any
from urllib.parse import quote

import click

from groundwork.terminal import echo
from helen.cli.base.client import Client
from helen.cli.base.options import for_a_helen, output, plain, print_json, table

SCOPES = ("metrics", "read", "operate", "push", "admin")


@click.group("web-token")
def web_token() -> None:
    """Make, list or revoke tokens of the HTTP API over TCP, each with its scopes and perhaps an end."""


@web_token.command()
@click.argument("name")
@click.option("--scope", "scopes", multiple=True, required=True, type=click.Choice(SCOPES), help="Scope; repeatable.")
@click.option("--expires", metavar="DURATION", help="Time for which the token is valid: 30d. Left out: for ever.")
@click.option("--on", multiple=True, metavar="PATTERN", help="Limit to agents: web-* or KEY=VALUE; repeatable.")
@click.option("--dry-run", is_flag=True, help="Only check whether the token could be made.")
@output
@for_a_helen
def add(
    client: Client, name: str, scopes: tuple[str, ...], expires: str | None, on: tuple[str, ...], dry_run: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Make a token and print it. It is shown this once; Helen keeps a hash of it.

    With --on it shows and does nothing but what is of agents that fit one of the patterns.
    """
    body = {"name": name, "scopes": list(scopes), "expires": expires, "on": list(on) or None, "dry_run": dry_run}
    made = client.post("/api/v1/web-tokens", body)
    if as_json:
        print_json(made)
    elif dry_run:
        echo(f"{plain(name)} could be made: {', '.join(made['scopes'])}, {until(made['expires'])}{of_limit(made)}")
    else:
        echo(made["token"])


@web_token.command("list")
@output
@for_a_helen
def list_tokens(client: Client, as_json: bool) -> None:
    """List the tokens, without their secrets."""
    found = client.get("/api/v1/web-tokens")
    if as_json:
        print_json(found)
        return
    rows = [
        [each["name"], ",".join(each["scopes"]), ",".join(each.get("on") or ()) or "all", until(each["expires"]),
         used(each["used_at"]), each["created_by"]]
        for each in found["tokens"]
    ]  # fmt: skip
    table(["TOKEN", "SCOPES", "ON", "ENDS", "USED", "MADE BY"], rows)


@web_token.command()
@click.argument("name")
@output
@for_a_helen
def revoke(client: Client, name: str, as_json: bool) -> None:
    """Revoke the token NAME. Streams that were opened with it end."""
    done: dict[str, Any] = client.post(f"/api/v1/web-tokens/{quote(name, safe='')}/revoke", {})
    print_json(done) if as_json else echo(f"{plain(name)} is revoked")


def of_limit(token: dict[str, Any]) -> str:
    """Return the limit of a token for a sentence; nothing where there is none."""
    return f", on {plain(', '.join(token['on']))}" if token.get("on") else ""


def until(expires: float | None) -> str:
    """Return the end of a token as local time; `expires` is unix seconds, None for a token without an end."""
    if expires is None:
        return "never"
    over = "over since " if expires <= time.time() else ""
    return f"{over}{datetime.fromtimestamp(expires).astimezone():%Y-%m-%d %H:%M}"


def used(at: float | None) -> str:
    return "never" if at is None else f"{datetime.fromtimestamp(at).astimezone():%Y-%m-%d %H:%M}"
