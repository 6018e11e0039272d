"""Command `equus policy`: check a policy file and show what it grants, before an agent uses it."""

from __future__ import annotations

import click
from attrs import asdict

from equus.policy.policy import DEFAULT_PATH, Policy, PolicyError
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


def _load(path: str | None) -> Policy:
    try:
        return Policy.load(path)
    except PolicyError as error:
        echo(f"equus: {error}", err=True)
        raise SystemExit(1) from error
