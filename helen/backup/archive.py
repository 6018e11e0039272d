"""Writes and reads the file of a backup: a tar in gzip, whose first and last members say what is in it.

backup.json    first: {"format", "made": unix seconds, "version", "history": bool}
state/...      the files, by their paths in the state directory
complete.json  last: {"files": {NAME: SHA-256}}; a file that was cut off has none

A backup holds private keys. It appears whole or not at all, and only its owner can read it. All functions block.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any

from attrs import frozen

from groundwork.atomic_write import PRIVATE, sync_file, sync_folder, temporary_name

FORMAT = 1
FIRST, LAST, PREFIX = "backup.json", "complete.json", "state/"
PIECE = 1 << 20  # bytes that are read at once


class BackupFailed(Exception):
    """Says that a backup can't be made or restored; the text says why and what to do."""


@frozen
class About:
    """Says what a backup is of. `made`: unix seconds; `has_history`: all results are in it."""

    made: float
    version: str
    has_history: bool


class BackupWriter:
    """Writes one backup: `add` for each file, then `finish`; without it nothing stays."""

    def __init__(self, path: Path, about: About) -> None:
        """Begin the file. Raises BackupFailed if another file has its name, and OSError."""
        if path.exists() and not _is_backup(path):
            raise BackupFailed(f"{path} is there and is no backup: give another name")
        self.path, self.size = path, 0
        self._temporary = temporary_name(path)
        descriptor = os.open(self._temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, PRIVATE)
        self._file = os.fdopen(descriptor, "wb")
        self._tar = tarfile.open(fileobj=self._file, mode="w:gz", compresslevel=1)  # noqa: SIM115
        self._made = about.made
        self._hashes: dict[str, str] = {}
        head = {"format": FORMAT, "made": about.made, "version": about.version, "history": about.has_history}
        self._add_json(FIRST, head)

    def add(self, name: str, content: bytes, mode: int = PRIVATE) -> None:
        """Add a file of these bytes."""
        self.add_open(name, io.BytesIO(content), len(content), mode)

    def add_open(self, name: str, file: IO[bytes], size: int, mode: int = PRIVATE) -> None:
        """Add the first `size` bytes of an open file. Raises BackupFailed if it is shorter."""
        reader = _Hashing(file)
        try:
            self._tar.addfile(self._member(PREFIX + name, size, mode), reader)
        except OSError as error:
            if reader.is_short:
                raise BackupFailed(f"{name} became shorter while it was read: try again") from error
            raise
        self._hashes[name] = reader.hash.hexdigest()
        self.size += size

    def finish(self) -> int:
        """Complete the file under its name; return the number of files in it. Raises OSError."""
        self._add_json(LAST, {"files": self._hashes})
        self._tar.close()
        self._file.close()
        sync_file(self._temporary)
        os.replace(self._temporary, self.path)
        sync_folder(self.path.absolute().parent)
        return len(self._hashes)

    def abandon(self) -> None:
        """Remove what was written."""
        with contextlib.suppress(OSError):
            self._file.close()
        self._temporary.unlink(missing_ok=True)

    def _add_json(self, name: str, document: dict[str, Any]) -> None:
        content = json.dumps(document).encode() + b"\n"
        self._tar.addfile(self._member(name, len(content), PRIVATE), io.BytesIO(content))

    def _member(self, name: str, size: int, mode: int) -> tarfile.TarInfo:
        member = tarfile.TarInfo(name)
        member.size, member.mode, member.mtime = size, mode & 0o777, int(self._made)
        return member


class _Hashing:
    """Reads a file for tarfile, and hashes what was read."""

    def __init__(self, file: IO[bytes]) -> None:
        self.hash = hashlib.sha256()
        self.is_short = False
        self._file = file

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes."""
        piece = self._file.read(size)
        self.is_short = len(piece) < size
        self.hash.update(piece)
        return piece


def read_about(path: Path) -> About:
    """Return what a backup is of, without unpacking it. Raises BackupFailed if the file is none."""
    with _opened(path) as tar:
        return _about(path, tar)


def unpack(path: Path, folder: Path) -> About:
    """Unpack a backup into an empty folder, and compare each file with its hash. The caller makes it durable.

    Raises BackupFailed if the file is no backup, of a newer format, cut off or damaged, and OSError.
    """
    found: dict[str, str] = {}
    with _opened(path) as tar:
        about = _about(path, tar)
        while (member := tar.next()) is not None:
            if member.name == LAST:
                if _document(tar, member).get("files") != found:
                    raise BackupFailed(f"{path} is damaged: a file in it differs from what was written")
                return about
            name = _name_of(path, member)  # first: nothing is written for a name that leads elsewhere
            found[name] = _unpack_one(tar, member, folder / name)
    raise BackupFailed(f"{path} is cut off: its end is missing. Use another backup")


def _name_of(path: Path, member: tarfile.TarInfo) -> str:
    """Return a member's path in the state directory. Raises BackupFailed for one that would lie elsewhere."""
    name = member.name.removeprefix(PREFIX)
    parts = PurePosixPath(name).parts
    if not member.isreg() or name == member.name or not parts or name.startswith("/") or ".." in parts:
        raise BackupFailed(f"{path} is no backup of Helen: it has {member.name!r} in it")
    return name


def _unpack_one(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> str:
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    source = tar.extractfile(member)
    assert source is not None
    hashed = hashlib.sha256()
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE)
    with os.fdopen(descriptor, "wb") as out:
        os.fchmod(descriptor, member.mode & 0o777)
        while piece := source.read(PIECE):
            hashed.update(piece)
            out.write(piece)
    return hashed.hexdigest()


def _about(path: Path, tar: tarfile.TarFile) -> About:
    member = tar.next()
    head = _document(tar, member) if member is not None and member.name == FIRST else {}
    try:
        about = About(float(head["made"]), str(head["version"]), bool(head["history"]))
        number = int(head["format"])
    except (LookupError, TypeError, ValueError):
        raise BackupFailed(f"{path} is no backup of Helen: `helen backup FILE` makes one") from None
    if number > FORMAT:
        raise BackupFailed(f"{path} was made by a newer Helen, {about.version}: install that one first")
    return about


def _document(tar: tarfile.TarFile, member: tarfile.TarInfo) -> dict[str, Any]:
    source = tar.extractfile(member)
    try:
        document = json.loads(source.read()) if source is not None else None
    except ValueError:
        document = None
    return document if isinstance(document, dict) else {}


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[tarfile.TarFile]:
    """Open the file of a backup. Raises BackupFailed, within the block too, if it can't be read to its end."""
    try:
        with tarfile.open(path, "r:gz") as tar:
            yield tar
    except FileNotFoundError as error:
        if error.filename != str(path):
            raise
        raise BackupFailed(f"there is no {path}") from None
    except tarfile.ReadError as error:
        raise BackupFailed(f"{path} is no backup of Helen, or is cut off ({error}): use another one") from error
    except (EOFError, zlib.error, tarfile.TarError) as error:
        raise BackupFailed(f"{path} is cut off or damaged ({error}): use another backup") from error


def _is_backup(path: Path) -> bool:
    try:
        read_about(path)
    except (BackupFailed, OSError):
        return False
    return True
