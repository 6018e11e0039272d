"""Implement `helen label`, which shows and changes the labels that an operator has given to an agent."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import click

from groundwork.terminal import echo
from helen.cli.base.client import Client
from helen.cli.base.labels import in_words, read_labels
from helen.cli.base.options import for_a_helen, output, plain, print_json


@click.command()
@click.argument("name")
@click.argument("changes", nargs=-1, metavar="[KEY=VALUE | KEY-]...")
@click.option("--dry-run", is_flag=True, help="Show the labels as they would be, and change nothing.")
@output
@for_a_helen
def label(client: Client, name: str, changes: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    """Give the agent NAME labels, or take them: KEY=VALUE sets one, KEY- takes it away. Without changes: show them.

    Labels given so steer checks, routes, rings and questions. Labels that an agent reports itself steer only under keys
    that Helen is told to trust (twistd helen --trust-label KEY).

    Exit status 3: no agent has that name.
    """
    path = f"/api/v1/agents/{quote(name, safe='')}"
    if not changes:
        agent = client.get(path)
        print_json({key: agent[key] for key in ("labels", "given", "claimed")}) if as_json else show(agent)
        return
    done = client.post(f"{path}/labels", read_changes(changes) | {"dry_run": dry_run})
    if as_json:
        print_json(done)
        return
    words = plain(in_words(done["given"])) or "no labels"
    was = plain(in_words(done["before"])) or "no labels"
    echo(f"{plain(name)} {'would have' if dry_run else 'has'} {words} (before: {was})")


def read_changes(changes: tuple[str, ...]) -> dict[str, Any]:
    """Return `{"put": {KEY: VALUE}, "drop": [KEY]}`. Raises UsageError for a change that is none, or two of one key."""
    drop = [change[:-1] for change in changes if change.endswith("-") and "=" not in change]
    put = read_labels(change for change in changes if not (change.endswith("-") and "=" not in change))
    twice = sorted(put.keys() & set(drop))
    if twice or "" in drop:
        raise click.UsageError(f"{twice[0]} is set and taken at once" if twice else "- takes no label: write KEY-")
    return {"put": put, "drop": drop}


def show(agent: dict[str, Any]) -> None:
    """Print the labels of an agent: those that were given, and those that it claims."""
    for line in lines_of(agent):
        echo(line)


def lines_of(agent: dict[str, Any]) -> list[str]:
    """Return a line for the labels that an agent was given, and one for those that it says of itself."""
    claimed = agent["claimed"]
    words = [
        f"{key}={value}" + ("" if agent["labels"].get(key) == value else f" (not trusted: {why_not(agent, key)})")
        for key, value in sorted(claimed.items())
    ]
    return [
        f"labels given: {plain(in_words(agent['given'])) or 'none; `helen label` gives some'}",
        f"labels claimed: {plain(', '.join(words)) or 'none'}",
    ]


def why_not(agent: dict[str, Any], key: str) -> str:
    """Return in a few words why what an agent says of itself under a key doesn't steer."""
    return f"{key}={agent['given'][key]} is given" if key in agent["given"] else "it steers nothing"
