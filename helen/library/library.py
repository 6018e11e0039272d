"""Makes the set that agents run out of the folder of checks: reads, judges, composes, and releases or stages it.

A file that is broken fails alone: the set keeps its last good version, and `problems` says so. With public keys alone
nothing can be signed here: a changed folder is only staged, until `helen push --key` brings the signatures (`accept`).
helen.library.lint_cache keeps the answers of lint; helen.library.releases keeps versions, rollouts and the way back.
While a rollout is under way changes of the folder wait, and pushes are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from twisted.internet.defer import Deferred, DeferredLock
from twisted.internet.threads import deferToThread
from twisted.logger import Logger
from twisted.python.failure import Failure

from equus_protocol import manifest, pieces
from equus_protocol.manifest import FileEntry, ManifestDocument, ManifestRefused
from equus_protocol.roots import Root
from groundwork.counts import count
from helen.assignments.schedule import CheckTable
from helen.files.restored import Restored
from helen.library import check_folder, push_checks
from helen.library.agent_wheels import Uploads
from helen.library.check_folder import Reading
from helen.library.findings import Findings
from helen.library.lint_cache import Files, Lint, Verdicts
from helen.library.linter import LintFailed, Problem, Verdict
from helen.library.published import Published, PushRefused, Signed
from helen.library.push_checks import in_tests_folder
from helen.library.releases import RENEWAL, Releases
from helen.library.shipped_lint import Shipped
from helen.library.staged import Staged
from helen.library.withheld_files import Refusal, keep_old, refuse, still_refused
from helen.rollout.rings import Candidate
from helen.rollout.rollout import AT_ONCE, USUAL_PLAN, Plan, Rollout
from helen.storage.database import Loaded, Store, StoreFailed

RETRY_SECONDS = 5.0  # between two tries to write down how a ring ended
FOLDER = "folder"  # the author of a change of the folder


class Library:
    """Keeps the check set of this server. `on_published()` is called once agents may be told.

    `clock`: unix seconds, `steady`: monotonic seconds. `private` sign sets here, if they are enough; agents take sets
    that `threshold` of `public` have signed. `fleet()` returns the agents that a ring may be made of, `aside` is where
    files of the folder go that another Helen's set replaces, `shipped` has verdicts that are known without asking.
    While `restored` is set nothing is published: `confirm` ends that.
    """

    log = Logger()

    def __init__(
        self,
        folder: Path,
        store: Store,
        lint: Lint,
        clock: Callable[[], float],
        steady: Callable[[], float],
        private: Iterable[Ed25519PrivateKey],
        public: Mapping[str, Ed25519PublicKey],
        on_published: Callable[[], None],
        *,
        threshold: int = 1,
        typed: bool = False,
        fleet: Callable[[], list[Candidate]] = list,
        aside: Path | None = None,
        shipped: Shipped | None = None,
        restored: Restored | None = None,
    ) -> None:
        self.folder = folder
        self.private = tuple(private)
        self.public = dict(public)
        self.threshold = threshold  # how many of `public` must sign
        self.typed = typed  # and only signatures over the kind of the document count
        self.agent: Mapping[str, Any] | None = None  # the Equus that goes out with the set, as manifests name it
        self.uploads = Uploads()  # of an Equus that comes in several requests
        self._wheels: dict[str, bytes] = {}  # its files, until a release has them
        self.verdicts = Verdicts(lint, store, steady, shipped or Shipped({}))
        self.releases = Releases(store, clock, steady, self.verdicts.tables, on_published, fleet)
        self._aside = aside
        self.staged: Staged | None = None
        self.plan = USUAL_PLAN  # of pushes that name no rings
        self.folder_plan = AT_ONCE  # of changes of the folder
        self.restored = restored  # this state came from a backup, and nobody has said yes to publishing
        self.waits: str | None = None  # the reason for which the folder's changes are not out yet
        self.kept_old: frozenset[str] = frozenset()  # files that are broken in the folder and old in the set
        self._lint = lint
        self._clock = clock
        self._steady = steady
        self._lock = DeferredLock()
        self._findings = Findings(folder)
        self._lookers: list[Deferred[None]] = []  # that fire when the next look has ended
        self._seen: tuple[dict[str, FileEntry], dict[str, str]] | None = None
        self._decide_at = 0.0

    # ---------------------------------------------------------------------------------------------- what is offered

    @property
    def published(self) -> Published | None:
        """Return the set that all agents run, but for the members of an open ring."""
        return self.releases.published

    @property
    def problems(self) -> dict[str, tuple[Problem, ...]]:
        """Return what is wrong with the folder, by file name; "" for the folder itself."""
        return self._findings.problems

    @property
    def is_signed(self) -> bool:
        """Return True if the published set has signatures of the keys in force."""
        return self.published is not None and self.would_take(self.published.envelope)

    def would_take(self, envelope: bytes) -> bool:
        """Return True if this is an envelope that enough of the keys in force have signed."""
        try:
            return manifest.is_signed(envelope, self.public, self.threshold, manifest.TYPE if self.typed else None)
        except ManifestRefused:
            return False

    def offered(self, agent: str) -> Published | None:
        """Return the set that this agent should run; None while nothing is published yet."""
        return self.releases.offered(agent)

    def file(self, sha256: str) -> bytes | None:
        """Return a file that one of the last few sets names."""
        return self.releases.files.get(sha256)

    @property
    def tables(self) -> dict[str, CheckTable]:
        """Return the tables of the published set's checks, by their names."""
        return self.published.tables if self.published is not None else {}

    # ---------------------------------------------------------------------------------------------- start and keys

    def load(self, loaded: Loaded) -> None:
        """Take up what was published before this start."""
        self.verdicts.load(loaded.kv)
        self.releases.load(loaded)
        newest = self.releases.newest
        self.agent = newest.document.agent if newest is not None else None

    def load_contents(self) -> Deferred[None]:
        """Read the files of what is offered from the store."""
        return self._lock.run(lambda: Deferred.fromCoroutine(self.releases.load_contents()))

    def take_keys(self, private: Iterable[Ed25519PrivateKey], root: Root) -> None:
        """Put other keys into force. `look` then has the set signed anew."""
        self.private, self.public = tuple(private), dict(root.keys)
        self.threshold, self.typed = root.threshold, root.typed
        self.staged = None

    # ---------------------------------------------------------------------------------------------- the folder

    def look(self) -> Deferred[None]:
        """Look at the folder and publish, or stage, what has changed. Never fails: `problems` has what is wrong."""
        done: Deferred[None] = Deferred()
        self._lookers.append(done)
        if len(self._lookers) == 1:  # else a look waits for its turn already: on a slow disk they don't pile up
            looked = self._lock.run(lambda: Deferred.fromCoroutine(self._look()))
            looked.addErrback(lambda failure: self.log.failure("the folder of checks", failure))
        return done

    async def _look(self) -> None:
        lookers, self._lookers = self._lookers, []
        try:
            await self._refresh(FOLDER, self.folder_plan)
        except (PushRefused, StoreFailed) as error:
            self._findings.add_trouble(f"checks are not published: {error}")
        finally:
            for done in lookers:
                done.callback(None)

    async def _refresh(self, author: str, plan: Plan, asked_for: Collection[str] | None = None) -> None:
        """Read the folder and publish or stage what has changed.

        `asked_for`: files that a push names, so that an empty or a refused set is no accident. Raises PushRefused.
        """
        try:
            reading = await deferToThread(check_folder.read, self.folder)
        except OSError as error:
            raise PushRefused(f"the folder {self.folder} can't be read: {error.strerror}") from error
        files = {name: manifest.entry(content) for name, content in reading.files.items()}
        if (files, reading.faults) == self._seen and asked_for is None and not self._is_renewal_due():
            return
        try:
            await self.verdicts.judge(reading.files, files, self._served())
        except LintFailed as error:
            raise PushRefused(str(error)) from error
        self.releases.reread_tables()
        self._judged(files, reading.faults)
        is_done = await self._compose(files, reading, author, plan, asked_for)
        self._seen = (files, reading.faults) if is_done else None

    def _served(self) -> list[Files]:
        offered = (self.releases.published, self.releases.canary)
        return [published.files for published in offered if published is not None]

    def _judged(self, files: Files, faults: Mapping[str, str]) -> None:
        found = {name: self.verdicts.of(name, entry).problems for name, entry in files.items()}
        self._findings.replace(found, faults)

    async def _compose(
        self, files: Files, reading: Reading, author: str, plan: Plan, asked_for: Collection[str] | None
    ) -> bool:
        """Release or stage a set of the files that can be used, and the last good versions of those that can't.

        Returns False if it has to wait. Raises PushRefused.
        """
        newest = self.releases.newest
        before: Files = newest.files if newest is not None else {}
        usable = {name: entry for name, entry in files.items() if self.verdicts.of(name, entry).usable}
        broken = (files.keys() | reading.faults.keys()) - usable.keys()
        kept = {name: before[name] for name in broken if name in before}
        self.kept_old = frozenset(kept)
        chosen = dict(sorted({**usable, **kept}.items()))
        if before and not chosen and asked_for is None:
            raise PushRefused(f"{self.folder} is empty: agents keep their checks. Is something not mounted?")
        refused = still_refused(self.releases.refused, files, asked_for or ())
        chosen = keep_old(chosen, before, refused)
        if newest is not None and chosen == dict(before) and self.agent == newest.document.agent:
            self.staged = self.waits = None
            await self.releases.refuse_only(refused)
            if not self._is_renewal_due():
                return True
            author, plan = RENEWAL, AT_ONCE
        if self.restored is not None:
            self._wait(self.restored.sentence)
            return False
        if author != RENEWAL and await self._must_wait(author, plan):
            return False
        contents = {files[name].sha256: reading.files[name] for name in usable} | self._wheels
        self.releases.files.keep(contents)
        if self.private:
            self.releases.refused = refused
            await self._release(chosen, author, plan)
        elif self.staged is None or (self.staged.files, self.staged.agent) != (chosen, self.agent):
            self._stage(chosen, contents, refused)
        return True

    async def _must_wait(self, author: str, plan: Plan) -> bool:
        """Return True if a change of the folder goes out later: after a rollout, or once an agent can try it."""
        rollout = self.releases.rollout
        why = None if rollout is None else f"the changes wait until version {rollout.version} is out or back"
        if rollout is None and author == FOLDER and self.private and await self._can_none_try(plan):
            why = "no agent is there that could try the changes before all others: they wait for one"
        self._wait(why)
        return why is not None

    def _wait(self, why: str | None) -> None:
        if why is not None and why != self.waits:
            self.log.info("{folder}: {why}", folder=self.folder, why=why)
        self.waits = why

    def _is_renewal_due(self) -> bool:
        """Return True if the set is to be signed anew or staged once.

        Half its life is over, other keys sign now, or agents hold a newer version than this one.
        """
        due = self.releases.is_ageing or self.releases.is_signed_otherwise(self.public, self.threshold, self.typed)
        due = due or self.releases.is_outrun
        return due and (bool(self.private) or self.staged is None)

    async def _release(self, files: Files, author: str, plan: Plan) -> None:
        await self._check_rings(plan)
        pair = self.releases.pair(files, self.agent)
        try:
            new, undo = manifest.sign(pair.new, self.private), manifest.sign(pair.undo, self.private)
        except ValueError as error:
            raise PushRefused(str(error)) from error
        await self.releases.publish(*pair.signed(new, undo), author, plan)

    async def _can_none_try(self, plan: Plan) -> bool:
        if self.releases.published is None:
            return False
        return push_checks.can_none_try(await self.releases.candidates(), plan)

    async def _check_rings(self, plan: Plan) -> None:
        push_checks.check_rings(await self.releases.candidates(), plan, self.releases.published is not None)

    def _stage(self, files: dict[str, FileEntry], contents: dict[str, bytes], refused: tuple[Refusal, ...]) -> None:
        self.staged = Staged(self.releases.pair(files, self.agent), files, contents, self.agent, refused)
        self.log.info(
            "{checks} staged as version {version}: run `helen push --key FILE` where the signing key is",
            checks=count(len(files), "check is", "checks are"), version=self.staged.version,
        )  # fmt: skip

    # ---------------------------------------------------------------------------------------------- pushes

    def push(
        self,
        files: Mapping[str, bytes],
        tests: Mapping[str, bytes],
        author: str,
        plan: Plan | None = None,
        dry_run: bool = False,
        replace: bool = False,
        gone: Collection[str] = (),
    ) -> Deferred[dict[str, Verdict]]:
        """Judge these files, tests and all, put them into the folder, and publish it. Fires with their verdicts.

        `plan`: None for the usual one. `replace`: a rollout that is under way is taken back first. `gone`: files that
        leave the folder with it, tests/NAME.lua too. Fails with PushRefused, and then nothing has changed.
        """
        return self._lock.run(
            lambda: Deferred.fromCoroutine(self._push(files, tests, author, plan or self.plan, dry_run, replace, gone))
        )

    async def _push(
        self, files: Mapping[str, bytes], tests: Mapping[str, bytes], author: str, plan: Plan, dry_run: bool,
        replace: bool, gone: Collection[str],
    ) -> dict[str, Verdict]:  # fmt: skip
        for named in (files, tests, dict.fromkeys((name.removeprefix("tests/") for name in gone), b"")):
            push_checks.check_names(named)
        is_said_again = self._is_under_way(files) and not gone
        if not dry_run:
            self._refuse_what_was_restored()
        if not replace and not is_said_again and self.restored is None:
            self._refuse_a_second()
        try:
            judged = await push_checks.judge_push(self.folder, self._lint, self.verdicts, files, tests)
        except (LintFailed, OSError) as error:
            raise PushRefused(str(error)) from error
        # After what is wrong with the files: agents may come by themselves, faults don't go
        await self._check_rings(plan)
        if dry_run or is_said_again:
            return judged
        if replace and self.releases.rollout is not None:
            await self._go_back(author)
        try:
            await deferToThread(check_folder.put, self.folder, {**files, **in_tests_folder(tests)})
            await deferToThread(check_folder.take_away, self.folder, gone)
        except OSError as error:
            raise PushRefused(f"the folder {self.folder} can't be written: {error.strerror}") from error
        await self._refresh(author, plan, {*files, *gone})
        return judged

    def _is_under_way(self, files: Mapping[str, bytes]) -> bool:
        """Return True if just these files are on their way: a task that was handed out twice is no second push."""
        canary = self.releases.canary
        return canary is not None and all(canary.files.get(n) == manifest.entry(text) for n, text in files.items())

    def confirm(self, newest_held: int, forget: Callable[[], None]) -> Deferred[None]:
        """Publish from now on, though this state came from a backup; does nothing if it did not.

        `newest_held`: the newest version that an agent is known to hold, so the next one is above it. `forget` removes
        the mark of the restored state; it blocks.
        """
        return self._lock.run(lambda: Deferred.fromCoroutine(self._confirm(newest_held, forget)))

    async def _confirm(self, newest_held: int, forget: Callable[[], None]) -> None:
        if self.restored is None:
            return
        await deferToThread(forget)
        self.restored = self.waits = self._seen = None
        self.releases.outrun(newest_held)
        try:
            await self._refresh(FOLDER, self.folder_plan)
        except (PushRefused, StoreFailed) as error:
            self._findings.add_trouble(f"checks are not published: {error}")

    def _refuse_what_was_restored(self) -> None:
        if self.restored is not None:
            raise PushRefused(self.restored.sentence)

    def _refuse_a_second(self) -> None:
        self._refuse_what_was_restored()
        rollout = self.releases.rollout
        if rollout is not None:
            raise PushRefused(
                f"version {rollout.version} is on its way, {rollout.place}: wait for it (`helen rollout watch`), take"
                " it back (`helen rollout undo`), or push with --replace"
            )

    async def check_signed(self, envelope: bytes, undo: bytes, plan: Plan | None = None) -> Staged:
        """Return what `accept` would publish. Raises PushRefused if it would not."""
        self._refuse_a_second()
        await self._check_rings(plan or self.plan)
        if self.staged is None:
            raise PushRefused("nothing is staged: change the folder of checks first")
        self.staged.check_signatures(envelope, undo, self.public, self.threshold, self._clock(), self.typed)
        return self.staged

    def accept(self, envelope: bytes, undo: bytes, author: str, plan: Plan | None = None) -> Deferred[int]:
        """Publish what was staged, signed elsewhere. Fires with the version; fails with PushRefused."""
        return self._lock.run(lambda: Deferred.fromCoroutine(self._accept(envelope, undo, author, plan or self.plan)))

    async def _accept(self, envelope: bytes, undo: bytes, author: str, plan: Plan) -> int:
        staged = await self.check_signed(envelope, undo, plan)
        signed = Signed.read(envelope), Signed.read(undo)
        self.releases.files.keep(staged.contents)
        if staged.is_renewal_of(self.releases.published):
            author, plan = RENEWAL, AT_ONCE
        self.releases.refused = staged.refused
        version = await self.releases.publish(*signed, author, plan)
        self.staged = None
        return version

    def offer_agent(
        self, version: str, wheels: Mapping[str, bytes], author: str, plan: Plan | None = None
    ) -> Deferred[None]:
        """Send an Equus out with the set; hosts whose policy allows it take it. Fails with PushRefused."""
        return self._lock.run(
            lambda: Deferred.fromCoroutine(self._offer_agent(version, wheels, author, plan or self.plan))
        )

    async def _offer_agent(self, version: str, wheels: Mapping[str, bytes], author: str, plan: Plan) -> None:
        self._refuse_a_second()
        split = pieces.split(wheels)
        entries = {name: manifest.entry(content) for name, content in split.items()}
        before = self.agent, self._wheels
        self.agent = {
            "version": version, "files": {name: {"sha256": e.sha256, "size": e.size} for name, e in entries.items()},
        }  # fmt: skip
        self._wheels = {entries[name].sha256: content for name, content in split.items()}
        try:
            await self._refresh(author, plan, ())
        except (PushRefused, StoreFailed):
            self.agent, self._wheels = before
            raise

    def undo(self, author: str) -> Deferred[int]:
        """Publish N+1: the files that were promoted before. Fires with its version; fails with PushRefused."""
        return self._lock.run(lambda: Deferred.fromCoroutine(self._undo(author)))

    async def _undo(self, author: str) -> int:
        self._refuse_what_was_restored()
        return await self._go_back(author)

    async def _go_back(self, author: str) -> int:
        version = await self.releases.go_back(author)
        self._went_back()
        return version

    def _went_back(self) -> None:
        self.staged = None  # it was made over the set that is no more
        published = self.releases.published
        self.agent = published.document.agent if published is not None else None

    # ---------------------------------------------------------------------------------------------- other Helens

    def adopt(self, envelope: bytes, undo: bytes | None, contents: Mapping[str, bytes], by: str) -> Deferred[None]:
        """Adopt a set that another Helen has published; its signatures have been verified, its files are here.

        The folder becomes what the set is. Fails with PushRefused, LintFailed or StoreFailed.
        """
        return self._lock.run(lambda: Deferred.fromCoroutine(self._adopt(envelope, undo, contents, by)))

    async def _adopt(self, envelope: bytes, undo: bytes | None, contents: Mapping[str, bytes], by: str) -> None:
        new, author = Signed.read(envelope), f"the network, by {by}"
        document = new.document
        files = {name: contents[entry.sha256] for name, entry in document.files.items()}
        await self.verdicts.judge(files, document.files, [document.files, *self._served()])
        self.releases.files.keep(contents)
        left = await self._become(files, document, by)
        self.agent, self._wheels, self.staged = document.agent, {}, None
        if self.releases.can_follow(new):
            await self.releases.adopt(new, None if undo is None else Signed.read(undo), author, left)
        elif self.private:
            if self.releases.rollout is not None:
                await self.releases.go_back(author)
            await self._release(dict(document.files), author, AT_ONCE)
        else:
            self._stage(dict(document.files), dict(contents), ())
            raise PushRefused("agents here hold a newer version: sign it anew, with `helen push --key FILE`")

    async def _become(self, files: Mapping[str, bytes], document: ManifestDocument, by: str) -> Refusal | None:
        """Replace the folder by another server's set; the old files go to `aside`.

        Returns a Refusal of what the folder holds instead, if that failed.
        """
        try:
            await deferToThread(check_folder.become, self.folder, files, self._aside)
        except OSError as error:
            self.log.error("{folder} stays as it is: {error}", folder=self.folder, error=error)
        try:
            reading = await deferToThread(check_folder.read, self.folder)
        except OSError:
            return None
        found = {name: manifest.entry(content) for name, content in reading.files.items()}
        self._seen = (found, reading.faults)
        return refuse(document.version, self._clock(), f"{by} has published other files", found, document.files)

    # ---------------------------------------------------------------------------------------------- rollouts

    def pause(self, author: str, is_paused: bool) -> Deferred[Rollout]:
        """Stay in the open ring, or go on. Fails with PushRefused."""
        return self._lock.run(lambda: Deferred.fromCoroutine(self.releases.pause(author, is_paused)))

    def readmit(self, agent: str, author: str) -> Deferred[None]:
        """Listen again to an agent that was set aside in rollouts. Fails with NotSetAside if it was not."""
        return self._lock.run(lambda: Deferred.fromCoroutine(self.releases.readmit(agent, author)))

    def tick(self, now: float, here: Callable[[], Iterable[str]]) -> None:
        """Act if the open ring is over; called once a second or so. `now`: monotonic seconds.

        A decision that can't be written down is tried again. `here()` returns the connected agents that follow.
        """
        rollout = self.releases.rollout
        if self.restored is not None:  # an open ring of the backup stays open: agents may be long past it
            return
        if rollout is None:
            if self.waits is not None and now >= self._decide_at:
                self._decide_at = now + RETRY_SECONDS
                self.look()
            return
        if now < self._decide_at or (rollout.tick(frozenset(here()), now) is None and not rollout.asks_second):
            return
        self._decide_at = now + RETRY_SECONDS
        done = self._lock.run(lambda: Deferred.fromCoroutine(self._decide()))
        done.addErrback(self._rollout_stays)

    def _rollout_stays(self, failure: Failure) -> None:
        self._findings.add_trouble(f"the rollout stays as it is: {failure.getErrorMessage()}")

    async def _decide(self) -> None:
        await self.releases.decide()
        self._decide_at = 0.0
        if self.releases.rollout is None:
            self._went_back()
