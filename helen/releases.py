"""The versions of the set of checks: what agents are offered, how far a rollout has come, and the way back.

Each release signs two manifests: N with the new files, and N+1 with those that were promoted last, kept until somebody
undoes; the next one is N+2. Whatever decides what agents are offered is in the store, in one transaction, before any
of them hears of it: after a restart an open ring is open, and what was taken back stays so. It judges no files: that is
helen.library's, whose lock also keeps these coroutines from overlapping; nor results: that is helen.gatekeeper's.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from attrs import evolve, frozen
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from twisted.internet.threads import deferToThread
from twisted.logger import Logger

from equus_protocol import manifest
from equus_protocol.manifest import FileEntry, ManifestDocument
from helen import publications, records, refusals
from helen.policy import CheckTable
from helen.records import AuditEntry
from helen.refusals import Refusal
from helen.release_rows import CURRENT, REFUSED, all_files, manifest_row, rollout_row, store_release, store_verdict
from helen.rings import Candidate, choose
from helen.rollout import BACK, FINISHED, OPEN, UNDONE, Plan, Rollout, Touched, all_at_once, touched
from helen.store import Loaded, Store
from helen.verdicts import Files

LIFE_SECONDS = 30 * 86_400.0  # of a manifest; at half of it a new one is due
KNOWN_SETS = 100  # digests by which agents are known to follow: whoever is further behind has not been here for long
SERVED_SETS = 4  # whose files are in memory: an agent may still fetch what the manifest before the newest names
GATE = "the gate"  # who takes a rollout back by itself
RENEWAL = "renewal"  # who signs the same files anew


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
        self.canary: Published | None = None  # the set that the members of the open ring run before all others
        self.rollout: Rollout | None = None  # the one under way
        self.last: Rollout | None = None  # the newest one, over or not
        self.refused: tuple[Refusal, ...] = ()
        self.fleet: Callable[[], list[Candidate]] = list  # whom a ring may be made of
        self.on_rollout: Callable[[str, Rollout], None] = lambda event, rollout: None  # durable; agents don't know yet
        self._undo: bytes | None = None
        self._next_version = 1
        self._contents: dict[str, bytes] = {}
        self._served: deque[Mapping[str, FileEntry]] = deque(maxlen=SERVED_SETS)
        self._known: deque[str] = deque(maxlen=KNOWN_SETS)  # digests
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
        rollout = self.rollout
        runs_it = rollout is not None and rollout.ring is not None and rollout.ring.has(agent)
        return self.canary if runs_it else self.published

    def is_ours(self, digest: str | None) -> bool:
        """Whether this is a set of ours, of the last KNOWN_SETS: an agent with a folder of its own runs none."""
        return digest in self._known

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
        """Half the life of what all agents run is over, and no rollout is under way."""
        if self.published is None or self.rollout is not None:
            return False
        return self._clock() >= self.published.document.expires - LIFE_SECONDS / 2

    def is_signed_otherwise(self, keys: Mapping[str, Ed25519PublicKey], threshold: int) -> bool:
        """Whether what all agents run lacks signatures of these keys, and no rollout is under way."""
        if self.published is None or self.rollout is not None:
            return False
        return not manifest.is_signed(self.published.envelope, keys, threshold)

    # ---------------------------------------------------------------------------------------------- coming to be

    def load(self, loaded: Loaded) -> None:
        """What was offered before this start."""
        self.refused = refusals.read(loaded.kv.get(REFUSED, ""))
        if not loaded.manifests:
            return
        self._known.extend(signed.digest for signed in loaded.manifests)
        versions = {signed.version: signed for signed in loaded.manifests}
        self._next_version = loaded.manifests[-1].version + 1
        current = versions.get(json.loads(loaded.kv.get(CURRENT, "null")))
        if current is not None:
            self.published = self._read(current.envelope)
        if loaded.rollouts:
            self.last = self._read_rollout(loaded.rollouts[-1])
        if self.last is not None and self.last.state == OPEN and self.published is not None:
            self.rollout, self.canary = self.last, self._read(versions[self.last.version].envelope)
        newest = self.newest
        for signed in loaded.manifests:
            if newest is not None and signed.undoes == newest.version:
                self._undo = self._worth_undoing(signed.envelope)

    def _read_rollout(self, row: publications.Rollout) -> Rollout | None:
        """None for one of a Helen who knew no rings: whatever it was, it is over."""
        if "limits" not in row.detail:
            return None
        return Rollout.from_json(
            row.version, row.state, row.author, row.started, row.changed, row.detail, self._steady()
        )  # fmt: skip

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

    async def publish(self, new: bytes, undo: bytes, author: str, plan: Plan) -> int:
        """Offer a signed set: to the members of the first ring, or if nobody is in one to everybody. The version."""
        documents = [manifest.read_unverified(envelope) for envelope in (new, undo)]
        for document in documents:
            await self._fetch(all_files(document))
        fresh = self._read(new)
        rollout = await self._begin(fresh, author, plan)
        if author == RENEWAL and self.last is not None:
            rollout.by_itself = self.last.by_itself  # the same files: nobody has mended anything
        is_open = rollout.state == OPEN
        current = None if is_open else fresh.version
        floor = min(fresh.version, self.published.version if self.published is not None and is_open else fresh.version)
        rows = [manifest_row(documents[0], new, None), manifest_row(documents[1], undo, fresh.version)]
        needed = {e.sha256: self._contents[e.sha256] for each in documents for e in all_files(each).values()}
        where = rollout.place if is_open else rollout.why
        entry = self._audit(author, "publish", rollout, f"{rollout.touched.text}; {where}")
        await self._store.call(store_release, rows, needed, rollout_row(rollout), current, floor, self.refused, entry)
        self._undo = self._worth_undoing(undo, fresh)
        self._known.extend(document.digest for document in documents)
        self._next_version = documents[1].version + 1
        self._served.append(all_files(fresh.document))
        if is_open:
            self.canary, self.rollout = fresh, rollout
        else:
            self.published, self.canary, self.rollout = fresh, None, None
        before, self.last = self.last, rollout
        self._prune()
        self.log.info(
            "version {version} published by {author}: {count} files, {where}", version=fresh.version, author=author,
            count=len(fresh.files), where=where,
        )  # fmt: skip
        if before is not None and before.by_itself and not rollout.by_itself:
            self.on_rollout("mended", before)
        self.on_rollout("opened" if is_open else "at-once", rollout)
        self._on_published()
        return fresh.version

    def can_follow(self, envelope: bytes) -> bool:
        """Whether a set that another Helen has published is newer than all that agents here may hold."""
        return envelope == self._undo or manifest.read_unverified(envelope).version >= self._next_version

    async def adopt(self, new: bytes, undo: bytes | None, author: str, left: Refusal | None) -> None:
        """Offer a set to everybody that another Helen has published, its files being kept already.

        `left` is what the folder holds instead, if it could not be brought in line. A rollout of ours is over with it.
        """
        if new == self._undo:
            await self.go_back(author)
            return
        documents = [manifest.read_unverified(envelope) for envelope in (new, undo) if envelope is not None]
        for document in documents:
            await self._fetch(all_files(document))
        fresh, now = self._read(new), self._clock()
        rows = [manifest_row(documents[0], new, None)]
        if undo is not None:
            rows.append(manifest_row(documents[1], undo, fresh.version))
        base = 0 if self.published is None else self.published.version
        rollout = all_at_once(fresh.version, fresh.digest, base, author, now, self._touched(fresh))
        before = self._taken_back(author, now) if self.rollout is not None else None
        needed = {e.sha256: self._contents[e.sha256] for each in documents for e in all_files(each).values()}
        refused = () if left is None else (left,)
        entry = self._audit(author, "publish", rollout, rollout.why)
        if before is not None:
            await self._store.call(publications.put_rollout, rollout_row(before))
        await self._store.call(
            store_release, rows, needed, rollout_row(rollout), fresh.version, fresh.version, refused, entry
        )  # fmt: skip
        self._undo, self.refused, self.last = undo, refused, rollout
        self._known.extend(document.digest for document in documents)
        self._next_version = fresh.version + 2  # N+1 is for the way back, whether or not there is one
        self._served.append(all_files(fresh.document))
        self.published, self.canary, self.rollout = fresh, None, None
        self._prune()
        self.log.info("version {version} by {author} is in force here", version=fresh.version, author=author)
        if before is not None:
            self.on_rollout("undone", before)
        self.on_rollout("at-once", rollout)
        self._on_published()

    async def preview(self, plan: Plan) -> list[dict[str, Any]]:
        """Who would be in which ring, were it pushed now; of the ring of all only how many."""
        return await deferToThread(self._preview, self.fleet(), plan)

    def _preview(self, fleet: list[Candidate], plan: Plan) -> list[dict[str, Any]]:
        taken, shown = frozenset[str](), []
        for number, spec in enumerate(plan.rings, 1):
            members = frozenset(each.name for each in fleet) if spec.is_all else choose(
                fleet, spec, taken, self._next_version
            )  # fmt: skip
            names = [] if spec.is_all else sorted(members - taken)
            shown.append({"number": number, "ring": spec.text, "size": len(members - taken), "members": names})
            taken = members
        return shown

    async def _begin(self, fresh: Published, author: str, plan: Plan) -> Rollout:
        now, base = self._clock(), self.published
        touched = self._touched(fresh)
        if base is not None and plan.rings:
            rollout = Rollout(fresh.version, fresh.digest, base.version, author, plan, now, touched, changed=now)
            if await deferToThread(rollout.advance, self.fleet(), now, self._steady()):
                return rollout
        return all_at_once(fresh.version, fresh.digest, 0 if base is None else base.version, author, now, touched)

    def _touched(self, fresh: Published) -> Touched:
        base = self.published
        other_equus = base is not None and fresh.document.agent != base.document.agent
        using = {name for name, entry in fresh.files.items() if b"require" in self._contents[entry.sha256]}
        sha256 = {name: entry.sha256 for name, entry in fresh.files.items()}
        before = {} if base is None else {name: entry.sha256 for name, entry in base.files.items()}
        return touched(before, sha256, using, other_equus)

    # ---------------------------------------------------------------------------------------------- rings, the way back

    async def decide(self) -> None:
        """The open ring has come to a verdict: the next one, all agents, or back."""
        rollout = self.rollout
        if rollout is None or rollout.ring is None or rollout.ring.verdict is None:
            return
        if rollout.ring.verdict == BACK:
            await self.go_back(GATE)
            return
        now, place, why = self._clock(), rollout.place, rollout.ring.why
        after = evolve(rollout, past=list(rollout.past))
        after.close_ring(now)
        goes_on = await deferToThread(after.advance, self.fleet(), now, self._steady())
        if not goes_on:
            after.state, after.why = FINISHED, "it has passed all its rings"
        entry = self._audit(GATE, "ring-passed", rollout, f"{place}: {why}")
        current = None if goes_on else rollout.version
        await self._store.call(store_verdict, rollout_row(after), current, self.refused, entry)
        self.log.info("version {version} has passed {place}: {why}", version=rollout.version, place=place, why=why)
        self.on_rollout("passed", rollout)
        self.last = after
        if goes_on:
            self.rollout = after
            self.on_rollout("opened", after)
        else:
            self.published, self.canary, self.rollout = self.canary, None, None
            self.on_rollout("finished", after)
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
        document, now = self.way_back(), self._clock()
        newest, envelope, rollout = self.newest, self._undo, self.rollout
        assert newest is not None and envelope is not None
        await self._fetch(all_files(document))
        after = self._taken_back(author, now)
        why = f"undone by {author}" if after is None else after.why
        refusal = refusals.refuse(newest.version, now, why, newest.files, document.files)
        refused = (
            self.refused
            if refusal is None
            else (*(each for each in self.refused if each.files != refusal.files), refusal)
        )
        row = None if after is None else rollout_row(after)
        entry = AuditEntry(now, author, "undo", f"version {newest.version}", "", why)
        await self._store.call(store_verdict, row, document.version, refused, entry)
        self.log.info(
            "version {old} was taken back ({why}): version {version} for all agents", old=newest.version, why=why,
            version=document.version,
        )  # fmt: skip
        self.refused, self._undo, self.last = refused, None, after or self.last
        self.published, self.canary, self.rollout = self._read(envelope), None, None
        self._served.append(all_files(document))
        self._prune()
        if rollout is not None and after is not None:
            self.on_rollout("undone", after)
        self._on_published()
        return document.version

    def _taken_back(self, author: str, now: float) -> Rollout | None:
        """The newest rollout as it is when it is taken back; None if it is not known any more."""
        newest, last = self.newest, self.last
        if last is None or newest is None or last.version != newest.version:
            return None
        after = evolve(last, past=list(last.past), state=UNDONE, paused=None, changed=now, why=f"undone by {author}")
        if self.rollout is None or after.ring is None:
            return after
        if after.ring.verdict != BACK:
            after.ring = evolve(after.ring, verdict=BACK, why=f"undone by {author}")
        after.why, after.by_itself = after.ring.why, author == GATE
        after.close_ring(now)
        return after

    async def pause(self, author: str, is_paused: bool) -> Rollout:
        """Stay in the open ring, or go on. Raises PushRefused with a sentence."""
        rollout = self.rollout
        if rollout is None:
            raise PushRefused("no rollout is under way: `helen rollout status` has the last one")
        if (rollout.paused is not None) == is_paused:
            raise PushRefused(f"version {rollout.version} is {'paused already' if is_paused else 'not paused'}")
        now = self._clock()
        after = evolve(rollout, paused={"by": author, "at": now} if is_paused else None, changed=now)
        word = "paused" if is_paused else "resumed"
        entry = self._audit(author, f"rollout-{word}", rollout, rollout.place)
        await self._store.call(store_verdict, rollout_row(after), None, self.refused, entry)
        rollout.paused, rollout.changed = after.paused, now
        if not is_paused:
            rollout.resume(self._steady())
        self.on_rollout(word, rollout)
        return rollout

    async def refuse_only(self, refused: tuple[Refusal, ...]) -> None:
        """What counts of what was taken back, after a look at the folder."""
        if refused != self.refused:
            await self._store.call(records.put, REFUSED, refusals.write(refused))
            self.refused = refused

    def _audit(self, author: str, action: str, rollout: Rollout, detail: str) -> AuditEntry:
        return AuditEntry(self._clock(), author, action, f"version {rollout.version}", "", detail)

    def reread_tables(self) -> None:
        """Verdicts have come that were not there when the sets were read."""
        for name in ("published", "canary"):
            held: Published | None = getattr(self, name)
            if held is not None:
                setattr(self, name, evolve(held, tables=self._tables_of(held.files)))

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
