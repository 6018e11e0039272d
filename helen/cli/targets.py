"""Implement `helen targets`: things without an agent, and the agents that look at them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from groundwork.counts import all_of, count
from groundwork.terminal import echo
from helen.cli.assign import read_file
from helen.cli.base.client import Client
from helen.cli.base.labels import in_words
from helen.cli.base.options import for_a_helen, output, plain, print_json, table
from helen.targets.declarations import read
from helen.targets.target_fields import ONE, TargetsError


@click.command()
@click.option("--file", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Replace all by this file.")
@click.option("--dry-run", is_flag=True, help="With --file: only check it.")
@output
@for_a_helen
def targets(client: Client, file: Path | None, dry_run: bool, as_json: bool) -> None:
    """List the things without an agent: address, labels, what is looked at, and which agent does so.

    They stand in STATE/targets.toml; --file replaces it. Exit status 2: the file has a fault.
    """
    if file is not None:
        replace(client, read_file(file), dry_run, as_json)
        return
    found = client.get("/api/v1/targets")
    if as_json:
        print_json(found)
        return
    table(["TARGET", "ADDRESS", "LOOKED AT BY", "CHECKS", "LABELS", "VIA"], [_row(each) for each in found["targets"]])
    if not found["targets"]:
        echo("No targets yet. `helen targets --file FILE` brings some.")
    if found["fault"]:
        echo(f"targets.toml is not used: {plain(found['fault'])}", err=True)
    for sentence in found["faults"]:
        echo(plain(sentence), err=True)


def _row(target: dict[str, Any]) -> list[str]:
    return [
        target["name"], target["address"], _looked_at_by(target), ", ".join(target["checks"]) or "none",
        in_words(target["labels"]), ", ".join(target["via"]),
    ]  # fmt: skip


@click.command()
@output
@for_a_helen
def mesh(client: Client, as_json: bool) -> None:
    """Show the agents that check each other (`helen assign CHECK --mesh role=edge`), and who sees whom.

    Each row is an agent, each column one that it looks at, by its number. Exit status 1: somebody sees somebody badly.
    """
    found = client.get("/api/v1/mesh")["meshes"]
    if as_json:
        print_json(found)
    else:
        for each in found:
            _show_mesh(each)
        if not found:
            echo("No meshes yet. `helen assign ping --mesh role=edge` makes one.")
    if any(status not in (None, "ok") for each in found for row in each["seen"] for status in row):
        raise SystemExit(1)


def _show_mesh(found: dict[str, Any]) -> None:
    names, mesh_of = found["agents"], f" ({', '.join(found['mesh'])})" if found["mesh"] else ""
    echo(f"{plain(found['id'])}{plain(mesh_of)}: {count(len(names), 'agent')}")
    if found["left_out"]:
        echo(
            f"{count(found['left_out'], 'more agent')} would be too many for one mesh: give it a narrower pattern",
            err=True,
        )
    numbers = [str(number) for number in range(1, len(names) + 1)]
    rows = [
        [number, name, *("-" if status is None else status for status in row)]
        for number, name, row in zip(numbers, names, found["seen"], strict=True)
    ]
    table(["", "AGENT", *numbers], rows)
    for at, peer in enumerate(names):
        badly = [
            f"{name} ({row[at]})" for name, row in zip(names, found["seen"], strict=True) if row[at] not in (None, "ok")
        ]
        if badly:
            echo(plain(f"{peer} is seen badly by {all_of(badly)}"))
    echo("")


def _looked_at_by(target: dict[str, Any]) -> str:
    runners = ", ".join(target["runners"]) or "nobody yet"
    return runners if target["quorum"] == str(ONE) else f"{runners} ({target['quorum']})"


def replace(client: Client, text: str, dry_run: bool, as_json: bool) -> None:
    """Replace targets.toml by this text. Raises UsageError if it has a fault."""
    try:
        found = read(text)
    except TargetsError as error:
        raise click.UsageError(str(error)) from error
    done = client.put("/api/v1/targets", {"text": text, "dry_run": dry_run})
    if as_json:
        print_json(done)
    else:
        sources = f" and {count(len(found.sources), 'source')}" if found.sources else ""
        unchanged = "; nothing was changed" if dry_run else ""
        echo(f"{count(len(found.targets), 'target')}{sources} in the file{unchanged}")
