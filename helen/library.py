"""From the folder of checks to the set that agents run: read, judge, compose, and release or stage.

A file that is broken fails alone: the set keeps its last good version, and `problems` says so. With public keys alone
nothing can be signed here: a changed folder is only staged, until `helen push --key` brings the signatures (`accept`).
What lint says is kept by helen.verdicts; versions, rollouts and the way back are helen.releases'. While a rollout is
under way changes of the folder wait, and pushes are refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from twisted.internet.defer import Deferred, DeferredLock
from twisted.internet.threads import deferToThread
from twisted.logger import Logger

from equus_protocol import manifest
from equus_protocol.manifest import FileEntry, ManifestDocument, ManifestRefused
from helen import checkfolder
from helen.checkfolder import Reading
from helen.lint import LintFailed, Problem, Verdict
from helen.policy import CheckTable
from helen.refusals import Refusal, keep_old, refuse, still_refused
from helen.releases import RENEWAL, Pair, Published, PushRefused, Releases
from helen.rings import matches
from helen.rollout import AT_ONCE, USUAL_PLAN, Plan, Rollout
from helen.store import Loaded, Store, StoreFailed
from helen.verdicts import Files, Lint, Verdicts, libraries

RETRY_SECONDS = 5.0  # between two tries to write down how a ring ended
FOLDER = "folder"  # who pushes when the folder has changed


@frozen
class Staged:
    """A set that waits for a signature from elsewhere."""

    pair: Pair
    files: dict[str, FileEntry]
    contents: dict[str, bytes] = field(repr=False)
    agent: Mapping[str, Any] | None = None
    refused: tuple[Refusal, ...] = ()

    @property
    def version(self) -> int:
        return self.pair.version


class Library:
    """The one set of checks of this Helen. `on_published()` is called once agents may be told."""

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
    ) -> None:
        self.folder = folder
        self.aside: Path | None = None  # where files of the folder go that another Helen's set replaces
        self.private = tuple(private)
        self.public = dict(public)
        self.threshold = 1  # how many of `public` must sign
        self.agent: Mapping[str, Any] | None = None  # the Equus that goes out with the set, as manifests name it
        self._wheels: dict[str, bytes] = {}  # its files, until a release has them
        self.verdicts = Verdicts(lint, store, steady)
        self.releases = Releases(store, clock, steady, self.verdicts.tables, on_published)
        self.staged: Staged | None = None
        self.plan = USUAL_PLAN  # of pushes that name no rings
        self.folder_plan = AT_ONCE  # of changes of the folder
        self.waits: str | None = None  # why the folder's changes are not out yet
        self.problems: dict[str, tuple[Problem, ...]] = {}
        self.kept_old: frozenset[str] = frozenset()  # files that are broken in the folder and old in the set
        self._lint = lint
        self._clock = clock
        self._steady = steady
        self._lock = DeferredLock()
        self._lookers: list[Deferred[None]] = []  # who waits for the next look to end
        self._seen: tuple[dict[str, FileEntry], dict[str, str]] | None = None
        self._told: dict[str, tuple[Problem, ...]] = {}
        self._decide_at = 0.0

    # ---------------------------------------------------------------------------------------------- what agents ask

    @property
    def published(self) -> Published | None:
        return self.releases.published

    @property
    def is_signed(self) -> bool:
        """Whether what is published has signatures of the keys in force."""
        return self.published is not None and self.would_take(self.published.envelope)

    def would_take(self, envelope: bytes) -> bool:
        """Whether enough of the keys in force have signed it, if it is an envelope at all."""
        try:
            return manifest.is_signed(envelope, self.public, self.threshold)
        except ManifestRefused:
            return False

    def offered(self, agent: str) -> Published | None:
        """The set that this agent shall run; None while nothing is published yet."""
        return self.releases.offered(agent)

    def file(self, sha256: str) -> bytes | None:
        """A file that a set of the last few names."""
        return self.releases.file(sha256)

    @property
    def tables(self) -> dict[str, CheckTable]:
        """The checks of the published set."""
        return self.published.tables if self.published is not None else {}

    # ---------------------------------------------------------------------------------------------- coming to be

    def load(self, loaded: Loaded) -> None:
        """What was published before this start."""
        self.verdicts.load(loaded.kv)
        self.releases.load(loaded)
        newest = self.releases.newest
        self.agent = newest.document.agent if newest is not None else None

    def load_contents(self) -> Deferred[None]:
        """The files of what is offered, from the store."""
        return self._lock.run(lambda: Deferred.fromCoroutine(self.releases.load_contents()))

    def take_keys(
        self, private: Iterable[Ed25519PrivateKey], public: Mapping[str, Ed25519PublicKey], threshold: int
    ) -> None:
        """Others sign from now on. `look` then has the set signed anew."""
        self.private, self.public, self.threshold = tuple(private), dict(public), threshold
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
            self._note_trouble(f"checks are not published: {error}")
        finally:
            for done in lookers:
                done.callback(None)

    async def _refresh(self, author: str, plan: Plan, asked_for: Collection[str] | None = None) -> None:
        """`asked_for`: files that somebody wants by name, so that an empty or a refused set is no accident."""
        try:
            reading = await deferToThread(checkfolder.read, self.folder)
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
        self.problems = {name: problems for name, problems in found.items() if problems}
        self.problems |= {name: (Problem(text),) for name, text in faults.items()}
        for name, problems in sorted(self.problems.items()):
            if self._told.get(name) == problems:
                continue
            for problem in problems:
                level = self.log.error if problem.severity == "error" else self.log.warn
                level("{problem}", problem=problem.at(str(self.folder / name)))
        self._told = self.problems

    def _note_trouble(self, text: str) -> None:
        """What is wrong with all of it, said once."""
        if self.problems.get("") != (Problem(text),):
            self.problems = self.problems | {"": (Problem(text),)}
            self.log.error("{text}", text=text)

    async def _compose(
        self, files: Files, reading: Reading, author: str, plan: Plan, asked_for: Collection[str] | None
    ) -> bool:
        """The new set: what can be used, and the last good version of what can't. False: it has to wait."""
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
        elif self._must_wait(author, plan):
            return False
        contents = {files[name].sha256: reading.files[name] for name in usable} | self._wheels
        self.releases.keep(contents)
        if self.private:
            self.releases.refused = refused
            await self._release(chosen, author, plan)
        elif self.staged is None or (self.staged.files, self.staged.agent) != (chosen, self.agent):
            self._stage(chosen, contents, refused)
        return True

    def _must_wait(self, author: str, plan: Plan) -> bool:
        """Whether what has changed in the folder goes out later: after a rollout, or once somebody can try it."""
        rollout, before = self.releases.rollout, self.waits
        self.waits = None if rollout is None else f"the changes wait until version {rollout.version} is out or back"
        if rollout is None and author == FOLDER and self.private and self._nobody_can_try(plan):
            self.waits = "no agent is there that could try the changes before all others: they wait for one"
        if self.waits is not None and self.waits != before:
            self.log.info("{folder}: {why}", folder=self.folder, why=self.waits)
        return self.waits is not None

    def _is_renewal_due(self) -> bool:
        """Half its life is over, or others sign now: we sign it anew, or stage it once."""
        due = self.releases.is_ageing or self.releases.is_signed_otherwise(self.public, self.threshold)
        return due and (bool(self.private) or self.staged is None)

    async def _release(self, files: Files, author: str, plan: Plan) -> None:
        self._check_rings(plan)
        pair = self.releases.pair(files, self.agent)
        try:
            new, undo = manifest.sign(pair.new, self.private), manifest.sign(pair.undo, self.private)
        except ValueError as error:
            raise PushRefused(str(error)) from error
        await self.releases.publish(new, undo, author, plan)

    def _nobody_can_try(self, plan: Plan) -> bool:
        """Whether there are agents, and all of them are away: without a ring all would get it when they come back."""
        fleet = self.releases.fleet() if plan.rings and self.releases.published is not None else []
        return bool(fleet) and not any(each.is_here for each in fleet)

    def _check_rings(self, plan: Plan) -> None:
        """A ring that is named by a label which nobody has is a slip: what follows it would be the first one."""
        if self._nobody_can_try(plan):
            raise PushRefused(
                "no agent is there that could try it before all others: wait for one, or push with --rings off"
            )
        fleet = self.releases.fleet()
        for spec in plan.rings:
            if spec.label is not None and fleet and not any(matches(each, spec.label) for each in fleet):
                raise PushRefused(f"no agent of version 2 has the label {spec.text}: `helen agents` shows their labels")

    def _stage(self, files: dict[str, FileEntry], contents: dict[str, bytes], refused: tuple[Refusal, ...]) -> None:
        self.staged = Staged(self.releases.pair(files, self.agent), files, contents, self.agent, refused)
        self.log.info(
            "{count} checks are staged as version {version}: run `helen push --key FILE` where the signing key is",
            count=len(files), version=self.staged.version,
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
        """Judge these files, tests and all, and put them into the folder. Fails with PushRefused, nothing changed.

        `plan`: None is as always. `replace`: a rollout that is under way is taken back first. `gone`: files that leave
        the folder with it, tests/NAME.lua too.
        """
        return self._lock.run(
            lambda: Deferred.fromCoroutine(self._push(files, tests, author, plan or self.plan, dry_run, replace, gone))
        )

    async def _push(
        self, files: Mapping[str, bytes], tests: Mapping[str, bytes], author: str, plan: Plan, dry_run: bool,
        replace: bool, gone: Collection[str],
    ) -> dict[str, Verdict]:  # fmt: skip
        _check_names(files, tests)
        _check_names(dict.fromkeys((name.removeprefix("tests/") for name in gone), b""), {})
        is_said_again = self._is_under_way(files) and not gone
        if not replace and not is_said_again:
            self._refuse_a_second()
        try:
            judged = await self._judge_push(files, tests)
        except (LintFailed, OSError) as error:
            raise PushRefused(str(error)) from error
        self._check_rings(plan)  # after what is wrong with the files: agents may come by themselves, faults don't go
        if dry_run or is_said_again:
            return judged
        if replace and self.releases.rollout is not None:
            await self._go_back(author)
        try:
            await deferToThread(checkfolder.put, self.folder, {**files, **_beside(tests)})
            await deferToThread(checkfolder.take_away, self.folder, gone)
        except OSError as error:
            raise PushRefused(f"the folder {self.folder} can't be written: {error.strerror}") from error
        await self._refresh(author, plan, {*files, *gone})
        return judged

    def _is_under_way(self, files: Mapping[str, bytes]) -> bool:
        """Whether just these files are on their way: a task that was handed out twice, say, is no second push."""
        canary = self.releases.canary
        return canary is not None and all(canary.files.get(n) == manifest.entry(text) for n, text in files.items())

    def _refuse_a_second(self) -> None:
        rollout = self.releases.rollout
        if rollout is not None:
            raise PushRefused(
                f"version {rollout.version} is on its way, {rollout.place}: wait for it (`helen rollout watch`), take"
                " it back (`helen rollout undo`), or push with --replace"
            )

    async def _judge_push(self, files: Mapping[str, bytes], tests: Mapping[str, bytes]) -> dict[str, Verdict]:
        """With a library among the files every check of the folder is judged: none may break by it."""
        reading = await deferToThread(checkfolder.read, self.folder)
        beside = reading.files if libraries(files) else libraries(reading.files)
        found = await self._lint({**beside, **files, **_beside(tests)})
        bad = [name for name in files if not found[name].usable]
        for name, content in beside.items():
            entry = manifest.entry(content)
            if name not in files and not found[name].usable and self._was_usable(name, entry):
                bad.append(name)
        if bad:
            raise PushRefused("\n".join(problem.at(name) for name in bad for problem in found[name].problems))
        return {name: found[name] for name in files}

    def _was_usable(self, name: str, entry: FileEntry) -> bool:
        try:
            return self.verdicts.of(name, entry).usable
        except KeyError:
            return False

    def check_signed(self, envelope: bytes, undo: bytes, plan: Plan | None = None) -> Staged:
        """What `accept` would publish. Raises PushRefused."""
        self._refuse_a_second()
        self._check_rings(plan or self.plan)
        staged = self.staged
        if staged is None:
            raise PushRefused("nothing is staged: change the folder of checks first")
        wanted = [hashlib.sha256(signed).hexdigest() for signed in (staged.pair.new, staged.pair.undo)]
        try:
            found = [
                manifest.verify(each, self.public, self._clock(), threshold=self.threshold).digest
                for each in (envelope, undo)
            ]
        except ManifestRefused as refused:
            raise PushRefused(f"{refused}. `helen keys` lists the keys that are known here") from refused
        if found != wanted:
            raise PushRefused("the folder has changed since that was signed: look at `helen push --dry-run`, sign anew")
        return staged

    def accept(self, envelope: bytes, undo: bytes, author: str, plan: Plan | None = None) -> Deferred[int]:
        """Publish what was staged, signed elsewhere. Fires with the version; fails with PushRefused."""
        return self._lock.run(lambda: Deferred.fromCoroutine(self._accept(envelope, undo, author, plan or self.plan)))

    async def _accept(self, envelope: bytes, undo: bytes, author: str, plan: Plan) -> int:
        staged = self.check_signed(envelope, undo, plan)
        self.releases.keep(staged.contents)
        if self._is_renewal(staged):
            author, plan = RENEWAL, AT_ONCE
        self.releases.refused = staged.refused
        version = await self.releases.publish(envelope, undo, author, plan)
        self.staged = None
        return version

    def _is_renewal(self, staged: Staged) -> bool:
        published = self.releases.published
        return published is not None and (staged.files, staged.agent) == (published.files, published.document.agent)

    def offer_agent(
        self, version: str, wheels: Mapping[str, bytes], author: str, plan: Plan | None = None
    ) -> Deferred[None]:
        """Send an Equus out with the set; hosts whose policy allows it take it. Fails with PushRefused."""
        return self._lock.run(
            lambda: Deferred.fromCoroutine(self._offer_agent(version, wheels, author, plan or self.plan))
        )

    async def _offer_agent(self, version: str, wheels: Mapping[str, bytes], author: str, plan: Plan) -> None:
        self._refuse_a_second()
        entries = {name: manifest.entry(content) for name, content in wheels.items()}
        before = self.agent, self._wheels
        self.agent = {
            "version": version, "files": {name: {"sha256": e.sha256, "size": e.size} for name, e in entries.items()},
        }  # fmt: skip
        self._wheels = {entries[name].sha256: content for name, content in wheels.items()}
        try:
            await self._refresh(author, plan, ())
        except (PushRefused, StoreFailed):
            self.agent, self._wheels = before
            raise

    def undo(self, author: str) -> Deferred[int]:
        """Publish N+1: the files that were promoted before. Fires with its version; fails with PushRefused."""
        return self._lock.run(lambda: Deferred.fromCoroutine(self._go_back(author)))

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
        """Make the set our own that another Helen has published; its signatures have been verified, its files are here.

        The folder becomes what the set is. Fails with PushRefused, LintFailed or StoreFailed.
        """
        return self._lock.run(lambda: Deferred.fromCoroutine(self._adopt(envelope, undo, contents, by)))

    async def _adopt(self, envelope: bytes, undo: bytes | None, contents: Mapping[str, bytes], by: str) -> None:
        document, author = manifest.read_unverified(envelope), f"the network, by {by}"
        files = {name: contents[entry.sha256] for name, entry in document.files.items()}
        await self.verdicts.judge(files, document.files, [document.files, *self._served()])
        self.releases.keep(contents)
        left = await self._become(files, document, by)
        self.agent, self._wheels, self.staged = document.agent, {}, None
        if self.releases.can_follow(envelope):
            await self.releases.adopt(envelope, undo, author, left)
        elif self.private:
            if self.releases.rollout is not None:
                await self.releases.go_back(author)
            await self._release(dict(document.files), author, AT_ONCE)
        else:
            self._stage(dict(document.files), dict(contents), ())
            raise PushRefused("agents here hold a newer version: sign it anew, with `helen push --key FILE`")

    async def _become(self, files: Mapping[str, bytes], document: ManifestDocument, by: str) -> Refusal | None:
        """The folder is what others publish; what it held lies in STATE/replaced. None, or what it holds instead."""
        try:
            await deferToThread(checkfolder.become, self.folder, files, self.aside)
        except OSError as error:
            self.log.error("{folder} stays as it is: {error}", folder=self.folder, error=error)
        try:
            reading = await deferToThread(checkfolder.read, self.folder)
        except OSError:
            return None
        found = {name: manifest.entry(content) for name, content in reading.files.items()}
        self._seen = (found, reading.faults)
        return refuse(document.version, self._clock(), f"{by} has published other files", found, document.files)

    # ---------------------------------------------------------------------------------------------- rollouts

    def pause(self, author: str, is_paused: bool) -> Deferred[Rollout]:
        """Stay in the open ring, or go on. Fails with PushRefused."""
        return self._lock.run(lambda: Deferred.fromCoroutine(self.releases.pause(author, is_paused)))

    def tick(self, now: float, here: Callable[[], Iterable[str]]) -> None:
        """Once a second or so: is a ring over? What cannot be written down is tried again."""
        rollout = self.releases.rollout
        if rollout is None:
            if self.waits is not None and now >= self._decide_at:
                self._decide_at = now + RETRY_SECONDS
                self.look()
            return
        if now < self._decide_at or rollout.tick(frozenset(here()), now) is None:
            return
        self._decide_at = now + RETRY_SECONDS
        done = self._lock.run(lambda: Deferred.fromCoroutine(self._decide()))
        done.addErrback(lambda failure: self._note_trouble(f"the rollout stays as it is: {failure.getErrorMessage()}"))

    async def _decide(self) -> None:
        await self.releases.decide()
        self._decide_at = 0.0
        if self.releases.rollout is None:
            self._went_back()


def _check_names(files: Mapping[str, bytes], tests: Mapping[str, bytes]) -> None:
    """Names become paths: only those of checks do, and of tests beside them."""
    for name, content in [*files.items(), *tests.items()]:
        if not manifest.FILE_NAME.fullmatch(name) or len(content) > manifest.MAX_FILE:
            raise PushRefused(f"{name!r}: a check's file is called NAME.lua and has at most {manifest.MAX_FILE} bytes")


def _beside(tests: Mapping[str, bytes]) -> dict[str, bytes]:
    return {f"tests/{name}": content for name, content in tests.items()}
