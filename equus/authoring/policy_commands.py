"""Check a policy file, show what it grants, and propose one for a folder of plugins: `equus policy`."""

from __future__ import annotations

from pathlib import Path

import click
from attrs import asdict

from equus.authoring.plugin_folder import FolderError, proposals
from equus.policy.policy import DEFAULT_PATH, Policy, PolicyError
from groundwork.counts import count
from groundwork.terminal import echo, echo_json


@click.group()
def policy() -> None:
    """Show or check the host's policy."""


@policy.command()
@click.option("--policy", "path", metavar="FILE", help=f"The file; default {DEFAULT_PATH}, else the built-in one.")
def check(path: str | None) -> None:
    """Say whether the policy can be used; exit status 1 if not."""
    loaded = _load(path)
    echo(f"{loaded.path or 'the built-in policy'} is good; digest {loaded.digest}")


@policy.command()
@click.option("--policy", "path", metavar="FILE", help=f"The file; default {DEFAULT_PATH}, else the built-in one.")
def show(path: str | None) -> None:
    """Print what is granted, defaults included, as JSON."""
    loaded = _load(path)
    echo_json({**asdict(loaded), "digest": loaded.digest}, indent=2, default=str)


@policy.command()
@click.argument("folder", type=click.Path(path_type=Path))
def plugins(folder: Path) -> None:
    """Propose lines of a policy for the plugins of FOLDER. Debian's are in /usr/lib/nagios/plugins.

    Each program is run with --help, as the user that plugins run as. The options that its usage demands become slots
    with types; read them, narrow them, and put those that you want into the policy.
    """
    try:
        text, proposed, others = proposals(folder)
    except FolderError as error:
        echo(f"equus: {error}", err=True)
        raise SystemExit(1) from error
    echo(text)
    echo(f"equus: {count(proposed, 'plugin')} proposed, {count(others, 'other program')}", err=True)


def _load(path: str | None) -> Policy:
    try:
        return Policy.load(path)
    except PolicyError as error:
        echo(f"equus: {error}", err=True)
        raise SystemExit(1) from error
