"""Implement `helen assign`, which shows, checks and rewrites STATE/assignments.toml: which check runs where."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click
import tomlkit
from tomlkit.exceptions import ConvertError, TOMLKitError

from groundwork.counts import count
from groundwork.terminal import echo
from helen.assignments.arguments import argument_faults
from helen.assignments.assignments_text import read
from helen.assignments.mesh_schedule import Mesh, members_among, mesh_entries
from helen.assignments.schedule import Assignments, AssignmentsError, CheckTable, schedule
from helen.cli.assigned_values import show_values, tables_of
from helen.cli.base.client import Client, Failed, Missing
from helen.cli.base.options import for_a_helen, output, plain, print_json

SHOWN = 5  # agents that a warning names


@click.command()
@click.argument("check", required=False)
@click.option(
    "--on", metavar="AGENTS", multiple=True, help="A name, a pattern (web*) or a label (role=web); repeatable."
)
@click.option(
    "--targets",
    metavar="TARGETS",
    multiple=True,
    help="Targets by name or pattern (switch-*) in place of agents; repeatable.",
)
@click.option(
    "--mesh",
    metavar="AGENTS",
    multiple=True,
    help="Agents by name, pattern or label that check each other; repeatable.",
)
@click.option("--every", metavar="DURATION", help="Interval between two runs, such as 1m.")
@click.option("--timeout", metavar="DURATION", help="Longest time that a run may take, such as 10s.")
@click.option("--args", metavar="JSON", help='Arguments of the check, such as {"path": "/srv"}.')
@click.option(
    "--id", "check_id", metavar="ID", help="Id of the entry, if the same check runs more than once on an agent."
)
@click.option("--overlap", type=click.Choice(["skip", "queue", "kill"]), help="If a run is due while one goes on.")
@click.option("--remove", is_flag=True, help="Remove the entries of CHECK (or of --id) instead.")
@click.option("--file", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Replace all by this file.")
@click.option("--explain", metavar="AGENT/CHECK", help="Show where each value of a check on an agent comes from.")
@click.option("--dry-run", is_flag=True, help="Show what would change on which agents, and change nothing.")
@output
@for_a_helen
def assign(
    client: Client, check: str | None, remove: bool, file: Path | None, explain: str | None, dry_run: bool,
    as_json: bool, **given: Any,
) -> None:  # fmt: skip
    """Show the assignments, or add one: CHECK runs on the agents of --on.

    An agent that no entry names runs every check that has an interval of its own.

    Exit status 2: the file would have a fault, or a check doesn't take an argument. 3: there is no entry to remove, or
    no such check to explain.
    """
    if explain is not None:
        show_values(client, explain, as_json)
        return
    if remove and check is None and given["check_id"] is None:
        raise click.UsageError("--remove needs a CHECK, or --id ID")
    current, tag = client.get_tagged("/api/v1/assignments")
    if file is not None:
        text = read_file(file)
    elif remove:
        text = without(current["text"], check, given["check_id"])
    elif check is None:
        print_json(current) if as_json else echo(current["text"] or "# no assignments: every agent runs the defaults")
        return
    else:
        text = current["text"].rstrip("\n") + "\n\n" + entry(check, **given)
    changes = planned(client, current["text"], text)
    for line in warnings_of(changes):
        echo(line, err=True)
    done = client.put("/api/v1/assignments", {"text": text.lstrip("\n"), "dry_run": dry_run}, tag)
    show_done(done, changes, dry_run, as_json)


def planned(client: Client, before: str, text: str) -> list[Change]:
    """Return what another text of assignments.toml would change, by agent. Raises UsageError if it can't be used."""
    try:
        wanted = read(text)
    except AssignmentsError as error:
        raise click.UsageError(str(error)) from error
    tables = tables_of(client.get("/api/v1/checks")["checks"])
    refuse_new_faults(before, wanted, tables)
    return changes_of(before, wanted, tables, client.get("/api/v1/agents")["agents"])


def show_done(done: dict[str, Any], changes: list[Change], dry_run: bool, as_json: bool) -> None:
    """Print the outcome; `done` is the answer of Helen, `{"revision", "unknown_checks", "warnings"}`."""
    if as_json:
        shown = [{"agent": each.agent, "gains": each.gains, "loses": each.loses} for each in changes]
        print_json(done | ({"changes": shown} if dry_run else {}))
    elif dry_run:
        for each in changes:
            signs = [f"+{name}" for name in each.gains] + [f"-{name}" for name in each.loses]
            echo(f"{plain(each.agent)}: {plain(' '.join(signs))}")
        echo("nothing was changed" if changes else "no agent would run other checks; nothing was changed")
    else:
        echo(f"revision {done['revision']} is live")
    for name in done["unknown_checks"]:
        echo(f"warning: no published check is called {plain(name)}: `helen checks` lists them", err=True)
    for warning in done.get("warnings", ()):  # a Helen of an earlier version has none
        echo(f"warning: {plain(warning)}", err=True)


class Change(NamedTuple):
    """Hold the ids of checks that an agent would run in addition, and those that it would run no more."""

    agent: str
    gains: list[str]
    loses: list[str]
    leaves_default: bool


def refuse_new_faults(before: str, wanted: Assignments, tables: dict[str, CheckTable]) -> None:
    """Refuse arguments that a published check doesn't take; those that are in the file already may stay.

    Raises UsageError with a sentence for each.
    """
    try:
        known = set(argument_faults(read(before), tables))
    except AssignmentsError:
        known = set()
    new = [fault for fault in argument_faults(wanted, tables) if fault not in known]
    if new:
        raise click.UsageError("\n".join(new))


def changes_of(
    before: str, wanted: Assignments, tables: dict[str, CheckTable], agents: list[dict[str, Any]]
) -> list[Change]:
    """Return how the checks of each agent would change, for those where they do; hosts without an agent run none."""
    try:
        was = read(before)
    except AssignmentsError:
        return []  # the assignments in force are not those of the file
    leaving, found = set(without_default(before, wanted, agents)), []
    members = functools.cache(lambda mesh: members_among(mesh, agents))
    for agent in agents:
        if agent.get("kind") == "host":
            continue
        old, new = (_ids_of(each, tables, agent, members) for each in (was, wanted))
        if old != new:
            found.append(Change(agent["name"], sorted(new - old), sorted(old - new), agent["name"] in leaving))
    return found


def _ids_of(
    assignments: Assignments, tables: dict[str, CheckTable], agent: dict[str, Any],
    members: Callable[[Mesh], Mapping[str, str]],
) -> set[str]:  # fmt: skip
    name, labels = agent["name"], agent["labels"]
    made = (*schedule(assignments, tables, name, labels), *mesh_entries(assignments, tables, name, labels, members))
    return {each.id for each in made}


def warnings_of(changes: list[Change]) -> list[str]:
    """Return a warning for agents that leave the default set and lose checks by that; nothing else would say so."""
    leaving = [each for each in changes if each.leaves_default and each.loses]
    if not leaving:
        return []
    loses = sorted({name for each in leaving for name in each.loses})
    counted = count(len(loses), "check")
    return [
        f"warning: {plain(few([each.agent for each in leaving]))} had the default set, and will run no more {counted}:"
        f' {plain(few(loses))}. To keep them, put an entry with check = "*" above the others: `helen assign --file`'
    ]


def without_default(before: str, wanted: Assignments, agents: list[dict[str, Any]]) -> list[str]:
    """Return the agents that an entry covers now and none did before; nothing else would say so."""
    try:
        was = read(before)
    except AssignmentsError:
        return []  # the assignments in force are not those of the file
    if not was.default_set:
        return []

    def covered(assignments: Assignments, agent: dict[str, Any]) -> bool:
        return any(entry.covers(agent["name"], agent["labels"]) for entry in assignments.entries)

    return [agent["name"] for agent in agents if covered(wanted, agent) and not covered(was, agent)]


def few(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= SHOWN else f"{', '.join(names[:SHOWN])} and {len(names) - SHOWN} more"


def read_file(path: Path) -> str:
    """Return the text of a file; raises Failed if it can't be read, or is no UTF-8."""
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Failed(f"{path} can't be read: {error}") from error


def read_args(text: str) -> dict[str, Any]:
    """Return the arguments `{NAME: VALUE}` of --args; raises BadParameter if the text is no JSON object."""
    try:
        args = json.loads(text)
    except ValueError as error:
        raise click.BadParameter(f"this is no JSON: {error}", param_hint="--args") from error
    if not isinstance(args, dict):
        raise click.BadParameter('write a JSON object such as {"path": "/"}', param_hint="--args")
    return args


def entry(
    check: str, on: tuple[str, ...], args: str | None, check_id: str | None, targets: tuple[str, ...] = (),
    mesh: tuple[str, ...] = (), **given: str | None,
) -> str:  # fmt: skip
    """Return one [[assign]] as TOML; raises BadParameter if an argument is null, which TOML can't write."""
    fields: dict[str, Any] = {"check": check} | ({"targets": list(targets)} if targets else {})
    fields |= {"mesh": list(mesh)} if mesh else {}
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
        raise click.BadParameter(f"TOML can't write null: {error}", param_hint="--args") from error
    listed = tomlkit.aot()
    listed.append(table)
    document = tomlkit.document()
    document.add("assign", listed)
    return tomlkit.dumps(document)


def without(text: str, check: str | None, check_id: str | None) -> str:
    """Return the file without the entries of a check, or without the one of an id; comments and order are kept.

    Raises Failed if the file is no TOML, and Missing if there is no such entry.
    """
    return parted(text, check, check_id)[0]


def parted(text: str, check: str | None, check_id: str | None) -> tuple[str, str]:
    """Return the file without some entries, and these entries, as TOML both. Raises as `without` does."""
    try:
        document = tomlkit.parse(text)
    except TOMLKitError as error:
        raise Failed(f"assignments.toml is no TOML, mend it first: {error}") from error
    entries, removed = tomlkit.aot(), tomlkit.aot()
    for each in document.get("assign", []):
        stays = (check is not None and each.get("check") != check) or (
            check_id is not None and each.get("id") != check_id
        )
        (entries if stays else removed).append(each)
    if not removed:
        raise Missing(f"there is no entry for {check or check_id}: `helen assign` shows all")
    document["assign"] = entries
    gone = tomlkit.document()
    gone.add("assign", removed)
    return tomlkit.dumps(document), tomlkit.dumps(gone)
