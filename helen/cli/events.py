"""`helen events`: what changes, as it changes, over broken connections and restarts of Helen."""

from __future__ import annotations

import json
import time
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

import click

from helen.cli.client import Client, Failed
from helen.cli.options import for_a_helen, plain

PATIENCE = 40.0  # seconds without a byte: Helen says each 15 s that she is there
AGAIN_SECONDS = 2.0  # until a stream that broke off is taken up


@click.command()
@click.option("--on", "agents", multiple=True, help="Only of agents that fit: a name, a pattern, or KEY=PATTERN.")
@click.option("--check", "checks", multiple=True, help="Only of checks that fit this pattern.")
@click.option("--kind", "kinds", multiple=True, help="Only transition, decision, notice, ack, downtime ...")
@click.option("--since", metavar="ID", help="From after this event on; else from now on.")
@click.option("--once", is_flag=True, help="End when the stream breaks off, instead of taking it up again.")
@click.option("--output", type=click.Choice(["text", "json"]), default="text", help="json: one event a line.")
@for_a_helen
def events(
    client: Client, agents: tuple[str, ...], checks: tuple[str, ...], kinds: tuple[str, ...], since: str | None,
    once: bool, output: str,
) -> None:  # fmt: skip
    """Follow what changes: states, decisions about telling somebody, downtimes, agents that come and go.

    A stream that breaks off is taken up where it was, after a restart of Helen as well. Ends with Ctrl-C.
    """
    wanted = [("on", each) for each in agents] + [("check", each) for each in checks]
    query = urlencode(wanted + [("kind", each) for each in kinds])
    path = "/api/v1/events" + (f"?{query}" if query else "")
    has_begun = False
    while True:
        try:
            for event in client.events(path, since, PATIENCE):
                since, has_begun = event.id or since, True
                if event.data is not None:
                    show(event.id, event.kind, event.data, output == "json")
        except Failed as error:
            if once or not has_begun or (error.status is not None and error.status < 500):
                raise
            click.echo(f"{error.message}; it is tried again", err=True)
        if once:
            return
        time.sleep(AGAIN_SECONDS)


def show(event_id: str | None, kind: str, data: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"id": event_id, **data, "kind": kind}, ensure_ascii=False))
    elif kind == "reset":
        click.echo(f"something is missing here: {data['why']}", err=True)
    else:
        at = f"{datetime.fromtimestamp(data['received']).astimezone():%H:%M:%S}"
        where = "/".join(part for part in (data["agent"], data["check_id"]) if part)
        click.echo(plain(f"{at} {where or '-'} {kind}: {sentence(kind, data['document'])}"))


def sentence(kind: str, document: dict[str, Any]) -> str:
    """The gist of a change, in a few words."""
    if kind == "transition":
        was, now = document["was"], document["now"]
        word = now["status"].upper() + (f" ({now['kind']})" if now["kind"] == "soft" else "")
        return f"{was['status'].upper()} to {word}: {document['summary'] or document['why']}"
    if kind == "decision":
        return " ".join(str(document.get(key) or "") for key in ("action", "what", "why")).strip()
    if kind == "notice":
        return " ".join(str(document.get(key) or "") for key in ("action", "channel", "why")).strip()
    if kind == "link":
        return str(document.get("event"))
    if kind in ("downtime", "silence"):
        return f"{document.get('action')} {document.get('id')} {document.get('comment') or ''}".strip()
    if kind == "ack":
        return f"{document.get('action')} by {document.get('owner')} {document.get('comment') or ''}".strip()
    if kind == "flap":
        return f"{'begins' if document.get('on') else 'ends'}, {document.get('status')}"
    return str(document.get("version") or "changed")
