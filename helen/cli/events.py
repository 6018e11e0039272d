"""Implement `helen events`, which lists past changes, and follows new ones over broken connections and restarts."""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import click

from groundwork.durations import parse_duration
from groundwork.terminal import echo, echo_json
from helen.cli.base.client import Client, Failed
from helen.cli.base.options import for_a_helen, plain
from helen.cli.base.zone_option import ZoneOption
from helen.cli.explain import read_moment

PATIENCE = 40.0  # seconds without a byte: Helen sends at least a comment each 15 s
PAGE = 500  # changes that are asked for at once
EVENT_ID = re.compile(r"[0-9a-f]{8}\.[0-9]{1,18}")
AGAIN_SECONDS = 2.0  # until a broken stream is opened again


@click.command()
@click.option(
    "--on", "agents", metavar="AGENTS", multiple=True, help="Only agents that fit: a name, a pattern, or KEY=PATTERN."
)
@click.option("--check", "checks", metavar="PATTERN", multiple=True, help="Only checks that fit this pattern.")
@click.option(
    "--kind",
    "kinds",
    metavar="KIND",
    multiple=True,
    help="Only this kind: transition, decision, notice, ack, downtime ...",
)
@click.option("--since", metavar="AGO|TIME|ID", help="Begin then, instead of now: 2h, 14:00, or the id of an event.")
@click.option("--once", is_flag=True, help="Print what is kept, of all time or since --since, and end.")
@click.option("--zone", type=ZoneOption(), help="Zone of the times, such as Europe/Berlin; default: this machine's.")
@click.option("--output", type=click.Choice(["text", "json"]), default="text", help="json: one event a line.")
@for_a_helen
def events(
    client: Client, agents: tuple[str, ...], checks: tuple[str, ...], kinds: tuple[str, ...], since: str | None,
    once: bool, zone: ZoneInfo | None, output: str,
) -> None:  # fmt: skip
    """List or follow changes: of states, decisions about alerts, downtimes, agents that come and go.

    A stream that breaks off goes on where it was, after a restart of Helen as well. Ctrl-C ends it.
    """
    wanted = [("on", each) for each in agents] + [("check", each) for each in checks]
    wanted += [("kind", each) for each in kinds]
    begin, last = begin_of(since, time.time(), zone)
    printed = functools.partial(show, as_json=output == "json", zone=zone, with_date=once or begin is not None)
    if once:
        for change in past(client, wanted, [("since", last)] if last else [("from", str(begin or 0.0))]):
            printed(change["id"], change["kind"], change)
        return
    if begin is not None:
        last = client.get("/api/v1/states?limit=1")["at"]  # what comes from here on is in the stream
        for change in past(client, wanted, [("from", str(begin))]):
            if number_of(change["id"]) <= number_of(last):
                printed(change["id"], change["kind"], change)
    follow(client, wanted, last, printed)


def begin_of(since: str | None, now: float, zone: ZoneInfo | None) -> tuple[float | None, str | None]:
    """Return what --since says: unix seconds, or the id of an event. Raises UsageError if it is neither.

    A time is how long ago, such as 2h, or as `helen explain --at` takes it; `now` is unix seconds.
    """
    if since is None:
        return None, None
    if EVENT_ID.fullmatch(since):
        return None, since
    if since[-1:].isalpha():
        try:
            return max(0.0, now - parse_duration(since)), None
        except ValueError as error:
            raise click.UsageError(f"--since: {error}; or a time such as 14:00, or the id of an event") from error
    return read_moment(since, now, zone, "--since"), None


def past(client: Client, wanted: list[tuple[str, str]], begin: list[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    """Give the changes that are kept, page by page, the oldest first."""
    cursor: str | None = None
    while True:
        page = [("limit", str(PAGE)), *([("cursor", cursor)] if cursor else [])]
        found = client.get(f"/api/v1/changes?{urlencode([*wanted, *begin, *page])}", patience=PATIENCE)
        yield from found["changes"]
        cursor = found["next"]
        if cursor is None:
            return


def number_of(event_id: str) -> int:
    """Return the number in the id of an event."""
    return int(event_id.rpartition(".")[2])


def follow(client: Client, wanted: list[tuple[str, str]], last: str | None, printed: Callable[..., None]) -> None:
    """Print events after the id `last`, or from now on, and open the stream again when it breaks off."""
    query = urlencode(wanted)
    path = "/api/v1/events" + (f"?{query}" if query else "")
    has_begun = False
    while True:
        try:
            for event in client.events(path, last, PATIENCE):
                last, has_begun = event.id or last, True
                if event.data is not None:
                    printed(event.id, event.kind, event.data)
        except Failed as error:
            if not has_begun or (error.status is not None and error.status < 500):
                raise
            echo(f"{error.message}; trying again", err=True)
        time.sleep(AGAIN_SECONDS)


def show(
    event_id: str | None, kind: str, data: dict[str, Any], as_json: bool, zone: ZoneInfo | None = None,
    with_date: bool = False,
) -> None:  # fmt: skip
    """Print one event as a line, with its time in `zone`, or in this machine's."""
    if as_json:
        echo_json({**data, "id": event_id, "kind": kind})
    elif kind == "reset":
        echo(f"some events are missing here: {data['why']}", err=True)
    else:
        clock = "%Y-%m-%d %H:%M:%S" if with_date else "%H:%M:%S"
        at = datetime.fromtimestamp(data["received"], zone).astimezone(zone).strftime(clock)
        where = "/".join(part for part in (data["agent"], data["check_id"]) if part)
        echo(plain(f"{at} {where or '-'} {kind}: {sentence(kind, data['document'])}"))


def sentence(kind: str, document: dict[str, Any]) -> str:
    """Return the text of an event, made of the fields that its kind has."""
    if kind == "transition":
        was, now = document["was"], document["now"]
        status = now["status"].upper() + (f" ({now['kind']})" if now["kind"] == "soft" else "")
        return f"{was['status'].upper()} to {status}: {document['summary'] or document['why']}"
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
