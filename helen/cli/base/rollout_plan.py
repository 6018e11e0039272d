"""Reads --rings, --canary and --gate, the options of a push that say how it goes to the agents."""

from __future__ import annotations

from typing import Any

import click

from helen.rollout.gate_limits import read_limits
from helen.rollout.rings import read_fraction, read_rings


def read_plan(rings: str | None, canary: str | None, gates: tuple[str, ...]) -> dict[str, Any]:
    """Return the options for the API, `{"rings", "canary", "gates"}`, each only if it was given.

    Raises UsageError or BadParameter for a value that can't be used, before anything is sent.
    """
    if rings is not None and canary is not None:
        raise click.UsageError("--canary is short for --rings: give one of them")
    said: dict[str, Any] = {}
    try:
        if rings is not None:
            read_rings(rings)
            said["rings"] = rings
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--rings") from error
    try:
        if canary is not None:
            read_fraction(canary)
            said["canary"] = canary
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--canary") from error
    named = dict(gate.partition("=")[::2] for gate in gates)
    try:
        read_limits(named)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--gate") from error
    return said | ({"gates": named} if named else {})
