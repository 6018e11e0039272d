"""Tests groundwork.duration_option: an option of a command takes durations."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from groundwork.duration_option import DurationOption


@click.command()
@click.option("--time", type=DurationOption(0.5, 3600), default="2s", show_default=True)
def command(time: float) -> None:
    """Print the seconds."""
    click.echo(repr(time))


@pytest.mark.parametrize(
    ("words", "seconds"),
    [([], "2.0"), (["--time", "90"], "90.0"), (["--time", "1 h"], "3600.0"), (["--time", "500ms"], "0.5")],
)
def test_the_command_gets_seconds(words: list[str], seconds: str) -> None:
    """The command gets seconds of a text with a unit or without; a default is read as well."""
    assert CliRunner().invoke(command, words).output == f"{seconds}\n"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("soon", "Invalid value for '--time': 'soon' is not a duration: write 500ms, 30s, 5m, 1h or 2d"),
        ("499ms", "Invalid value for '--time': '499ms' is 0.499 s: 0.5 to 3600 s are allowed"),
        ("61m", "Invalid value for '--time': '61m' is 3660 s: 0.5 to 3600 s are allowed"),
    ],
)
def test_what_is_refused(text: str, sentence: str) -> None:
    """A refusal tells the option and the reason."""
    result = CliRunner().invoke(command, ["--time", text])
    assert (result.exit_code, result.output.splitlines()[-1]) == (2, f"Error: {sentence}")
