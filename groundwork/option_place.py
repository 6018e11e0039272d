"""Tells where an option belongs that stands behind a command's name, and has to stand before it.

Options of a group say which broker is meant, and each command of the group is about that broker. People write them at
the end of the line, where click only says that there is no such option.
"""

from __future__ import annotations

from typing import Any

import click


class OptionsBefore(click.Group):
    """Groups commands whose common options stand before the command's name."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. Raises UsageError with the right order if an option of the group stands behind its name."""
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            option = self._own(error.option_name)
            if option is None or error.ctx is None:
                raise
            words = error.ctx.command_path.partition(" ")[2]
            typed = f"`{ctx.info_name} {error.option_name}{_value(option)} {words}`"
            said = f"{error.option_name} stands before the command: {typed}"
            raise click.UsageError(said, error.ctx) from error

    def _own(self, name: str) -> click.Option | None:
        return next((each for each in self.params if isinstance(each, click.Option) and name in each.opts), None)


def _value(option: click.Option) -> str:
    if option.is_flag:
        return ""
    if option.metavar is None and isinstance(option.type, click.Choice):
        return f" [{'|'.join(map(str, option.type.choices))}]"
    return f" {option.metavar or option.type.name.upper()}"
