"""`helen passive`, `helen ping`: what may report from outside, with which key or URL. All of it is in passive.toml."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import click
import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT

from helen.cli.client import Client, Failed, Missing
from helen.cli.judgement import split
from helen.cli.options import for_a_helen, output, plain, print_json, table
from helen.cli.show import every
from helen.passive import DEFAULT_HOST

PATH = "/api/v1/passive"


@click.group()
def passive() -> None:
    """Results from outside: who may report them. docs/passive.rst has the conventions."""


@click.group()
def ping() -> None:
    """URLs that a job calls when it is done; a call that doesn't come is a problem."""


def change(client: Client, edit: Callable[[tomlkit.TOMLDocument], None]) -> None:
    """Rewrite passive.toml, its comments and order kept; refused if somebody else has changed it meanwhile."""
    current = client.get(PATH)
    try:
        document = tomlkit.parse(current["text"] or "")
    except TOMLKitError as error:
        raise Failed(f"passive.toml is no TOML, mend it first: {error}") from error
    edit(document)
    client.put(PATH, {"text": tomlkit.dumps(document), "version": current["version"]})


def listed(document: tomlkit.TOMLDocument, key: str) -> AoT:
    """The tables of [[check]] or [[ping]], made if there are none."""
    if key not in document:
        document[key] = tomlkit.aot()
    found = document[key]
    assert isinstance(found, AoT)
    return found


def entry(fields: dict[str, Any]) -> tomlkit.items.Table:
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
    """What may report, and until when its word counts."""
    found = client.get(PATH)
    if as_json:
        print_json(found)
        return
    if found["fault"]:
        click.echo(f"passive.toml is not used: {plain(found['fault'])}", err=True)
    rows = [
        [f"{each['host']}/{each['id']}", "ping" if each["every"] else "check", every(each["stale"]) or "never",
         each["missing"], "yes" if each["override"] else ""]
        for each in found["checks"]
    ]  # fmt: skip
    table(["HOST/CHECK", "KIND", "STALE AFTER", "THEN", "OVERRIDE"], rows)


@passive.command()
@click.argument("what", metavar="HOST/CHECK")
@click.option("--stale", help="Without a result for so long it is what --missing says: 1h, 26h.")
@click.option("--missing", type=click.Choice(["unknown", "warning", "critical"]), help="What it is then (unknown).")
@click.option("--attempts", type=click.IntRange(1, 100), help="Bad results in a row that confirm a problem (1).")
@click.option("--override", is_flag=True, help="It may speak for a check that the agent HOST runs.")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="Labels of HOST, if no agent has the name.")
@for_a_helen
def add(client: Client, what: str, labels: tuple[str, ...], **given: Any) -> None:
    """Declare a check whose results come from outside. CHECK may be a pattern: each name that fits is one."""
    host, check = split(what)

    def edit(document: tomlkit.TOMLDocument) -> None:
        listed(document, "check").append(entry({"host": host, "id": check, **given}))
        add_labels(document, host, labels)

    change(client, edit)
    click.echo(f"{plain(what)} may report: `helen passive key {host}` prints its key")


def add_labels(document: tomlkit.TOMLDocument, host: str, labels: tuple[str, ...]) -> None:
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
    """Nothing is expected of it any more; what is open of it is closed."""
    take_away(client, *split(what), ("check", "ping"))
    click.echo(f"{plain(what)} is watched no more")


def take_away(client: Client, host: str, check: str, keys: tuple[str, ...]) -> None:
    def edit(document: tomlkit.TOMLDocument) -> None:
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
            raise Missing(f"{plain(host)}/{plain(check)} is not declared: `helen passive list` has what is")

    change(client, edit)


@passive.command()
@click.argument("host")
@output
@for_a_helen
def key(client: Client, host: str, as_json: bool) -> None:
    """Print the submission key of HOST; with '*' the one that is good for all."""
    found = client.get(f"{PATH}/keys/{quote(host, safe='*')}")
    print_json(found) if as_json else click.echo(found["key"])


# ------------------------------------------------------------------------------------------------ pings


def of_host(command: Any) -> Any:
    return click.option("--host", default=DEFAULT_HOST, show_default=True, help="Whose check it is.")(command)


@ping.command()
@click.argument("name")
@click.option("--every", required=True, help="How often it pings: 10m, 1d.")
@click.option("--grace", help="How much later it may come, and how long a run may take (as --every).")
@click.option("--missing", type=click.Choice(["unknown", "warning", "critical"]), help="What it is then (critical).")
@of_host
@output
@for_a_helen
def new(
    client: Client, name: str, every: str, grace: str | None, missing: str | None, host: str, as_json: bool
) -> None:
    """Make a ping URL for the job NAME and print it. Whoever knows the URL may call it."""
    fields = {"host": None if host == DEFAULT_HOST else host, "id": name, "every": every, "grace": grace}
    change(client, lambda document: listed(document, "ping").append(entry(fields | {"missing": missing})))
    show_url(client, host, name, as_json)


@ping.command()
@click.argument("name")
@of_host
@output
@for_a_helen
def url(client: Client, name: str, host: str, as_json: bool) -> None:
    """Print the URL again."""
    show_url(client, host, name, as_json)


def show_url(client: Client, host: str, name: str, as_json: bool) -> None:
    found = client.get(f"{PATH}/pings/{quote(host, safe='')}/{quote(name, safe='')}")
    base = f"http://{found['web']}" if found["web"] else ""
    if as_json:
        print_json(found | {"url": base + found["path"]})
        return
    click.echo(base + found["path"])
    if not base:
        click.echo("warning: Helen serves no TCP: start her with --web, or put a proxy before control.sock", err=True)


@ping.command("list")
@output
@for_a_helen
def list_pings(client: Client, as_json: bool) -> None:
    """The pings, without their URLs."""
    found = [each for each in client.get(PATH)["checks"] if each["every"]]
    if as_json:
        print_json({"pings": found})
        return
    rows = [[f"{each['host']}/{each['id']}", every(each["every"]), every(each["grace"]), each["missing"]]
            for each in found]  # fmt: skip
    table(["PING", "EVERY", "GRACE", "MISSED IS"], rows)


@ping.command()
@click.argument("name")
@of_host
@output
@for_a_helen
def rotate(client: Client, name: str, host: str, as_json: bool) -> None:
    """Make another URL for NAME: the old one is nobody's from now on."""

    def edit(document: tomlkit.TOMLDocument) -> None:
        for each in document.get("ping", []):
            if is_entry(each, host, name):
                each["serial"] = each.get("serial", 1) + 1
                return
        raise Missing(f"no ping is called {plain(name)}: `helen ping list` has them")

    change(client, edit)
    show_url(client, host, name, as_json)


@ping.command("remove")
@click.argument("name")
@of_host
@for_a_helen
def remove_ping(client: Client, name: str, host: str) -> None:
    """Nobody waits for it any more."""
    take_away(client, host, name, ("ping",))
    click.echo(f"{plain(name)} is watched no more")
