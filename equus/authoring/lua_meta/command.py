"""Writes, as `equus lua-meta`, definitions by which editors complete and type what checks use."""

from __future__ import annotations

from pathlib import Path

import click

from equus.authoring.lua_meta.folder import PLACE, SETTINGS, NotOurs, settings_text, write
from groundwork.counts import count
from groundwork.terminal import echo


@click.command("lua-meta")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), metavar="DIR")
def lua_meta(folder: Path) -> None:
    """Write definitions of host.*, of a check's table and of the shipped libraries for editors, into DIR/lua-meta.

    lua-language-server (LuaLS) reads them by DIR/.luarc.json. A .luarc.json with other settings stays as it is.

    Exit status 1: a file is in the way, or can't be written.
    """
    try:
        written, is_set = write(folder)
    except NotOurs as error:
        echo(f"equus: {error}", err=True)
        raise SystemExit(1) from error
    echo(f"Wrote {count(written, 'file')} to {folder / PLACE}")
    if not is_set:
        echo(f"{folder / SETTINGS} has other settings and stays as it is. These are needed in it:\n{settings_text()}")
