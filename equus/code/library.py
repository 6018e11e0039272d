"""Hold the check set that the agent runs, in memory and on disk.

There are two sources. A *pushed* set is named by a signed manifest; its files lie by their hashes in
`STATE/library/objects`, and `STATE/library/current` says which belong together. That one file is swapped by one rename,
so an agent that starts with no Helen in reach has a whole good set, or the one before. A *local* folder is used as it
is. update.py fetches and verifies new sets.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen
from twisted.logger import Logger

from equus_protocol.manifest import MAX_FILE, MAX_FILES, ManifestDocument, ManifestRefused, read_unverified
from groundwork.atomic_write import sync_folder, write_all_durably, write_durably
from groundwork.presence import is_there, read_if_there

SUFFIX = ".lua"
LIBRARIES = "lib/"
MAX_SET = 16 * 1024 * 1024  # bytes of all files of a set: they are kept in memory; the shipped set has 0.1 MiB
ACTIVE, KEPT_OLD, REFUSED = "active", "kept-old", "refused"

log = Logger(namespace="equus.code.library")


class LibraryError(Exception):
    """Says that a folder or a file can't be used; the text says why."""


# What reading a stored set raises if it is damaged, or a file of it.
UNUSABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, ManifestRefused, LibraryError)


@frozen
class CodeFile:
    """Describes one file as it runs.

    `wanted` is the hash in the manifest. It differs from `sha256` if that file did not compile and an older one runs.
    """

    content: bytes = field(repr=False)
    sha256: str
    wanted: str
    state: str = ACTIVE
    error: str | None = None

    @classmethod
    def of(cls, content: bytes) -> CodeFile:
        """Return an active file of this content."""
        sha256 = hash_of(content)
        return cls(content, sha256, sha256)


@frozen
class CheckSet:
    """Holds the files that run, by name (`disk.lua`, `lib/name.lua`). A set is never changed, only replaced."""

    digest: str
    files: Mapping[str, CodeFile] = field(factory=dict)
    pushed: bool = False

    def check(self, name: str) -> CodeFile | None:
        """Return the file of a check, or None if the set has no such check."""
        return None if name.startswith(LIBRARIES) else self.files.get(name + SUFFIX)

    @property
    def checks(self) -> dict[str, CodeFile]:
        """Return the files of checks, by file name."""
        return {name: file for name, file in self.files.items() if not name.startswith(LIBRARIES)}

    @property
    def libraries(self) -> dict[str, bytes]:
        """Return the contents of libraries, by the name that `require` takes."""
        return {
            name.removeprefix(LIBRARIES).removesuffix(SUFFIX): file.content
            for name, file in self.files.items()
            if name.startswith(LIBRARIES)
        }

    def with_errors(self, errors: Mapping[str, str]) -> CheckSet:
        """Return the same set, where files with an error, by name, are refused."""
        files = dict(self.files)
        for name, error in errors.items():
            files[name] = evolve(files[name], state=REFUSED, error=error)
        return evolve(self, files=files)

    def report(self) -> dict[str, Any]:
        """Return `files` of the load report: by file name `sha256`, `state`, and `error` if there is one."""
        return {
            name: {"sha256": file.sha256, "state": file.state} | ({"error": file.error} if file.error else {})
            for name, file in self.files.items()
        }


EMPTY_SET = CheckSet("none")


def hash_of(content: bytes) -> str:
    """Return the SHA-256 in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def digest_of(files: Mapping[str, CodeFile]) -> str:
    """Return a digest for a set without a manifest: the hash of its file names and hashes."""
    lines = "".join(f"{name} {file.sha256}\n" for name, file in sorted(files.items()))
    return hashlib.sha256(lines.encode()).hexdigest()


# ---------------------------------------------------------------------------------------------------- a local folder


def read_folder(folder: Path) -> CheckSet:
    """Return the checks and libraries of a folder as they are now. Blocking.

    Files with a name that begins with a dot are left out: editors make them. No file is compiled here. Raises
    LibraryError if the folder can't be read or holds too much.
    """
    try:
        paths = sorted(path for path in _lua_files(folder))
        files = {path.relative_to(folder).as_posix(): CodeFile.of(_read(path)) for path in paths}
    except OSError as error:
        raise LibraryError(f"cannot read the checks in {folder}: {error.strerror} ({error.filename})") from error
    if len(files) > MAX_FILES or sum(len(file.content) for file in files.values()) > MAX_SET:
        raise LibraryError(
            f"{folder} holds more than {MAX_FILES} files or {MAX_SET} bytes of Lua: is it the right one?"
        )
    return CheckSet(digest_of(files), files)


def _lua_files(folder: Path) -> Iterable[Path]:
    for place in (folder, folder / "lib"):
        if place == folder or place.is_dir():
            yield from (
                path
                for path in place.iterdir()
                if path.suffix == SUFFIX and not path.name.startswith(".") and path.is_file()
            )


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        content = file.read(MAX_FILE + 1)
    if len(content) > MAX_FILE:
        raise LibraryError(f"{path} has more than {MAX_FILE} bytes, which no check may have")
    return content


# ---------------------------------------------------------------------------------------------------- pushed sets


@frozen
class HeldSet:
    """Describes a pushed set together with its manifest."""

    manifest: ManifestDocument
    envelope: bytes = field(repr=False)
    checks: CheckSet


class LibraryStore:
    """Stores the pushed sets of an agent. Blocking: call `save` in a thread."""

    def __init__(self, state: Path) -> None:
        self._folder = state / "library"
        self._objects = self._folder / "objects"
        self._current: frozenset[str] | None = None  # the hashes in `current` as this process has written it

    def load(self) -> HeldSet | None:
        """Return the last good set, else the one before it; None if there never was one."""
        for name in ("current", "previous"):
            path = self._folder / name
            try:
                if not is_there(path):
                    continue
                return self._read_set(path)
            except UNUSABLE as error:
                log.error("the check set in {path} can't be used: {error}", path=str(path), error=error)
        return None

    def save(self, held: HeldSet) -> None:
        """Make a set the current one: write its files, then `current`. Files of neither set kept are removed.

        The one before is renamed, not written again; a crash between the two leaves it alone, under `previous`.
        """
        wanted = frozenset(file.sha256 for file in held.checks.files.values())
        self._write_files(held.checks, wanted)
        before = self._set_aside()
        write_durably(self._folder / "current", _dump(held))
        self._current = wanted
        for name in set(os.listdir(self._objects)) - wanted - before:
            (self._objects / name).unlink(missing_ok=True)

    def _write_files(self, checks: CheckSet, wanted: frozenset[str]) -> None:
        """Write the files that are not there yet, or not whole. Their names are durable when it returns.

        A file that this process has written is looked for, and not read again.
        """
        if not is_there(self._objects):
            self._objects.mkdir(mode=0o700, parents=True, exist_ok=True)
            sync_folder(self._folder.parent)
        there, ours = set(os.listdir(self._objects)), self._current or frozenset()
        new = {
            file.sha256: file.content
            for file in checks.files.values()
            if file.sha256 not in there or not (file.sha256 in ours or self._is_whole(file))
        }
        if new or self._current is None or not wanted <= ours:  # whoever has made the others
            write_all_durably(self._objects, new)

    def _is_whole(self, file: CodeFile) -> bool:
        try:
            return read_if_there(self._objects / file.sha256) == file.content
        except OSError:  # to write it anew mends it, or says what is wrong
            return False

    def _set_aside(self) -> frozenset[str]:
        """Rename the current set to `previous`, and return the hashes of the files that must stay for it.

        A set that can't be used takes no good one's place. A file that this process has written is not read again.
        """
        current, previous = self._folder / "current", self._folder / "previous"
        hashes, self._current = self._current, None  # until the next one is written, and if it can't be
        if hashes is None:
            hashes = self._hashes_of(current)
        if hashes is None or not is_there(current):
            return _hashes_in(previous) or frozenset()
        current.replace(previous)
        return hashes

    def _hashes_of(self, path: Path) -> frozenset[str] | None:
        """Return the hashes of the files of a stored set; None if an agent could not start with it."""
        try:
            return frozenset(file.sha256 for file in self._read_set(path).checks.files.values())
        except UNUSABLE:
            return None

    def lacking(self, manifest: ManifestDocument, held: CheckSet) -> dict[str, int]:
        """Return the sizes by hash of the files that must be fetched."""
        ours = {file.sha256 for file in held.files.values()}
        return {entry.sha256: entry.size for entry in manifest.files.values() if entry.sha256 not in ours}

    def _read_set(self, path: Path) -> HeldSet:
        document = json.loads(path.read_bytes())
        envelope = document["envelope"].encode()
        files = {}
        for name, file in document["files"].items():
            content = _read(self._objects / file["sha256"])
            if hash_of(content) != file["sha256"]:
                raise LibraryError(f"{name} ({file['sha256']}) is damaged")
            files[name] = CodeFile(content, file["sha256"], file["wanted"], file["state"], file["error"])
        manifest = read_unverified(envelope)
        return HeldSet(manifest, envelope, CheckSet(manifest.digest, files, pushed=True))


def _hashes_in(path: Path) -> frozenset[str] | None:
    """Return the hashes of the files that a stored set names; None if it is not there, or is none."""
    content = read_if_there(path)
    try:
        return None if content is None else frozenset(each["sha256"] for each in json.loads(content)["files"].values())
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _dump(held: HeldSet) -> bytes:
    files = {
        name: {"sha256": file.sha256, "wanted": file.wanted, "state": file.state, "error": file.error}
        for name, file in held.checks.files.items()
    }
    return json.dumps({"envelope": held.envelope.decode(), "files": files}).encode()
