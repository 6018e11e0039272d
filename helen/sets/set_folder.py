"""Read a folder in which an author writes a set. Blocks on files."""

from __future__ import annotations

from pathlib import Path

from equus_protocol.manifest import MAX_FILE
from helen.sets.refused import SetRefused

# What lies beside the files of a set while it is written, and is no part of it.
_PLACES = ("lib", "tests")
_LEFT_OUT = ("lua-meta", "sets.json", "__pycache__")


def read_folder(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder by name; hidden ones and definitions for editors are left out. Raises SetRefused."""
    found: dict[str, bytes] = {}
    for place in (folder, folder / "lib", folder / "tests"):
        if place.is_symlink():
            raise SetRefused(f"{place} is a symbolic link: a set has regular files only")
        for path in sorted(place.iterdir()) if place.is_dir() else ():
            if (
                path.name.startswith(".")
                or path.name in _LEFT_OUT
                or (place == folder and path.name in ("lib", "tests"))
            ):
                continue
            if path.is_symlink() or not path.is_file():
                raise SetRefused(f"{path} is no regular file: a set has nothing else")
            if path.stat().st_size > MAX_FILE:
                raise SetRefused(f"{path} has more than {MAX_FILE} bytes")
            found[path.relative_to(folder).as_posix()] = path.read_bytes()
    return found
