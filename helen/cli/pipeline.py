"""Implement `helen pipeline`, a process of its own, so that no other command needs the extra for Spark."""

from __future__ import annotations

import os
import sys

import click


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []},
    add_help_option=False,
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def pipeline(words: tuple[str, ...]) -> None:
    """Take results into the lake, and ask it: run, report, sql, compact, verify, rebuild, doctor."""
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", "helen.pipeline", *words])
