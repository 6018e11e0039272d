"""Watches the sources of targets: what each has found last stays in force until it finds something good again.

Files are looked at every POLL_SECONDS, in a thread; name servers are asked when it is time. What was found is kept in
the store, so that a start without a name server, or with a broken file, goes on with the same targets.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread
from twisted.logger import Logger

from helen.files.watched_file import Stamp, stamp_of
from helen.storage import agent_rows
from helen.storage.database import Store, StoreFailed
from helen.targets.sources import MAX_FOUND, Source, SourceFault, targets_of_file, targets_of_records
from helen.targets.srv_lookup import lookup
from helen.targets.target_fields import Target

KEY = "targets.found"  # in kv
POLL_SECONDS = 5.0
MAX_FILES = 100  # of one source
MAX_BYTES = 1024 * 1024  # of one file: it is decoded in a few milliseconds

_Row = tuple[str, str, dict[str, str], int | None, str]  # name, address, labels, port, given
_KEPT = msgspec.json.Decoder(dict[str, list[_Row]])


@define(eq=False)
class Watched:
    """A source, what it has found last, and what is wrong with it now. `files`: each file as it was when good."""

    source: Source
    targets: tuple[Target, ...] = ()
    fault: str = ""
    due: float = 0.0
    is_busy: bool = False
    files: dict[str, tuple[Stamp, list[Target]]] = field(factory=dict)


class SourceWatch:
    """Looks at the sources that are in force; calls `changed()` when other targets are found. `steady`: seconds."""

    log = Logger()

    def __init__(self, reactor: Any, store: Store, steady: Callable[[], float], changed: Callable[[], None]) -> None:
        self._reactor, self._store, self._steady, self._changed = reactor, store, steady, changed
        self._watched: dict[str, Watched] = {}  # by the key of the source

    async def start(self, sources: Iterable[Source], kept: str | None) -> None:
        """Watch these sources, with what they had found before this start; a text that can't be read counts as none."""
        self.take(sources)
        try:
            known = await deferToThread(_from_json, [each.source for each in self._watched.values()], kept or "{}")
        except msgspec.MsgspecError:
            self.log.warn("what sources of targets had found before this start can't be read: they are asked anew")
            return
        for key, targets in known.items():
            if key in self._watched:
                self._watched[key].targets = targets

    def take(self, sources: Iterable[Source]) -> None:
        """Watch these sources from now on; what others have found is forgotten."""
        before, self._watched = self._watched, {}
        for source in sources:
            held = before.get(source.key) or Watched(source)
            if held.source != source:  # what it has found gets other labels, or other agents, with the next look
                held = Watched(source, held.targets)
            self._watched[source.key] = held

    def found(self) -> dict[str, tuple[str, Target]]:
        """Return what all sources have found, by name: the place and the target. The first source of a name counts."""
        found: dict[str, tuple[str, Target]] = {}
        for watched in self._watched.values():
            for target in watched.targets:
                found.setdefault(target.name, (watched.source.place, target))
        return found

    def faults(self) -> list[str]:
        """Return a sentence for each source that is at fault."""
        return [
            f"{each.source.place}: {each.fault}; "
            + ("what it has found before stays" if each.targets else "it has found nothing so far")
            for each in self._watched.values() if each.fault
        ]  # fmt: skip

    def tick(self) -> None:
        """Look at those sources of which it is time. Called once a second."""
        now = self._steady()
        for watched in self._watched.values():
            if not watched.is_busy and watched.due <= now:
                watched.is_busy = True
                watched.due = now + (watched.source.every if watched.source.srv else POLL_SECONDS)
                done = Deferred.fromCoroutine(self._look(watched))
                done.addErrback(lambda failure: self.log.failure("looking at a source of targets", failure))

    async def _look(self, watched: Watched) -> None:
        source, fault = watched.source, ""
        try:
            if source.srv:
                records = await lookup(self._reactor, source)
                found: list[Target] | None = await deferToThread(targets_of_records, source, records)
            else:
                found, fault = await deferToThread(_look_at_files, source, watched.files)
        except SourceFault as error:
            found, fault = None, str(error)
        finally:
            watched.is_busy = False
        if fault and fault != watched.fault:
            self.log.error("{place}: {fault}; its last good targets stay", place=source.place, fault=fault)
        watched.fault = fault
        if self._watched.get(source.key) is watched and found is not None and tuple(found) != watched.targets:
            watched.targets = tuple(found)
            self._changed()
            await self._keep()

    async def _keep(self) -> None:
        """Keep what all have found in the store."""
        found = {key: each.targets for key, each in self._watched.items()}
        text = await deferToThread(_to_json, found)
        try:
            await self._store.call(agent_rows.put, KEY, text)
        except StoreFailed as error:
            self.log.error("what sources of targets have found is not kept: {error}", error=error)


def _to_json(found: Mapping[str, Iterable[Target]]) -> str:
    rows = {key: [_to_row(target) for target in targets] for key, targets in found.items()}
    return msgspec.json.encode(rows).decode()


def _to_row(target: Target) -> _Row:
    return target.name, target.address, dict(target.labels), target.port, target.given


def _from_json(sources: Iterable[Source], text: str) -> dict[str, tuple[Target, ...]]:
    """Return the targets of a text that was kept, by the keys of their sources."""
    rows = _KEPT.decode(text)
    return {source.key: tuple(_from_row(source, row) for row in rows.get(source.key, ())) for source in sources}


def _from_row(source: Source, row: _Row) -> Target:
    name, address, labels, port, given = row
    return Target(name, address, source.via, labels, source.quorum, port, given)


# ------------------------------------------------------------------------------------------------ files, in a thread


def _look_at_files(source: Source, files: dict[str, tuple[Stamp, list[Target]]]) -> tuple[list[Target] | None, str]:
    """Return the targets of all files, and what is wrong with some; None if nothing has changed. Blocks.

    A file with a fault has the targets that it had when it was good; one that has gone has none, unless it is named
    without a wildcard, or its folder has gone, too. Raises SourceFault for too many.
    """
    faults: list[str] = []
    paths = _paths_of(source, files, faults)
    if len(paths) > MAX_FILES:
        raise SourceFault(f"{len(paths):,} files fit; {MAX_FILES} are the most")
    for path in [path for path in files if path not in paths]:
        del files[path]
    for path in paths:
        stamp = stamp_of(Path(path))
        if path not in files or files[path][0] != stamp:
            try:
                files[path] = stamp, targets_of_file(source, _bytes_of(path))
            except SourceFault as error:
                faults.append(f"{path}: {error}")
    found = [target for path in paths if path in files for target in files[path][1]]
    if len(found) > MAX_FOUND:
        raise SourceFault(f"more than {MAX_FOUND:,} targets")
    return (found if files or not faults else None), "; ".join(faults[:3])


def _paths_of(source: Source, files: Mapping[str, Any], faults: list[str]) -> list[str]:
    paths: dict[str, None] = {}
    for pattern in source.files:
        fitting = sorted(glob.glob(pattern))
        if not fitting and (not glob.has_magic(pattern) or not os.path.isdir(os.path.dirname(pattern))):
            faults.append(f"{pattern}: there is no such file")
            fitting = [path for path in files if path == pattern or _is_of(path, pattern)]
        paths |= dict.fromkeys(fitting)
    return list(paths)


def _is_of(path: str, pattern: str) -> bool:
    return os.path.dirname(path) == os.path.dirname(pattern)


def _bytes_of(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise SourceFault(f"it can't be read: {error.strerror}") from error
    if len(raw) > MAX_BYTES:
        raise SourceFault(f"it has more than {MAX_BYTES:,} bytes: make several of it")
    return raw
