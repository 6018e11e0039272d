"""Takes the newest version back: N+1, the files that were promoted before it, is offered to all agents."""

from __future__ import annotations

from collections.abc import Callable

from attrs import evolve
from twisted.logger import Logger

from equus_protocol.manifest import ManifestDocument
from helen.library import withheld_files
from helen.library.published import Published, PushRefused, Signed
from helen.library.release_rows import audit_row, rollout_row, store_verdict
from helen.library.releases import Releases
from helen.library.withheld_files import Refusal
from helen.rollout.ring import BACK
from helen.rollout.rollout import UNDONE, Rollout
from helen.rollout.set_aside import SetAside, aside_sentence
from helen.storage.database import Store

GATE = "the gate"  # the author of an undo that no operator asked for


class WayBack:
    """Goes back to the set that was promoted before the newest. `clock`: unix seconds."""

    log = Logger()

    def __init__(self, releases: Releases, store: Store, clock: Callable[[], float]) -> None:
        self._releases = releases
        self._store = store
        self._clock = clock

    @property
    def document(self) -> ManifestDocument:
        """Return the set that undoes the newest. Raises PushRefused if there is none, or if it has expired."""
        return self._leads_to()[1].document

    async def go(self, author: str) -> int:
        """Offer N+1, the files that were promoted before, to all agents, and return its version.

        Raises PushRefused if there is no way back, or a file of it is missing.
        """
        releases = self._releases
        newest, undo = self._leads_to()
        await releases.files.fetch(undo.document)
        now, is_open = self._clock(), releases.rollout is not None
        rollout = self.taken_back(author, now)
        why = f"undone by {author}" if rollout is None else rollout.why
        refused, aside = self._refused(newest, undo, now, why), self._aside(newest, author)
        row = None if rollout is None else rollout_row(rollout)
        entry = audit_row(now, author, "undo", newest.version, why)
        await self._store.call(store_verdict, row, undo.document.version, refused, entry, aside)
        new_aside, releases.aside = sorted(aside.names - releases.aside.names), aside
        self.log.info(
            "version {old} was taken back ({why}): version {version} for all agents", old=newest.version, why=why,
            version=undo.document.version,
        )  # fmt: skip
        releases.refused, releases.undo = refused, None
        releases.offer_to_all(releases.with_tables(undo), rollout or releases.last)
        releases.serve(undo.document)
        if is_open and rollout is not None:
            releases.stepped("undone", rollout)
        self._tell_aside(new_aside)
        releases.on_published()
        return undo.document.version

    def taken_back(self, author: str, now: float) -> Rollout | None:
        """Return the newest rollout as it is when it is taken back; None if it is not known any more.

        `now`: unix seconds.
        """
        newest, last = self._releases.newest, self._releases.last
        if last is None or newest is None or last.version != newest.version:
            return None
        after = evolve(last, past=list(last.past), state=UNDONE, paused=None, changed=now, why=f"undone by {author}")
        if self._releases.rollout is None or after.ring is None:
            return after
        if after.ring.verdict != BACK:
            after.ring = evolve(after.ring, verdict=BACK, why=f"undone by {author}")
        after.why, after.by_itself = after.ring.why, author == GATE
        after.close_ring(now)
        return after

    def _leads_to(self) -> tuple[Published, Signed]:
        newest, undo = self._releases.newest, self._releases.undo
        if undo is None or newest is None:
            raise PushRefused(
                "there is nothing to undo: the newest set is the first, changed nothing, or was an undoing itself"
            )
        if undo.document.expires <= self._clock():
            raise PushRefused(
                "the undoing set has expired, agents would refuse it: put the older files into the folder instead"
            )
        return newest, undo

    def _refused(self, newest: Published, undo: Signed, now: float, why: str) -> tuple[Refusal, ...]:
        """Return what is kept from being published again, once the newest set is taken back."""
        refused = self._releases.refused
        refusal = withheld_files.refuse(newest.version, now, why, newest.files, undo.document.files)
        if refusal is None:
            return refused
        return (*(each for each in refused if each.files != refusal.files), refusal)

    def _aside(self, newest: Published, author: str) -> SetAside:
        """Return the agents that undid versions, with those that have spoken against the newest."""
        aside, rollout = self._releases.aside, self._releases.rollout
        speakers = rollout.ring.speakers if rollout is not None and rollout.ring is not None else ()
        return aside.count(newest.version, speakers) if author == GATE else aside

    def _tell_aside(self, names: list[str]) -> None:
        for name in names:
            self.log.warn("{sentence}", sentence=aside_sentence(name, self._releases.aside))
            self._releases.set_aside(name)
