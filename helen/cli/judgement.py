"""`helen ack`, `helen downtime`, `helen silence`, `helen windows`: what holds back alerts, by whom and until when."""

from __future__ import annotations

import getpass
import time
from datetime import datetime
from typing import Any
from urllib.parse import quote

import click

from helen.cli.client import Client
from helen.cli.options import for_a_helen, output, plain, print_json, table
from helen.durations import seconds


class Lasting(click.ParamType):
    """A duration such as 30m, as seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return seconds(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def whoever() -> str:
    """The name of whoever calls, where the machine knows it."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "operator"


def split(what: str) -> tuple[str, str]:
    agent, slash, check = what.partition("/")
    if not slash or not agent or not check:
        raise click.UsageError(f"{what!r} is no AGENT/CHECK")
    return agent, check


@click.command()
@click.argument("what", metavar="AGENT/CHECK")
@click.option("--comment", default="", help="Why, and what is being done.")
@click.option("--for", "lasting", type=Lasting(), help="It ends by itself after so long: 2h, 3d.")
@click.option("--sticky", is_flag=True, help="Only recovery ends it, not warning to critical.")
@click.option("--owner", default=None, help="Who takes it over (whoever calls).")
@click.option("--clear", is_flag=True, help="Take an acknowledgement back.")
@output
@for_a_helen
def ack(
    client: Client, what: str, comment: str, lasting: float | None, sticky: bool, owner: str | None, clear: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Take a problem over: nobody is told of it until it changes, recovers, or the time is over."""
    agent, check = split(what)
    body: dict[str, Any] = {"agent": agent, "check": check, "owner": owner or whoever()}
    if clear:
        done = client.post("/api/v1/acks/clear", body)
    else:
        until = None if lasting is None else time.time() + lasting
        done = client.post("/api/v1/acks", body | {"comment": comment or None, "until": until, "sticky": sticky})
    if as_json:
        print_json(done)
        return
    click.echo(f"{plain(what)}: {'no longer acknowledged' if clear else 'acknowledged by ' + plain(done['owner'])}")


def window_options(command: Any) -> Any:
    """What a downtime and a silence have in common."""
    for option in (
        click.option("--on", "agents", multiple=True, help="Agents by name or pattern; left out: all."),
        click.option("--check", "checks", multiple=True, help="Checks by name or pattern; left out: all."),
        click.option("--label", "labels", multiple=True, metavar="KEY=PATTERN", help="Labels that agents must have."),
        click.option("--for", "lasting", type=Lasting(), help="How long it lasts: 30m, 2h."),
        click.option("--in", "later", type=Lasting(), default=0.0, help="It begins so much later."),
        click.option("--daily", metavar="HH:MM-HH:MM", help="Each day between these local times."),
        click.option("--days", help="Of those days only: mon,tue ... (the day on which it begins)."),
        click.option("--zone", default="UTC", help="Whose local time: Europe/Berlin."),
        click.option("--id", "name", help="A name of your own, to change or cancel it by."),
        click.option("--comment", default="", help="Why."),
        click.option("--cancel", metavar="ID", help="End this one instead."),
        click.option("--dry-run", is_flag=True, help="Only show what it would cover, and when."),
    ):
        command = option(command)
    return command


@click.command()
@window_options
@output
@for_a_helen
def downtime(client: Client, as_json: bool, **options: Any) -> None:
    """Planned time: no alerts of what is covered, and it counts as planned in reports.

    What is still broken when it ends is told at once.
    """
    open_window(client, "downtime", as_json, **options)


@click.command()
@window_options
@output
@for_a_helen
def silence(client: Client, as_json: bool, **options: Any) -> None:
    """Quiet: no alerts of what is covered. What is still broken when it ends is told at once."""
    open_window(client, "silence", as_json, **options)


def open_window(client: Client, kind: str, as_json: bool, cancel: str | None, dry_run: bool, **options: Any) -> None:
    """Open, preview or end one."""
    if cancel is not None:
        where = f"/api/v1/windows/{quote(cancel, safe='')}/cancel"
        done = client.post(where, {"author": whoever(), "dry_run": dry_run})
        print_json(done) if as_json else click.echo(f"{done['kind']} {plain(cancel)} is cancelled")
        return
    found = client.post("/api/v1/windows", {"kind": kind, "dry_run": dry_run, **window_body(**options)})
    print_json(found) if as_json else show_preview(found, dry_run)


def window_body(
    agents: tuple[str, ...], checks: tuple[str, ...], labels: tuple[str, ...], lasting: float | None, later: float,
    daily: str | None, days: str | None, zone: str, name: str | None, comment: str,
) -> dict[str, Any]:  # fmt: skip
    """The request, from the options."""
    if lasting is None and daily is None:
        raise click.UsageError("how long? Give --for 2h, or --daily 22:00-06:00")
    begin = time.time() + later
    body: dict[str, Any] = {"author": whoever(), "comment": comment, "begin": begin}
    body["until"] = None if lasting is None else begin + lasting
    body |= {key: list(value) for key, value in (("agents", agents), ("checks", checks)) if value}
    body |= {"id": name} if name else {}
    if labels:
        body["labels"] = dict(label.partition("=")[::2] for label in labels)
    if daily is not None:
        first, _, last = daily.partition("-")
        recurrence = {"begin": first.strip(), "end": last.strip(), "zone": zone}
        body["recurrence"] = recurrence | ({"days": days.lower().split(",")} if days else {})
    return body


def show_preview(found: dict[str, Any], dry_run: bool) -> None:
    window, covers = found["window"], found["covers"]
    verb = "would cover" if dry_run else "covers"
    click.echo(f"{window['kind']} {plain(window['id'])} {verb} {covers['checks']} checks on {covers['agents']} agents")
    for begin, end in found["spans"]:
        click.echo(f"  {moment(begin)} to {moment(end)}")
    for name in found["not_ok"]:
        click.echo(f"  not ok now: {plain(name)}")


def moment(at: float | None) -> str:
    """A time of this machine's zone, with its name."""
    return "?" if at is None else f"{datetime.fromtimestamp(at).astimezone():%Y-%m-%d %H:%M:%S %Z}"


@click.command()
@output
@for_a_helen
def windows(client: Client, as_json: bool) -> None:
    """List downtimes and silences, those that are to come included."""
    found = client.get("/api/v1/windows")
    if as_json:
        print_json(found)
        return
    rows = [
        [each["id"], each["kind"], "on" if each["active"] else "off", ",".join(each["agents"]),
         ",".join(each["checks"]), moment(each["until"]) if each["until"] else "for ever", each["author"],
         each["comment"]]
        for each in found["windows"]
    ]  # fmt: skip
    table(["ID", "KIND", "NOW", "AGENTS", "CHECKS", "UNTIL", "BY", "WHY"], rows)
