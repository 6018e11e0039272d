"""`helen assign`: what runs where. STATE/assignments.toml is the truth; this shows, checks and rewrites it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import tomlkit
from tomlkit.exceptions import ConvertError, TOMLKitError

from helen.cli.client import Client, Failed, Missing
from helen.cli.options import for_a_helen, output, plain, print_json
from helen.policy import Assignments, AssignmentsError, read

SHOWN = 5  # agents that a warning names


@click.command()
@click.argument("check", required=False)
@click.option("--on", multiple=True, help="Agents by name or pattern (web*), or by label (role=web); left out: all.")
@click.option("--every", help="How often, such as 1m.")
@click.option("--timeout", help="How long a run may take, such as 10s.")
@click.option("--args", help="Arguments, a JSON object.")
@click.option("--id", "check_id", help="The name of the series, if the same check runs more than once on an agent.")
@click.option("--overlap", type=click.Choice(["skip", "queue", "kill"]), help="What happens when a run takes too long.")
@click.option("--remove", is_flag=True, help="Take the entries of CHECK (or of --id) away instead.")
@click.option("--file", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Replace all by this file.")
@output
@for_a_helen
def assign(client: Client, check: str | None, remove: bool, file: Path | None, as_json: bool, **given: Any) -> None:
    """Show the assignments, or add one: CHECK shall run on the agents of --on.

    An agent that no entry names runs every check that has an interval of its own.
    """
    if remove and check is None and given["check_id"] is None:
        raise click.UsageError("--remove of what? Name a CHECK, or --id ID")
    current, tag = client.get_tagged("/api/v1/assignments")
    if file is not None:
        text = read_file(file)
    elif remove:
        text = without(current["text"], check, given["check_id"])
    elif check is None:
        print_json(current) if as_json else click.echo(
            current["text"] or "# no assignments: every agent runs the defaults"
        )
        return
    else:
        text = current["text"].rstrip("\n") + "\n\n" + entry(check, **given)
    try:
        wanted = read(text)
    except AssignmentsError as error:
        raise click.UsageError(str(error)) from error
    leaving = without_default(current["text"], wanted, client.get("/api/v1/agents")["agents"])
    done = client.put("/api/v1/assignments", {"text": text.lstrip("\n")}, tag)
    print_json(done) if as_json else click.echo(f"revision {done['revision']} is live")
    for name in done["unknown_checks"]:
        click.echo(f"warning: no published check is called {plain(name)}: `helen checks` lists them", err=True)
    if leaving:
        click.echo(
            f"warning: {plain(few(leaving))} had the default set, and now runs only what entries name."
            ' To keep it as well, put an entry with check = "*" above them: `helen assign --file`',
            err=True,
        )


def without_default(before: str, wanted: Assignments, agents: list[dict[str, Any]]) -> list[str]:
    """The agents that an entry covers now and none did before: easily overlooked, since nothing else says so."""
    try:
        was = read(before)
    except AssignmentsError:
        return []  # what was in force is not what the file says
    if not was.default_set:
        return []

    def covered(assignments: Assignments, agent: dict[str, Any]) -> bool:
        return any(entry.covers(agent["name"], agent["labels"]) for entry in assignments.entries)

    return [agent["name"] for agent in agents if covered(wanted, agent) and not covered(was, agent)]


def few(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= SHOWN else f"{', '.join(names[:SHOWN])} and {len(names) - SHOWN} more"


def read_file(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Failed(f"{path} can't be read: {error}") from error


def read_args(text: str) -> dict[str, Any]:
    """A JSON object without null, for which TOML has no word."""
    try:
        args = json.loads(text)
    except ValueError as error:
        raise click.BadParameter(f"no JSON: {error}", param_hint="--args") from error
    if not isinstance(args, dict):
        raise click.BadParameter('write a JSON object such as {"path": "/"}', param_hint="--args")
    return args


def entry(check: str, on: tuple[str, ...], args: str | None, check_id: str | None, **given: str | None) -> str:
    """One [[assign]] as it shall stand in the file."""
    fields: dict[str, Any] = {"check": check}
    names = [pattern for pattern in on if "=" not in pattern]
    labels = dict(pattern.split("=", 1) for pattern in on if "=" in pattern)
    fields |= {"agents": names} if names else {}
    fields |= {"labels": labels} if labels else {}
    fields |= {"id": check_id} if check_id else {}
    fields |= {name: value for name, value in given.items() if value}
    if args is not None:
        fields["args"] = read_args(args)
    table = tomlkit.table()
    try:
        for key, value in fields.items():
            if isinstance(value, dict):
                inline = tomlkit.inline_table()
                inline.update(value)
                value = inline
            table.add(key, value)
    except (ConvertError, TypeError, ValueError) as error:
        raise click.BadParameter(f"TOML has no word for null: {error}", param_hint="--args") from error
    listed = tomlkit.aot()
    listed.append(table)
    document = tomlkit.document()
    document.add("assign", listed)
    return tomlkit.dumps(document)


def without(text: str, check: str | None, check_id: str | None) -> str:
    """The file less the entries of a check, or the one of an id; its comments and order kept."""
    try:
        document = tomlkit.parse(text)
    except TOMLKitError as error:
        raise Failed(f"the assignments are no TOML, mend them first: {error}") from error
    listed = document.get("assign", [])
    kept = [
        entry for entry in listed
        if (check is not None and entry.get("check") != check) or (check_id is not None and entry.get("id") != check_id)
    ]  # fmt: skip
    if len(kept) == len(listed):
        raise Missing(f"no entry for {check or check_id}: `helen assign` shows what there is")
    entries = tomlkit.aot()
    for each in kept:
        entries.append(each)
    document["assign"] = entries
    return tomlkit.dumps(document)
