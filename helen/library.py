"""From the folder of checks to the signed set that agents run: judge, publish, keep, undo.

A file that doesn't compile fails alone: the set keeps its last good version, and `problems` says so. Each push signs
two manifests: N with the new files, and N+1 with those before, kept back until somebody undoes; the next push is N+2.
With public keys alone nothing can be signed here: a changed folder is only staged, until `helen push --key` brings the
signatures (`accept`). Everything durable is in the store before an agent hears of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from attrs import frozen
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from twisted.internet.defer import Deferred, DeferredLock
from twisted.internet.threads import deferToThread
from twisted.logger import Logger

from equus_protocol import manifest
from equus_protocol.manifest import FileEntry, ManifestDocument, ManifestRefused
from helen import checkfolder, publications, records
from helen.lint import LintFailed, Problem, Verdict, verdict
from helen.policy import CheckTable
from helen.publications import SignedManifest
from helen.rollout import Ring, choose
from helen.statedir import write_whole
from helen.store import Loaded, Store

LIFE_SECONDS = 30 * 86_400.0  # of a manifest; Helen renews her own at half of it
KEPT_VERSIONS = 20  # older ones, and files that only they name, are let go
_VERDICTS = "library.verdicts"  # where the store keeps what lint said, so that a restart asks nobody again
_UNDONE = "library.undone"  # what the folder holds and was taken back: not to be published again by a restart
_CURRENT = "library.current"  # the version that is published; a ring that a restart cut short is not, and is forgotten

Lint = Callable[[Mapping[str, bytes]], "Deferred[dict[str, Verdict]]"]


class PushRefused(Exception):
    """A push that can't be; the text says why and what to do."""


@frozen
class Published:
    """The set that agents are offered."""

    envelope: bytes
    document: ManifestDocument
    tables: dict[str, CheckTable]

    @property
    def version(self) -> int:
        return self.document.version

    @property
    def digest(self) -> str:
        return self.document.digest


@frozen
class Staged:
    """A set that waits for a signature from elsewhere: the bytes to sign, for N and for its undoing N+1."""

    manifest: bytes
    undo: bytes
    files: dict[str, FileEntry]
    version: int


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
        self.private = tuple(private)
        self.public = dict(public)
        self.published: Published | None = None
        self.staged: Staged | None = None
        self.canary: Published | None = None  # the set that the members of `ring` run before all others
        self.ring: Ring | None = None
        self.last_ring: Ring | None = None  # how the one before went
        self.fleet: Callable[[], list[str]] = list  # names of the agents that a ring may be made of
        self.fraction: float | None = None  # of the fleet, for changes of the folder; None: all at once
        self.problems: dict[str, tuple[Problem, ...]] = {}
        self.kept_old: frozenset[str] = frozenset()  # files that are broken in the folder and old in the set
        self._store = store
        self._lint = lint
        self._clock = clock
        self._steady = steady
        self._on_published = on_published
        self._contents: dict[str, bytes] = {}
        self._verdicts: dict[str, Verdict] = {}  # by name and sha256
        self._next_version = 1
        self._undo: bytes | None = None
        self._undone: str | None = None
        self._lock = DeferredLock()
        self._seen: dict[str, FileEntry] | None = None

    # ---------------------------------------------------------------------------------------------- what agents ask

    def offered(self, agent: str) -> Published | None:
        """The set that this agent shall run; None while nothing is published yet."""
        return self.canary if self.ring is not None and agent in self.ring.members else self.published

    def file(self, sha256: str) -> bytes | None:
        """A file that a published set names."""
        return self._contents.get(sha256)

    @property
    def tables(self) -> dict[str, CheckTable]:
        """The checks of the published set."""
        return self.published.tables if self.published is not None else {}

    # ---------------------------------------------------------------------------------------------- coming to be

    def load(self, loaded: Loaded) -> None:
        """What was published before this start."""
        self._verdicts = _read_verdicts(loaded.kv.get(_VERDICTS, "{}"))
        if not loaded.manifests:
            return
        self._next_version = loaded.manifests[-1].version + 1
        current = json.loads(loaded.kv.get(_CURRENT, "null"))
        self._undone = loaded.kv.get(_UNDONE)
        for signed in loaded.manifests:
            if signed.version == current:
                self.published = self._read(signed.envelope)
            elif signed.undoes is not None and signed.undoes == current:
                self._undo = signed.envelope

    async def load_contents(self) -> None:
        """The files of the published set, from the store."""
        for entry in self.published.document.files.values() if self.published is not None else ():
            content = await self._store.call(publications.file, entry.sha256)
            if content is not None:
                self._contents[entry.sha256] = content

    def refresh(self, author: str = "folder", fraction: float | None = None) -> Deferred[None]:
        """Look at the folder and publish, or stage, what has changed. Calls that meet wait for one another."""
        return self._lock.run(lambda: Deferred.fromCoroutine(self._refresh(author, fraction)))

    async def _refresh(self, author: str, fraction: float | None) -> None:
        try:
            reading = await deferToThread(checkfolder.read, self.folder)
        except OSError as error:
            self._note_problem("", Problem(f"the folder {self.folder} can't be read: {error.strerror}"))
            return
        entries = {name: manifest.entry(content) for name, content in reading.files.items()}
        if entries == self._seen and not reading.faults:
            return
        if not await self._judge(reading.files, entries):
            return
        self._seen = entries
        self.problems = {name: self._verdicts[_key(name, entry)].problems for name, entry in entries.items()}
        self.problems = {name: problems for name, problems in self.problems.items() if problems}
        self.problems |= {name: (Problem(text),) for name, text in reading.faults.items()}
        self._tell_problems()
        await self._compose(entries, reading.files, author, fraction)

    async def _judge(self, files: Mapping[str, bytes], entries: Mapping[str, FileEntry]) -> bool:
        """Have every file judged that has not been yet; False if nobody could."""
        new = {name for name, entry in entries.items() if _key(name, entry) not in self._verdicts}
        if not new:
            return True
        if not any(name.startswith("lib/") for name in new):  # else every check may be another one
            files = {name: content for name, content in files.items() if name in new or name.startswith("lib/")}
        try:
            verdicts = await self._lint(files)
        except LintFailed as error:
            self._note_problem("", Problem(f"checks are not published: {error}"))
            return False
        served = [
            item for each in (self.published, self.canary) if each is not None for item in each.document.files.items()
        ]
        still = {key: self._verdicts[key] for key in (_key(*item) for item in served) if key in self._verdicts}
        self._verdicts = still | {_key(name, entries[name]): found for name, found in verdicts.items()}
        await self._store.call(records.put, _VERDICTS, _write_verdicts(self._verdicts))
        return True

    async def _compose(
        self, entries: dict[str, FileEntry], contents: Mapping[str, bytes], author: str, fraction: float | None
    ) -> None:
        """The new set: what can be used, and the last good version of what can't."""
        newest = self.canary or self.published
        before = dict(newest.document.files) if newest is not None else {}
        files, kept = {}, set()
        for name, entry in entries.items():
            if self._verdicts[_key(name, entry)].usable:
                files[name] = entry
            elif name in before:
                files[name] = before[name]
                kept.add(name)
        self.kept_old = frozenset(kept)
        found = {entries[name].sha256: contents[name] for name in files if files[name] == entries[name]}
        self._contents.update(found)
        if newest is not None and files == before and not self._is_ageing():
            return
        if _fingerprint(files) == self._undone:
            return
        if self.private:
            await self._sign_and_publish(files, before, author, self.fraction if fraction is None else fraction)
        else:
            self._stage(files, before)

    def _is_ageing(self) -> bool:
        """Half its life is over, and we can give it a new one."""
        if self.published is None or not self.private:
            return False
        return self._clock() >= self.published.document.expires - LIFE_SECONDS / 2

    def _pair(self, files: Mapping[str, FileEntry], before: Mapping[str, FileEntry]) -> tuple[bytes, bytes, int]:
        version, now = self._next_version, self._clock()
        build = partial(manifest.build, created=now, expires=now + LIFE_SECONDS)
        return build(files, version), build(before or files, version + 1), version

    async def _sign_and_publish(
        self, files: Mapping[str, FileEntry], before: Mapping[str, FileEntry], author: str, fraction: float | None
    ) -> None:
        promoted = self.published.document.files if self.published is not None else before
        new, undo, _ = self._pair(files, promoted)
        await self._publish(manifest.sign(new, self.private), manifest.sign(undo, self.private), author, fraction)

    def _stage(self, files: dict[str, FileEntry], before: Mapping[str, FileEntry]) -> None:
        new, undo, version = self._pair(files, before)
        self.staged = Staged(new, undo, files, version)
        self.log.info(
            "{count} checks are staged as version {version}: run `helen push --key FILE` where the signing key is",
            count=len(files), version=version,
        )  # fmt: skip

    # ---------------------------------------------------------------------------------------------- pushes

    def push(
        self, files: Mapping[str, bytes], tests: Mapping[str, bytes], author: str, fraction: float | None, dry_run: bool
    ) -> Deferred[dict[str, Verdict]]:
        """Judge these files, tests and all, and put them into the folder. Fails with PushRefused, nothing changed."""
        return self._lock.run(lambda: Deferred.fromCoroutine(self._push(files, tests, author, fraction, dry_run)))

    async def _push(
        self, files: Mapping[str, bytes], tests: Mapping[str, bytes], author: str, fraction: float | None, dry_run: bool
    ) -> dict[str, Verdict]:
        for name, content in files.items():
            if not manifest.FILE_NAME.fullmatch(name) or len(content) > manifest.MAX_FILE:
                raise PushRefused(
                    f"{name!r}: a check's file is called NAME.lua and has at most {manifest.MAX_FILE} bytes"
                )
        reading = await deferToThread(checkfolder.read, self.folder)
        beside = {name: content for name, content in reading.files.items() if name.startswith("lib/")}
        try:
            verdicts = await self._lint({**beside, **files, **{f"tests/{name}": text for name, text in tests.items()}})
        except LintFailed as error:
            raise PushRefused(str(error)) from error
        judged = {name: verdicts[name] for name in files}
        bad = [problem.at(name) for name, found in judged.items() if not found.usable for problem in found.problems]
        if bad:
            raise PushRefused("\n".join(bad))
        if not dry_run:
            await deferToThread(_put_into, self.folder, files, tests)
            await self._refresh(author, fraction)
        return judged

    def tick(self, now: float, connected: list[str]) -> None:
        """Once a second or so: is the ring over?"""
        if self.ring is None:
            return
        verdict = self.ring.tick(connected, now)
        if verdict is None:
            return
        ring, canary = self.ring, self.canary
        assert canary is not None
        self.log.info("version {version}: {verdict}: {why}", version=ring.version, verdict=verdict, why=ring.why)
        self.last_ring, self.ring, self.canary = ring, None, None
        if verdict == "promote":
            Deferred.fromCoroutine(self._promote(canary)).addErrback(self._failed)
        else:
            self.published_undone(canary)

    def published_undone(self, canary: Published) -> None:
        """The ring goes back: N+1 has the files of before, and a version that every agent takes."""
        before, self.published = self.published, canary
        undone = self.undo("the ring")
        undone.addErrback(lambda failure: self._stay(before, failure))

    def _stay(self, before: Published | None, failure: Any) -> None:
        self.published = before
        self._failed(failure)

    async def _promote(self, canary: Published) -> None:
        await self._now_current(canary.version)
        self.published = canary
        self._on_published()

    def _failed(self, failure: Any) -> None:
        self.log.failure("the rollout", failure)

    # ---------------------------------------------------------------------------------------------- publishing

    def accept(self, envelope: bytes, undo: bytes, author: str, fraction: float | None = None) -> Deferred[int]:
        """Publish what was staged, signed elsewhere. Fires with the version; fails with PushRefused."""
        return self._lock.run(lambda: Deferred.fromCoroutine(self._accept(envelope, undo, author, fraction)))

    async def _accept(self, envelope: bytes, undo: bytes, author: str, fraction: float | None) -> int:
        staged = self.staged
        if staged is None:
            raise PushRefused("nothing is staged: change the folder of checks first")
        wanted = [hashlib.sha256(signed).hexdigest() for signed in (staged.manifest, staged.undo)]
        try:
            found = [manifest.verify(each, self.public, self._clock()).digest for each in (envelope, undo)]
        except ManifestRefused as refused:
            raise PushRefused(f"{refused}. The keys known here are those of --signing-keys") from refused
        if found != wanted:
            raise PushRefused("the folder has changed since that was signed: look at `helen push --dry-run`, sign anew")
        await self._publish(envelope, undo, author, fraction)
        self.staged = None
        return staged.version

    def undo(self, author: str) -> Deferred[int]:
        """Publish N+1: the files that were promoted before. Fires with its version; fails with PushRefused."""
        return self._lock.run(lambda: Deferred.fromCoroutine(self._go_back(author)))

    async def _go_back(self, author: str) -> int:
        if self._undo is None or self.published is None:
            raise PushRefused("there is nothing to undo: the newest set was not pushed over another one")
        envelope, self._undo = self._undo, None
        document = manifest.read_unverified(envelope)
        await self._fetch_contents(document)
        await self._now_current(document.version)
        self._undone = _fingerprint((self.canary or self.published).document.files)
        await self._store.call(records.put, _UNDONE, self._undone)
        self.published, self.ring, self.canary = self._read(envelope), None, None
        self.log.info("undone by {author}: version {version}", author=author, version=document.version)
        self._on_published()
        return document.version

    async def _publish(self, envelope: bytes, undo: bytes, author: str, fraction: float | None) -> None:
        documents = [manifest.read_unverified(each) for each in (envelope, undo)]
        for document, signed, undoes in zip(documents, (envelope, undo), (None, documents[0].version), strict=True):
            await self._fetch_contents(document)
            row = SignedManifest(
                document.version, document.digest, document.created, document.expires, signed,
                {name: entry.sha256 for name, entry in document.files.items()}, undoes,
            )  # fmt: skip
            needed = {entry.sha256: self._contents[entry.sha256] for entry in document.files.values()}
            await self._store.call(publications.publish, row, needed)
        await self._store.call(publications.forget_below, documents[0].version - KEPT_VERSIONS)
        self._undo = undo
        self._next_version = documents[1].version + 1
        new = self._read(envelope)
        members = choose(self.fleet(), fraction) if fraction is not None and self.published is not None else frozenset()
        if members:
            self.canary, self.ring = new, Ring(new.version, new.digest, members, self._steady())
        else:
            await self._now_current(new.version)
            self.published, self.canary, self.ring = new, None, None
        self.log.info(
            "version {version} published by {author}: {count} files, {to}", version=new.version, author=author,
            count=len(new.document.files), to=f"first to {', '.join(sorted(members))}" if members else "to all agents",
        )  # fmt: skip
        self._on_published()

    async def _now_current(self, version: int) -> None:
        await self._store.call(records.put, _CURRENT, json.dumps(version))

    async def _fetch_contents(self, document: ManifestDocument) -> None:
        for entry in document.files.values():
            if entry.sha256 not in self._contents:
                content = await self._store.call(publications.file, entry.sha256)
                if content is None:
                    raise PushRefused(f"file {entry.sha256} of version {document.version} is nowhere to be found")
                self._contents[entry.sha256] = content

    def _read(self, envelope: bytes) -> Published:
        """A set of our own, with the tables of its checks."""
        document = manifest.read_unverified(envelope)
        tables = {}
        for name, entry in document.files.items():
            found = self._verdicts.get(_key(name, entry))
            if found is not None and found.table is not None and not name.startswith("lib/"):
                tables[found.table.name] = found.table
        return Published(envelope, document, tables)

    # ---------------------------------------------------------------------------------------------- problems

    def _note_problem(self, name: str, problem: Problem) -> None:
        if self.problems.get(name) != (problem,):
            self.problems = self.problems | {name: (problem,)}
            self.log.error("{problem}", problem=problem.at(name) if name else problem.text)

    def _tell_problems(self) -> None:
        for name, problems in sorted(self.problems.items()):
            for problem in problems:
                level = self.log.error if problem.severity == "error" else self.log.warn
                level("{problem}", problem=problem.at(str(self.folder / name)))


def _put_into(folder: Path, files: Mapping[str, bytes], tests: Mapping[str, bytes]) -> None:
    """Blocking: each file whole."""
    for name, content in {**files, **{f"tests/{name}": content for name, content in tests.items()}}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_whole(folder / name, content, 0o644)


def _fingerprint(files: Mapping[str, FileEntry]) -> str:
    """One word for a whole set of files."""
    named = sorted((name, entry.sha256) for name, entry in files.items())
    return hashlib.sha256(json.dumps(named).encode()).hexdigest()


def _key(name: str, entry: FileEntry) -> str:
    return f"{name} {entry.sha256}"


def _write_verdicts(verdicts: Mapping[str, Verdict]) -> str:
    def table(found: CheckTable | None) -> dict[str, Any] | None:
        if found is None:
            return None
        return {"summary": found.summary, "needs": found.needs, "every": found.every, "timeout": found.timeout,
                "args": found.args}  # fmt: skip

    def problems(found: Verdict) -> list[dict[str, Any]]:
        return [{"text": p.text, "line": p.line, "severity": p.severity} for p in found.problems]

    return json.dumps({key: {"table": table(v.table), "problems": problems(v)} for key, v in verdicts.items()})


def _read_verdicts(text: str) -> dict[str, Verdict]:
    return {key: verdict(key.rpartition(" ")[0], listed) for key, listed in json.loads(text).items()}
