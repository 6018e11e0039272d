"""Makes a check set of the folder: has its files judged, chooses those of the set, and releases or stages it.

A file that is broken fails alone: the set keeps its last good version, and `findings` says so. With public keys alone
nothing can be signed here: a changed folder is only staged, until signatures come from elsewhere. While a rollout is
under way changes of the folder wait.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from twisted.internet.threads import deferToThread
from twisted.logger import Logger

from equus_protocol import manifest
from equus_protocol.manifest import FileEntry
from groundwork.counts import count
from helen.files.restored import Restored
from helen.library import check_folder, push_checks
from helen.library.check_folder import Reading
from helen.library.findings import Findings
from helen.library.keys_in_force import KeysInForce
from helen.library.lint_cache import Files, Verdicts
from helen.library.linter import LintFailed
from helen.library.published import PushRefused
from helen.library.publisher import RENEWAL, Publisher
from helen.library.releases import Releases
from helen.library.staged import Staged
from helen.library.withheld_files import Refusal, keep_old, still_refused
from helen.rollout.rollout import AT_ONCE, Plan
from helen.storage.database import StoreFailed

FOLDER = "folder"  # the author of a change of the folder


class SetBuilder:
    """Follows the folder of checks. The lock of helen.library.library keeps its coroutines from overlapping.

    While `restored` is set nothing is published: this state came from a backup, and nobody has said yes to it.
    """

    log = Logger()

    def __init__(
        self, folder: Path, verdicts: Verdicts, releases: Releases, publisher: Publisher, keys: KeysInForce,
        restored: Restored | None,
    ) -> None:  # fmt: skip
        self.folder = folder
        self.keys = keys
        self.restored = restored
        self.agent: Mapping[str, Any] | None = None  # the Equus that goes out with the set, as manifests name it
        self.wheels: dict[str, bytes] = {}  # its files, until a release has them
        self.staged: Staged | None = None
        self.waits: str | None = None  # the reason for which the folder's changes are not out yet
        self.kept_old: frozenset[str] = frozenset()  # files that are broken in the folder and old in the set
        self.findings = Findings(folder)
        self._verdicts = verdicts
        self._releases = releases
        self._publisher = publisher
        self._seen: tuple[dict[str, FileEntry], Mapping[str, str]] | None = None  # files and faults, once dealt with

    # ---------------------------------------------------------------------------------------------- from elsewhere

    def take_agent(self) -> None:
        """Send out again the Equus of the newest set."""
        newest = self._releases.newest
        self.agent = newest.document.agent if newest is not None else None

    def take_keys(self, keys: KeysInForce) -> None:
        """Put other keys into force; the next `refresh` has the set signed anew."""
        self.keys, self.staged = keys, None

    def went_back(self) -> None:
        """Drop what was staged over a set that has been taken back, and the Equus of it."""
        self.staged = None
        self.take_agent()

    def have_seen(self, reading: Reading) -> None:
        """Take the folder as dealt with, as long as it is as in this reading."""
        self._seen = _entries(reading), reading.faults

    def follow_anew(self) -> None:
        """Publish from now on, whatever the state came from; the next `refresh` deals with the folder as it is."""
        self.restored = self.waits = self._seen = None

    # ---------------------------------------------------------------------------------------------- the folder

    async def follow(self, plan: Plan) -> None:
        """Publish or stage what has changed in the folder; `findings` says why that could not be done."""
        try:
            await self.refresh(FOLDER, plan)
        except (PushRefused, StoreFailed) as error:
            self.findings.add_trouble(f"checks are not published: {error}")

    async def refresh(self, author: str, plan: Plan, asked_for: Collection[str] | None = None) -> None:
        """Read the folder and publish or stage what has changed.

        `asked_for`: files that a push names, so that an empty or a refused set is no accident. Raises PushRefused.
        """
        try:
            reading = await deferToThread(check_folder.read, self.folder)
        except OSError as error:
            raise PushRefused(f"the folder {self.folder} can't be read: {error.strerror}") from error
        files = _entries(reading)
        if (files, reading.faults) == self._seen and asked_for is None and not self._is_renewal_due():
            return
        await self._judge(files, reading)
        is_done = await self._compose(files, reading, author, plan, asked_for)
        self._seen = (files, reading.faults) if is_done else None

    async def _judge(self, files: Files, reading: Reading) -> None:
        try:
            await self._verdicts.judge(reading.files, files, self.served())
        except LintFailed as error:
            raise PushRefused(str(error)) from error
        self._releases.reread_tables()
        found = {name: self._verdicts.of(name, entry).problems for name, entry in files.items()}
        self.findings.replace(found, reading.faults)

    def served(self) -> list[Files]:
        """Return the files of the sets that agents are offered."""
        offered = (self._releases.published, self._releases.canary)
        return [published.files for published in offered if published is not None]

    async def _compose(
        self, files: Files, reading: Reading, author: str, plan: Plan, asked_for: Collection[str] | None
    ) -> bool:
        """Release or stage a set of the files that can be used, and the last good versions of those that can't.

        Returns False if it has to wait. Raises PushRefused.
        """
        newest = self._releases.newest
        before: Files = newest.files if newest is not None else {}
        usable = {name: entry for name, entry in files.items() if self._verdicts.of(name, entry).usable}
        chosen = self._fill_up(usable, (files.keys() | reading.faults.keys()) - usable.keys(), before)
        if before and not chosen and asked_for is None:
            raise PushRefused(f"{self.folder} is empty: agents keep their checks. Is something not mounted?")
        refused = still_refused(self._releases.refused, files, asked_for or ())
        chosen = keep_old(chosen, before, refused)
        if newest is not None and chosen == dict(before) and self.agent == newest.document.agent:
            self.staged = self.waits = None
            await self._releases.refuse_only(refused)
            if not self._is_renewal_due():
                return True
            author, plan = RENEWAL, AT_ONCE
        if await self._must_wait(author, plan):
            return False
        contents = {entry.sha256: reading.files[name] for name, entry in usable.items()} | self.wheels
        await self._put_out(chosen, contents, refused, author, plan)
        return True

    def _fill_up(self, usable: Files, broken: Collection[str], before: Files) -> dict[str, FileEntry]:
        """Return the usable files with those of the set before in the place of broken ones."""
        kept = {name: before[name] for name in broken if name in before}
        self.kept_old = frozenset(kept)
        return dict(sorted({**usable, **kept}.items()))

    async def _put_out(
        self, chosen: dict[str, FileEntry], contents: dict[str, bytes], refused: tuple[Refusal, ...], author: str,
        plan: Plan,
    ) -> None:  # fmt: skip
        """Release a set if it can be signed here; else stage it, unless just that is staged already."""
        self._releases.files.keep(contents)
        if self.keys.private:
            self._releases.refused = refused
            await self.release(chosen, author, plan)
        elif self.staged is None or (self.staged.files, self.staged.agent) != (chosen, self.agent):
            self.stage(chosen, contents, refused)

    # ---------------------------------------------------------------------------------------------- what is due

    def _is_renewal_due(self) -> bool:
        """Return True if the set is to be signed anew or staged once.

        Half its life is over, other keys sign now, or agents hold a newer version than this one.
        """
        keys, releases = self.keys, self._releases
        due = releases.is_ageing or releases.is_signed_otherwise(keys.public, keys.threshold, keys.typed)
        due = due or releases.is_outrun
        return due and (bool(keys.private) or self.staged is None)

    async def _must_wait(self, author: str, plan: Plan) -> bool:
        """Return True if the set goes out later: after a yes to a restored state, or a change of it after a rollout."""
        if self.restored is not None:
            self._wait(self.restored.sentence)
        elif author == RENEWAL:
            return False
        else:
            self._wait(await self._why_later(author, plan))
        return self.waits is not None

    async def _why_later(self, author: str, plan: Plan) -> str | None:
        """Return the reason for which a change waits: a rollout, or that no agent is there that could try it."""
        rollout, published = self._releases.rollout, self._releases.published
        if rollout is not None:
            return f"the changes wait until version {rollout.version} is out or back"
        if author != FOLDER or not self.keys.private or published is None:
            return None
        if push_checks.can_none_try(await self._releases.candidates(), plan):
            return "no agent is there that could try the changes before all others: they wait for one"
        return None

    def _wait(self, why: str | None) -> None:
        if why is not None and why != self.waits:
            self.log.info("{folder}: {why}", folder=self.folder, why=why)
        self.waits = why

    # ---------------------------------------------------------------------------------------------- putting it out

    async def release(self, files: Files, author: str, plan: Plan) -> None:
        """Sign a set and publish it. Raises PushRefused if its rings can't be, or the keys can't sign it."""
        await self.check_rings(plan)
        pair = self._releases.pair(files, self.agent)
        await self._publisher.publish(*self.keys.sign(pair), author, plan)

    async def check_rings(self, plan: Plan) -> None:
        """Raise PushRefused if no agent can try a set first, or none has the label that a ring is named by."""
        push_checks.check_rings(await self._releases.candidates(), plan, self._releases.published is not None)

    def stage(self, files: dict[str, FileEntry], contents: dict[str, bytes], refused: tuple[Refusal, ...]) -> None:
        """Keep a set until signatures come. Raises PushRefused if no manifest can name it."""
        self.staged = Staged(self._releases.pair(files, self.agent), files, contents, self.agent, refused)
        self.log.info(
            "{checks} staged as version {version}: run `helen push --key FILE` where the signing key is",
            checks=count(len(files), "check is", "checks are"), version=self.staged.version,
        )  # fmt: skip


def _entries(reading: Reading) -> dict[str, FileEntry]:
    return {name: manifest.entry(content) for name, content in reading.files.items()}
