"""Bring the agent's check set up to date: ask for the manifest, verify it, fetch files, compile them, swap the set.

One update runs at a time; a request meanwhile makes one more run after it. The set in use is replaced whole or not at
all: a failure on the way leaves it as it was, and the load report says why. Runs that are going keep the code that they
began with, since a Job carries its source.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from attrs import evolve, frozen
from twisted.internet.defer import Deferred, DeferredSemaphore, ensureDeferred
from twisted.logger import Logger

from equus.code.agent_upgrade import Upgrader
from equus.code.compiler import Compiler, Untried, all_of
from equus.code.library import (
    KEPT_OLD,
    MAX_SET,
    REFUSED,
    CheckSet,
    CodeFile,
    HeldSet,
    LibraryError,
    LibraryStore,
    hash_of,
)
from equus.code.news import News
from equus.identity.trusted_keys import TrustedKeys
from equus.link.connection import Connection
from equus.link.questions import ANSWER_WITHIN, Unanswered
from equus.policy.policy import PolicyInForce
from equus_protocol import delivery, freshness, roots
from equus_protocol import messages as m
from equus_protocol.manifest import ManifestDocument, ManifestRefused, verify
from groundwork.counts import count
from groundwork.event import Event

FETCHED_AT_ONCE = 8  # files asked for together: hides the round trip, and holds eight megabytes at most
ASK_AGAIN = 900.0  # seconds at least between two requests for a fresh proof that the set in use is the newest


@frozen
class CodeSource:
    """Holds an agent's first code, and the place of newer code: a local folder, or a store of pushed sets."""

    checks: CheckSet
    store: LibraryStore
    held: HeldSet | None = None
    read_local: Callable[[], CheckSet] | None = None  # blocking; None if Helen sends the code


class Updater:
    """Keeps the check set of an agent up to date.

    `checks` is the set that runs. `trouble` has `reason` and `text` if the last update failed. The event `changed`
    follows each update, whether it changed the set or not.
    """

    log = Logger()

    def __init__(
        self,
        source: CodeSource,
        inspect: Callable[..., Any],
        trusted_keys: TrustedKeys,
        policy: PolicyInForce,
        upgrader: Upgrader | None,
        wall: Callable[[], float],
        defer_to_thread: Callable[..., Deferred[Any]],
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin with the code of `source`.

        `inspect` is that of a Runner, `wall` returns unix seconds, `steady` monotonic ones. `upgrader` takes the
        manifest's offer of a newer agent; None leaves the agent as it is.
        """
        self.checks = source.checks
        self.trouble: dict[str, str] | None = None
        self.changed: Event[[]] = Event()
        self.upgrader = upgrader
        self._trusted_keys = trusted_keys
        self._policy = policy
        self.news = News(wall, steady)
        self.kept_back: Event[[Connection]] = Event()  # called with a connection on which a question was not answered
        self._asked_at = 0.0  # unix seconds: when it was asked for last
        self._held = source.held
        self._store = source.store
        self._read_local = source.read_local
        self._compiler = Compiler(inspect)
        self._wall = wall
        self._defer_to_thread = defer_to_thread
        self.is_busy = False
        self._is_asked_again = False  # a further update was asked for while one was under way
        self._next_connection: Connection | None = None  # the connection on which it was

    @property
    def is_local(self) -> bool:
        """Return True if the code comes from a folder of this host."""
        return self._read_local is not None

    @property
    def manifest(self) -> ManifestDocument | None:
        """Return the manifest of the set in use, or None before there is one."""
        return self._held.manifest if self._held else None

    def begin(self, connection: Connection | None) -> None:
        """Start an update from the folder or from Helen, or make one more follow the update that runs."""
        if self.is_busy:
            self._is_asked_again, self._next_connection = True, connection
            return
        self.is_busy = True
        work = self._refresh_local() if self.is_local else self._refresh_pushed(connection)
        ensureDeferred(work).addErrback(self._failed).addCallback(self._done)

    def _done(self, _: Any) -> None:
        self.is_busy = False
        if self._is_asked_again:
            self._is_asked_again = False
            self.begin(self._next_connection)
        self.changed()

    def _failed(self, failure: Any) -> None:
        if failure.check(ManifestRefused, LibraryError):
            reason = getattr(failure.value, "reason", "library")
            self.trouble = {"reason": reason, "text": str(failure.value)}
            self.log.error("the new check set is refused ({reason}): {text}", reason=reason, text=str(failure.value))
        elif failure.check(OSError):
            self.trouble = {"reason": "disk", "text": str(failure.value)}
            self.log.error("the new check set can't be kept: {text}", text=str(failure.value))
        elif failure.check(Untried):
            self.trouble = {"reason": "sandbox", "text": f"the new check set could not be tried: {failure.value}"}
            self.log.info("{text}", text=self.trouble["text"])
        elif failure.check(Unanswered):
            self.trouble = {"reason": "unanswered", "text": f"Helen has not answered within {ANSWER_WITHIN:g} s"}
        elif failure.check(_ConnectionGone):
            self.log.info("the connection went away in the middle of an update; the next one brings it")
        else:
            self.trouble = {"reason": "internal", "text": failure.getErrorMessage()}
            self.log.failure("an update failed", failure=failure)

    # ---------------------------------------------------------------------------------------------- a local folder

    async def _refresh_local(self) -> None:
        """Use the folder's files at once; compile them afterwards."""
        assert self._read_local is not None
        self.checks = await self._defer_to_thread(self._read_local)
        self.checks = self.checks.with_errors(await self._compiler.errors_of(self.checks.checks, self.checks.libraries))
        self.trouble = None

    # ---------------------------------------------------------------------------------------------- a pushed set

    async def _refresh_pushed(self, connection: Connection | None) -> None:
        if connection is None or not connection.conversation.speaks_v2:
            return  # version 1 has no code delivery: the last good set stays
        self._asked_at = self._wall()
        answer = await self._answer(connection, m.AskManifest)
        manifest = await self._verify(answer.blob)
        if self.manifest is not None and manifest.digest == self.manifest.digest:
            self.trouble = None
            await self._consider_upgrade(manifest, connection)
            return
        if self.manifest is not None and (why := self._policy.current.newer_set_refusal()) is not None:
            raise ManifestRefused("held-back", why)
        if sum(entry.size for entry in manifest.files.values()) > MAX_SET:
            raise ManifestRefused("too-large", f"a set of more than {MAX_SET} bytes")
        ours = {file.sha256: CodeFile(file.content, file.sha256, file.sha256) for file in self.checks.files.values()}
        fetched = await self._fetch(connection, self._store.lacking(manifest, self.checks))
        ours |= {sha256: CodeFile(content, sha256, sha256) for sha256, content in fetched.items()}  # it was compared
        wanted = {name: ours[entry.sha256] for name, entry in manifest.files.items()}
        checks = await self._replace_broken(CheckSet(manifest.digest, wanted, pushed=True))
        held = HeldSet(manifest, answer.blob, checks)
        await self._defer_to_thread(self._store.save, held)
        self._held, self.checks, self.trouble = held, checks, None
        files = count(len(wanted), "file")
        self.log.info("check set {version} with {files} is active", version=manifest.version, files=files)
        await self._consider_upgrade(manifest, connection)

    async def _consider_upgrade(self, manifest: ManifestDocument, connection: Connection) -> None:
        if self.upgrader is not None:
            await self.upgrader.consider(manifest.agent, lambda lacking: self._fetch(connection, lacking))

    async def _verify(self, blob: bytes) -> ManifestDocument:
        """Return the manifest of a delivery. It is verified by the newest root, which may have come with it."""
        statement, chain = delivery.read_attached(blob)
        root = await self._follow_roots(chain)
        now = self._wall()
        manifest = verify(blob, root.keys, now, threshold=root.threshold, held=self.manifest, typed=root.typed)
        if root.online is not None:
            proof = freshness.verify(statement, root.online, manifest, now, seen=self.news.proof, typed=root.typed)
            self.news.proven(proof)
        return manifest

    async def _answer(self, connection: Connection, make: Callable[[int], m.Message]) -> Any:
        """Return the answer to a question. Raises Unanswered, which is remembered of this Helen, or _ConnectionGone."""
        try:
            answer = await connection.ask(make, ANSWER_WITHIN)
        except Unanswered:
            how = f"answers pings, and has not answered `manifest` or `fetch` for {ANSWER_WITHIN:g} s"
            self.news.kept_back(connection.helen, how)
            self.kept_back(connection)
            raise
        except Exception as error:
            raise _ConnectionGone from error
        self.news.answered(connection.helen)
        return answer

    async def _follow_roots(self, chain: list[bytes]) -> roots.Root:
        """Return the newest root of a chain that begins with ours, after it has been stored."""
        root, envelope = roots.follow_all(chain, self._trusted_keys.root)
        if envelope is not None:
            await self._defer_to_thread(self._trusted_keys.store, envelope)
            self._trusted_keys.refresh()
            self.log.info("root {version} says who signs check sets from now on", version=root.version)
        return root

    def stale(self) -> str | None:
        """Return why the pushed set in use may be old, where the root demands proofs of freshness, or None."""
        if self.is_local or self.manifest is None or self._trusted_keys.root.online is None:
            return None
        return self.news.stale()

    def needs_proof(self) -> bool:
        """Return True if the last proof of freshness is half a day old, so Helen should be asked again."""
        if self.is_local or self.manifest is None or self._trusted_keys.root.online is None:
            return False
        now = self._wall()
        is_old = self.news.proof is None or self.news.age >= freshness.LIFE / 2
        return is_old and not 0 <= now - self._asked_at < ASK_AGAIN

    async def _fetch(self, connection: Connection, lacking: Mapping[str, int]) -> dict[str, bytes]:
        """Return files by hash, each verified. A wrong one refuses the whole set. `lacking` has their sizes."""
        turns = DeferredSemaphore(FETCHED_AT_ONCE)

        async def fetch_one(sha256: str, size: int) -> bytes:
            """Return one file. Raises ManifestRefused if Helen sends another one."""
            answer: m.File = await self._answer(connection, lambda message_id: m.Fetch(message_id, sha256))
            if answer.sha256 != sha256 or len(answer.blob) != size or hash_of(answer.blob) != sha256:
                raise ManifestRefused("wrong-file", f"Helen sent other bytes than those of {sha256}")
            return answer.blob

        hashes = sorted(lacking)
        asked = [turns.run(fetch_one, sha256, lacking[sha256]) for sha256 in hashes]
        return dict(zip(hashes, await all_of(asked), strict=True))

    async def _replace_broken(self, wanted: CheckSet) -> CheckSet:
        """Compile a set. A file that doesn't compile is replaced by its old version, or refused if it has none."""
        errors = await self._compiler.errors_of(wanted.checks, wanted.libraries)
        files = dict(wanted.files)
        for name, error in errors.items():
            old = self.checks.files.get(name) if self.checks.pushed else None
            if old is not None and old.state != REFUSED:
                files[name] = evolve(old, wanted=files[name].sha256, state=KEPT_OLD, error=error)
            else:
                files[name] = evolve(files[name], state=REFUSED, error=error)
            self.log.error("{name} can't be used: {error}", name=name, error=error)
        return evolve(wanted, files=files)


class _ConnectionGone(Exception):
    """Says that the answer will not come, because the connection is lost."""
