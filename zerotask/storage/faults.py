"""Says in a sentence what an error of SQLite means for the store, and what to do."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from attrs import frozen

from groundwork.counts import count
from groundwork.sqlite_errors import code_of, is_damage

_MEANING = {
    sqlite3.SQLITE_FULL: "the disk is full: make room on the broker's disk",
    sqlite3.SQLITE_READONLY: "the store is read-only: look at the owner and mode of its files, and how it is mounted",
    sqlite3.SQLITE_PERM: "the store may not be written: look at the owner and mode of its files",
    sqlite3.SQLITE_AUTH: "the store may not be used: look at the owner and mode of its files",
    sqlite3.SQLITE_CANTOPEN: "the store cannot be opened: look at its folder, and at the limit of open files",
    sqlite3.SQLITE_IOERR: "the disk fails: look at the kernel's log, and move the folder to a sound disk",
    sqlite3.SQLITE_BUSY: "another program holds the database: end it",
    sqlite3.SQLITE_LOCKED: "another program holds the database: end it",
    sqlite3.SQLITE_NOMEM: "the broker's memory is exhausted: give it more",
    sqlite3.SQLITE_NOLFS: "the filesystem takes no file of this size: move the folder to another one",
    sqlite3.SQLITE_TOOBIG: "a part of the call is too big for the store: send less",
    sqlite3.SQLITE_CORRUPT: "the database is damaged",
    sqlite3.SQLITE_NOTADB: "the database is damaged",
}
_OF_ONE_CALL = (sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH)


class BodyMissing(sqlite3.DatabaseError):
    """Tells that a task has lost its params or its outcome, which lie in another table: damage as well."""

    sqlite_errorcode = sqlite3.SQLITE_CORRUPT


@frozen
class Damage:
    """Tells of a repair: the ids that were lost with their rows, if others may be, and where the old file lies."""

    lost: tuple[str, ...]
    uncertain: bool
    kept: Path

    def __str__(self) -> str:
        told = "no task is lost"
        if self.lost:
            told = f"{count(len(self.lost), 'task is', 'tasks are')} lost"
            told += ": `zerotask damaged` lists what to submit again"
        if self.uncertain:
            told += "; others, schedules or policies may be lost, too"
        return f"the database was damaged and was made anew; {told}. The old file is kept: {self.kept}; check the disk"


def lost_before(lost: int) -> str | None:
    """Return the sentence about tasks that are on record as lost, None if there are none."""
    if not lost:
        return None
    tasks = count(lost, "task was", "tasks were")
    where = "`zerotask --state DIR damaged`"
    return f"{tasks} lost with a damaged database: {where} lists them, with `--forget` at its end it takes them off"


def is_of_one_call(error: sqlite3.Error) -> bool:
    """Return True if an error says nothing of the disk: the call itself asks for what cannot be stored."""
    return code_of(error) & 0xFF in _OF_ONE_CALL


def sentence(error: BaseException) -> str:
    """Return what an error of the store means, and what to do; SQLite's own words stand behind it."""
    meaning = _MEANING.get(code_of(error) & 0xFF, "the store failed: look at the disk of the broker's folder")
    if is_damage(error):
        meaning = _MEANING[sqlite3.SQLITE_CORRUPT]
    return f"{meaning} ({error})"
