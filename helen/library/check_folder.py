"""Reads and writes the folder of checks, and notices when it changes.

All functions block and belong into a thread. Editors write half a file and rename others into place: nothing is read
until QUIET_SECONDS after the last event, and what is read is compared by content, so that no event has to be believed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from attrs import frozen
from twisted.internet import inotify
from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall
from twisted.internet.threads import deferToThread
from twisted.logger import Logger
from twisted.python.filepath import FilePath

import helen_checks
from equus_protocol.manifest import FILE_NAME, MAX_FILE, MAX_FILES
from groundwork.atomic_write import PUBLIC, write_durably
from helen.files.state_dir import FOLDER

QUIET_SECONDS = 0.2  # after the last change: a save is a handful of them within milliseconds
BUSY_SECONDS = 1.0  # in which a folder that is never quiet is looked at all the same
POLL_SECONDS = 1.0  # a stat of each file, for folders that tell nothing (network file systems): live within 2 s too
MAX_SET = 64 * 1024 * 1024  # bytes of all files: they are kept in memory to be served

_EVENTS = inotify.IN_CLOSE_WRITE | inotify.IN_MOVED_TO | inotify.IN_MOVED_FROM | inotify.IN_DELETE | inotify.IN_CREATE


@frozen
class Reading:
    """Holds the files of the folder by name (`disk.lua`, `lib/x.lua`), and why others were left out."""

    files: dict[str, bytes]
    faults: dict[str, str]


def fill(folder: Path) -> bool:
    """Make the folder with the shipped checks in it, unless it exists; return True if it was made."""
    if folder.exists():
        return False
    fresh = folder.with_name(f".{folder.name}.{os.getpid()}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    ignored = shutil.ignore_patterns("*.py", "__pycache__", "*.rst", "*.json")
    shutil.copytree(helen_checks.FOLDER, fresh, ignore=ignored)
    fresh.rename(folder)
    return True


def read(folder: Path) -> Reading:
    """Read every NAME.lua of the folder and of its lib/, whole. Raises OSError if the folder itself can't be read."""
    files: dict[str, bytes] = {}
    faults: dict[str, str] = {}
    size = 0
    for name in _names(folder):
        content = _read_one(folder, name, faults)
        if content is None:
            continue
        size += len(content)
        if len(files) >= MAX_FILES or size > MAX_SET:
            faults[name] = f"left out: a set holds at most {MAX_FILES} files and {MAX_SET} bytes"
            continue
        files[name] = content
    return Reading(files, faults)


def _names(folder: Path) -> list[str]:
    library = folder / "lib"
    inner = [f"lib/{name}" for name in sorted(os.listdir(library))] if library.is_dir() else []
    outer = sorted(os.listdir(folder))
    return [name for name in outer + inner if name.endswith(".lua") and not Path(name).name.startswith((".", "#"))]


def _read_one(folder: Path, name: str, faults: dict[str, str]) -> bytes | None:
    if not FILE_NAME.fullmatch(name):
        faults[name] = "left out: a check's file is called NAME.lua, of letters, digits, _ - and ."
        return None
    try:
        with open(folder / name, "rb", opener=_open_at_once) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                faults[name] = "left out: it is no regular file"
                return None
            content = file.read(MAX_FILE + 1)
    except OSError as error:
        faults[name] = f"it can't be read: {error.strerror}"
        return None
    if len(content) > MAX_FILE:
        faults[name] = f"left out: more than {MAX_FILE} bytes"
        return None
    return content


def _open_at_once(path: str, flags: int) -> int:
    """Open without waiting: a FIFO called x.lua must not keep the thread waiting for a writer."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def read_tests(folder: Path) -> dict[str, bytes]:
    """Return the tests of the folder, by the file that they test. One that can't be read is left out.

    Raises OSError if its folder of tests can't be listed.
    """
    place = folder / "tests"
    names = sorted(os.listdir(place)) if place.is_dir() else []
    found, size = {}, 0
    for name in [name for name in names if FILE_NAME.fullmatch(name)][:MAX_FILES]:
        content = _read_one(place, name, {})
        if content is not None and size + len(content) <= MAX_SET:
            size += len(content)
            found[name] = content
    return found


def take_away(folder: Path, names: Iterable[str]) -> None:
    """Delete files; one that is there no more is no fault. Raises OSError."""
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            (folder / name).unlink()


def put(folder: Path, files: dict[str, bytes]) -> None:
    """Write each file whole; if one can't be written, those before it are put back. Raises OSError."""
    before: dict[str, bytes | None] = {}
    try:
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            before[name] = path.read_bytes() if path.exists() else None
            write_durably(path, content, PUBLIC)
    except OSError:
        for name, held in before.items():
            with contextlib.suppress(OSError):
                (folder / name).unlink() if held is None else write_durably(folder / name, held, PUBLIC)
        raise


def become(folder: Path, files: Mapping[str, bytes], aside: Path | None) -> None:
    """Make the folder hold these files and no other checks; what was there instead is kept in `aside`.

    Raises OSError if a file can't be written.
    """
    for name in _names(folder):
        path = folder / name
        if FILE_NAME.fullmatch(name) and path.is_file() and not (name in files and _holds(path, files[name])):
            if aside is not None:
                kept = aside / name
                kept.parent.mkdir(mode=FOLDER, parents=True, exist_ok=True)
                write_durably(kept, path.read_bytes(), PUBLIC)
            if name not in files:
                path.unlink()
    put(folder, {name: content for name, content in files.items() if not _holds(folder / name, content)})


def _holds(path: Path, content: bytes) -> bool:
    return path.is_file() and path.read_bytes() == content


Stamp = tuple[tuple[str, int, int, int], ...]


def stamp(folder: Path) -> Stamp:
    """Return a value that differs when a file has changed, without reading any; empty where there is no folder."""
    seen: list[tuple[str, int, int, int]] = []
    for place in (folder, folder / "lib"):
        with contextlib.suppress(OSError), os.scandir(place) as entries:
            seen += [found for entry in entries if entry.name.endswith(".lua") for found in _stamp_of(entry)]
    return tuple(sorted(seen))


def _stamp_of(entry: os.DirEntry[str]) -> Stamp:
    """Return the stamp of one file, or nothing if it can't be examined, such as a link to nothing."""
    try:
        about = entry.stat()
    except OSError:
        return ()
    return ((entry.path, about.st_ino, about.st_size, about.st_mtime_ns),)


class FolderWatch:
    """Calls `changed()` once something has happened in the folder or its lib/ and it has been quiet since.

    inotify makes it prompt; a stamp of all files, taken in a thread every POLL_SECONDS, makes it sure.
    """

    log = Logger()

    def __init__(self, reactor: Any, folder: Path, changed: Callable[[], object]) -> None:
        self._reactor = reactor
        self._folder = folder
        self._changed = changed
        self._stamp: Stamp | None = None
        self._busy_since: float | None = None
        self._soon: Any = None
        self._poll = LoopingCall(self._look)
        self._poll.clock = reactor
        self._notifier: Any = None

    def start(self) -> Deferred[None]:
        """Begin. Read the folder once this has fired: each change after that is told."""
        try:
            self._notifier = inotify.INotify(self._reactor)
            self._notifier.startReading()
        except (OSError, inotify.INotifyError) as error:
            self.log.info("no inotify here, the folder is polled: {error}", error=error)
            self._notifier = None
        self._poll.start(POLL_SECONDS, now=False).addErrback(lambda failure: self.log.failure("the watch", failure))
        return self._look()

    def stop(self) -> None:
        """Watch no longer."""
        if self._poll.running:
            self._poll.stop()
        if self._soon is not None and self._soon.active():
            self._soon.cancel()
        if self._notifier is not None:
            self._notifier.loseConnection()
            self._notifier = None

    def _watch(self) -> None:
        """Watch both folders, again and again: lib/ may be new. One that is watched already stays as it is."""
        for folder in (self._folder, self._folder / "lib") if self._notifier is not None else ():
            with contextlib.suppress(OSError, inotify.INotifyError):
                self._notifier.watch(FilePath(str(folder)), mask=_EVENTS, callbacks=[self._event])

    def _event(self, _watch: Any, _path: FilePath[str], _mask: int) -> None:
        now = self._reactor.seconds()
        if self._busy_since is None:
            self._busy_since = now
        if self._soon is None or not self._soon.active():
            self._soon = self._reactor.callLater(QUIET_SECONDS, self._quiet)
        elif now - self._busy_since < BUSY_SECONDS - QUIET_SECONDS:
            self._soon.reset(QUIET_SECONDS)

    def _quiet(self) -> None:
        self._busy_since = None
        self._changed()

    async def _take_stamp(self) -> None:
        taken = await deferToThread(stamp, self._folder)
        if self._stamp is not None and taken != self._stamp:
            self._event(None, FilePath(str(self._folder)), 0)
        self._stamp = taken

    def _look(self) -> Deferred[None]:
        self._watch()
        return Deferred.fromCoroutine(self._take_stamp())
