"""Write the definitions into a folder of checks: lua-meta/*.lua, and `.luarc.json`, by which an editor finds them."""

from __future__ import annotations

import json
from pathlib import Path

import helen_checks
from equus.authoring.lua_meta.check_file import GLOBALS, check_file
from equus.authoring.lua_meta.host_file import host_file
from equus.authoring.lua_meta.libraries import library_file
from equus.authoring.lua_meta.manual import manual
from equus.code.check_files import SUFFIX
from groundwork.atomic_write import PUBLIC, write_durably

PLACE = "lua-meta"
SETTINGS = ".luarc.json"
MARK = "-- Written by `equus lua-meta`, which writes over it."
# Lua's own libraries that checks don't have; `os` and `require` are defined in lua-meta/globals.lua.
_ABSENT = ("bit", "bit32", "debug", "ffi", "io", "jit", "jit.profile", "jit.util", "os", "package", "string.buffer")


class NotOurs(Exception):
    """Reports a file in the way that `equus lua-meta` has not written, or a folder that can't be written."""


def settings_text() -> str:
    """Return the text of .luarc.json. All its paths are relative, so that a repository can hold it."""
    return json.dumps(
        {
            "runtime.version": "Lua 5.4",
            "runtime.path": ["lib/?.lua"],
            "runtime.builtin": dict.fromkeys(_ABSENT, "disable"),
            "workspace.library": [PLACE],
            "workspace.checkThirdParty": False,
        },
        indent=2,
    ) + "\n"  # fmt: skip


def definitions(folder: Path) -> dict[str, str]:
    """Return the texts of all definitions by their place in lua-meta. A library that lies in the folder needs none."""
    known = manual()
    found = {"host.lua": host_file(known), "check.lua": check_file(known), "globals.lua": GLOBALS}
    for path in sorted((helen_checks.FOLDER / "lib").glob(f"*{SUFFIX}")):
        if not (folder / "lib" / path.name).exists():
            found[f"lib/{path.name}"] = library_file(path.stem, path.read_text())
    return {name: f"{MARK}\n{text}" for name, text in found.items()}


def write(folder: Path) -> tuple[int, bool]:
    """Write all; return the number of definitions, and whether `.luarc.json` is ours, or holds what it should.

    One that holds other settings stays as it is. Raises NotOurs, before anything is written, for a file of definitions
    that somebody else has written, and if a file can't be written.
    """
    place, texts = folder / PLACE, definitions(folder)
    try:
        stale = _ours(place)
        for name in stale - texts.keys():
            (place / name).unlink()
        for name, text in texts.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            write_durably(place / name, text, PUBLIC)
        return len(texts), _write_settings(folder / SETTINGS)
    except OSError as error:
        raise NotOurs(f"{error.filename or place} can't be written: {error.strerror}") from error


def _ours(place: Path) -> set[str]:
    """Return the names of definitions that are there. Raises NotOurs for a file that we have not written."""
    found = set()
    for path in [*place.glob(f"*{SUFFIX}"), *place.glob(f"lib/*{SUFFIX}")]:
        with path.open("rb") as file:
            if file.read(len(MARK)) != MARK.encode():
                raise NotOurs(f"{path} was not written by `equus lua-meta`: move it away")
        found.add(path.relative_to(place).as_posix())
    return found


def _write_settings(path: Path) -> bool:
    """Write .luarc.json if there is none; return False if there is one with other settings."""
    if path.exists():
        return path.read_bytes() == settings_text().encode()
    write_durably(path, settings_text(), PUBLIC)
    return True
