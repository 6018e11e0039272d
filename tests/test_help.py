"""Tests the --help of each command of three programs: whole lines, and options that name their values."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from helen.cli.main import main as helen
from scale0.ctl import main as scale0ctl
from zerotask.cli import main as zerotask

WIDTH = 80  # columns of a terminal
PROGRAMS = {"helen": helen, "zerotask": zerotask, "scale0ctl": scale0ctl}
ELSEWHERE = ("helen pipeline",)  # its options are read in a program of its own


def commands(name: str, command: click.Command) -> Iterator[tuple[str, click.Command, click.Context]]:
    """Yield a command and all below it, by the words that call each."""
    context = click.Context(command, info_name=name)
    yield name, command, context
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            below = command.get_command(context, each)
            if below is not None and f"{name} {each}" not in ELSEWHERE:
                yield from commands(f"{name} {each}", below)


def cut_lines(name: str, command: click.Command, context: click.Context) -> list[str]:
    """Return the lines about subcommands that are too long for a terminal."""
    shown = [line for line in command.get_help(context).partition("Commands:")[2].splitlines() if line.endswith("...")]
    return [f"{name}: {line.strip()}" for line in shown]


def nameless_values(name: str, command: click.Command) -> list[str]:
    """Return the options whose value is called TEXT, which says nothing, or that have no help."""
    options = [each for each in command.params if isinstance(each, click.Option)]
    takes_text = [each for each in options if each.type is click.STRING and not each.is_flag and not each.metavar]
    return [f"{name} {each.opts[0]}" for each in options if each in takes_text or not each.help]


@pytest.mark.parametrize("program", PROGRAMS)
def test_no_line_about_a_command_is_cut(program: str) -> None:
    """The first sentence of a command is what a list of commands has room for."""
    assert [cut for each in commands(program, PROGRAMS[program]) for cut in cut_lines(*each)] == []


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_option_names_its_value_and_has_a_help(program: str) -> None:
    """A value is named DURATION, AGENTS, JSON and the like, as docs and errors name it too."""
    assert [
        fault for name, command, _ in commands(program, PROGRAMS[program]) for fault in nameless_values(name, command)
    ] == []


def test_both_faults_are_found() -> None:
    """Both faults are found in a small program of the test's own."""

    @click.group()
    def program() -> None: ...

    @program.command(help="Do something with a sentence that is much too long for the width that a terminal has.")
    @click.option("--value", help="A value.")
    @click.option("--other", metavar="OTHER")
    def do() -> None: ...

    assert cut_lines("x", program, click.Context(program, terminal_width=WIDTH)) != []
    assert nameless_values("x", do) == ["x --value", "x --other"]
