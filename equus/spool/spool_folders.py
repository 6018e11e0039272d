"""Name and find the folders of spools, of which `current` names the one in use, and keep each one's cursor.

Several folders are there after a `renew` that was cut (spool.py). The cursor is the last sequence that Helen has
acknowledged.
"""

from __future__ import annotations

import os
import secrets
import shutil
import zlib
from pathlib import Path

from equus.spool.segment import SUFFIX
from groundwork.atomic_write import write_durably


def current(root: Path) -> str:
    """Return the name of the spool in use. One that is lost is the name of the fullest spool, or of a new one."""
    name = _read_name(root / "current")
    if name is None:
        name = _fullest(root) or create(root)
        make_current(root, name)
    return name


def make_current(root: Path, name: str) -> None:
    """Make this the spool in use. Raises OSError, and the one before it stays in use then."""
    write_durably(root / "current", name.encode())


def create(root: Path) -> str:
    """Make the folder of a new spool, and return its name."""
    name = secrets.token_hex(8)
    (root / name).mkdir(mode=0o700)
    return name


def remove_others(root: Path, name: str) -> None:
    """Remove the folders of other spools: an older one, or those that a `renew` left which failed or was killed."""
    for other in root.iterdir():
        if other.is_dir() and other.name != name:
            shutil.rmtree(other, ignore_errors=True)


def _read_name(path: Path) -> str | None:
    try:
        name = path.read_text().strip()
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    return name if _is_name(name) else None


def _is_name(name: str) -> bool:
    return name.isalnum() and len(name) == 16


def _fullest(root: Path) -> str | None:
    """Return the name of the spool with most bytes; one that is not whole is smaller than the one that it copies."""
    sizes = {
        folder.name: sum(path.stat().st_size for path in folder.glob(f"*{SUFFIX}"))
        for folder in root.iterdir() if _is_name(folder.name) and folder.is_dir()
    }  # fmt: skip
    return max(sizes, key=lambda name: sizes[name], default=None)


def read_cursor(folder: Path) -> int:
    """Return the acknowledged sequence of a spool; 0 if the file is missing or damaged: all is sent again then."""
    try:
        number, _, crc = (folder / "acked").read_bytes().strip().partition(b" ")
        return int(number) if int(crc, 16) == zlib.crc32(number) else 0
    except (FileNotFoundError, ValueError):
        return 0


def write_cursor(folder: Path, acked: int, durably: bool) -> None:
    """Write the acknowledged sequence of a spool, in place. durably: return when it is on the disk."""
    text = b"%010d" % acked
    fd = os.open(folder / "acked", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.pwrite(fd, b"%b %08x\n" % (text, zlib.crc32(text)), 0)
        if durably:
            os.fsync(fd)
    finally:
        os.close(fd)
