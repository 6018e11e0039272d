"""Keeps the versions of the check set: what agents are offered, how far a rollout has come, and the way back.

Each release signs two manifests: N with the new files, and N+1 with those that were promoted last, kept until an
operator or a gate undoes N; the next release is N+2. All that decides what agents are offered is in the store, in one
transaction, before an agent hears of it: after a restart an open ring is open, and what was taken back stays so. Files
are judged by helen.library.library, whose lock also keeps these coroutines from overlapping; results by
helen.sessions.rollout_control.
"""

from __future__ import annotations

import json
import secrets
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attrs import evolve
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from twisted.internet.threads import deferToThread
from twisted.logger import Logger

from equus_protocol import manifest
from equus_protocol.manifest import ManifestDocument
from groundwork.counts import count
from groundwork.event import Event
from helen.assignments.schedule import CheckTable
from helen.library import withheld_files
from helen.library.lint_cache import Files
from helen.library.published import Pair, Published, PushRefused, Signed, build
from helen.library.release_rows import (
    ASIDE,
    CURRENT,
    REFUSED,
    RING_KEY,
    manifest_row,
    rollout_row,
    store_release,
    store_verdict,
)
from helen.library.ring_preview import preview_rings
from helen.library.served_files import ServedFiles
from helen.library.withheld_files import Refusal
from helen.rollout.rings import Candidate
from helen.rollout.rollout import BACK, FINISHED, OPEN, UNDONE, Plan, Ring, Rollout, Touched, all_at_once, touched
from helen.rollout.set_aside import SetAside, aside_sentence
from helen.storage import agent_rows, publication_rows
from helen.storage.agent_rows import AuditEntry
from helen.storage.database import Loaded, Store

LIFE_SECONDS = 30 * 86_400.0  # of a manifest; at half of it a new one is due
KNOWN_SETS = 100  # digests by which agents are known to follow: one that is further behind has been away for long
GATE = "the gate"  # the author of an undo that no operator asked for
RENEWAL = "renewal"  # the author of the same files signed anew


class Releases:
    """Holds the set that all agents run and the one of the open ring, and moves between versions.

    `clock`: unix seconds, `steady`: monotonic seconds. `tables_of(files)` gives the tables of a set's checks,
    `fleet()`, in a thread, the agents that a ring may be made of. `on_published()` is called once agents may be told;
    `stepped` is called before that, with the step and the rollout: opened, passed, finished, undone, mended, at-once,
    paused or resumed.
    """

    log = Logger()

    def __init__(
        self,
        store: Store,
        clock: Callable[[], float],
        steady: Callable[[], float],
        tables_of: Callable[[Files], dict[str, CheckTable]],
        on_published: Callable[[], None],
        fleet: Callable[[], list[Candidate]],
    ) -> None:
        self.published: Published | None = None
        self.canary: Published | None = None  # the set that the members of the open ring run before all others
        self.rollout: Rollout | None = None  # the one under way
        self.last: Rollout | None = None  # the newest one, over or not
        self.refused: tuple[Refusal, ...] = ()
        self.aside = SetAside()
        self._key = b""  # of the choice of rings; `load` has it
        self.stepped: Event[[str, Rollout]] = Event()
        self.set_aside: Event[[str]] = Event()  # called with each agent that is set aside from now on
        self.fleet = fleet
        self.files = ServedFiles(store)
        self._undo: Signed | None = None
        self._next_version = 1
        self._held_elsewhere = 0  # the newest version that an agent is known to hold, and that is not of these
        self._known: deque[str] = deque(maxlen=KNOWN_SETS)  # digests
        self.ours: frozenset[str] = frozenset()  # the same: each agent is asked after in it
        self._store = store
        self._clock = clock
        self._steady = steady
        self._tables_of = tables_of
        self._on_published = on_published

    # ---------------------------------------------------------------------------------------------- offers

    @property
    def newest(self) -> Published | None:
        """Return the set that the folder is compared with: that of the open ring, or else of all agents."""
        return self.canary or self.published

    def offered(self, agent: str) -> Published | None:
        """Return the set that this agent should run; None while nothing is published yet."""
        rollout = self.rollout
        runs_it = rollout is not None and rollout.ring is not None and rollout.ring.has(agent)
        return self.canary if runs_it else self.published

    def is_ours(self, digest: str | None) -> bool:
        """Return True for a set of the last KNOWN_SETS here: an agent with a folder of its own runs none of them."""
        return digest in self.ours

    def _know(self, digests: Iterable[str]) -> None:
        self._known.extend(digests)
        self.ours = frozenset(self._known)

    async def candidates(self) -> list[Candidate]:
        """Return the agents that a ring may be made of, found in a thread: 10,000 take 50 ms."""
        return await deferToThread(self.fleet)

    @property
    def undo_envelope(self) -> bytes | None:
        """Return the manifest that `go_back` would publish."""
        return None if self._undo is None else self._undo.envelope

    async def content(self, sha256: str) -> bytes | None:
        """Return a file that any set of ours has named, from memory or from the store."""
        return await self.files.find(sha256)

    @property
    def is_ageing(self) -> bool:
        """Return True if half the life of what all agents run is over, and no rollout is under way."""
        if self.published is None or self.rollout is not None:
            return False
        return self._clock() >= self.published.document.expires - LIFE_SECONDS / 2

    def outrun(self, version: int) -> None:
        """Number the next set above this version, which an agent holds from a time that is not in this store."""
        if self.newest is not None and version > self.newest.version:
            self._held_elsewhere = version
            self._next_version = max(self._next_version, version + 1)

    @property
    def is_outrun(self) -> bool:
        """Return True if an agent holds a newer version than all agents are offered, and no rollout is under way."""
        return self.published is not None and self.rollout is None and self.published.version < self._held_elsewhere

    def is_signed_otherwise(self, keys: Mapping[str, Ed25519PublicKey], threshold: int, typed: bool = False) -> bool:
        """Return True if what all agents run lacks signatures of these keys, and no rollout is under way."""
        if self.published is None or self.rollout is not None:
            return False
        return not manifest.is_signed(self.published.envelope, keys, threshold, manifest.TYPE if typed else None)

    # ---------------------------------------------------------------------------------------------- start

    def load(self, loaded: Loaded) -> None:
        """Take up what was offered before this start."""
        self.refused = withheld_files.read(loaded.kv.get(REFUSED, ""))
        self.aside = SetAside.from_json(loaded.kv.get(ASIDE, "{}"))
        self._key = bytes.fromhex(loaded.kv.get(RING_KEY) or self._new_key())
        if not loaded.manifests:
            return
        self._know(signed.digest for signed in loaded.manifests)
        versions = {signed.version: signed for signed in loaded.manifests}
        self._next_version = loaded.manifests[-1].version + 1
        current = versions.get(json.loads(loaded.kv.get(CURRENT, "null")))
        if current is not None:
            self.published = self._published_of(Signed.read(current.envelope))
        if loaded.rollouts:
            self.last = self._read_rollout(loaded.rollouts[-1])
        if self.last is not None and self.last.state == OPEN and self.published is not None:
            self.rollout, self.canary = self.last, self._published_of(Signed.read(versions[self.last.version].envelope))
        newest = self.newest
        for signed in loaded.manifests:
            if newest is not None and signed.undoes == newest.version:
                self._undo = self._worth_undoing(Signed.read(signed.envelope))

    def _new_key(self) -> str:
        """Make the key of rings, and keep it. It is this Helen's alone, as its rollouts are."""
        made = secrets.token_hex(32)
        self._store.call(agent_rows.put, RING_KEY, made).addErrback(
            lambda failure: self.log.error("the key of rings is not kept: {why}", why=failure.getErrorMessage())
        )
        return made

    def _read_rollout(self, row: publication_rows.Rollout) -> Rollout | None:
        """Return None for a rollout of a Helen that knew no rings: it is over."""
        if "limits" not in row.detail:
            return None
        read = Rollout.from_json(
            row.version, row.state, row.author, row.started, row.changed, row.detail, self._steady()
        )  # fmt: skip
        read.key = self._key
        return read

    async def load_contents(self) -> None:
        """Read the files of what is offered from the store. Raises PushRefused if one is missing."""
        for published in (self.published, self.canary):
            if published is not None:
                await self.files.fetch(published.document)
                self.files.serve(published.document)

    # ---------------------------------------------------------------------------------------------- publishing

    def pair(self, files: Files, agent: Mapping[str, Any] | None = None) -> Pair:
        """Return what is to be signed for this set and an Equus with it.

        Raises PushRefused if no manifest can name it.
        """
        version, now = self._next_version, self._clock()
        before: tuple[Files, Mapping[str, Any] | None] = (files, agent)
        if self.published is not None:
            before = self.published.files, self.published.document.agent
        if before == (files, agent) and self._undo is not None:  # a renewal: the way back leads where it led before
            before = self._undo.document.files, self._undo.document.agent
        new, new_document = build(files, agent, version, now, now + LIFE_SECONDS)
        undo, undo_document = build(*before, version + 1, now, now + LIFE_SECONDS)
        return Pair(new, undo, new_document, undo_document)

    async def publish(self, new: Signed, undo: Signed, author: str, plan: Plan) -> int:
        """Offer a signed set to the members of the first ring, or to all agents if the ring has none.

        Returns the version. Raises PushRefused if a file is missing.
        """
        documents = [new.document, undo.document]
        for document in documents:
            await self.files.fetch(document)
        fresh = self._published_of(new)
        rollout = await self._begin(fresh, author, plan)
        if author == RENEWAL and self.last is not None:
            rollout.by_itself = self.last.by_itself  # the same files: nothing is mended by them
        is_open = rollout.state == OPEN
        current = None if is_open else fresh.version
        floor = min(fresh.version, self.published.version if self.published is not None and is_open else fresh.version)
        rows = [manifest_row(new, None), manifest_row(undo, fresh.version)]
        needed = self.files.contents_of(documents)
        where = rollout.place if is_open else rollout.why
        entry = self._audit(author, "publish", rollout, f"{rollout.touched.text}; {where}")
        await self._store.call(store_release, rows, needed, rollout_row(rollout), current, floor, self.refused, entry)
        self._undo = self._worth_undoing(undo, fresh)
        self._know(document.digest for document in documents)
        self._next_version = undo.document.version + 1
        self.files.serve(fresh.document)
        if is_open:
            self.canary, self.rollout = fresh, rollout
        else:
            self.published, self.canary, self.rollout = fresh, None, None
        before, self.last = self.last, rollout
        self._prune()
        self.log.info(
            "version {version} published by {author}: {files}, {where}", version=fresh.version, author=author,
            files=count(len(fresh.files), "file"), where=where,
        )  # fmt: skip
        if before is not None and before.by_itself and not rollout.by_itself:
            self.stepped("mended", before)
        self.stepped("opened" if is_open else "at-once", rollout)
        self._on_published()
        return fresh.version

    def can_follow(self, new: Signed) -> bool:
        """Return True if a set that another Helen has published is newer than all that agents here may hold."""
        return new.envelope == self.undo_envelope or new.document.version >= self._next_version

    async def adopt(self, new: Signed, undo: Signed | None, author: str, left: Refusal | None) -> None:
        """Offer to all agents a set that another Helen has published; its files are kept already.

        `left` is what the folder holds instead, if it could not be brought in line. A rollout of ours ends by it.
        Raises PushRefused if a file is missing.
        """
        if new.envelope == self.undo_envelope:
            await self.go_back(author)
            return
        documents = [each.document for each in (new, undo) if each is not None]
        for document in documents:
            await self.files.fetch(document)
        fresh, now = self._published_of(new), self._clock()
        rows = [manifest_row(new, None)]
        if undo is not None:
            rows.append(manifest_row(undo, fresh.version))
        base = 0 if self.published is None else self.published.version
        rollout = all_at_once(fresh.version, fresh.digest, base, author, now, self._touched(fresh))
        before = self._taken_back(author, now) if self.rollout is not None else None
        needed = self.files.contents_of(documents)
        refused = () if left is None else (left,)
        entry = self._audit(author, "publish", rollout, rollout.why)
        if before is not None:
            await self._store.call(publication_rows.put_rollout, rollout_row(before))
        await self._store.call(
            store_release, rows, needed, rollout_row(rollout), fresh.version, fresh.version, refused, entry
        )  # fmt: skip
        self._undo, self.refused, self.last = undo, refused, rollout
        self._know(document.digest for document in documents)
        self._next_version = fresh.version + 2  # N+1 is for the way back, whether or not there is one
        self.files.serve(fresh.document)
        self.published, self.canary, self.rollout = fresh, None, None
        self._prune()
        self.log.info("version {version} by {author} is in force here", version=fresh.version, author=author)
        if before is not None:
            self.stepped("undone", before)
        self.stepped("at-once", rollout)
        self._on_published()

    async def preview(self, plan: Plan) -> list[dict[str, Any]]:
        """Return the rings as they would be, were the folder pushed now.

        Each has `number`, `ring`, `size` and `members`, which is empty for the ring of all.
        """
        return await deferToThread(preview_rings, await self.candidates(), plan, self._next_version, self._key)

    async def _begin(self, fresh: Published, author: str, plan: Plan) -> Rollout:
        now, base = self._clock(), self.published
        touched = self._touched(fresh)
        if base is not None and plan.rings:
            rollout = Rollout(fresh.version, fresh.digest, base.version, author, plan, now, touched, changed=now)
            rollout.key = self._key
            if await deferToThread(rollout.advance, await self.candidates(), now, self._steady()):
                return rollout
        return all_at_once(fresh.version, fresh.digest, 0 if base is None else base.version, author, now, touched)

    def _touched(self, fresh: Published) -> Touched:
        base = self.published
        other_equus = base is not None and fresh.document.agent != base.document.agent
        using = {name for name, entry in fresh.files.items() if b"require" in (self.files.get(entry.sha256) or b"")}
        sha256 = {name: entry.sha256 for name, entry in fresh.files.items()}
        before = {} if base is None else {name: entry.sha256 for name, entry in base.files.items()}
        return touched(before, sha256, using, other_equus)

    # ---------------------------------------------------------------------------------------------- rings, the way back

    async def decide(self) -> None:
        """Act on the verdict of the open ring: open the next one, offer the set to all agents, or go back."""
        rollout = self.rollout
        if rollout is not None and rollout.ring is not None and rollout.ring.needs_second:
            await self._ask_second(rollout, rollout.ring)
        if rollout is None or rollout.ring is None or rollout.ring.verdict is None:
            return
        if rollout.ring.verdict == BACK:
            await self.go_back(GATE)
            return
        now, place, why = self._clock(), rollout.place, rollout.ring.why
        after = evolve(rollout, past=list(rollout.past))
        after.close_ring(now)
        goes_on = await deferToThread(after.advance, await self.candidates(), now, self._steady())
        if not goes_on:
            after.state, after.why = FINISHED, "it has passed all its rings"
        entry = self._audit(GATE, "ring-passed", rollout, f"{place}: {why}")
        current = None if goes_on else rollout.version
        await self._store.call(store_verdict, rollout_row(after), current, self.refused, entry)
        self.log.info("version {version} has passed {place}: {why}", version=rollout.version, place=place, why=why)
        self.stepped("passed", rollout)
        self.last = after
        if goes_on:
            self.rollout = after
            self.stepped("opened", after)
        else:
            self.published, self.canary, self.rollout = self.canary, None, None
            self.stepped("finished", after)
        self._on_published()

    async def _ask_second(self, rollout: Rollout, ring: Ring) -> None:
        """Offer the set to one agent more, to hear if it can use what a member has refused; go back if there is none.

        The agent is a member of the ring from now on.
        """
        fleet = await self.candidates()
        second = await deferToThread(rollout.second(), fleet)  # agents refuse the set meanwhile
        lone = ring.alone()
        ring.needs_second = False
        if lone is None or ring.verdict is not None:
            return
        if second is None or ring.members is None:
            ring.go_back(f"{lone[0]} can't use {lone[1]}: {lone[2]}; there is no other agent to ask", [lone[0]])
            return
        wider = evolve(ring, members=ring.members | {second})
        detail = f"{lone[0]} can't use {lone[1]}: {second} is asked, too"
        entry = self._audit(GATE, "ring-asks", rollout, detail)
        await self._store.call(store_verdict, rollout_row(evolve(rollout, ring=wider)), None, self.refused, entry)
        ring.members = wider.members
        self.log.info("version {version}: {detail}", version=rollout.version, detail=detail)
        self.stepped("widened", rollout)
        self._on_published()

    async def readmit(self, name: str, author: str) -> None:
        """Listen again to an agent that was set aside. Raises NotSetAside if it was not."""
        after = self.aside.readmit(name)
        entry = AuditEntry(self._clock(), author, "readmit", name)
        await self._store.call(store_verdict, None, None, self.refused, entry, after)
        self.aside = after

    def way_back(self) -> ManifestDocument:
        """Return the set that undoes the newest. Raises PushRefused if there is none, or if it has expired."""
        return self._way_back().document

    def _way_back(self) -> Signed:
        if self._undo is None or self.newest is None:
            raise PushRefused(
                "there is nothing to undo: the newest set is the first, changed nothing, or was an undoing itself"
            )
        if self._undo.document.expires <= self._clock():
            raise PushRefused(
                "the undoing set has expired, agents would refuse it: put the older files into the folder instead"
            )
        return self._undo

    async def go_back(self, author: str) -> int:
        """Offer N+1, the files that were promoted before, to all agents, and return its version.

        Raises PushRefused if there is no way back, or a file of it is missing.
        """
        undo, now = self._way_back(), self._clock()
        newest, document, rollout = self.newest, undo.document, self.rollout
        assert newest is not None
        await self.files.fetch(document)
        after = self._taken_back(author, now)
        why = f"undone by {author}" if after is None else after.why
        refusal = withheld_files.refuse(newest.version, now, why, newest.files, document.files)
        refused = (
            self.refused
            if refusal is None
            else (*(each for each in self.refused if each.files != refusal.files), refusal)
        )
        row = None if after is None else rollout_row(after)
        entry = AuditEntry(now, author, "undo", f"version {newest.version}", "", why)
        speakers = rollout.ring.speakers if rollout is not None and rollout.ring is not None else ()
        aside = self.aside.count(newest.version, speakers) if author == GATE else self.aside
        await self._store.call(store_verdict, row, document.version, refused, entry, aside)
        new_aside, self.aside = sorted(aside.names - self.aside.names), aside
        self.log.info(
            "version {old} was taken back ({why}): version {version} for all agents", old=newest.version, why=why,
            version=document.version,
        )  # fmt: skip
        self.refused, self._undo, self.last = refused, None, after or self.last
        self.published, self.canary, self.rollout = self._published_of(undo), None, None
        self.files.serve(document)
        self._prune()
        if rollout is not None and after is not None:
            self.stepped("undone", after)
        for name in new_aside:
            self.log.warn("{sentence}", sentence=aside_sentence(name, aside))
            self.set_aside(name)
        self._on_published()
        return document.version

    def _taken_back(self, author: str, now: float) -> Rollout | None:
        """Return the newest rollout as it is when it is taken back; None if it is not known any more."""
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
        """Stay in the open ring, or go on. Raises PushRefused if there is none, or if it is so already."""
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
        self.stepped(word, rollout)
        return rollout

    async def refuse_only(self, refused: tuple[Refusal, ...]) -> None:
        """Replace what is kept from being published again, after a look at the folder."""
        if refused != self.refused:
            await self._store.call(agent_rows.put, REFUSED, withheld_files.write(refused))
            self.refused = refused

    def _audit(self, author: str, action: str, rollout: Rollout, detail: str) -> AuditEntry:
        return AuditEntry(self._clock(), author, action, f"version {rollout.version}", "", detail)

    def reread_tables(self) -> None:
        """Take the tables of the offered sets anew: verdicts have come that were not there when they were read."""
        for name in ("published", "canary"):
            held: Published | None = getattr(self, name)
            if held is not None:
                setattr(self, name, evolve(held, tables=self._tables_of(held.files)))

    def _worth_undoing(self, undo: Signed, fresh: Published | None = None) -> Signed | None:
        """Return None for the first set of all, and for one that changes nothing: there is no way back from those."""
        fresh, back = fresh or self.newest, undo.document
        return undo if fresh is not None and (back.files, back.agent) != (fresh.files, fresh.document.agent) else None

    def _prune(self) -> None:
        self.files.prune(each.document for each in (self.published, self.canary) if each is not None)

    def _published_of(self, signed: Signed) -> Published:
        return Published(signed.envelope, signed.document, self._tables_of(signed.document.files))
