"""What a command ends with when it can't do what it was asked: a sentence, and the exit status of docs/commands.rst."""

from __future__ import annotations

import click

USAGE, MISSING = 2, 3  # exit statuses: a value that can't be used; not found, or nothing is known of it


class Failed(click.ClickException):
    """A sentence, and exit status 1. `status` is that of Helen's answer, if there was one."""

    status: int | None = None


class Unusable(click.ClickException):
    """A sentence, and exit status 2: Helen says of a value what the command line would say of others."""

    exit_code = USAGE


class Missing(click.ClickException):
    """A sentence, and exit status 3."""

    exit_code = MISSING
