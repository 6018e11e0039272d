"""Watches the sources of targets: what each has found last stays in force until it finds something good again.

Files are looked at every POLL_SECONDS, in a thread; name servers are asked when it is time. The targets found are kept
in the store, so that a start without a name server, or with a broken file, goes on with the same ones.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, unquote_to_bytes

import msgspec
from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread
from twisted.logger import Logger

from groundwork.counts import count
from helen.storage import agent_rows
from helen.storage.database import Store, StoreFailed
from helen.targets.source_files import Found, Read, found_of, look_at_files, said_of_names, unread
from helen.targets.sources import Source, SourceFault, targets_of_records
from helen.targets.srv_lookup import lookup
from helen.targets.target_fields import Target
from helen.targets.target_groups import NAMES_A_STEP, slices

KEY = "targets.found"  # in kv
POLL_SECONDS = 5.0

_Row = tuple[str, str, dict[str, str], int | None, str]  # name, address, labels, port, given
_KEPT = msgspec.json.Decoder(dict[str, dict[str, list[_Row]] | list[_Row]])  # a list: by a Helen before files had one


@define(eq=False)
class Watched:
    """Holds a source, the targets that it found last, and its present fault. `files`: each file as it was when good."""

    source: Source
    found: Found = field(factory=dict)
    fault: str = ""
    names: str = ""  # a sentence about targets with the name of another one of this source
    taken: str = ""  # ... of an earlier source
    due: float = 0.0
    is_busy: bool = False
    files: Mapping[str, Read] = field(factory=dict)

    @property
    def targets(self) -> Iterator[Target]:
        """Yield what is in force, in the order of the files."""
        return (target for targets in self.found.values() for target in targets)

    @property
    def number(self) -> int:
        """Return how many targets are in force."""
        return sum(map(len, self.found.values()))


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
        for key, found in known.items():
            if key in self._watched:
                self._watched[key].found, self._watched[key].files = found, unread(found)

    def take(self, sources: Iterable[Source]) -> None:
        """Watch these sources from now on; what others have found is forgotten."""
        before, self._watched = self._watched, {}
        for source in sources:
            held = before.get(source.key) or Watched(source)
            if held.source != source:  # what it has found gets other labels, or other agents, with the next look
                held = Watched(source, held.found, files=unread(held.found))
            self._watched[source.key] = held

    def found(self) -> dict[str, tuple[str, Target]]:
        """Return what all sources have found, by name: the place and the target. The first source of a name counts.

        A later one that means something else by the name is told, in the log and by `faults`.
        """
        found: dict[str, tuple[str, Target]] = {}
        for _ in self.steps(found):
            pass
        return found

    def steps(self, found: dict[str, tuple[str, Target]]) -> Iterator[None]:
        """Put into `found` what it returns, NAMES_A_STEP targets at a step: each source may have 10,000."""
        for watched in list(self._watched.values()):
            own, left_out = set[str](), dict[str, str]()
            for targets in slices(list(watched.targets)):
                for target in targets:
                    self._take_one(watched.source.place, target, found, own, left_out)
                yield
            said = _said_of_taken(left_out)
            if said and said != watched.taken:
                self.log.warn("{place}: {said}", place=watched.source.place, said=said)
            watched.taken = said

    @staticmethod
    def _take_one(
        place: str, target: Target, found: dict[str, tuple[str, Target]], own: set[str], left_out: dict[str, str]
    ) -> None:
        """Take a target, unless an earlier source has its name; `own` are the names that its source has given."""
        first = found.get(target.name)
        if first is None:
            found[target.name] = place, target
            own.add(target.name)
        elif target.name not in own and first[1].where != target.where:
            left_out.setdefault(target.name, first[0])

    @property
    def most_steps(self) -> int:
        """Return how many steps `steps` has at the most, as it is now."""
        return sum(1 + len(each.found) + each.number // NAMES_A_STEP for each in self._watched.values())

    def faults(self) -> list[str]:
        """Return a sentence for each source that is at fault, and for each with several targets of one name."""
        return [said for each in self._watched.values() for said in _said_of(each)]

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
        found: Found | None = None
        try:
            if source.srv:
                records = await lookup(self._reactor, source)
                found = {"": tuple(await deferToThread(targets_of_records, source, records))}
            else:
                watched.files, fault = await deferToThread(look_at_files, source, watched.files)
                found = found_of(watched.files)
            names = await deferToThread(said_of_names, found)
            if names and names != watched.names:
                self.log.warn("{place}: {names}", place=source.place, names=names)
            watched.names = names
        except SourceFault as error:
            found, fault = None, str(error)
        finally:
            watched.is_busy = False
        if fault and fault != watched.fault:
            self.log.error("{place}: {fault}; its last good targets stay", place=source.place, fault=fault)
        watched.fault = fault
        if (
            self._watched.get(source.key) is watched
            and found is not None
            and [*found.items()] != [*watched.found.items()]
        ):
            watched.found = found
            self._changed()
            await self._keep()

    async def _keep(self) -> None:
        """Keep what all have found in the store."""
        found = {key: each.found for key, each in self._watched.items()}
        text = await deferToThread(_to_json, found)
        try:
            await self._store.call(agent_rows.put, KEY, text)
        except StoreFailed as error:
            self.log.error("what sources of targets have found is not kept: {error}", error=error)


def _said_of(watched: Watched) -> Iterator[str]:
    place = watched.source.place
    if watched.fault:
        kept = "what it has found before stays" if any(watched.targets) else "it has found nothing so far"
        yield f"{place}: {watched.fault}; {kept}"
    yield from (f"{place}: {said}" for said in (watched.names, watched.taken) if said)


def _said_of_taken(left_out: Mapping[str, str]) -> str:
    """Return a sentence about targets that are left out: another source has their names, and means other things."""
    if not left_out:
        return ""
    name, first = next(iter(left_out.items()))
    more = f", and so have {count(len(left_out) - 1, 'further one')}" if len(left_out) > 1 else ""
    return f"{name} is left out, since another target of {first} has that name{more}"


def _to_json(found: Mapping[str, Found]) -> str:
    rows = {
        key: {quote(os.fsencode(path)): [_to_row(target) for target in targets] for path, targets in files.items()}
        for key, files in found.items()
    }  # a name of a file is of any bytes
    return msgspec.json.encode(rows).decode()


def _to_row(target: Target) -> _Row:
    return target.name, target.address, dict(target.labels), target.port, target.given


def _from_json(sources: Iterable[Source], text: str) -> dict[str, Found]:
    """Return the targets of a text that was kept, by the keys of their sources."""
    kept = _KEPT.decode(text)
    return {source.key: _found_in(source, kept[source.key]) for source in sources if source.key in kept}


def _found_in(source: Source, kept: dict[str, list[_Row]] | list[_Row]) -> Found:
    files = {"": kept} if isinstance(kept, list) else kept
    return {
        os.fsdecode(unquote_to_bytes(path)): tuple(_from_row(source, row) for row in rows)
        for path, rows in files.items()
    }


def _from_row(source: Source, row: _Row) -> Target:
    name, address, labels, port, given = row
    return Target(name, address, source.via, labels, source.quorum, port, given)
