"""Publishes signed sets: to the first ring of a rollout, or to all agents at once, as with a set of another Helen.

A set is in the store, with its files, its rollout and its row of the audit, before an agent hears of it.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.threads import deferToThread
from twisted.logger import Logger

from equus_protocol.manifest import ManifestDocument
from groundwork.counts import count
from helen.library.published import Published, Signed
from helen.library.release_rows import audit_row, manifest_row, rollout_row, store_release
from helen.library.releases import Releases
from helen.library.way_back import WayBack
from helen.library.withheld_files import Refusal
from helen.rollout.rollout import OPEN, Plan, Rollout, all_at_once
from helen.storage import publication_rows
from helen.storage.database import Store
from helen.storage.publication_rows import SignedManifest

RENEWAL = "renewal"  # the author of the same files signed anew


class Publisher:
    """Puts a new version into force. `clock`: unix seconds, `steady`: monotonic seconds."""

    log = Logger()

    def __init__(
        self, releases: Releases, way_back: WayBack, store: Store, clock: Callable[[], float],
        steady: Callable[[], float],
    ) -> None:  # fmt: skip
        self._releases = releases
        self._way_back = way_back
        self._store = store
        self._clock = clock
        self._steady = steady

    async def publish(self, new: Signed, undo: Signed, author: str, plan: Plan) -> int:
        """Offer a signed set to the members of the first ring, or to all agents if the plan has none.

        Returns the version. Raises PushRefused if a file is missing.
        """
        releases = self._releases
        await self._fetch(new, undo)
        fresh, before = releases.with_tables(new), releases.last
        rollout = await self._begin(fresh, author, plan)
        if author == RENEWAL and before is not None:
            rollout.by_itself = before.by_itself  # the same files: nothing is mended by them
        where = rollout.place if rollout.state == OPEN else rollout.why
        await self._store_new(new, undo, rollout, author, f"{rollout.touched.text}; {where}", releases.refused)
        releases.undo = releases.worth_undoing(undo, fresh)
        self._offer(fresh, rollout, undo.document.version + 1, new.document, undo.document)
        self.log.info(
            "version {version} published by {author}: {files}, {where}", version=fresh.version, author=author,
            files=count(len(fresh.files), "file"), where=where,
        )  # fmt: skip
        if before is not None and before.by_itself and not rollout.by_itself:
            releases.stepped("mended", before)
        self._tell_begun(rollout)
        return fresh.version

    async def adopt(self, new: Signed, undo: Signed | None, author: str, left: Refusal | None) -> None:
        """Offer to all agents a set that another Helen has published; its files are kept already.

        `left` is what the folder holds instead, if it could not be brought in line. A rollout of ours ends by it.
        Raises PushRefused if a file is missing.
        """
        releases = self._releases
        if new.envelope == releases.undo_envelope:
            await self._way_back.go(author)
            return
        await self._fetch(new, undo)
        fresh, refused = releases.with_tables(new), () if left is None else (left,)
        rollout, before = self._all_at_once(fresh, author), None
        if releases.rollout is not None and (before := self._way_back.taken_back(author, self._clock())) is not None:
            await self._store.call(publication_rows.put_rollout, rollout_row(before))
        await self._store_new(new, undo, rollout, author, rollout.why, refused)
        releases.undo, releases.refused = undo, refused
        # N+1 is for the way back, whether or not there is one
        self._offer(fresh, rollout, fresh.version + 2, *_documents(new, undo))
        self.log.info("version {version} by {author} is in force here", version=fresh.version, author=author)
        if before is not None:
            releases.stepped("undone", before)
        self._tell_begun(rollout)

    async def _fetch(self, new: Signed, undo: Signed | None) -> None:
        for document in _documents(new, undo):
            await self._releases.files.fetch(document)

    async def _begin(self, fresh: Published, author: str, plan: Plan) -> Rollout:
        """Return the rollout of a new set, with its first ring open; one that is over, if all agents get it at once."""
        releases, now, base = self._releases, self._clock(), self._releases.published
        if base is not None and plan.rings:
            touched = releases.touched_by(fresh)
            rollout = Rollout(fresh.version, fresh.digest, base.version, author, plan, now, touched, changed=now)
            rollout.key = releases.key
            if await deferToThread(rollout.advance, await releases.candidates(), now, self._steady()):
                return rollout
        return self._all_at_once(fresh, author)

    def _all_at_once(self, fresh: Published, author: str) -> Rollout:
        base = 0 if self._releases.published is None else self._releases.published.version
        touched = self._releases.touched_by(fresh)
        return all_at_once(fresh.version, fresh.digest, base, author, self._clock(), touched)

    async def _store_new(
        self, new: Signed, undo: Signed | None, rollout: Rollout, author: str, detail: str,
        refused: tuple[Refusal, ...],
    ) -> None:  # fmt: skip
        """Write a set with all that belongs to it; while a ring is open all agents keep the version that they run."""
        version, published = new.document.version, self._releases.published
        contents = self._releases.files.contents_of(_documents(new, undo))
        current: int | None = version
        floor = version
        if rollout.state == OPEN:
            current, floor = None, version if published is None else min(version, published.version)
        entry = audit_row(self._clock(), author, "publish", version, detail)
        await self._store.call(
            store_release, _rows(new, undo), contents, rollout_row(rollout), current, floor, refused, entry
        )

    def _offer(self, fresh: Published, rollout: Rollout, next_version: int, *documents: ManifestDocument) -> None:
        """Change what agents are offered, once that is in the store."""
        releases = self._releases
        releases.know(document.digest for document in documents)
        releases.next_version = next_version
        if rollout.state == OPEN:
            releases.offer_to_ring(fresh, rollout)
        else:
            releases.offer_to_all(fresh, rollout)
        releases.serve(fresh.document)

    def _tell_begun(self, rollout: Rollout) -> None:
        self._releases.stepped("opened" if rollout.state == OPEN else "at-once", rollout)
        self._releases.on_published()


def _documents(new: Signed, undo: Signed | None) -> list[ManifestDocument]:
    return [each.document for each in (new, undo) if each is not None]


def _rows(new: Signed, undo: Signed | None) -> list[SignedManifest]:
    rows = [manifest_row(new, None)]
    return rows if undo is None else [*rows, manifest_row(undo, new.document.version)]
