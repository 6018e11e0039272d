"""Write a set into a folder of checks, and take one out. Blocks on files.

The pin is written after the files, and goes after them. After a crash, the same command said once more ends the work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from groundwork.file_lock import FileLock, LockHeld
from helen.library import check_folder
from helen.sets.check_set import CheckSet
from helen.sets.pins import Pin, Pins
from helen.sets.plan import Change
from helen.sets.refused import SetRefused

LOCK = ".sets.lock"
_TESTS, _LIBRARIES, _CHECKS = range(3)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make the folder if there is none, and keep other commands from changing its sets. Raises SetRefused."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / LOCK)
    except LockHeld as error:
        raise SetRefused(f"{error.holder} is changing the sets of {folder} right now") from error
    except OSError as error:
        raise SetRefused(f"{error.filename or folder} can't be written: {error.strerror}") from error
    try:
        yield
    finally:
        lock.release()


def install(found: CheckSet, change: Change, pins: Pins, source: str) -> None:
    """Write the files of a set and pin it: what others need first, so that a watched folder is never half there.

    The pin comes last: after a crash, the folder has the old pin, or none, and some of the files as they are in this
    set, which are noted. Adding this or any other version of it accepts these. Raises SetRefused if a file can't be
    written; that leaves no more than this.
    """
    names = sorted((*change.new, *change.changed), key=_turn)
    try:
        files = {name: found.files[name] for name in names}
        pins.begin(found.name, files)
        check_folder.put(pins.folder, files)
        check_folder.take_away(pins.folder, change.gone)
        after = Pins(pins.folder, {**pins.sets, found.name: Pin.of(found, source)})
        after.write()
        pins.end(found.name)
    except OSError as error:
        with suppress(OSError):  # a note of too much costs nothing
            pins.settle(found.name)
        place = error.filename or pins.folder
        raise SetRefused(f"{place} can't be written: {error.strerror}. Mend that, and add the set once more") from error
    pins.sets = after.sets


def uninstall(name: str, pins: Pins) -> None:
    """Delete the files of a set, and its pin. Raises SetRefused if one can't be deleted; the pin then stays."""
    try:
        names = {*pins.sets[name].files, *pins.left(name)}
        check_folder.take_away(pins.folder, sorted(names, key=_turn, reverse=True))
        del pins.sets[name]
        pins.write()
        pins.end(name)
    except OSError as error:
        raise SetRefused(f"{error.filename or pins.folder} can't be deleted: {error.strerror}") from error


def files_to_push(names: Iterable[str]) -> list[str]:
    """Return the checks and libraries among these files, as a push names them: tests come along by themselves."""
    return sorted(name for name in names if not name.startswith("tests/"))


def _turn(name: str) -> tuple[int, str]:
    place = _TESTS if name.startswith("tests/") else _LIBRARIES if name.startswith("lib/") else _CHECKS
    return place, name
