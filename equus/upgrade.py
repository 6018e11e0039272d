"""Newer versions of this agent on disk, under STATE/upgrade: unpacked wheels, and which of them is to run. Blocking.

A wheel of pure Python is an archive of what is to lie in a folder of Python's path; unpacking is all that installing
one means. Nothing of it is run here, and dependencies stay those of the installed agent. What starts a version, and
goes back from one that doesn't get anywhere, is stage0.py.
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

from equus.durable import sync_folder, write_durably

FOLDER = "upgrade"
STATE_FILE = "state.json"
MAX_STARTS = 3  # of a proven version that doesn't come up any more: a machine may lose power twice in a row
MAX_UNPACKED = 64 * 1024 * 1024  # bytes: twenty times what this agent has
MAX_ENTRIES = 5_000
_WHEEL = re.compile(r"[A-Za-z0-9_.]+-(?P<version>[0-9][A-Za-z0-9_.!+]*)-py3-none-any\.whl")
_OURS = "helen_equus-"


class UpgradeError(Exception):
    """Why a version can't be installed, as a sentence."""


@frozen
class Standing:
    """What is known of upgrades. `starts`: of the current version, since it last came up."""

    current: str | None = None
    starts: int = 0
    failed: str | None = None
    why: str = ""


def parse_version(text: str) -> tuple[int, ...] | None:
    """`1.2.3`, or None: a version that can't be compared is not upgraded to."""
    parts = text.split(".")
    if not all(part.isascii() and part.isdigit() and len(part) <= 9 for part in parts):
        return None
    return tuple(map(int, parts))


def is_newer(version: str, than: str) -> bool:
    """Whether both can be compared and the first is the newer one."""
    one, other = parse_version(version), parse_version(than)
    return one is not None and other is not None and one > other


class Upgrades:
    """Those of one state folder."""

    def __init__(self, state: Path) -> None:
        self._folder = state / FOLDER

    def place(self, version: str) -> Path:
        """Where a version lies, to be the first of Python's path."""
        return self._folder / version

    def standing(self) -> Standing:
        """As it was written last; whatever can't be read is nothing."""
        try:
            document = json.loads((self._folder / STATE_FILE).read_bytes())
            known = Standing(document["current"], document["starts"], document["failed"], document["why"])
        except (OSError, ValueError, KeyError, TypeError):
            return Standing()
        versions = (known.current, known.failed)
        good = all(version is None or (isinstance(version, str) and parse_version(version)) for version in versions)
        return known if good and type(known.starts) is int else Standing()

    def prove(self, version: str) -> None:
        """It has reached Helen: it is the one to run."""
        self._write(Standing(version))
        self._sweep(version)

    def give_up(self, version: str, why: str) -> None:
        """It got nowhere. It is not tried again, and whatever ran before it runs on."""
        known = self.standing()
        current = known.current if known.current != version else None
        self._write(Standing(current, 0, version, why[:500]))

    def count_start(self) -> int:
        """How many starts there have been, this one included, since the current version last came up."""
        known = self.standing()
        self._write(evolve(known, starts=known.starts + 1))
        return known.starts + 1

    def came_up(self) -> None:
        known = self.standing()
        if known.starts:
            self._write(evolve(known, starts=0))

    def install(self, version: str, wheels: Mapping[str, bytes]) -> Path:
        """Unpack these beside whatever is there. Raises UpgradeError, OSError; then nothing has changed."""
        _judge_names(version, wheels)
        fresh = self.place(version).with_name(f"{version}.new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700, parents=True)
        try:
            left = MAX_UNPACKED
            for name, content in sorted(wheels.items()):
                left -= _unpack(name, content, fresh, left)
            shutil.rmtree(self.place(version), ignore_errors=True)
            fresh.rename(self.place(version))
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise
        sync_folder(self._folder)
        return self.place(version)

    def _write(self, known: Standing) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        document = {"current": known.current, "starts": known.starts, "failed": known.failed, "why": known.why}
        write_durably(self._folder / STATE_FILE, json.dumps(document).encode())

    def _sweep(self, version: str) -> None:
        """Versions before the one that has been proven."""
        for path in self._folder.iterdir():
            if path.is_dir() and path.name != version:
                shutil.rmtree(path, ignore_errors=True)


def _judge_names(version: str, wheels: Mapping[str, bytes]) -> None:
    if parse_version(version) is None:
        raise UpgradeError(f"{version!r} is no version that can be compared: numbers and dots, such as 1.4.0")
    for name in wheels:
        if _WHEEL.fullmatch(name) is None:
            raise UpgradeError(f"{name} is no wheel of pure Python (NAME-VERSION-py3-none-any.whl)")
    ours = [name for name in wheels if name.startswith(_OURS)]
    if ours != [f"{_OURS}{version}-py3-none-any.whl"]:
        raise UpgradeError(f"Equus {version} must come as {_OURS}{version}-py3-none-any.whl, not {', '.join(wheels)}")


def _unpack(name: str, content: bytes, folder: Path, room: int) -> int:
    """The bytes that it took. What would land outside of the folder, or is no plain file, refuses the whole wheel."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
            size = sum(entry.file_size for entry in entries)
            if len(entries) > MAX_ENTRIES or size > room:
                raise UpgradeError(f"{name} unpacks to {len(entries)} files and {size} bytes, which is too much")
            for entry in entries:
                _judge_entry(name, entry)
                if not entry.is_dir():
                    _write_entry(archive, entry, folder)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError) as error:
        raise UpgradeError(f"{name} is no wheel that can be unpacked: {error}") from error
    return size


def _judge_entry(name: str, entry: zipfile.ZipInfo) -> None:
    parts = entry.filename.rstrip("/").split("/")
    if any(part in ("", ".", "..") or "\\" in part or "\0" in part for part in parts) or parts[0].endswith(".data"):
        raise UpgradeError(f"{name} holds {entry.filename!r}, which has no place in a folder of Python's")
    if stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise UpgradeError(f"{name} holds {entry.filename!r}, which is no plain file")


def _write_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, folder: Path) -> None:
    path = folder / entry.filename
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with archive.open(entry) as file:
        content = file.read(entry.file_size + 1)
    if len(content) != entry.file_size:
        raise UpgradeError(f"{entry.filename!r} is not as long as it says")
    write_durably(path, content)
