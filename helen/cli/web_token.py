"""`helen web-token`: tokens of the HTTP API, with a name, scopes and perhaps an end."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any
from urllib.parse import quote

import click

from helen.cli.client import Client
from helen.cli.options import for_a_helen, output, plain, print_json, table

SCOPES = ("metrics", "read", "operate", "push", "admin")


@click.group("web-token")
def web_token() -> None:
    """Tokens of the HTTP API over TCP: who may what, and until when."""


@web_token.command()
@click.argument("name")
@click.option("--scope", "scopes", multiple=True, required=True, type=click.Choice(SCOPES), help="What it may.")
@click.option("--expires", metavar="DURATION", help="It ends by itself after so long: 30d. Left out: never.")
@click.option("--dry-run", is_flag=True, help="Only say whether it could be made.")
@output
@for_a_helen
def add(
    client: Client, name: str, scopes: tuple[str, ...], expires: str | None, dry_run: bool, as_json: bool
) -> None:  # fmt: skip
    """Make a token and print it. It is shown this once; Helen keeps a hash of it."""
    body = {"name": name, "scopes": list(scopes), "expires": expires, "dry_run": dry_run}
    made = client.post("/api/v1/web-tokens", body)
    if as_json:
        print_json(made)
    elif dry_run:
        click.echo(f"{plain(name)} could be made: {', '.join(made['scopes'])}, {until(made['expires'])}")
    else:
        click.echo(made["token"])


@web_token.command("list")
@output
@for_a_helen
def list_tokens(client: Client, as_json: bool) -> None:
    """List them, without what would open anything."""
    found = client.get("/api/v1/web-tokens")
    if as_json:
        print_json(found)
        return
    rows = [
        [each["name"], ",".join(each["scopes"]), until(each["expires"]), used(each["used_at"]), each["created_by"]]
        for each in found["tokens"]
    ]
    table(["TOKEN", "SCOPES", "ENDS", "USED", "MADE BY"], rows)


@web_token.command()
@click.argument("name")
@output
@for_a_helen
def revoke(client: Client, name: str, as_json: bool) -> None:
    """NAME opens nothing any more; streams that it opened end."""
    done: dict[str, Any] = client.post(f"/api/v1/web-tokens/{quote(name, safe='')}/revoke", {})
    print_json(done) if as_json else click.echo(f"{plain(name)} opens nothing any more")


def until(expires: float | None) -> str:
    if expires is None:
        return "never"
    over = "over since " if expires <= time.time() else ""
    return f"{over}{datetime.fromtimestamp(expires).astimezone():%Y-%m-%d %H:%M}"


def used(at: float | None) -> str:
    return "never" if at is None else f"{datetime.fromtimestamp(at).astimezone():%Y-%m-%d %H:%M}"
