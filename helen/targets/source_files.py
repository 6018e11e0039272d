"""Reads the files of a source of targets: what each has, and what is wrong with some. It blocks: for a thread.

A file with a fault has the targets that it had when it was good; one that has gone has none, unless it is named without
a wildcard, or its folder has gone, too.
"""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from attrs import evolve, frozen

from helen.files.watched_file import Stamp, stamp_of
from helen.targets.sources import MAX_FOUND, Source, SourceFault, targets_of_file
from helen.targets.target_fields import Target

MAX_FILES = 100  # of one source
MAX_BYTES = 1024 * 1024  # of one file: it is decoded in a few milliseconds

Found = Mapping[str, tuple[Target, ...]]  # by the path of the file; of SRV records under an empty text


@frozen
class Read:
    """Holds the targets of a source's file when it was good, and its stamp then; an empty stamp has the file read
    again.
    """

    stamp: Stamp | tuple[()]
    targets: tuple[Target, ...]


def unread(found: Found) -> dict[str, Read]:
    """Return what files had before this start, or before their source was changed: each is read with the next look."""
    return {path: Read((), targets) for path, targets in found.items()}


def look_at_files(source: Source, known: Mapping[str, Read]) -> tuple[dict[str, Read], str]:
    """Return what each file has, in the order of the source, and what is wrong with some. `known`: of the last look.

    Raises SourceFault for too many files.
    """
    faults: list[str] = []
    paths = _paths_of(source, known, faults)
    if len(paths) > MAX_FILES:
        raise SourceFault(f"{len(paths):,} files fit; {MAX_FILES} are the most")
    files: dict[str, Read] = {}
    for path in paths:
        try:
            files[path] = _read(source, path, known.get(path))
        except SourceFault as error:
            faults.append(f"{os.fsencode(path).decode(errors='replace')}: {error}")
            if path in known:
                files[path] = _as_now(source, known[path])
    if faults and (not files or "" in known):  # nothing can be read, or it is not known which file had what: all stays
        files = {path: _as_now(source, each) for path, each in known.items()}
    return files, "; ".join(faults[:3])


def found_of(files: Mapping[str, Read]) -> Found:
    """Return the targets of all files. Raises SourceFault for too many."""
    if sum(len(each.targets) for each in files.values()) > MAX_FOUND:
        raise SourceFault(f"more than {MAX_FOUND:,} targets")
    return {path: each.targets for path, each in files.items()}


def said_of_names(found: Found) -> str:
    """Return a sentence about targets that are left out, as another one of the source has their name; else nothing."""
    first: dict[str, Target] = {}
    left_out = [each for targets in found.values() for each in targets if first.setdefault(each.name, each) != each]
    if not left_out:
        return ""
    names = sorted({each.name for each in left_out})
    of = f"the name {names[0]}" if len(names) == 1 else f"{len(names):,} names such as {names[0]}"
    return f"several of its targets have {of}: the first of each counts, {len(left_out):,} more are left out"


def _read(source: Source, path: str, known: Read | None) -> Read:
    stamp = stamp_of(Path(path))
    if known is not None and known.stamp == stamp:
        return known
    return Read(stamp, tuple(targets_of_file(source, _bytes_of(path))))


def _as_now(source: Source, known: Read) -> Read:
    """Return what a file had with the agents that its source names now; its labels wait for the next good reading."""
    if all(each.via == source.via and each.quorum == source.quorum for each in known.targets):
        return known
    return evolve(known, targets=tuple(evolve(each, via=source.via, quorum=source.quorum) for each in known.targets))


def _paths_of(source: Source, known: Iterable[str], faults: list[str]) -> list[str]:
    paths: dict[str, None] = {}
    for pattern in source.files:
        fitting = sorted(glob.glob(pattern))
        if not fitting and (not glob.has_magic(pattern) or not os.path.isdir(os.path.dirname(pattern))):
            faults.append(f"{pattern}: there is no such file")
            fitting = [path for path in known if path == pattern or _is_of(path, pattern)]
        paths |= dict.fromkeys(fitting)
    return list(paths)


def _is_of(path: str, pattern: str) -> bool:
    return os.path.dirname(path) == os.path.dirname(pattern)


def _bytes_of(path: str) -> bytes:
    """Return the content of a file; a pipe, for one, is refused without a wait for a writer."""
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise SourceFault("it is no regular file, but a pipe, a socket or a device")
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise SourceFault(f"it can't be read: {error.strerror}") from error
    if len(raw) > MAX_BYTES:
        raise SourceFault(f"it has more than {MAX_BYTES:,} bytes: make several of it")
    return raw
