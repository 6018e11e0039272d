"""Keep newer versions of the agent on disk, under STATE/upgrade, and remember which of them runs. Blocking.

A wheel of pure Python is an archive of files for a folder of Python's path, so it is installed by unpacking. Nothing of
it is run here, and dependencies stay those of the installed agent. launcher.py starts a version, and goes back from one
that fails.
"""

from __future__ import annotations

import io
import json
import re
import shutil
import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path

from attrs import evolve, frozen

from groundwork.atomic_write import sync_folder, write_durably
from groundwork.counts import count
from groundwork.presence import read_if_there

FOLDER = "upgrade"
STATE_FILE = "state.json"
MAX_STARTS = 3  # in a row that a confirmed version does not come up: a machine may lose power twice
MAX_UNPACKED = 64 * 1024 * 1024  # bytes: twenty times what this agent has
MAX_ENTRIES = 5_000
_WHEEL = re.compile(r"[A-Za-z0-9_.]+-(?P<version>[0-9][A-Za-z0-9_.!+]*)-py3-none-any\.whl")
_OURS = "helen_equus-"


class UpgradeError(Exception):
    """Says that a version can't be installed; the text says why."""


@frozen
class UpgradeState:
    """Holds the versions that were tried.

    `current` is the confirmed one, and `starts` counts its starts since it last came up. `failed` is the last one that
    was undone, for the reason `why`.
    """

    current: str | None = None
    starts: int = 0
    failed: str | None = None
    why: str = ""


def parse_version(text: str) -> tuple[int, ...] | None:
    """Return the numbers of a version such as `1.2.3`, or None if it has other parts and so can't be compared."""
    parts = text.split(".")
    if not all(part.isascii() and part.isdigit() and len(part) <= 9 for part in parts):
        return None
    return tuple(map(int, parts))


def is_newer(version: str, than: str) -> bool:
    """Return True if both versions can be compared and `version` is the newer one."""
    one, other = parse_version(version), parse_version(than)
    return one is not None and other is not None and one > other


class AgentVersions:
    """Keeps the newer versions in one state folder."""

    def __init__(self, state: Path) -> None:
        self._folder = state / FOLDER

    def folder_of(self, version: str) -> Path:
        """Return the folder of a version, which is the first of its Python path."""
        return self._folder / version

    def state(self) -> UpgradeState:
        """Return the state that was written last; an empty one if there is none, or it is damaged.

        Raises OSError if it can't be read: written anew it would forget which version is current, and which failed.
        """
        raw = read_if_there(self._folder / STATE_FILE)
        if raw is None:
            return UpgradeState()
        try:
            document = json.loads(raw)
            known = UpgradeState(document["current"], document["starts"], document["failed"], document["why"])
        except (ValueError, KeyError, TypeError):
            return UpgradeState()
        versions = (known.current, known.failed)
        good = all(version is None or (isinstance(version, str) and parse_version(version)) for version in versions)
        return known if good and type(known.starts) is int else UpgradeState()

    def confirm(self, version: str) -> None:
        """Make a version that has reached Helen the current one, and remove all others."""
        self._write(UpgradeState(version))
        self._sweep(version)

    def mark_failed(self, version: str, why: str) -> None:
        """Remember that a version failed, so that it is not tried again. The version before it stays current."""
        known = self.state()
        current = known.current if known.current != version else None
        self._write(UpgradeState(current, 0, version, why[:500]))

    def count_start(self) -> int:
        """Count one more start of the current version, and return how many there were since it last came up."""
        known = self.state()
        self._write(evolve(known, starts=known.starts + 1))
        return known.starts + 1

    def reset_starts(self) -> None:
        """Count starts from zero again, because the current version has come up."""
        known = self.state()
        if known.starts:
            self._write(evolve(known, starts=0))

    def install(self, version: str, wheels: Mapping[str, bytes]) -> Path:
        """Unpack wheels, by file name, into the folder of a version, and return that folder.

        Raises UpgradeError if a wheel is refused, OSError if the disk fails; then nothing has changed.
        """
        _check_names(version, wheels)
        fresh = self.folder_of(version).with_name(f"{version}.new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700, parents=True)
        try:
            left = MAX_UNPACKED
            for name, content in sorted(wheels.items()):
                left -= _unpack(name, content, fresh, left)
            shutil.rmtree(self.folder_of(version), ignore_errors=True)
            fresh.rename(self.folder_of(version))
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise
        sync_folder(self._folder)
        return self.folder_of(version)

    def _write(self, known: UpgradeState) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        document = {"current": known.current, "starts": known.starts, "failed": known.failed, "why": known.why}
        write_durably(self._folder / STATE_FILE, json.dumps(document).encode())

    def _sweep(self, version: str) -> None:
        """Remove all versions but this one."""
        for path in self._folder.iterdir():
            if path.is_dir() and path.name != version:
                shutil.rmtree(path, ignore_errors=True)


def _check_names(version: str, wheels: Mapping[str, bytes]) -> None:
    if parse_version(version) is None:
        raise UpgradeError(f"{version!r} is not a version that can be compared: numbers and dots, such as 1.4.0")
    for name in wheels:
        if _WHEEL.fullmatch(name) is None:
            raise UpgradeError(f"{name} is not a wheel of pure Python (NAME-VERSION-py3-none-any.whl)")
    ours = [name for name in wheels if name.startswith(_OURS)]
    if ours != [f"{_OURS}{version}-py3-none-any.whl"]:
        raise UpgradeError(f"Equus {version} must come as {_OURS}{version}-py3-none-any.whl, not {', '.join(wheels)}")


def _unpack(name: str, content: bytes, folder: Path, room: int) -> int:
    """Unpack one wheel and return its bytes. An entry outside of the folder, or no plain file, refuses all of it."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
            size = sum(entry.file_size for entry in entries)
            if len(entries) > MAX_ENTRIES or size > room:
                raise UpgradeError(
                    f"{name} unpacks to {count(len(entries), 'file')} and {count(size, 'byte')}, which is too much"
                )
            for entry in entries:
                _check_entry(name, entry)
                if not entry.is_dir():
                    _write_entry(archive, entry, folder)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError) as error:
        raise UpgradeError(f"{name} is not a wheel that can be unpacked: {error}") from error
    return size


def _check_entry(name: str, entry: zipfile.ZipInfo) -> None:
    parts = entry.filename.rstrip("/").split("/")
    if any(part in ("", ".", "..") or "\\" in part or "\0" in part for part in parts) or parts[0].endswith(".data"):
        raise UpgradeError(f"{name} holds {entry.filename!r}, which may not lie in a folder of Python's path")
    if stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise UpgradeError(f"{name} holds {entry.filename!r}, which is not a plain file")


def _write_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, folder: Path) -> None:
    path = folder / entry.filename
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with archive.open(entry) as file:
        content = file.read(entry.file_size + 1)
    if len(content) != entry.file_size:
        raise UpgradeError(f"{entry.filename!r} is not as long as it says")
    write_durably(path, content)
