"""Split command lines as a shell would, and refuse those that need one. Pure.

Other systems hand a line to `sh -c`. Equus has no shell: a line becomes a list of arguments if that means the same.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from helen.importing.found import NotUnderstood

MAX_LINE = 32_768
_PLACE = re.compile(r"\{[a-z][a-z0-9_]{0,31}\}")  # what a policy would read as a slot
_UNQUOTED = frozenset("|&;<>()\n$`*?[")  # what a shell acts upon, outside quotes
_AT_BEGIN = frozenset("~#")  # ... and at the begin of a word
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


def split(line: str, programs: str | None = None) -> tuple[str, ...]:
    """Return the arguments of a command line. Raises NotUnderstood if only a shell can run it.

    `programs` is the folder of programs that a line names without one; without it such a line is not understood.
    """
    if len(line) > MAX_LINE:
        raise NotUnderstood(f"its command line has {len(line):,} characters; {MAX_LINE:,} are the most")
    for character in _of_shell(line):
        raise NotUnderstood(f"its command line needs a shell ({character!r}): put it into a script, and name that")
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise NotUnderstood(f"its command line has quotes that don't end: {error}") from error
    return checked(tuple(words), programs)


def checked(argv: tuple[str, ...], programs: str | None = None) -> tuple[str, ...]:
    """Return a command line that a policy can name. Raises NotUnderstood with the reason if none can."""
    while len(argv) > 1 and not argv[-1]:  # a macro without a value in quotes: plugins take it for nothing
        argv = argv[:-1]
    if not argv or not argv[0]:
        raise NotUnderstood("its command line is empty")
    program = argv[0]
    if _ASSIGNMENT.match(program):
        raise NotUnderstood(f"its command line sets the variable {program.partition('=')[0]}: put it into a script")
    if not program.startswith("/"):
        if programs is None or "/" in program:
            raise NotUnderstood(f"its program {program[:80]!r} has no absolute path")
        program = f"{programs.rstrip('/')}/{program}"
    for word in argv:
        if not word.isprintable():
            raise NotUnderstood("an argument holds control characters, which no policy takes")
        if place := _PLACE.search(word):
            raise NotUnderstood(f"an argument holds {place[0]}, which a policy takes for a slot: put it into a script")
        if not word:
            raise NotUnderstood("an argument before others is empty, which no policy takes")
    return (program, *argv[1:])


def _of_shell(line: str) -> Iterator[str]:
    """Give the characters of a line that a shell would act upon, beyond splitting words and quoting."""
    quote, before, escaped = "", " ", False
    for character in line:
        if escaped:
            escaped = False
        elif character == "\\" and quote != "'":
            escaped = True
        elif quote:
            if character == quote:
                quote = ""
            elif quote == '"' and character in "$`":
                yield character
        elif character in "\"'":
            quote = character
        elif character in _UNQUOTED or (character in _AT_BEGIN and before.isspace()):
            yield character
        before = character
