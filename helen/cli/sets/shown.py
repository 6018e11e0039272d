"""Print what a set is and what adding it would do. All of its text was written by others, and is made safe."""

from __future__ import annotations

from pathlib import Path

from equus_protocol.check_api import api_text
from groundwork.counts import count
from groundwork.durations import words_of
from groundwork.terminal import echo
from helen.cli.base.options import plain, table
from helen.sets.check_set import CheckSet
from helen.sets.installing import files_to_push
from helen.sets.pins import Pins, hash_of
from helen.sets.plan import Change
from helen.sets.trial import Trial


def show_plan(found: CheckSet, source: str, pins: Pins, change: Change, trial: Trial) -> None:
    """Print the set, its checks, what they need of hosts, its tests, and the files that would change."""
    before = pins.sets.get(found.name)
    echo(plain(f"{found.name} {found.version}{f' (now {before.version})' if before else ''}: {found.summary}"))
    echo(plain(f"  from {source}, hash {found.digest}"))
    known = "as before" if before is not None and before.key == found.key else "a key that is new here"
    echo(plain(f"  signed by {found.key_id}, {known}; it says that it is of {found.author or 'nobody'}"))
    below = f", below {api_text(found.below)}" if found.below else ""
    echo(f"  for the API of checks from {api_text(found.least)}{below}; {count(trial.tests, 'test')} pass")
    rows = [
        [f"  {name}", _every(each["every"]), ", ".join(each["needs"]), each["summary"]]
        for name, each in trial.tables.items()
    ]
    table(["  CHECK", "EVERY", "NEEDS", "SUMMARY"], rows)
    _show_policy(found, trial)
    for line in trial.warnings:
        echo(plain(line), err=True)
    for mark, names in (("+", change.new), ("~", change.changed)):
        for name in names:
            echo(plain(f"{mark} {name}  {hash_of(found.files[name])[:16]}"))
    for name in change.gone:
        echo(plain(f"- {name}"))


def _every(seconds: float | None) -> str:
    return "if assigned" if seconds is None else f"{words_of(seconds)}, all agents"


def _show_policy(found: CheckSet, trial: Trial) -> None:
    """Print the capabilities that hosts don't grant by default, and the lines of a policy that the author asks for."""
    asked = [need for need in trial.needs if need not in trial.granted]
    if asked:
        echo(plain(f"hosts do not grant by default: {', '.join(asked)}"))
    lines = found.policy.strip("\n").splitlines()
    if lines:
        echo("lines that its author asks for in the policy of hosts; nothing writes them for you:")
    for line in lines:
        echo(f"    {plain(line)}")


def next_step(folder: Path, found: CheckSet, change: Change) -> None:
    """Print how the set reaches agents."""
    files = " ".join(str(folder / name) for name in files_to_push((*change.new, *change.changed)))
    gone = "".join(f" --remove {name}" for name in files_to_push(change.gone))
    echo(plain(f"Added {found.name} {found.version}."))
    if files or gone:
        echo(plain(f"  publish it  helen push {files}{gone}"))
        echo(
            "  `helen push --key FILE` is for a key that lies elsewhere; a declared folder goes out with `helen apply`"
        )
