"""Tests groundwork.option_place: an option of a group that stands behind a command's name."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from groundwork.option_place import OptionsBefore


@click.group(cls=OptionsBefore)
@click.option("--broker", metavar="ENDPOINT", help="The broker.")
@click.option("--state", type=click.Path(), help="The folder.")
@click.option("--quiet", is_flag=True, help="Say nothing.")
@click.option("--output", type=click.Choice(["text", "json"]), help="What is printed.")
def program(broker: str | None, state: str | None, quiet: bool, output: str | None) -> None:
    """Hold the commands."""


@program.command()
def status() -> None:
    """Print the state."""
    click.echo("active")


@program.group()
def schedule() -> None:
    """Hold commands of schedules."""


@schedule.command("list")
@click.option("--state", help="Only these.")
def listing(state: str | None) -> None:
    """Print schedules."""
    click.echo(str(state))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["status", "--broker", "h"], "--broker stands before the command: `program --broker ENDPOINT status`"),
        (["status", "--state", "d"], "--state stands before the command: `program --state PATH status`"),
        (["schedule", "list", "--quiet"], "--quiet stands before the command: `program --quiet schedule list`"),
        (["status", "--output", "json"], "--output stands before the command: `program --output [text|json] status`"),
        (["status", "--nonesuch"], "No such option '--nonesuch'."),
    ],
)
def test_the_right_order_is_told(words: list[str], sentence: str) -> None:
    """An option that no group has is refused as click refuses it, with exit status 2."""
    done = CliRunner().invoke(program, words, prog_name="program")
    assert (done.exit_code, sentence in done.output) == (2, True), done.output


@pytest.mark.parametrize(
    ("words", "printed"),
    [(["--broker", "h", "status"], "active\n"), (["--state", "d", "schedule", "list", "--state", "x"], "x\n")],
)
def test_options_in_their_place_are_taken(words: list[str], printed: str) -> None:
    """A command may have an option of the same name as its group's."""
    assert CliRunner().invoke(program, words).output == printed
