"""Take durations as options of commands, by the rule of durations.py.

@click.option("--timeout", type=DurationOption(0.1, 3600), default=10.0, help="...")
"""

from __future__ import annotations

from typing import Any

import click

from groundwork.durations import LONGEST, parse_duration


class DurationOption(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic in newer versions of click
    """Reads an option whose value is a duration, such as 30m; the command gets seconds."""

    name = "duration"

    def __init__(self, least: float = 0.0, most: float = LONGEST) -> None:
        """Accept durations from `least` to `most` seconds."""
        self._least, self._most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds of a duration. Raises BadParameter if it is none, or too short or too long."""
        try:
            seconds = parse_duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if not self._least <= seconds <= self._most:
            self.fail(f"{value!r} is {seconds:g} s: {self._least:g} to {self._most:g} s are allowed", param, ctx)
        return seconds
