"""Choose the first few checks of a quickstart, so that the first set is linted quickly; the others follow later."""

from __future__ import annotations

import shutil
from pathlib import Path

import helen_checks

# quick to lint, quick to run, granted by every policy; LIBRARIES are required by them
FIRST = ("load.lua", "memory.lua", "uptime.lua")
LIBRARIES = ("lib/status.lua", "lib/words.lua")
_FILLING = ".filling"  # in the folder of checks while the others are still to come


def fill(folder: Path) -> None:
    """Copy the first few checks, if there is no folder yet."""
    if folder.exists():
        return
    (folder / "lib").mkdir(parents=True)
    (folder / _FILLING).touch()
    for name in (*FIRST, *LIBRARIES):
        shutil.copyfile(helen_checks.FOLDER / name, folder / name)


def complete(folder: Path) -> None:
    """Copy all other checks, once: files that an operator deletes later stay deleted."""
    if not (folder / _FILLING).exists():
        return
    for source in sorted(Path(helen_checks.FOLDER).rglob("*.lua")):
        target = folder / source.relative_to(helen_checks.FOLDER)
        if not target.exists():
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(source, target.with_name(f".{target.name}.new"))
            target.with_name(f".{target.name}.new").rename(target)
    (folder / _FILLING).unlink()
