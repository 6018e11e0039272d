"""Keeps in step what all Helens of a network share: documents of Scale0's configuration, signed and versioned.

A *part* (helen/cluster/shared_part.py) owns one kind of them, such as certificates, check sets or assignments.
A value that one Helen decides and the others take (check sets, assignments) is replaced by the newest. One that several
know in part (certificates, revocations, downtimes) is merged, and a Helen that knows more publishes the whole. So it
does not matter which Helen published last, which was away, or which broker forgot. A value in force is on disk here,
and stays in force while no broker can be reached. A Helen that has never met its network publishes nothing before it
has received the network's documents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from attrs import define
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread
from twisted.logger import Logger

from helen.cluster.document_store import DocumentStore
from helen.cluster.document_writes import DocumentWrites
from helen.cluster.network_key import NetworkKey
from helen.cluster.shared_part import NotYet, Part
from scale0.documents.collection import Documents, Refused, name_of, next_version, scope_of
from scale0.documents.publication import Publication
from scale0.endpoint.document_holder import DocumentHolder

SOON, GATHERED = 0.1, 1.0  # seconds in which changes are gathered: what must be known at once, and what may be many
RETRY, LONGEST_RETRY = 1.0, 60.0  # seconds until what could not be adopted is tried again, doubling
AT_ONCE = 65_536  # bytes of a document: half a millisecond; greater ones are read in a thread
FORM = "JSON"

_encoder = msgspec.json.Encoder(order="sorted")


@define
class _Standing:
    """Tells how far one document has come here."""

    trouble: str | None = None
    tries: int = 0
    timer: Any = None  # of the next try
    due: Any = None  # of the next look at whether the network has to be told


class Replication:
    """Adopts and publishes documents. `parts` are in the order in which they build on each other: keys before sets."""

    log = Logger()

    def __init__(
        self,
        reactor: Any,
        key: NetworkKey,
        store: DocumentStore,
        parts: Sequence[Part],
        wall: Callable[[], float],
        joined: Callable[[], None] = lambda: None,
    ) -> None:
        self.key = key
        self.has_joined = False  # the network's documents are known here
        self.refused: dict[str, str] = {}  # documents of ours, or for us, that were not taken, and why
        self._reactor, self._store, self._wall, self._on_joined = reactor, store, wall, joined
        self._parts = {name: part for part in parts for name in part.names}
        self._standing = {name: _Standing() for name in self._parts}
        self._applied: dict[str, int] = {}
        self._writes = DocumentWrites(reactor, store, lambda: self._applied)
        self._values: dict[str, Any] = {}  # of the newest versions, read
        self._waiting: dict[str, None] = {}  # documents that are to be adopted
        self._working: Deferred[None] | None = None
        self._running = False
        self.sharer = DocumentHolder(Documents("", [key.public]), self._heard, self._compared, wall, self._was_refused)

    # ---------------------------------------------------------------------------------------------- beginning, ending

    def open(self) -> None:
        """Load what was in force before this start. Blocks."""
        for publication in self._store.load():
            try:
                self.sharer.documents.take(publication, self._wall())
            except Refused as refused:
                self.log.error("a document of STATE/network is left out: {why}", why=refused)
        self._applied = self._store.load_applied()
        self.has_joined = bool(len(self.sharer.documents))

    def start(self) -> None:
        """Adopt what is not in force yet, and publish what has changed while this Helen was down."""
        self._running = self._writes.is_running = True
        for name, part in self._parts.items():
            held = self.sharer.documents.get(name)
            if held is not None and (part.in_memory or self._applied.get(name) != held.version):
                self._adopt_soon(name)
            elif self.has_joined:
                self.changed(name)

    async def stop(self) -> None:
        """End all timers; a write that is under way is finished."""
        self._running = self._writes.is_running = False
        for standing in self._standing.values():
            for timer in (standing.timer, standing.due):
                if timer is not None and timer.active():
                    timer.cancel()
        for busy in (self._working, self._writes.under_way):
            if busy is not None:
                await _end_of(busy)

    @property
    def troubles(self) -> dict[str, str]:
        """Return, by document, why it is not in force here."""
        found = {name: each.trouble for name, each in self._standing.items() if each.trouble is not None}
        return {**self.refused, **found}

    def overview(self) -> dict[str, Any]:
        """Return the keys `key`, `joined`, `settled`, `documents`, `digest` and `troubles`."""
        held = {name: one.version for name in self._parts if (one := self.sharer.documents.get(name)) is not None}
        settled = self.has_joined and not self._waiting and self._working is None and not self.troubles
        settled = settled and not any(each.due is not None for each in self._standing.values())
        return {
            "key": self.key.public, "joined": self.has_joined, "settled": settled, "documents": held,
            "digest": self.sharer.documents.digest, "troubles": self.troubles,
        }  # fmt: skip

    def value(self, name: str) -> Any:
        """Return the network's value of a document, if it is known and read; None otherwise."""
        return self._values.get(name)

    def in_force(self, name: str) -> int | None:
        """Return the version of a document that is in force here, if that is the network's newest; None otherwise."""
        held = self.sharer.documents.get(name)
        is_ours = held is not None and name not in self._waiting and self._applied.get(name) == held.version
        return self._applied[name] if is_ours else None

    # ---------------------------------------------------------------------------------------------- from the network

    def _heard(self, publication: Publication) -> None:
        name = name_of(publication)
        if name not in self._parts:
            self._writes.soon(publication)  # of a newer Helen: carried, not understood
            return
        self.log.info("the network has {name} {version}", name=name, version=publication.version)
        self._values.pop(name, None)
        self.refused.pop(name, None)
        if self._applied.get(name) == publication.version:
            del self._applied[name]  # our own of the same millisecond, which gives way
        self._writes.soon(publication)
        if self._running:
            self._adopt_soon(name)

    def _compared(self) -> None:
        """Know that the broker has sent every document that it has."""
        if not self.has_joined:
            self.has_joined = True
            self.log.info("this Helen has met its network: {count} documents", count=len(self.sharer.documents))
        self._on_joined()
        for name in self._parts:
            if self.sharer.documents.get(name) is None:
                self.changed(name)

    def _was_refused(self, name: str, why: str) -> None:
        if self.refused.get(name) != why:
            self.refused[name] = why
            self.log.error("the document {name} is not taken by the network: {why}", name=name, why=why)

    def _adopt_soon(self, name: str) -> None:
        self._waiting[name] = None
        if self._working is None:
            self._working = Deferred.fromCoroutine(self._work())
            self._working.addErrback(lambda failure: self.log.failure("adopting what Helens share", failure))
            self._working.addBoth(self._worked)

    def _worked(self, _: Any) -> None:
        self._working = None
        if self._waiting and self._running:
            self._adopt_soon(next(iter(self._waiting)))

    async def _work(self) -> None:
        """Adopt one after the other, in the order of the parts.

        Failures are tried again, after each success at once.
        """
        while self._waiting and self._running:
            name = next(name for name in self._parts if name in self._waiting)
            del self._waiting[name]
            publication = self.sharer.documents.get(name)
            assert publication is not None
            standing = self._standing[name]
            try:
                value = await self._read(name, publication)
                await self._parts[name].adopt(name, value)
            except Exception as error:  # whatever a document holds, the others must go on
                self._failed(name, standing, error)
                continue
            if standing.trouble is not None:
                self.log.info("{name} is in force now", name=name)
            standing.trouble, standing.tries = None, 0
            self._applied[name] = publication.version
            self._writes.soon(None)
            for other, each in self._standing.items():
                if each.trouble is not None and other != name:
                    self._waiting[other] = None  # its failure may have been for lack of this one
            self.changed(name)

    def _failed(self, name: str, standing: _Standing, error: Exception) -> None:
        sentence = str(error) if isinstance(error, NotYet) else f"{type(error).__name__}: {error}"
        if standing.trouble != sentence:
            level = self.log.warn if isinstance(error, NotYet) else self.log.error
            level("{name} is not in force yet: {sentence}", name=name, sentence=sentence)
        standing.trouble = sentence
        standing.tries += 1
        wait = min(LONGEST_RETRY, RETRY * 2.0 ** min(standing.tries - 1, 10))
        if standing.timer is None or not standing.timer.active():
            standing.timer = self._reactor.callLater(wait, self._adopt_soon, name)

    async def _read(self, name: str, publication: Publication) -> Any:
        if name not in self._values:
            raw = publication.document
            read = msgspec.json.decode(raw) if len(raw) <= AT_ONCE else await deferToThread(msgspec.json.decode, raw)
            if self.sharer.documents.get(name) is not publication:
                return read  # a newer one came meanwhile, and is next
            self._values[name] = read
        return self._values[name]

    # ---------------------------------------------------------------------------------------------- to the network

    def changed(self, name: str, within: float = SOON) -> None:
        """Publish a document of a part that has changed here, within so many seconds."""
        standing = self._standing[name]
        if not self._running or not self.has_joined:
            return
        if standing.due is not None and standing.due.getTime() > self._reactor.seconds() + within:
            standing.due.reset(within)
        elif standing.due is None:
            standing.due = self._reactor.callLater(within, self._tell, name)

    def _tell(self, name: str) -> None:
        standing = self._standing[name]
        standing.due = None
        held = self.sharer.documents.get(name)
        if held is not None and self.in_force(name) is None:
            return  # the network's value comes first; `changed` is called again after it
        try:
            value = (
                self._values.get(name) if held is None or name in self._values else msgspec.json.decode(held.document)
            )
            wanted = self._parts[name].wanted(name, value)
            if wanted is not None:
                self._publish(name, wanted, held)
        except Exception:
            self.log.failure("telling the network of {name}", name=name)

    def _publish(self, name: str, value: Mapping[str, Any], held: Publication | None) -> None:
        version = next_version(held.version if held is not None else 0, self._wall())
        new = Publication("", scope_of(name), version, FORM, _encoder.encode(value)).signed(self.key.private)
        try:
            verdict = self.sharer.publish(new)
        except Refused as refused:
            self._was_refused(name, str(refused))
            return
        self.refused.pop(name, None)
        if verdict == "news":
            self.log.info("the network is told of {name} {version}", name=name, version=version)
            self._values[name] = msgspec.json.decode(new.document)
            self._applied[name] = version
            self._writes.soon(new)


async def _end_of(busy: Deferred[None]) -> None:
    done: Deferred[None] = Deferred()
    busy.addBoth(lambda _: done.callback(None))
    await done
