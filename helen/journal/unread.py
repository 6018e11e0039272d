"""Tell a file of the history that could not be read from one that is gone or damaged.

A damaged file is left out, and `helen.journal.verify` reports it. A file that could not be opened, for want of a
descriptor, of a right or because of the disk, may be sound: leaving it out would forget what is in it.
"""

from __future__ import annotations

import os
from pathlib import Path

from groundwork.disk_faults import advice_on
from groundwork.read_errors import Cause, cause_of, number_of
from helen.journal.values import JournalError


class HistoryUnread(JournalError):
    """Says that a file of the history could not be read, whatever it holds, and what to do about it."""

    def __init__(self, path: Path, error: BaseException) -> None:
        number = number_of(error)
        reason = os.strerror(number) if number else error  # Arrow's own text is a line and a half
        advice = advice_on(number, "Helen")
        super().__init__(f"{path} can't be read ({reason}): what it holds is not known. {advice}, then try again.")


def is_of_content(error: BaseException) -> bool:
    """Return True for a file that is gone or damaged, False for one that was not read.

    Arrow's own errors, and those of values, are about what it has read.
    """
    return not isinstance(error, OSError | MemoryError) or cause_of(error) is Cause.CONTENT


def demand_content(path: Path, error: BaseException) -> None:
    """Raise HistoryUnread unless the error of reading this file says that it is gone or damaged."""
    if not is_of_content(error):
        raise HistoryUnread(path, error) from error
