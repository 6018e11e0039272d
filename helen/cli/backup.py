"""Implement `helen backup` and `helen restore`: the state of a Helen as one file, and a state made of it.

Both work on the state directory itself, so they need to run on Helen's machine, as its user or as root. A backup may be
made while Helen runs.
"""

from __future__ import annotations

import json
import time
from importlib.metadata import version
from pathlib import Path

import click

from groundwork.counts import count
from groundwork.figures import figure
from groundwork.terminal import echo
from helen.backup.archive import About, BackupFailed
from helen.backup.capture import back_up
from helen.backup.restore import check as check_backup
from helen.backup.restore import restore as restore_state
from helen.cli.base.client import Failed
from helen.cli.base.options import STATE_FOLDER, plain
from helen.cli.downtimes import moment

FILE = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.argument("file", type=FILE)
@click.option("--state", type=STATE_FOLDER, envvar="HELEN_STATE", required=True, help="Helen's state directory.")
@click.option("--history", is_flag=True, help="All results of the state directory, too; without it states and windows.")
@click.option("--checks", type=click.Path(path_type=Path, file_okay=False, exists=True),
              help="The folder of checks, if Helen is stopped and it isn't STATE/checks.")  # fmt: skip
def backup(file: Path, state: Path, history: bool, checks: Path | None) -> None:
    """Copy all that Helen knows into FILE, while it runs or not.

    That is checks, assignments, downtimes, silences, acknowledgements, passive checks, tokens, notification settings,
    agents, certificates and keys. FILE holds private keys: only its owner can read it.

    Exit status 1: it could not be made; then FILE is as it was.
    """
    about = About(time.time(), version("helen-equus"), history)
    try:
        files = back_up(state, file, about, checks or _checks_of(state))
    except (BackupFailed, OSError) as error:
        raise Failed(_sentence(error)) from error
    size = file.stat().st_size
    echo(f"{plain(file)}: {count(files, 'file')}, {figure(size, 'B')}, {'with' if history else 'without'} the history")


@click.command()
@click.argument("file", type=FILE)
@click.option("--state", type=STATE_FOLDER, envvar="HELEN_STATE", help="The directory to make.")
@click.option("--yes", is_flag=True, help="Helen may publish at once, even if agents hold newer checks.")
@click.option("--check", "only_check", is_flag=True, help="Only say whether FILE is whole and could be restored here.")
def restore(file: Path, state: Path | None, yes: bool, only_check: bool) -> None:
    """Make the state directory of the backup FILE, as one whole. The directory must not exist, or be empty.

    The Helen that is started on it publishes no checks before `helen push --yes`, since agents may hold newer ones.

    --check unpacks all of it beside FILE, looks at each file's checksum and at the database, and removes it.

    Exit status 1: it could not be made, then there is no such directory; or with --check, it could not be restored.
    """
    if only_check:
        _check(file)
        return
    if state is None:
        raise click.UsageError("Missing option '--state'.")
    try:
        about = restore_state(file, state, time.time(), yes)
    except (BackupFailed, OSError) as error:
        raise Failed(_sentence(error)) from error
    echo(f"{plain(state)} is as it was on {moment(about.made)}")
    echo(f"start it: twistd -n helen --state {plain(state)}    (--mute: it tells nobody anything, for a look)")
    if not yes:
        echo("it publishes no checks before `helen push --yes`: agents may hold newer ones")


def _check(file: Path) -> None:
    try:
        about, files = check_backup(file, time.time())
    except (BackupFailed, OSError) as error:
        raise Failed(_sentence(error)) from error
    kept = f"{'with' if about.has_history else 'without'} the history"
    made = f"of {moment(about.made)} by Helen {plain(about.version)}"
    echo(f"{plain(file)} is whole: {count(files, 'file')}, {kept}, {made}")


def _checks_of(state: Path) -> Path | None:
    """Return the folder of checks of the Helen that runs on this state; None if it is not known."""
    try:
        run = json.loads((state / "run.json").read_bytes())
        return Path(run["checks"])
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _sentence(error: Exception) -> str:
    if isinstance(error, PermissionError):
        return f"{error.filename} is not yours: run this as the user that Helen runs as, or with sudo"
    if isinstance(error, OSError):
        return f"{error.filename or 'the file'}: {error.strerror}"
    return str(error)
