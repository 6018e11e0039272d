"""Takes files out of the lake that can't be read and can't be restored; an operator has accepted that.

LAKE/quarantine/results/day=2026-11-27/...parquet      another name of the same file, where the lake is a folder
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from groundwork.atomic_write import sync_folder
from helen.pipeline.lake.damaged_files import unreadable
from helen.pipeline.lake.errors import PipelineError
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.log_entries import File
from helen.pipeline.lake.places import make_folder
from helen.pipeline.lake.stores import url_of

ASIDE = "quarantine"


def take_out(lake: Lake, places: Sequence[str]) -> list[str]:
    """Have these files count no more, and return a line for each. The caller has the lock.

    Raises PipelineError for a file that doesn't count, that can be read, or whose table is no table by days: a lake
    without its names can't be used. Nothing is taken out then.
    """
    counting = {
        url_of(lake.path(name) / file.path): (name, file)
        for name, table in lake.tables.items()
        if table.by_day
        for file in lake.files(name)
    }
    chosen = [_lost(lake, place, counting) for place in places]
    return [_take_out(lake, table, file) for table, file in chosen]


def _lost(lake: Lake, place: str, counting: dict[str, tuple[str, File]]) -> tuple[str, File]:
    known = counting.get(place) or counting.get(url_of(place if "://" in place else os.path.abspath(place)))
    if known is None:
        raise PipelineError(f"{place} is no file that counts, of a table by days: give the path that `doctor` names.")
    if unreadable(lake, *known) is None:
        raise PipelineError(f"{place} can be read: nothing was taken out.")
    return known


def _take_out(lake: Lake, table: str, file: File) -> str:
    path = lake.path(table) / file.path
    kept = "" if lake.is_stored else _keep(lake, path)
    lake.publish(table, [], {}, [file])
    lake.given_up.discard(str(path))
    lake.unread.pop(str(path), None)
    return f"{url_of(path)}: its {file.rows} rows count no more{kept}"


def _keep(lake: Lake, path: Path) -> str:
    """Give the file another name, if it is there and its file system has links; the sweep deletes the first one."""
    kept = lake.folder / ASIDE / path.relative_to(lake.folder)
    with contextlib.suppress(OSError):
        make_folder(kept.parent)
        os.link(path, kept)
        sync_folder(kept.parent)
        return f"; it is kept as {kept}"
    return ""
