"""Tells damage of an SQLite database from what is wrong with the disk or with one statement."""

from __future__ import annotations

import sqlite3


def code_of(error: BaseException | None) -> int:
    """Return SQLite's extended error code, 0 for what is no error of SQLite, or has none."""
    return getattr(error, "sqlite_errorcode", 0) if isinstance(error, sqlite3.Error) else 0


def is_of_disk(error: BaseException | None) -> bool:
    """Return True if the file can't be opened or written: its disk is full, fails or is read-only, or denies it."""
    of_disk = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)
    return code_of(error) & 0xFF in of_disk


def is_damage(error: BaseException | None) -> bool:
    """Return True if an error says that the database is damaged: also that it is cut off, or that a text is none."""
    code = code_of(error)
    if isinstance(error, sqlite3.OperationalError) and str(error).startswith("Could not decode to UTF-8"):
        return True  # sqlite3's own, without a code
    return code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or code == sqlite3.SQLITE_IOERR_SHORT_READ
