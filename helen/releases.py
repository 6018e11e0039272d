"""The versions of the set of checks: what agents are offered, the first ring of a push, and the way back.

Each release signs two manifests: N with the new files, and N+1 with those that were promoted last, kept until somebody
undoes; the next one is N+2. Whatever decides what agents are offered is in the store, in one transaction, before any
of them hears of it: after a restart an open ring is open, and what was undone stays so. It judges no files: that is
helen.library's, whose lock also keeps these coroutines from overlapping.
"""

from __future__ import annotations

import json
import sqlite3
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attrs import evolve, frozen
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from twisted.logger import Logger

from equus_protocol import manifest
from equus_protocol.manifest import FileEntry, ManifestDocument
from helen import publications, records
from helen.policy import CheckTable
from helen.publications import Rollout, SignedManifest
from helen.rollout import Ring
from helen.store import Loaded, Store
from helen.verdicts import Files, fingerprint

LIFE_SECONDS = 30 * 86_400.0  # of a manifest; at half of it a new one is due
KEPT_VERSIONS = 20  # older ones, and files that only they name, are let go
SERVED_SETS = 4  # whose files are in memory: an agent may still fetch what the manifest before the newest names
_UNDONE = "library.undone"  # what the folder holds and was taken back: not to be published again by a restart
_CURRENT = "library.current"  # the version that all agents run, but for the members of an open ring


class PushRefused(Exception):
    """A push that can't be; the text says why and what to do."""


@frozen
class Published:
    """A set that agents are offered."""

    envelope: bytes
    document: ManifestDocument
    tables: dict[str, CheckTable]

    @property
    def version(self) -> int:
        return self.document.version

    @property
    def digest(self) -> str:
        return self.document.digest

    @property
    def files(self) -> dict[str, FileEntry]:
        return self.document.files


@frozen
class Pair:
    """The bytes to sign: version N, and N+1 that undoes it."""

    new: bytes
    undo: bytes
    version: int


def all_files(document: ManifestDocument) -> dict[str, FileEntry]:
    """Whatever agents may fetch of a set: its checks, and the wheels of an Equus, as `agent/NAME`."""
    wheels = document.agent["files"] if document.agent is not None else {}
    return document.files | {f"agent/{name}": FileEntry(e["sha256"], e["size"]) for name, e in wheels.items()}


class Releases:
    """`tables_of(files)` gives the tables of a set's checks; `on_published()` is called once agents may be told."""

    log = Logger()

    def __init__(
        self,
        store: Store,
        clock: Callable[[], float],
        steady: Callable[[], float],
        tables_of: Callable[[Files], dict[str, CheckTable]],
        on_published: Callable[[], None],
    ) -> None:
        self.published: Published | None = None
        self.canary: Published | None = None  # the set that the members of `ring` run before all others
        self.ring: Ring | None = None
        self.last_ring: Ring | None = None  # how the one before went
        self.undone: str | None = None  # the fingerprint of the set that was taken back last
        self._undo: bytes | None = None
        self._next_version = 1
        self._contents: dict[str, bytes] = {}
        self._served: deque[Mapping[str, FileEntry]] = deque(maxlen=SERVED_SETS)
        self._store = store
        self._clock = clock
        self._steady = steady
        self._tables_of = tables_of
        self._on_published = on_published

    # ---------------------------------------------------------------------------------------------- what agents ask

    @property
    def newest(self) -> Published | None:
        """What the folder is compared with."""
        return self.canary or self.published

    def offered(self, agent: str) -> Published | None:
        """The set that this agent shall run; None while nothing is published yet."""
        return self.canary if self.ring is not None and agent in self.ring.members else self.published

    def file(self, sha256: str) -> bytes | None:
        """A file that a set of the last few names."""
        return self._contents.get(sha256)

    @property
    def undo_envelope(self) -> bytes | None:
        """What `go_back` would publish."""
        return self._undo

    async def content(self, sha256: str) -> bytes | None:
        """A file that any set of ours has named, from memory or from the store."""
        held = self._contents.get(sha256)
        return held if held is not None else await self._store.call(publications.file, sha256)

    @property
    def is_ageing(self) -> bool:
        """Half the life of what all agents run is over, and no ring is open."""
        if self.published is None or self.ring is not None:
            return False
        return self._clock() >= self.published.document.expires - LIFE_SECONDS / 2

    def is_signed_otherwise(self, keys: Mapping[str, Ed25519PublicKey], threshold: int) -> bool:
        """Whether what all agents run lacks signatures of these keys, and no ring is open."""
        if self.published is None or self.ring is not None:
            return False
        return not manifest.is_signed(self.published.envelope, keys, threshold)

    # ---------------------------------------------------------------------------------------------- coming to be

    def load(self, loaded: Loaded) -> None:
        """What was offered before this start."""
        self.undone = loaded.kv.get(_UNDONE) or None
        if not loaded.manifests:
            return
        versions = {signed.version: signed for signed in loaded.manifests}
        self._next_version = loaded.manifests[-1].version + 1
        current = versions.get(json.loads(loaded.kv.get(_CURRENT, "null")))
        if current is not None:
            self.published = self._read(current.envelope)
        rings = [rollout for rollout in loaded.rollouts if rollout.detail.get("members")]
        if rings and rings[-1].state == "open" and rings[-1].version in versions and self.published is not None:
            self.canary = self._read(versions[rings[-1].version].envelope)
            self.ring = self._ring_of(rings[-1], self.canary.digest)
        elif rings:
            self.last_ring = self._ring_of(rings[-1], "")
        newest = self.newest
        for signed in loaded.manifests:
            if newest is not None and signed.undoes == newest.version:
                self._undo = self._worth_undoing(signed.envelope)

    def _ring_of(self, rollout: Rollout, digest: str) -> Ring:
        """As it was; members say anew what they have loaded as they come back."""
        ring = Ring(rollout.version, digest, frozenset(rollout.detail["members"]), self._steady())
        if rollout.state != "open":
            ring.verdict, ring.why = rollout.state, str(rollout.detail.get("why", ""))
        return ring

    async def load_contents(self) -> None:
        """The files of what is offered, from the store."""
        for published in (self.published, self.canary):
            if published is not None:
                await self._fetch(all_files(published.document))
                self._served.append(all_files(published.document))

    # ---------------------------------------------------------------------------------------------- publishing

    def pair(self, files: Files, agent: Mapping[str, Any] | None = None) -> Pair:
        """What is to be signed for this set and an Equus with it. Raises PushRefused if no manifest can name it."""
        version, now = self._next_version, self._clock()
        before: tuple[Files, Mapping[str, Any] | None] = (files, agent)
        if self.published is not None:
            before = self.published.files, self.published.document.agent
        if before == (files, agent) and self._undo is not None:  # a renewal: the way back leads where it led before
            undone = manifest.read_unverified(self._undo)
            before = undone.files, undone.agent
        new = _build(files, agent, version, now, now + LIFE_SECONDS)
        undo = _build(*before, version + 1, now, now + LIFE_SECONDS)
        return Pair(new, undo, version)

    def keep(self, contents: Mapping[str, bytes]) -> None:
        """Files that the next release names, by their hashes."""
        self._contents.update(contents)

    async def publish(self, new: bytes, undo: bytes, author: str, members: frozenset[str]) -> int:
        """Offer a signed set: to the members of a first ring, or with none to everybody. The version."""
        documents = [manifest.read_unverified(envelope) for envelope in (new, undo)]
        for document in documents:
            await self._fetch(all_files(document))
        fresh = self._read(new)
        members = members if self.published is not None else frozenset()
        now = self._clock()
        rollout = Rollout(
            fresh.version, "open" if members else "promote", author, now, now, {"members": sorted(members), "why": ""}
        )
        current = None if members else fresh.version
        undone = self.undone if self.newest is not None and fresh.files == self.newest.files else None
        floor = min(fresh.version, self.published.version if self.published is not None and members else fresh.version)
        rows = [_row(documents[0], new, None), _row(documents[1], undo, fresh.version)]
        needed = {e.sha256: self._contents[e.sha256] for each in documents for e in all_files(each).values()}
        await self._store.call(_store_release, rows, needed, rollout, current, floor, undone)
        self._undo = self._worth_undoing(undo, fresh)
        self._next_version = documents[1].version + 1
        self.undone = undone  # a renewal of the set that was gone back to is no reason to try the other one again
        self._served.append(all_files(fresh.document))
        if members:
            self.canary, self.ring = fresh, Ring(fresh.version, fresh.digest, members, self._steady())
        else:
            self.published, self.canary, self.ring = fresh, None, None
        self._prune()
        self.log.info(
            "version {version} published by {author}: {count} files, {to}", version=fresh.version, author=author,
            count=len(fresh.files), to=f"first to {', '.join(sorted(members)[:10])}" if members else "to all agents",
        )  # fmt: skip
        self._on_published()
        return fresh.version

    def can_follow(self, envelope: bytes) -> bool:
        """Whether a set that another Helen has published is newer than all that agents here may hold."""
        return envelope == self._undo or manifest.read_unverified(envelope).version >= self._next_version

    async def adopt(self, new: bytes, undo: bytes | None, author: str, left: str | None) -> None:
        """Offer a set to everybody that another Helen has published, its files being kept already.

        `left` is the fingerprint of what the folder holds instead, if it could not be brought in line.
        """
        if new == self._undo:
            await self.go_back(author)
            return
        documents = [manifest.read_unverified(envelope) for envelope in (new, undo) if envelope is not None]
        for document in documents:
            await self._fetch(all_files(document))
        fresh, now = self._read(new), self._clock()
        rows = [_row(documents[0], new, None)]
        if undo is not None:
            rows.append(_row(documents[1], undo, fresh.version))
        rollout = Rollout(fresh.version, "promote", author, now, now, {"members": [], "why": ""})
        needed = {e.sha256: self._contents[e.sha256] for each in documents for e in all_files(each).values()}
        await self._store.call(_store_release, rows, needed, rollout, fresh.version, fresh.version, left)
        self._undo, self.undone = undo, left
        self._next_version = fresh.version + 2  # N+1 is for the way back, whether or not there is one
        self._served.append(all_files(fresh.document))
        self.published, self.canary, self.ring = fresh, None, None
        self._prune()
        self.log.info("version {version} by {author} is in force here", version=fresh.version, author=author)
        self._on_published()

    # ---------------------------------------------------------------------------------------------- rings, the way back

    async def decide(self) -> None:
        """The ring has come to a verdict: promote, or go back."""
        ring, canary = self.ring, self.canary
        if ring is None or canary is None or ring.verdict is None:
            return
        if ring.verdict == "undo":
            await self.go_back("the ring")
            return
        await self._store.call(_store_verdict, self._rollout(ring), canary.version, None)
        self.log.info("version {version} is for all agents: {why}", version=ring.version, why=ring.why)
        self.published, self.canary, self.ring, self.last_ring = canary, None, None, ring
        self._on_published()

    def way_back(self) -> ManifestDocument:
        """The set that undoes the newest. Raises PushRefused if there is none."""
        if self._undo is None or self.newest is None:
            raise PushRefused("there is nothing to undo: the newest set was not pushed over another one")
        document = manifest.read_unverified(self._undo)
        if document.expires <= self._clock():
            raise PushRefused(
                "the undoing set has expired, agents would refuse it: put the older files into the folder instead"
            )
        return document

    async def go_back(self, author: str) -> int:
        """Offer N+1, the files that were promoted before, to everybody. Its version."""
        document = self.way_back()
        newest, envelope, ring = self.newest, self._undo, self.ring
        assert newest is not None and envelope is not None
        await self._fetch(all_files(document))
        if ring is not None and ring.verdict is None:
            ring.verdict, ring.why = "undo", f"undone by {author}"
        undone = fingerprint(newest.files)
        rollout = self._rollout(ring) if ring is not None else None
        await self._store.call(_store_verdict, rollout, document.version, undone)
        self.log.info("undone by {author}: version {version}", author=author, version=document.version)
        self.undone, self._undo = undone, None
        self.published, self.canary, self.ring = self._read(envelope), None, None
        self.last_ring = ring or self.last_ring
        self._served.append(all_files(document))
        self._prune()
        self._on_published()
        return document.version

    def reread_tables(self) -> None:
        """Verdicts have come that were not there when the sets were read."""
        for name in ("published", "canary"):
            held: Published | None = getattr(self, name)
            if held is not None:
                setattr(self, name, evolve(held, tables=self._tables_of(held.files)))

    def _rollout(self, ring: Ring) -> Rollout:
        now = self._clock()
        detail = {"members": sorted(ring.members), "why": ring.why}
        return Rollout(ring.version, ring.verdict or "open", "", now, now, detail)

    def _worth_undoing(self, undo: bytes, fresh: Published | None = None) -> bytes | None:
        """None for the first set of all, and for one that changes nothing: there is no way back from those."""
        fresh = fresh or self.newest
        back = manifest.read_unverified(undo)
        return undo if fresh is not None and (back.files, back.agent) != (fresh.files, fresh.document.agent) else None

    async def _fetch(self, files: Files) -> None:
        for name, entry in files.items():
            if entry.sha256 not in self._contents:
                content = await self._store.call(publications.file, entry.sha256)
                if content is None:
                    raise PushRefused(f"{name} (sha256 {entry.sha256}) is nowhere to be found: push it again")
                self._contents[entry.sha256] = content

    def _prune(self) -> None:
        """What no set of the last few names needn't be in memory; the store has it."""
        named = {entry.sha256 for files in self._served for entry in files.values()}
        offered = [each.document for each in (self.published, self.canary) if each is not None]
        named |= {entry.sha256 for document in offered for entry in all_files(document).values()}
        self._contents = {sha256: content for sha256, content in self._contents.items() if sha256 in named}

    def _read(self, envelope: bytes) -> Published:
        document = manifest.read_unverified(envelope)
        return Published(envelope, document, self._tables_of(document.files))


def _build(files: Files, agent: Mapping[str, Any] | None, version: int, created: float, expires: float) -> bytes:
    try:
        return manifest.build(files, version, created, expires, agent=agent)
    except ValueError as error:
        raise PushRefused(f"no manifest can name these files: {error}") from error


def _row(document: ManifestDocument, envelope: bytes, undoes: int | None) -> SignedManifest:
    files = {name: entry.sha256 for name, entry in all_files(document).items()}
    return SignedManifest(
        document.version, document.digest, document.created, document.expires, envelope, files, undoes
    )


def _store_release(
    db: sqlite3.Connection,
    rows: Iterable[SignedManifest],
    contents: Mapping[str, bytes],
    rollout: Rollout,
    current: int | None,
    floor: int,
    undone: str | None,
) -> None:
    """In the store's thread: all that makes a release one, in one transaction."""
    for row in rows:
        publications.publish(db, row, contents)
    publications.put_rollout(db, rollout)
    records.put(db, _UNDONE, undone or "")
    if current is not None:
        records.put(db, _CURRENT, json.dumps(current))
    publications.forget_below(db, min(floor, rollout.version - KEPT_VERSIONS))


def _store_verdict(db: sqlite3.Connection, rollout: Rollout | None, current: int, undone: str | None) -> None:
    """In the store's thread: how a ring ended, and which version is everybody's from now on."""
    if rollout is not None:
        publications.put_rollout(db, rollout)
    records.put(db, _CURRENT, json.dumps(current))
    if undone is not None:
        records.put(db, _UNDONE, undone)


def describe(ring: Ring) -> dict[str, Any]:
    """A ring as the API shows it."""
    return {
        "version": ring.version,
        "members": sorted(ring.members),
        "confirmed": sorted(ring.confirmed),
        "state": ring.verdict or "open",
        "why": ring.why,
    }
