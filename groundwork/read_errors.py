"""Tell why a file could not be read: for what is in it, for its disk or its rights, or for a lack that is not its own.

A file that is cut or corrupt may be set aside, or left out. One that could not be opened because this process had no
descriptor or no memory left is sound for all that is known, and the next try may read it. So all readers of the history
ask here, those of errors that Java or Rust put into words included: these have a text and no number.
"""

from __future__ import annotations

import errno
import re
from enum import Enum

from groundwork.disk_faults import NO_DESCRIPTOR, REFUSED, UNUSABLE, advice_on


class Cause(Enum):
    """Names why a file could not be read."""

    CONTENT = "it is gone, cut or corrupt"
    DISK = "its disk fails, or the server of its file system"
    REFUSED = "its rights, or those of a folder above it, forbid it"
    SCARCE = "this process or machine lacks descriptors or memory"
    OTHER = "it is not known, and may be over with the next try"


# Causes that belong to the file: it may be set aside when they stay. A lack of means never says anything about it.
OF_FILE = frozenset({Cause.CONTENT, Cause.DISK, Cause.REFUSED})
SCARCE = NO_DESCRIPTOR | {errno.ENOMEM}
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR})
_TEXTS = {
    errno.EMFILE: r"Too many open files",
    errno.ENFILE: r"Too many open files in system",
    errno.ENOMEM: r"Cannot allocate memory|java\.lang\.OutOfMemoryError|unable to create native thread",
    errno.EIO: r"Input/output error",
    errno.ESTALE: r"Stale file handle",
    errno.EUCLEAN: r"Structure needs cleaning",
    errno.EACCES: r"Permission denied",
}
_PATH = re.compile(r"'/[^']*'")  # that errors name: a folder may be called as an error is
_NUMBERED = r"\b(?:os error|errno) {}\b"  # as Rust and Arrow write it
_SAID = {number: re.compile(f"{text}|{_NUMBERED.format(number)}") for number, text in reversed(_TEXTS.items())}


def number_of(error: BaseException) -> int:
    """Return the errno that an error has, or that its text tells; 0 if there is none."""
    if isinstance(error, MemoryError):
        return errno.ENOMEM
    number = getattr(error, "errno", None)
    if isinstance(number, int):
        return number
    text = _PATH.sub("", str(error))
    found = [number for number, said in _SAID.items() if said.search(text)]
    lacks = [number for number in found if number in SCARCE]  # first: what fails behind a lack is its consequence
    return (lacks or found or [0])[0]


def cause_of(error: BaseException) -> Cause:
    """Return why a file could not be read. An OSError without a number is Arrow's for content that it can't decode."""
    number = number_of(error)
    for cause, numbers in (
        (Cause.SCARCE, SCARCE), (Cause.CONTENT, _GONE), (Cause.REFUSED, REFUSED), (Cause.DISK, UNUSABLE),
    ):  # fmt: skip
        if number in numbers:
            return cause
    if number:
        return Cause.OTHER
    return Cause.CONTENT if isinstance(error, OSError) else Cause.OTHER


def advice_for(error: BaseException, program: str) -> str:
    """Return a sentence on what to do about an error of reading, empty where nothing is known about it."""
    number = number_of(error)
    return f"{advice_on(number, program)}." if number in SCARCE | REFUSED | UNUSABLE else ""
