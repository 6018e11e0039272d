"""Implement `helen ack`, `helen downtime`, `helen silence` and `helen windows`, which hold back alerts for a time."""

from __future__ import annotations

import getpass
import json
import re
import sys
import time
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote
from zoneinfo import ZoneInfo

import click

from groundwork.counts import count
from groundwork.duration_option import DurationOption
from groundwork.terminal import echo
from helen.cli.base.client import Client, Failed
from helen.cli.base.options import for_a_helen, output, plain, print_json, table

MUCH = 10  # a window that covers more than one in so many checks asks
DAYS = 7  # of a week
_DAILY = re.compile(r" *([0-9]{1,2}:[0-9]{2}) *- *([0-9]{1,2}:[0-9]{2}) *")


def caller_name() -> str:
    """Return the user's name on this machine, `operator` where the machine has none for it."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "operator"


def split(what: str) -> tuple[str, str]:
    """Return agent and check of `AGENT/CHECK`; raises UsageError if the text is something else."""
    agent, slash, check = what.partition("/")
    if not slash or not agent or not check:
        raise click.UsageError(f"{what!r} is no AGENT/CHECK")
    return agent, check


@click.command()
@click.argument("what", metavar="AGENT/CHECK")
@click.option("--comment", metavar="TEXT", default="", help="Cause, and what is being done about it.")
@click.option("--for", "lasting", type=DurationOption(), help="End it after this time: 2h, 3d.")
@click.option("--sticky", is_flag=True, help="End it with recovery only, not with a change from warning to critical.")
@click.option("--owner", metavar="NAME", help="The person in charge; default: the user who runs this command.")
@click.option("--clear", is_flag=True, help="Take an acknowledgement back.")
@output
@for_a_helen
def ack(
    client: Client, what: str, comment: str, lasting: float | None, sticky: bool, owner: str | None, clear: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Acknowledge a problem: no notification of it is sent until it changes, recovers, or --for is over.

    Exit status 1: the check is not in a bad state.
    """
    agent, check = split(what)
    body: dict[str, Any] = {"agent": agent, "check": check, "owner": owner or caller_name()}
    if clear:
        done = client.post("/api/v1/acks/clear", body)
    else:
        until = None if lasting is None else time.time() + lasting
        done = client.post("/api/v1/acks", body | {"comment": comment or None, "until": until, "sticky": sticky})
    if as_json:
        print_json(done)
        return
    echo(f"{plain(what)}: {'no longer acknowledged' if clear else 'acknowledged by ' + plain(done['owner'])}")


def window_options(command: Any) -> Any:
    """Add the options that a downtime and a silence have in common."""
    options = (
        click.option(
            "--on", "agents", metavar="PATTERN", multiple=True, help="Agents by name or pattern (web*); left out: all."
        ),
        click.option(
            "--check", "checks", metavar="PATTERN", multiple=True, help="Checks by name or pattern; left out: all."
        ),
        click.option("--label", "labels", multiple=True, metavar="KEY=PATTERN", help="Labels that agents must have."),
        click.option("--for", "lasting", type=DurationOption(), help="Length: 30m, 2h."),
        click.option("--in", "later", type=DurationOption(), default=0.0, help="Begin after this time, not now."),
        click.option("--daily", metavar="HH:MM-HH:MM", help="Repeat each day between these local times."),
        click.option(
            "--days",
            metavar="DAY,...",
            help="With --daily: only on days of this list: mon,tue ... (the day of its begin).",
        ),
        click.option(
            "--zone", metavar="ZONE", help="With --daily: zone of the times, such as Europe/Berlin; default UTC."
        ),
        click.option("--id", "name", metavar="ID", help="A name of your own, to change or cancel it by."),
        click.option("--comment", metavar="TEXT", default="", help="Reason, for other operators."),
        click.option("--cancel", metavar="ID", help="End the one with this id instead."),
        click.option("--dry-run", is_flag=True, help="Only show which checks it would cover, and when."),
        click.option("--yes", is_flag=True, help="Don't ask, though it covers more than a tenth of the fleet."),
    )
    for option in reversed(options):  # the decorator that is applied last is shown first
        command = option(command)
    return command


@click.command()
@window_options
@output
@for_a_helen
def downtime(client: Client, as_json: bool, **options: Any) -> None:
    """Plan a downtime: no alerts of the checks it covers, and reports count its time as planned.

    A check that is still bad when the downtime ends alerts at once.
    """
    open_window(client, "downtime", as_json, **options)


@click.command()
@window_options
@output
@for_a_helen
def silence(client: Client, as_json: bool, **options: Any) -> None:
    """Hold back alerts of the checks it covers. A check that is still bad when the silence ends alerts at once."""
    open_window(client, "silence", as_json, **options)


def open_window(
    client: Client, kind: str, as_json: bool, cancel: str | None, dry_run: bool, yes: bool, **options: Any
) -> None:
    """Open, preview or cancel a downtime or silence, and print it.

    One that covers much asks before. Raises Failed after a no, and if there is no terminal to ask at.
    """
    if cancel is not None:
        where = f"/api/v1/windows/{quote(cancel, safe='')}/cancel"
        done = client.post(where, {"author": caller_name(), "dry_run": dry_run})
        print_json(done) if as_json else echo(f"{done['kind']} {plain(cancel)} is cancelled")
        return
    body = {"kind": kind, **window_body(**options)}
    if not dry_run and not yes:
        confirm(client.post("/api/v1/windows", body | {"dry_run": True}))
    found = client.post("/api/v1/windows", body | {"dry_run": dry_run})
    print_json(found) if as_json else show_preview(found, dry_run)


def confirm(preview: dict[str, Any]) -> None:
    """Ask before a window that covers more than a tenth of the fleet, and more than one agent.

    Raises Failed after a no, and if there is no terminal to ask at.
    """
    covers, fleet = preview["covers"], preview.get("fleet")
    if fleet is None or covers["agents"] < 2 or covers["checks"] * MUCH <= fleet["checks"]:
        return
    what = f"{covers['checks']} of {fleet['checks']} checks, on {covers['agents']} of {fleet['agents']} agents"
    if not sys.stdin.isatty():
        raise Failed(
            f"nothing was changed: it would cover {what}. Give --yes for so much, or --on and --check for less"
        )
    if not click.confirm(f"It would cover {what}. Go on?", err=True):
        raise Failed("nothing was changed")


def window_body(
    agents: tuple[str, ...], checks: tuple[str, ...], labels: tuple[str, ...], lasting: float | None, later: float,
    daily: str | None, days: str | None, zone: str | None, name: str | None, comment: str,
) -> dict[str, Any]:  # fmt: skip
    """Return the request's body from the options; raises UsageError for options that don't fit together.

    `{"author", "comment", "begin", "until"}` in unix seconds, and where given `agents`, `checks`, `labels`, `id` and
    `recurrence`, which is `{"begin", "end", "zone", "days"}`.
    """
    if lasting is None and daily is None:
        raise click.UsageError("it has no end: give --for 2h, or --daily 22:00-06:00")
    for option, given in (("--zone", zone if zone != "UTC" else None), ("--days", days)):
        if given and daily is None:
            raise click.UsageError(f"{option} is for --daily 22:00-06:00: without it the window is on all the time")
    begin = time.time() + later
    body: dict[str, Any] = {"author": caller_name(), "comment": comment, "begin": begin}
    body["until"] = None if lasting is None else begin + lasting
    body |= {key: list(value) for key, value in (("agents", agents), ("checks", checks)) if value}
    body |= {"id": name} if name else {}
    if labels:
        body["labels"] = dict(label.partition("=")[::2] for label in labels)
    if daily is not None:
        match = _DAILY.fullmatch(daily)
        if match is None:
            raise click.UsageError(f"--daily {daily!r}: write two local times, such as 22:00-06:00")
        recurrence = {"begin": match[1], "end": match[2], "zone": zone or "UTC"}
        body["recurrence"] = recurrence | ({"days": [day.strip() for day in days.lower().split(",")]} if days else {})
    return body


def show_preview(found: dict[str, Any], dry_run: bool) -> None:
    """Print the checks that a window covers, when, and those that are not ok now."""
    window, covers = found["window"], found["covers"]
    verb = "would cover" if dry_run else "covers"
    covered = f"{count(covers['checks'], 'check')} on {count(covers['agents'], 'agent')}"
    echo(f"{window['kind']} {plain(window['id'])} {verb} {covered}")
    for begin, end in found["spans"]:
        echo(f"  {moment(begin)} to {moment(end)}")
    for name in found["not_ok"]:
        echo(f"  not ok now: {plain(name)}")


def moment(at: float | None, zone: ZoneInfo | None = None) -> str:
    """Return unix seconds as a time in a zone, or in this machine's, with the zone's name; `?` for None."""
    return "?" if at is None else f"{datetime.fromtimestamp(at, UTC).astimezone(zone):%Y-%m-%d %H:%M:%S %Z}"


@click.command()
@output
@for_a_helen
def windows(client: Client, as_json: bool) -> None:
    """List the downtimes and silences of now and of the future."""
    found = client.get("/api/v1/windows")
    if as_json:
        print_json(found)
        return
    now = time.time()
    rows = [
        [each["id"], each["kind"], "on" if each["active"] else "off", *scope_cells(each), hours(each, now),
         moment(each["until"]) if each["until"] else "for ever", each["author"], each["comment"]]
        for each in found["windows"]
    ]  # fmt: skip
    table(["ID", "KIND", "NOW", "AGENTS", "CHECKS", "HOURS", "UNTIL", "BY", "WHY"], rows)


def scope_cells(window: dict[str, Any]) -> list[str]:
    """Return the agents and the checks of a window as text: names, labels and matchers. `*` is all of them."""
    agents = [*_named(window["agents"]), *(f"{key}={glob}" for key, glob in sorted(window["labels"].items()))]
    checks = _named(window["checks"])
    for each in window.get("matchers", ()):
        (checks if each["name"] == "check" else agents).append(_matcher(each))
    keys = [f"{agent}/{check}" for agent, check in window.get("keys", ())]
    if keys and not window["agents"]:
        return [",".join(dict.fromkeys(agent for agent, _ in window["keys"])), ",".join(keys)]
    return [" ".join(agents) or "*", ",".join([" ".join(checks) or "*", *keys])]


def _named(globs: list[str]) -> list[str]:
    return [] if globs == ["*"] else [",".join(globs)]


def _matcher(given: dict[str, Any]) -> str:
    sign = ("=~" if given["isRegex"] else "=") if given["isEqual"] else ("!~" if given["isRegex"] else "!=")
    return f"{given['name']}{sign}{json.dumps(given['value'], ensure_ascii=False)}"


def hours(window: dict[str, Any], now: float) -> str:
    """Return when a window is on between its begin and its end, such as `22:00-06:00 mon,tue Europe/Berlin`.

    `now` is in unix seconds.
    """
    recurrence = window["recurrence"]
    when = "all the time"
    if recurrence is not None:
        end = "24:00" if recurrence["end"] == "00:00" else recurrence["end"]
        days = "daily" if len(recurrence["days"]) == DAYS else ",".join(recurrence["days"])
        when = f"{recurrence['begin']}-{end} {days} {recurrence['zone']}"
    return when if window["begin"] <= now else f"{when}, from {moment(window['begin'])}"
