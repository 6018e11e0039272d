"""How new code becomes what runs: ask, verify, fetch, try, swap, say so.

One update at a time; what asks for another meanwhile gets one more behind it. The set in use is replaced whole or not
at all: whatever fails on the way leaves it as it was, and the load report says why. Runs that are going keep
the code that they began with, since a Job carries its source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred, DeferredList, DeferredSemaphore, ensureDeferred
from twisted.logger import Logger

from equus.connection import Connection
from equus.library import (
    KEPT_OLD,
    MAX_SET,
    REFUSED,
    CheckSet,
    CodeFile,
    Held,
    LibraryError,
    LibraryStore,
    hash_of,
)
from equus.pins import Pins
from equus.upgrading import Upgrading
from equus_protocol import delivery, freshness, roots
from equus_protocol import messages as m
from equus_protocol.manifest import ManifestDocument, ManifestRefused, verify

FETCHED_AT_ONCE = 8  # files asked for together: hides the round trip, and holds eight megabytes at most
ASK_AGAIN = 900.0  # seconds, at least, between two questions whether the set in use is still the newest
INSPECTED_AT_ONCE = 4  # files tried together: half of the sandbox, so that checks go on meanwhile


class Update:
    """The code of an agent over time. `checks` is what runs; `trouble` why the last update came to nothing."""

    log = Logger(namespace="equus.update")

    def __init__(
        self,
        checks: CheckSet,
        held: Held | None,
        store: LibraryStore,
        read_local: Callable[[], CheckSet] | None,
        inspect: Callable[..., Any],
        wall: Callable[[], float],
        changed: Callable[[], None],
        defer_to_thread: Callable[..., Deferred[Any]],
    ) -> None:
        self.checks = checks
        self.trouble: dict[str, str] | None = None
        self.pins: Pins | None = None  # whose signatures count; nobody's before it is given
        self.upgrading: Upgrading | None = None  # who looks at the manifest's `agent` entry
        self.holds_back: Callable[[], str | None] = lambda: None  # why this host takes no newer set, if it doesn't
        self._fresh_from = 0.0  # when the newest word of freshness was said; and when we asked for it last
        self._asked_at = 0.0
        self._held = held
        self._store = store
        self._read_local = read_local
        self._inspect = inspect
        self._wall = wall
        self._changed = changed
        self._defer_to_thread = defer_to_thread
        self._verdicts: dict[tuple[str, str], str | None] = {}  # what `inspect` said of a file with these libraries
        self.is_busy = False
        self._is_asked_again = False  # while busy, and on which connection
        self._next_connection: Connection | None = None

    @property
    def is_local(self) -> bool:
        return self._read_local is not None

    @property
    def manifest(self) -> ManifestDocument | None:
        return self._held.manifest if self._held else None

    def begin(self, connection: Connection | None) -> None:
        """Bring the code up to date, from the folder or from Helen."""
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
        self._changed()

    def _failed(self, failure: Any) -> None:
        if failure.check(ManifestRefused, LibraryError):
            reason = getattr(failure.value, "reason", "library")
            self.trouble = {"reason": reason, "text": str(failure.value)}
            self.log.error("the new check set is refused ({reason}): {text}", reason=reason, text=str(failure.value))
        elif failure.check(OSError):
            self.trouble = {"reason": "disk", "text": str(failure.value)}
            self.log.error("the new check set can't be kept: {text}", text=str(failure.value))
        elif failure.check(_Untried):
            self.trouble = {"reason": "sandbox", "text": f"the new check set could not be tried: {failure.value}"}
            self.log.info("{text}", text=self.trouble["text"])
        elif failure.check(_ConnectionGone):
            self.log.info("the connection went away in the middle of an update; the next one brings it")
        else:
            self.trouble = {"reason": "internal", "text": failure.getErrorMessage()}
            self.log.failure("an update failed", failure=failure)

    # ---------------------------------------------------------------------------------------------- a local folder

    async def _refresh_local(self) -> None:
        """What lies there is used at once; what is wrong with it is found out behind."""
        assert self._read_local is not None
        self.checks = await self._defer_to_thread(self._read_local)
        self.checks = self.checks.judged(await self._try(self.checks.checks, self.checks.libraries))
        self.trouble = None

    # ---------------------------------------------------------------------------------------------- a pushed set

    async def _refresh_pushed(self, connection: Connection | None) -> None:
        if connection is None or not connection.conversation.speaks_v2:
            return  # version 1 has no code delivery: the last good set stays
        self._asked_at = self._wall()
        answer = await _answer(connection.ask(m.AskManifest))
        manifest = await self._judge(answer.blob)
        if self.manifest is not None and manifest.digest == self.manifest.digest:
            self.trouble = None
            await self._consider_upgrade(manifest, connection)
            return
        if self.manifest is not None and (why := self.holds_back()) is not None:
            raise ManifestRefused("held-back", why)
        if sum(entry.size for entry in manifest.files.values()) > MAX_SET:
            raise ManifestRefused("too-large", f"a set of more than {MAX_SET} bytes")
        contents = {file.sha256: file.content for file in self.checks.files.values()}
        contents |= await self._fetch(connection, self._store.lacking(manifest, self.checks))
        wanted = {name: CodeFile.of(contents[entry.sha256]) for name, entry in manifest.files.items()}
        checks = await self._settle(CheckSet(manifest.digest, wanted, pushed=True))
        held = Held(manifest, answer.blob, checks)
        await self._defer_to_thread(self._store.save, held)
        self._held, self.checks, self.trouble = held, checks, None
        self.log.info("check set {version} with {count} files is active", version=manifest.version, count=len(wanted))
        await self._consider_upgrade(manifest, connection)

    async def _consider_upgrade(self, manifest: ManifestDocument, connection: Connection) -> None:
        if self.upgrading is not None:
            await self.upgrading.consider(manifest.agent, lambda lacking: self._fetch(connection, lacking))

    async def _judge(self, blob: bytes) -> ManifestDocument:
        """The manifest of a delivery, by the keys of the newest root, which may have come with it."""
        statement, chain = delivery.beside(blob)
        root = await self._climb(chain)
        now = self._wall()
        manifest = verify(blob, root.keys, now, threshold=root.threshold, held=self.manifest)
        if root.online is not None:
            self._fresh_from = freshness.verify(statement, root.online, manifest, now, self._fresh_from).created
        return manifest

    async def _climb(self, chain: list[bytes]) -> roots.Root:
        if self.pins is None:
            return roots.Root()
        root, envelope = roots.climb(chain, self.pins.root)
        if envelope is not None:
            await self._defer_to_thread(self.pins.keep, envelope)
            self.pins.refresh()
            self.log.info("root {version} says who signs check sets from now on", version=root.version)
        return root

    def wants_word(self) -> bool:
        """Whether to ask again, though nobody said `reload`: the last word of freshness is half a day old."""
        if self.is_local or self.manifest is None or self.pins is None or self.pins.root.online is None:
            return False
        now = self._wall()
        return now - self._fresh_from >= freshness.LIFE / 2 and not 0 <= now - self._asked_at < ASK_AGAIN

    async def _fetch(self, connection: Connection, lacking: Mapping[str, int]) -> dict[str, bytes]:
        """The files of these hashes, each verified. A wrong one refuses the whole set."""
        turns = DeferredSemaphore(FETCHED_AT_ONCE)

        async def one(sha256: str, size: int) -> bytes:
            answer: m.File = await _answer(connection.ask(lambda message_id: m.Fetch(message_id, sha256)))
            if answer.sha256 != sha256 or len(answer.blob) != size or hash_of(answer.blob) != sha256:
                raise ManifestRefused("wrong-file", f"Helen sent other bytes than those of {sha256}")
            return answer.blob

        hashes = sorted(lacking)
        asked = [turns.run(one, sha256, lacking[sha256]) for sha256 in hashes]
        return dict(zip(hashes, await _all(asked), strict=True))

    async def _settle(self, wanted: CheckSet) -> CheckSet:
        """Try what is new; a file that doesn't compile keeps its old version, or is refused if it has none."""
        errors = await self._try(wanted.checks, wanted.libraries)
        files = dict(wanted.files)
        for name, error in errors.items():
            old = self.checks.files.get(name) if self.checks.pushed else None
            if old is not None and old.state != REFUSED:
                files[name] = evolve(old, wanted=files[name].sha256, state=KEPT_OLD, error=error)
            else:
                files[name] = evolve(files[name], state=REFUSED, error=error)
            self.log.error("{name} is no good: {error}", name=name, error=error)
        return evolve(wanted, files=files)

    # ---------------------------------------------------------------------------------------------- trying

    async def _try(self, files: Mapping[str, CodeFile], libraries: dict[str, bytes]) -> dict[str, str]:
        """What is wrong with files, by name. What was tried before with these libraries is not tried again."""
        around = hash_of(repr(sorted(libraries.items())).encode())
        turns = DeferredSemaphore(INSPECTED_AT_ONCE)
        new = {file.sha256: file for file in files.values() if (file.sha256, around) not in self._verdicts}
        tried = [turns.run(self._inspected, file, libraries) for file in new.values()]
        verdicts = dict(zip(new, await _all(tried), strict=True))
        self._verdicts |= {(sha256, around): error for sha256, error in verdicts.items()}
        known = {(file.sha256, around) for file in files.values()}
        self._verdicts = {key: error for key, error in self._verdicts.items() if key in known}  # of this set alone
        return {name: error for name, file in files.items() if (error := self._verdicts[file.sha256, around])}

    def _inspected(self, file: CodeFile, libraries: dict[str, bytes]) -> Deferred[str | None]:
        verdict: Deferred[str | None] = Deferred()

        def done(table: dict[str, Any]) -> None:
            line = table.get("line")
            error = table.get("error")
            if table.get("untried"):
                verdict.errback(_Untried(error))
                return
            verdict.callback(f"line {line}: {error}" if error and line else error)

        self._inspect(file.content, libraries, done)
        return verdict


class _Untried(Exception):
    """A file that nothing is known of: we are stopping, or there is no sandbox. It must not be kept as a bad one."""


class _ConnectionGone(Exception):
    """An answer that will not come."""


def _answer(asked: Deferred[Any]) -> Deferred[Any]:
    def gone(_: Any) -> None:
        raise _ConnectionGone

    return asked.addErrback(gone)


async def _all(asked: list[Deferred[Any]]) -> list[Any]:
    """Every result, or the first failure once all have ended."""
    results = await DeferredList(asked, consumeErrors=True)
    for good, result in results:
        if not good:
            raise result.value
    return [result for _, result in results]
