"""Keeps what agents are offered: the set of all, the set of the open ring, and the manifest that undoes the newest.

Each release signs two manifests: N with the new files, and N+1 with those that were promoted last, kept until an
operator or a gate undoes N; the next release is N+2. helen.library.publisher, helen.library.ring_control and
helen.library.way_back move from one version to the next. Each of them writes a step to the store, in one transaction,
before it changes anything here: after a restart an open ring is open, and what was taken back stays so. The lock of
helen.library.library keeps their coroutines from overlapping.
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
from groundwork.event import Event
from helen.assignments.schedule import CheckTable
from helen.library import withheld_files
from helen.library.lint_cache import Files
from helen.library.published import Pair, Published, Signed, build
from helen.library.release_rows import ASIDE, CURRENT, REFUSED, RING_KEY, read_rollout
from helen.library.ring_preview import preview_rings
from helen.library.served_files import ServedFiles
from helen.library.withheld_files import Refusal
from helen.rollout.rings import Candidate
from helen.rollout.rollout import OPEN, Plan, Rollout
from helen.rollout.set_aside import SetAside
from helen.rollout.touched_files import Touched, touched
from helen.storage import agent_rows
from helen.storage.database import Loaded, Store

LIFE_SECONDS = 30 * 86_400.0  # of a manifest; at half of it a new one is due
KNOWN_SETS = 100  # digests by which agents are known to follow: one that is further behind has been away for long


class Releases:
    """Holds the set that all agents run and the one of the open ring.

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
        self.undo: Signed | None = None  # the way back from the newest set
        self.refused: tuple[Refusal, ...] = ()
        self.aside = SetAside()
        self.key = b""  # of the choice of rings; `load` has it
        self.stepped: Event[[str, Rollout]] = Event()
        self.set_aside: Event[[str]] = Event()  # called with each agent that is set aside from now on
        self.on_published = on_published
        self.fleet = fleet
        self.files = ServedFiles(store)
        self.next_version = 1
        self._held_elsewhere = 0  # the newest version that an agent is known to hold, and that is not of these
        self._known: deque[str] = deque(maxlen=KNOWN_SETS)  # digests
        self.ours: frozenset[str] = frozenset()  # the same, to look up what each of 10,000 agents runs
        self._store = store
        self._clock = clock
        self._steady = steady
        self._tables_of = tables_of

    # ---------------------------------------------------------------------------------------------- what is offered

    @property
    def newest(self) -> Published | None:
        """Return the set that the folder is compared with: that of the open ring, or else of all agents."""
        return self.canary or self.published

    def offered(self, agent: str) -> Published | None:
        """Return the set that this agent should run; None while nothing is published yet."""
        rollout = self.rollout
        runs_it = rollout is not None and rollout.ring is not None and rollout.ring.has(agent)
        return self.canary if runs_it else self.published

    @property
    def undo_envelope(self) -> bytes | None:
        """Return the manifest that the way back would publish."""
        return None if self.undo is None else self.undo.envelope

    async def candidates(self) -> list[Candidate]:
        """Return the agents that a ring may be made of, found in a thread: 10,000 take 50 ms."""
        return await deferToThread(self.fleet)

    async def preview(self, plan: Plan) -> list[dict[str, Any]]:
        """Return the rings as they would be, were the folder pushed now.

        Each has `number`, `ring`, `size` and `members`, which is empty for the ring of all.
        """
        return await deferToThread(preview_rings, await self.candidates(), plan, self.next_version, self.key)

    # ---------------------------------------------------------------------------------------------- what is due

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
            self.next_version = max(self.next_version, version + 1)

    @property
    def is_outrun(self) -> bool:
        """Return True if an agent holds a newer version than all agents are offered, and no rollout is under way."""
        return self.published is not None and self.rollout is None and self.published.version < self._held_elsewhere

    def is_signed_otherwise(self, keys: Mapping[str, Ed25519PublicKey], threshold: int, typed: bool = False) -> bool:
        """Return True if what all agents run lacks signatures of these keys, and no rollout is under way."""
        if self.published is None or self.rollout is not None:
            return False
        return not manifest.is_signed(self.published.envelope, keys, threshold, manifest.TYPE if typed else None)

    def can_follow(self, new: Signed) -> bool:
        """Return True if a set that another Helen has published is newer than all that agents here may hold."""
        return new.envelope == self.undo_envelope or new.document.version >= self.next_version

    # ---------------------------------------------------------------------------------------------- the next set

    def pair(self, files: Files, agent: Mapping[str, Any] | None = None) -> Pair:
        """Return what is to be signed for this set and an Equus with it.

        Raises PushRefused if no manifest can name it.
        """
        version, now = self.next_version, self._clock()
        before: tuple[Files, Mapping[str, Any] | None] = (files, agent)
        if self.published is not None:
            before = self.published.files, self.published.document.agent
        if before == (files, agent) and self.undo is not None:  # a renewal: the way back leads where it led before
            before = self.undo.document.files, self.undo.document.agent
        new, new_document = build(files, agent, version, now, now + LIFE_SECONDS)
        undo, undo_document = build(*before, version + 1, now, now + LIFE_SECONDS)
        return Pair(new, undo, new_document, undo_document)

    def touched_by(self, fresh: Published) -> Touched:
        """Return what a set changes of the one that all agents run."""
        base = self.published
        other_equus = base is not None and fresh.document.agent != base.document.agent
        using = {name for name, entry in fresh.files.items() if b"require" in (self.files.get(entry.sha256) or b"")}
        sha256 = {name: entry.sha256 for name, entry in fresh.files.items()}
        before = {} if base is None else {name: entry.sha256 for name, entry in base.files.items()}
        return touched(before, sha256, using, other_equus)

    def with_tables(self, signed: Signed) -> Published:
        """Return a signed set with the tables of its checks."""
        return Published(signed.envelope, signed.document, self._tables_of(signed.document.files))

    def worth_undoing(self, undo: Signed, fresh: Published | None = None) -> Signed | None:
        """Return None for the first set of all, and for one that changes nothing: there is no way back from those."""
        fresh, back = fresh or self.newest, undo.document
        return undo if fresh is not None and (back.files, back.agent) != (fresh.files, fresh.document.agent) else None

    # ---------------------------------------------------------------------------------------------- steps, once stored

    def offer_to_ring(self, fresh: Published, rollout: Rollout) -> None:
        """Offer a set to the members of the open ring, before all others."""
        self.canary, self.rollout, self.last = fresh, rollout, rollout

    def offer_to_all(self, fresh: Published | None, last: Rollout | None) -> None:
        """Offer a set to all agents: no rollout is under way any more."""
        self.published, self.canary, self.rollout, self.last = fresh, None, None, last

    def know(self, digests: Iterable[str]) -> None:
        """Count sets among those of ours, by their digests."""
        self._known.extend(digests)
        self.ours = frozenset(self._known)

    def serve(self, document: ManifestDocument) -> None:
        """Keep the files of a set in memory, and drop those that no set needs any more."""
        self.files.serve(document)
        self.files.prune(each.document for each in (self.published, self.canary) if each is not None)

    def reread_tables(self) -> None:
        """Take the tables of the offered sets anew: verdicts have come that were not there when they were read."""
        for name in ("published", "canary"):
            held: Published | None = getattr(self, name)
            if held is not None:
                setattr(self, name, evolve(held, tables=self._tables_of(held.files)))

    async def refuse_only(self, refused: tuple[Refusal, ...]) -> None:
        """Replace what is kept from being published again, after a look at the folder."""
        if refused != self.refused:
            await self._store.call(agent_rows.put, REFUSED, withheld_files.write(refused))
            self.refused = refused

    # ---------------------------------------------------------------------------------------------- start

    def load(self, loaded: Loaded) -> None:
        """Take up what was offered before this start."""
        self.refused = withheld_files.read(loaded.kv.get(REFUSED, ""))
        self.aside = SetAside.from_json(loaded.kv.get(ASIDE, "{}"))
        self.key = bytes.fromhex(loaded.kv.get(RING_KEY) or self._new_key())
        if not loaded.manifests:
            return
        self.know(signed.digest for signed in loaded.manifests)
        versions = {signed.version: signed for signed in loaded.manifests}
        self.next_version = loaded.manifests[-1].version + 1
        current = versions.get(json.loads(loaded.kv.get(CURRENT, "null")))
        if current is not None:
            self.published = self.with_tables(Signed.read(current.envelope))
        if loaded.rollouts:
            self.last = read_rollout(loaded.rollouts[-1], self.key, self._steady())
        if self.last is not None and self.last.state == OPEN and self.published is not None:
            self.offer_to_ring(self.with_tables(Signed.read(versions[self.last.version].envelope)), self.last)
        newest = self.newest
        for signed in loaded.manifests:
            if newest is not None and signed.undoes == newest.version:
                self.undo = self.worth_undoing(Signed.read(signed.envelope))

    def _new_key(self) -> str:
        """Make the key of rings, and keep it. It is this Helen's alone, as its rollouts are."""
        made = secrets.token_hex(32)
        self._store.call(agent_rows.put, RING_KEY, made).addErrback(
            lambda failure: self.log.error("the key of rings is not kept: {why}", why=failure.getErrorMessage())
        )
        return made

    async def load_contents(self) -> None:
        """Read the files of what is offered from the store. Raises PushRefused if one is missing."""
        for published in (self.published, self.canary):
            if published is not None:
                await self.files.fetch(published.document)
                self.files.serve(published.document)
