"""Define the errors that end a command: each is a sentence, and an exit status of docs/commands.rst."""

from __future__ import annotations

import click

from groundwork.safe_text import safe_text

USAGE, MISSING = 2, 3  # exit statuses: a value that can't be used; not found, or nothing is known of it


class _Safe(click.ClickException):
    """Show a sentence of Helen's, in which agents may have chosen words."""

    def format_message(self) -> str:
        """Return the sentence as safe to print."""
        return safe_text(self.message)


class Failed(_Safe):
    """End the command with a sentence and exit status 1.

    `status` is the HTTP status of Helen's answer, if any, and `title` names the kind of its problem; an answer that is
    none of Helen's has no title. `is_unanswered` says that a connection stood, and the request got no answer: it may be
    this very request that breaks connections.
    """

    status: int | None = None
    title: str = ""
    is_unanswered: bool = False


class Unusable(_Safe):
    """End the command with a sentence and exit status 2: Helen can't use a value of the command line."""

    exit_code = USAGE


class Missing(_Safe):
    """End the command with a sentence and exit status 3: Helen knows no such thing."""

    exit_code = MISSING
