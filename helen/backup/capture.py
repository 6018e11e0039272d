"""Copies the state directory of a Helen, which may run meanwhile, into a backup that a Helen can start from.

The order keeps it consistent, as after a crash: first the saved states, then one moment of each database, then the
journal with its write-ahead logs as long as they are at that moment, then segments. So no copy refers to a record of
the journal that the backup lacks. All functions block.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import IO

import pyarrow as pa
from attrs import field, frozen

from helen.backup.archive import About, BackupFailed, BackupWriter
from helen.evaluation import state_snapshot
from helen.files import restored
from helen.journal import lazy_parquet as pq
from helen.journal import segments, snapshot
from helen.journal.disk import Disk
from helen.journal.folder import Folder

DATABASE = "helen.db"
SQLITE = b"SQLite format 3\0"  # the beginning of each database
# What a start makes anew, or what belongs to the running process; journal and history are copied by rules of their own.
PASSING = frozenset(
    ("lock", "run.json", "control.sock", "drained.json", "lint", "journal", "history", restored.NAME,
     state_snapshot.NAME)
)  # fmt: skip


@frozen
class _Segments:
    """Lists the segments to copy, and the sound marks that fit them."""

    marks: bytes | None
    wals: tuple[tuple[str, IO[bytes], int], ...]
    numbers: tuple[tuple[str, int], ...] = field(factory=tuple)  # of (kind, number), the newest first


def back_up(state: Path, target: Path, about: About, checks: Path | None = None) -> int:
    """Write a backup of `state` to the file `target`; return the number of files in it.

    `checks`: the folder of checks, if it is not in the state directory. Raises BackupFailed if there is no state of a
    Helen or the file can't be written, and OSError if a file can't be read.
    """
    state, place = state.absolute(), target.absolute()
    if not (state / DATABASE).is_file():
        raise BackupFailed(f"{state} is no state directory of Helen: it has no {DATABASE}")
    if state.resolve() in place.resolve().parents:
        raise BackupFailed(f"{target} lies in the state directory that it shall hold: give another place")
    try:
        writer = BackupWriter(place, about)
    except OSError as error:
        raise BackupFailed(f"{target} can't be written: {error.strerror}") from error
    try:
        _copy(state, writer, checks, about.has_history)
        return writer.finish()
    except BaseException:
        writer.abandon()
        raise


def _copy(state: Path, writer: BackupWriter, checks: Path | None, has_history: bool) -> None:
    at, states = _states(state)
    with contextlib.ExitStack() as stack:
        databases = [(path, stack.enter_context(_pinned(path))) for path in _databases(state)]
        folder = Folder(state / "journal", state / "history", Disk())
        journal = _journal(folder, stack)
        chosen = _needed(folder, journal, None if has_history else at)
        if states is not None:
            writer.add(state_snapshot.NAME, states)
        for path, database in databases:
            _add_database(writer, path.relative_to(state).as_posix(), database)
        own = state / "checks" if checks is None else checks.absolute()
        for path in _files(state, PASSING | {"checks"}):
            _add_file(writer, path.relative_to(state).as_posix(), path)
        for path in _files(own) if own.is_dir() else ():
            _add_file(writer, f"checks/{path.relative_to(own).as_posix()}", path)
        _add_journal(writer, folder, journal, chosen)


# ------------------------------------------------------------------------------------------------- settings, states


def _states(state: Path) -> tuple[int, bytes | None]:
    """Return the record up to which the saved states go, and their bytes."""
    try:
        states = (state / state_snapshot.NAME).read_bytes()
    except FileNotFoundError:
        return 0, None
    at = state_snapshot.at_of(states)
    return (0, None) if at is None else (at, states)


def _files(folder: Path, passing: Collection[str] = ()) -> Iterator[Path]:
    """Give the files to copy, those of folders in it too: regular ones that neither pass away nor are databases."""
    for entry in sorted(os.scandir(folder), key=lambda each: each.name):
        path = Path(entry.path)
        if entry.name in passing or entry.name.endswith((".tmp", ".sock", "-wal", "-shm")):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _files(path, ("lock", "run.json"))
        elif entry.is_file() and not _is_database(path):
            yield path


def _add_file(writer: BackupWriter, name: str, path: Path) -> None:
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:  # gone meanwhile: it was a passing one
        about = os.fstat(file.fileno())
        writer.add_open(name, file, about.st_size, about.st_mode)


# ------------------------------------------------------------------------------------------------- databases


def _is_database(path: Path) -> bool:
    """Return True if a file begins as SQLite's do, False if it is gone. Raises OSError: a copy as a file would tear."""
    try:
        with open(path, "rb") as file:
            return file.read(len(SQLITE)) == SQLITE
    except FileNotFoundError:
        return False


def _databases(state: Path) -> list[Path]:
    """Return Helen's database and those of its parts, the embedded broker of tasks for one."""
    others = sorted(path for path in state.glob("*/*.db") if path.is_file() and _is_database(path))
    return [state / DATABASE, *others]


@contextlib.contextmanager
def _pinned(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database and hold it at this moment: what is written from now on is not in the copy."""
    try:
        database = sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None, timeout=10.0)
        try:
            database.execute("BEGIN")
            database.execute("SELECT count(*) FROM sqlite_master").fetchone()
            yield database
        finally:
            database.close()
    except sqlite3.Error as error:
        raise BackupFailed(f"{path} can't be copied: {error}") from error


def _add_database(writer: BackupWriter, name: str, database: sqlite3.Connection) -> None:
    """Add the copy of a database, by way of a temporary file beside the backup, which has the room for it."""
    with tempfile.TemporaryDirectory(dir=writer.path.parent, prefix=".helen-backup-") as folder:
        place = Path(folder) / "copy.db"
        with contextlib.closing(sqlite3.connect(place)) as copy:
            database.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")
        with open(place, "rb") as file:
            writer.add_open(name, file, place.stat().st_size)


# ------------------------------------------------------------------------------------------------- the journal


def _journal(folder: Folder, stack: contextlib.ExitStack) -> _Segments:
    """Open all write-ahead logs at this moment.

    The marks come first: later ones would count segments that are not in the copy.
    """
    if not folder.journal.is_dir():
        return _Segments(None, ())
    there = folder.marks.exists() or folder.previous_marks.exists()
    marks = snapshot.encode(snapshot.load(folder).snapshot) if there else None
    wals = []
    for number in folder.wal_numbers():
        path = folder.wal(number)
        with contextlib.suppress(FileNotFoundError):  # sealed meanwhile: it is in a segment, and these come next
            file = stack.enter_context(path.open("rb"))
            wals.append((number, path.name, file, os.fstat(file.fileno()).st_size))
    first = min((number for number, *_ in wals), default=None)
    known = snapshot.decode(marks) if marks is not None else None
    numbers = [
        (kind, number)
        for kind, listed, path_of, sure in (
            ("seg", folder.segment_numbers(), folder.segment, 0 if known is None else known.segment),
            ("chg", folder.change_numbers(), folder.changes, 0 if known is None else known.change),
        )
        for number in reversed(listed)
        if number <= sure or first is None or (segments.wal_of(path_of(number)) or 0) < first
    ]
    return _Segments(marks, tuple((name, file, size) for _, name, file, size in wals), tuple(numbers))


def _needed(folder: Folder, journal: _Segments, at: int | None) -> list[Path]:
    """Return the segments to copy, the newest first: all of them, or those with records above `at`.

    The newest of each kind is always one: without it the marks would name records that no segment begins behind, and
    those that are left out on purpose would look lost.
    """
    chosen, begun, ended = [], set(), set()
    for kind, number in journal.numbers:
        path = folder.segment(number) if kind == "seg" else folder.changes(number)
        if at is not None and kind in begun and (kind in ended or not _has_newer(path, at)):
            ended.add(kind)
        else:
            begun.add(kind)
            chosen.append(path)
    return chosen


def _has_newer(path: Path, at: int) -> bool:
    try:
        return any(value > at for value in pq.read_table(path, columns=["at"])["at"].to_pylist())
    except (OSError, pa.ArrowException):
        return True  # damaged, or gone: it is left to the copy


def _add_journal(writer: BackupWriter, folder: Folder, journal: _Segments, chosen: Sequence[Path]) -> None:
    for name, file, size in journal.wals:
        writer.add_open(f"journal/{name}", file, size)
    if journal.marks is not None:
        writer.add(f"journal/{folder.marks.name}", journal.marks)
    for path in chosen:  # the newest first: retention takes the oldest, and no hole may come of that
        _add_file(writer, f"history/segments/{path.name}", path)
    _add_file(writer, f"history/{folder.series.name}", folder.series)
