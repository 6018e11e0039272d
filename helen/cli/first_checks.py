"""The first few checks of a quickstart, so that the first set is judged in no time; the others follow once it lives."""

from __future__ import annotations

import shutil
from pathlib import Path

import helen_checks

# quick to judge, quick to run, granted by every policy; LIBRARIES are what they require
FIRST = ("load.lua", "memory.lua", "uptime.lua")
LIBRARIES = ("lib/status.lua", "lib/words.lua")
_FILLING = ".filling"  # in the folder of checks while the others are still to come


def fill(folder: Path) -> None:
    """The first few, if there is no folder yet."""
    if folder.exists():
        return
    (folder / "lib").mkdir(parents=True)
    (folder / _FILLING).touch()
    for name in (*FIRST, *LIBRARIES):
        shutil.copyfile(helen_checks.FOLDER / name, folder / name)


def complete(folder: Path) -> None:
    """All others, unless they came before: what somebody has deleted since stays deleted."""
    if not (folder / _FILLING).exists():
        return
    for source in sorted(Path(helen_checks.FOLDER).rglob("*.lua")):
        target = folder / source.relative_to(helen_checks.FOLDER)
        if not target.exists():
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(source, target.with_name(f".{target.name}.new"))
            target.with_name(f".{target.name}.new").rename(target)
    (folder / _FILLING).unlink()
