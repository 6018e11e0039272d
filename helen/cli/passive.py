"""Implement `helen passive` and `helen ping`, which edit passive.toml: checks that report from outside, and pings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import click
import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT

from groundwork.terminal import echo
from helen.cli.base.ages import every
from helen.cli.base.client import Client, Failed, Missing
from helen.cli.base.options import for_a_helen, output, plain, print_json, table
from helen.cli.downtimes import split
from helen.passive.declarations import DEFAULT_HOST

PATH = "/api/v1/passive"


@click.group()
def passive() -> None:
    """Declare checks that report from outside, and print their keys. docs/passive.rst has the formats."""


@click.group()
def ping() -> None:
    """Make URLs that a job calls when it is done. A call that doesn't come in time is a problem."""


def change(client: Client, edit: Callable[[tomlkit.TOMLDocument], None]) -> None:
    """Rewrite passive.toml, with its comments and order kept.

    Raises Failed if it is no TOML, or if it has been changed by another command meanwhile.
    """
    current = client.get(PATH)
    try:
        document = tomlkit.parse(current["text"] or "")
    except TOMLKitError as error:
        raise Failed(f"passive.toml is no TOML, mend it first: {error}") from error
    edit(document)
    client.put(PATH, {"text": tomlkit.dumps(document), "version": current["version"]})


def listed(document: tomlkit.TOMLDocument, key: str) -> AoT:
    """Return the array of [[check]] or [[ping]] tables, made if there is none."""
    if key not in document:
        document[key] = tomlkit.aot()
    found = document[key]
    assert isinstance(found, AoT)
    return found


def entry(fields: dict[str, Any]) -> tomlkit.items.Table:
    """Return a table with these fields, without those that are None or False."""
    made = tomlkit.table()
    for name, value in fields.items():
        if value is not None and value is not False:
            made.add(name, value)
    return made


def is_entry(each: Any, host: str, check: str) -> bool:
    return each.get("host", DEFAULT_HOST) == host and each.get("id") == check


# ------------------------------------------------------------------------------------------------ checks


@passive.command("list")
@output
@for_a_helen
def list_(client: Client, as_json: bool) -> None:
    """List the declared checks. Without a result for the time of STALE AFTER a check is a problem."""
    found = client.get(PATH)
    if as_json:
        print_json(found)
        return
    if found["fault"]:
        echo(f"passive.toml is not used: {plain(found['fault'])}", err=True)
    rows = [
        [f"{each['host']}/{each['id']}", "ping" if each["every"] else "check", every(each["stale"]) or "never",
         each["missing"], "yes" if each["override"] else ""]
        for each in found["checks"]
    ]  # fmt: skip
    table(["HOST/CHECK", "KIND", "STALE AFTER", "THEN", "OVERRIDE"], rows)


@passive.command()
@click.argument("what", metavar="HOST/CHECK")
@click.option(
    "--stale", metavar="DURATION", help="Without a result for this time its status is that of --missing: 1h, 26h."
)
@click.option("--missing", type=click.Choice(["unknown", "warning", "critical"]), help="Status then (unknown).")
@click.option("--attempts", type=click.IntRange(1, 100), help="Bad results in a row that confirm a problem (1).")
@click.option("--override", is_flag=True, help="Accept results for a check that the agent HOST runs itself.")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="Labels of HOST, if no agent has the name.")
@for_a_helen
def add(client: Client, what: str, labels: tuple[str, ...], **given: Any) -> None:
    """Declare a check that reports from outside. CHECK may be a pattern: each name that fits is a check."""
    host, check = split(what)

    def edit(document: tomlkit.TOMLDocument) -> None:
        listed(document, "check").append(entry({"host": host, "id": check, **given}))
        add_labels(document, host, labels)

    change(client, edit)
    echo(f"{plain(what)} may report: `helen passive key {host}` prints its key")


def add_labels(document: tomlkit.TOMLDocument, host: str, labels: tuple[str, ...]) -> None:
    """Write labels into [hosts.HOST]; raises BadParameter if one is no KEY=VALUE."""
    if not labels:
        return
    if not all("=" in label for label in labels):
        raise click.BadParameter("write KEY=VALUE", param_hint="--label")
    hosts = document.setdefault("hosts", tomlkit.table(is_super_table=True))
    named = hosts.setdefault(host, tomlkit.table())
    inline = named.get("labels") or tomlkit.inline_table()
    inline.update(dict(label.split("=", 1) for label in labels))
    named["labels"] = inline


@passive.command()
@click.argument("what", metavar="HOST/CHECK")
@for_a_helen
def remove(client: Client, what: str) -> None:
    """Remove a declared check or ping. Open problems of it are closed.

    Exit status 3: it is not declared.
    """
    remove_entries(client, *split(what), ("check", "ping"))
    echo(f"{plain(what)} is removed")


def remove_entries(client: Client, host: str, check: str, keys: tuple[str, ...]) -> None:
    """Remove the tables of one check under these keys of passive.toml; raises Missing if there is none."""

    def edit(document: tomlkit.TOMLDocument) -> None:
        """Keep all other tables; raises Missing if that is all of them."""
        gone = False
        for key in keys:
            kept = tomlkit.aot()
            for each in document.get(key, []):
                if is_entry(each, host, check):
                    gone = True
                else:
                    kept.append(each)
            if key in document:
                document[key] = kept
        if not gone:
            raise Missing(f"{plain(host)}/{plain(check)} is not declared: `helen passive list` shows all that are")

    change(client, edit)


@passive.command()
@click.argument("host")
@output
@for_a_helen
def key(client: Client, host: str, as_json: bool) -> None:
    """Print the submission key of HOST. With '*' it is the key that is valid for all hosts."""
    found = client.get(f"{PATH}/keys/{quote(host, safe='*')}")
    print_json(found) if as_json else echo(found["key"])


# ------------------------------------------------------------------------------------------------ pings


def host_option(command: Any) -> Any:
    return click.option("--host", metavar="HOST", default=DEFAULT_HOST, show_default=True, help="Host of the check.")(
        command
    )


@ping.command()
@click.argument("name")
@click.option("--every", metavar="DURATION", required=True, help="Longest time between two calls: 10m, 1d.")
@click.option(
    "--grace", metavar="DURATION", help="Time by which a call may be late, and which a run may take (as --every)."
)
@click.option("--missing", type=click.Choice(["unknown", "warning", "critical"]), help="Status then (critical).")
@host_option
@output
@for_a_helen
def new(
    client: Client, name: str, every: str, grace: str | None, missing: str | None, host: str, as_json: bool
) -> None:
    """Make a ping URL for the job NAME and print it. The URL is a secret: any program that has it may call it."""
    fields = {"host": None if host == DEFAULT_HOST else host, "id": name, "every": every, "grace": grace}
    change(client, lambda document: listed(document, "ping").append(entry(fields | {"missing": missing})))
    show_url(client, host, name, as_json)


@ping.command()
@click.argument("name")
@host_option
@output
@for_a_helen
def url(client: Client, name: str, host: str, as_json: bool) -> None:
    """Print the URL of NAME again."""
    show_url(client, host, name, as_json)


def show_url(client: Client, host: str, name: str, as_json: bool) -> None:
    """Print a ping's URL, with a warning where Helen serves no TCP."""
    found = client.get(f"{PATH}/pings/{quote(host, safe='')}/{quote(name, safe='')}")
    base = f"{found.get('scheme', 'http')}://{found['web']}" if found["web"] else ""
    if as_json:
        print_json(found | {"url": base + found["path"]})
        return
    echo(base + found["path"])
    if not base:
        echo("warning: Helen serves no TCP: start it with --web, or put a proxy before control.sock", err=True)


@ping.command("list")
@output
@for_a_helen
def list_pings(client: Client, as_json: bool) -> None:
    """List the pings, without their URLs."""
    found = [each for each in client.get(PATH)["checks"] if each["every"]]
    if as_json:
        print_json({"pings": found})
        return
    rows = [[f"{each['host']}/{each['id']}", every(each["every"]), every(each["grace"]), each["missing"]]
            for each in found]  # fmt: skip
    table(["PING", "EVERY", "GRACE", "MISSED IS"], rows)


@ping.command()
@click.argument("name")
@host_option
@output
@for_a_helen
def rotate(client: Client, name: str, host: str, as_json: bool) -> None:
    """Make another URL for NAME. The old one is no longer accepted. Exit status 3: there is no such ping."""

    def edit(document: tomlkit.TOMLDocument) -> None:
        """Count up the serial from which the URL is made; raises Missing if there is no such ping."""
        for each in document.get("ping", []):
            if is_entry(each, host, name):
                each["serial"] = each.get("serial", 1) + 1
                return
        raise Missing(f"no ping is called {plain(name)}: `helen ping list` shows all")

    change(client, edit)
    show_url(client, host, name, as_json)


@ping.command("remove")
@click.argument("name")
@host_option
@for_a_helen
def remove_ping(client: Client, name: str, host: str) -> None:
    """Remove the ping NAME. Its URL is no longer accepted, and no call is expected."""
    remove_entries(client, host, name, ("ping",))
    echo(f"{plain(name)} is removed")
