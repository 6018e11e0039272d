"""Take secrets out of this process's line in the list of processes, where every user of the machine can read them.

    hide_values("--join")        # `equus --join TOKEN` shows as `equus --join xxxxx`

The kernel shows the memory in which the arguments lie, so they are overwritten there. Python has its own copy of them.
Between the start of the process and this call they can be read: a file or the environment is better.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

_ARG_START, _ARG_END = 45, 46  # places of arg_start and arg_end in /proc/self/stat behind the name; see proc(5)
_HIDDEN = b"x"


def hide_values(*options: str) -> None:
    """Overwrite the values of these options in the memory of the arguments; do nothing where there is no /proc."""
    if not any(word.partition("=")[0] in options for word in sys.argv[1:]):
        return
    with suppress(OSError, ValueError, IndexError):
        stat = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        start, end = int(stat[_ARG_START]), int(stat[_ARG_END])
        if not 0 < start < end:
            return
        with open("/proc/self/mem", "r+b", buffering=0) as memory:
            memory.seek(start)
            for at, length in spans(memory.read(end - start), options):
                memory.seek(start + at)
                memory.write(_HIDDEN * length)


def spans(memory: bytes, options: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield place and length of each value of these options in arguments that end with zero bytes; `-` is no value."""
    names = {option.encode() for option in options}
    at, is_value = 0, False
    for word in memory.split(b"\0"):
        name, equals, value = word.partition(b"=")
        if is_value:
            if word not in (b"", b"-"):
                yield at, len(word)
        elif equals and name in names and value not in (b"", b"-"):
            yield at + len(name) + 1, len(value)
        is_value = not is_value and word in names
        at += len(word) + 1


def without_values(words: Sequence[str], *options: str) -> list[str]:
    """Return command line words without these options and their values, to start this program anew."""
    kept: list[str] = []
    is_value = False
    for word in words:
        if is_value:
            is_value = False
        elif word in options:
            is_value = True
        elif word.partition("=")[0] not in options:
            kept.append(word)
    return kept
