"""Makes a state directory of a backup, as one whole: it appears complete under its name, or not at all.

The new Helen's events get ids of their own, and STATE/restored.json keeps it from publishing. All functions block.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
from pathlib import Path

from groundwork.atomic_write import PRIVATE, sync_folder
from helen.backup.archive import About, BackupFailed, unpack
from helen.backup.capture import DATABASE
from helen.files import restored
from helen.files.restored import Restored
from helen.files.state_dir import FOLDER, StateError, make_folder
from helen.storage import agent_rows, schema
from helen.storage.agent_rows import AuditEntry

EPOCH = "events.epoch"  # in kv, as helen.wiring has it


def restore(path: Path, state: Path, now: float, may_publish: bool = False) -> About:
    """Make the state directory `state` of the backup `path`, and return what the backup says of itself.

    `now`: unix seconds. `may_publish`: Helen may publish at once, whatever agents hold. Raises BackupFailed if the file
    is no whole backup, or the directory is in use, and OSError if it can't be written.
    """
    state = state.absolute()
    if state.exists() and (not state.is_dir() or any(state.iterdir())):
        raise BackupFailed(
            f"{state} is there already: stop its Helen and move it away first, for example to {state}.old"
        )
    make_folder(state.parent)
    fresh = state.with_name(f".{state.name}.{os.getpid()}.restored")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(mode=FOLDER)
    try:
        about = unpack(path, fresh)
        _prepare(fresh, path, about, now)
        if not may_publish:
            restored.write(fresh, Restored(about.made, now))
        os.sync()  # once for all: a history has 60,000 files
        with contextlib.suppress(FileNotFoundError):
            state.rmdir()
        os.rename(fresh, state)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    sync_folder(state.parent)
    return about


def check(path: Path, now: float) -> tuple[About, int]:
    """Return what a backup says of itself and its number of files, if a state directory could be made of it.

    All of it is unpacked into a folder of its own beside the file, and removed. Raises BackupFailed if it is no whole
    backup, or its database is damaged or of a newer version, and OSError.
    """
    with tempfile.TemporaryDirectory(prefix=".helen-check-", dir=path.absolute().parent) as folder:
        state = Path(folder) / "state"
        state.mkdir(mode=FOLDER)
        about = unpack(path, state)
        _demand_sound(state / DATABASE, path)
        files = sum(each.is_file() for each in state.rglob("*"))
        _prepare(state, path, about, now)
    return about, files


def _demand_sound(database: Path, path: Path) -> None:
    """Raise BackupFailed if SQLite finds the database damaged; one that is missing is told by `_prepare`."""
    if not database.is_file():
        return
    try:
        with contextlib.closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
            [(said,)] = connection.execute("PRAGMA integrity_check(1)").fetchall()
    except sqlite3.Error as error:
        said = str(error)
    if said != "ok":
        raise BackupFailed(f"the database of {path} is damaged: {said}")


def _prepare(state: Path, path: Path, about: About, now: float) -> None:
    """Give events an epoch of their own, and note in the audit that this state was restored.

    Raises BackupFailed if there is no database, or one that this version can't use.
    """
    if not (state / DATABASE).is_file():
        raise BackupFailed(f"{path} has no {DATABASE} in it: it is no whole backup of Helen")
    (state / DATABASE).chmod(PRIVATE)
    for folder in ("journal", "history", "history/segments"):  # for those who look before Helen has started
        (state / folder).mkdir(mode=0o750, exist_ok=True)
    try:
        with contextlib.closing(schema.connect(state / DATABASE)) as database:
            database.execute("DELETE FROM kv WHERE key = ?", (EPOCH,))
            agent_rows.audit(database, AuditEntry(now, "operator", "restore", str(path), "", f"made {about.made:.0f}"))
    except (StateError, sqlite3.Error) as error:
        raise BackupFailed(f"the database of {path} can't be used: {error}") from error
