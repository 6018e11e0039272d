"""Prints for all commands: nothing that reaches a terminal from here is obeyed by it but our own colours."""

from __future__ import annotations

import os
import re
import sys
from typing import Any

import click

from groundwork.safe_screen import SafeScreen
from groundwork.safe_text import json_text, safe_line, safe_text

# Stand for ESC [ and m of our own colours until the rest is made safe: noncharacters, which no text has for itself.
_BEGIN, _END = "\ufdd0", "\ufdd1"
_COLOUR = re.compile(f"{_BEGIN}([0-9;]*){_END}")
_CODES = re.compile(r"\x1b\[([0-9;]*)m")


def echo(text: object = "", err: bool = False, nl: bool = True) -> None:
    """Print a text of one or more lines; what is not printable in it shows as an escape.

    Line ends, tabs and the colours of `styled` stay.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    safe = safe_text(text, "\n\t" + _BEGIN + _END)
    coloured = _COLOUR.sub("\x1b[\\1m", safe)
    click.echo(coloured.replace(_BEGIN, "\\ufdd0").replace(_END, "\\ufdd1"), err=err, nl=nl)


def echo_json(document: Any, indent: int | None = None, **options: Any) -> None:
    """Print a document as JSON: on a terminal in ASCII, elsewhere in UTF-8 without letters that are not printable."""
    click.echo(json_text(document, only_ascii=sys.stdout.isatty(), indent=indent, **options))


class Drawing:
    """Draws the recorded output of another terminal on standard output: sequences that only draw stay as they are."""

    def __init__(self) -> None:
        self._screen = SafeScreen()

    def draw(self, text: str) -> None:
        """Write what may be shown of the next piece, at once."""
        sys.stdout.write(self._screen.feed(text).encode("utf-8", "replace").decode("utf-8"))
        sys.stdout.flush()

    def end(self) -> None:
        """Bring the terminal back to its usual state, if standard output is one."""
        if sys.stdout.isatty():
            sys.stdout.write(SafeScreen.RESET)
            sys.stdout.flush()


def styled(text: object, **style: Any) -> str:
    """Return coloured text for `echo`, unless NO_COLOR is set (no-color.org). `style` is that of click.style."""
    safe = safe_text(text)
    if os.environ.get("NO_COLOR"):
        return safe
    begin = _CODES.sub(f"{_BEGIN}\\1{_END}", click.style("", reset=False, **style))
    return f"{begin}{safe}{_BEGIN}0{_END}"


def complain(program: str, error: object) -> None:
    """Print why a program can't go on, to standard error, behind its name."""
    echo(f"{program}: {safe_line(error)}", err=True)
