"""Hold the check set that the agent runs, in memory and on disk.

There are two sources. A *pushed* set is named by a signed manifest; its files lie by their hashes in
`STATE/library/objects`, and `STATE/library/current` says which belong together. That one file is swapped by one rename,
so an agent that starts with no Helen in reach has a whole good set, or the one before. A *local* folder is used as it
is. update.py fetches and verifies new sets.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen
from twisted.logger import Logger

from equus_protocol.manifest import MAX_FILE, MAX_FILES, ManifestDocument, ManifestRefused, read_unverified
from groundwork.atomic_write import write_durably

SUFFIX = ".lua"
LIBRARIES = "lib/"
MAX_SET = 16 * 1024 * 1024  # bytes of all files of a set: they are kept in memory; the shipped set has 0.1 MiB
ACTIVE, KEPT_OLD, REFUSED = "active", "kept-old", "refused"

log = Logger(namespace="equus.code.library")


class LibraryError(Exception):
    """A folder or a file can't be used; the text says why."""


@frozen
class CodeFile:
    """One file as it runs.

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
    """The files that run, by name (`disk.lua`, `lib/name.lua`). A set is never changed, only replaced."""

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
    """A pushed set together with its manifest."""

    manifest: ManifestDocument
    envelope: bytes = field(repr=False)
    checks: CheckSet


class LibraryStore:
    """Stores the pushed sets of an agent. Blocking: call `save` in a thread."""

    def __init__(self, state: Path) -> None:
        self._folder = state / "library"
        self._objects = self._folder / "objects"

    def load(self) -> HeldSet | None:
        """Return the last good set, else the one before it; None if there never was one."""
        for name in ("current", "previous"):
            path = self._folder / name
            if not path.exists():
                continue
            try:
                return self._read_set(path)
            except (OSError, ValueError, KeyError, TypeError, ManifestRefused, LibraryError) as error:
                log.error("the check set in {path} can't be used: {error}", path=str(path), error=error)
        return None

    def save(self, held: HeldSet) -> None:
        """Make a set the current one: write its files, then `current`. Files of neither set kept are removed."""
        self._objects.mkdir(mode=0o700, parents=True, exist_ok=True)
        for file in held.checks.files.values():
            if not (self._objects / file.sha256).exists():
                write_durably(self._objects / file.sha256, file.content)
        current = self._folder / "current"
        if current.exists():
            write_durably(self._folder / "previous", current.read_bytes())
        write_durably(current, _dump(held))
        self._sweep()

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

    def _sweep(self) -> None:
        needed: set[str] = set()
        for name in ("current", "previous"):
            if (self._folder / name).exists():
                document = json.loads((self._folder / name).read_bytes())
                needed |= {file["sha256"] for file in document["files"].values()}
        for path in self._objects.iterdir():
            if path.name not in needed:
                path.unlink(missing_ok=True)


def _dump(held: HeldSet) -> bytes:
    files = {
        name: {"sha256": file.sha256, "wanted": file.wanted, "state": file.state, "error": file.error}
        for name, file in held.checks.files.items()
    }
    return json.dumps({"envelope": held.envelope.decode(), "files": files}).encode()
