"""Opens the log of a Delta table, brings its schema up to this version, and says what is wrong with it.

Other programs may write to a table, too: they delete rows, or add columns. So what a file is comes from the log, not
from its name, wherever the name is not one that this package gave.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from attrs import frozen
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError

from groundwork.counts import count
from groundwork.read_errors import Cause, cause_of
from helen.pipeline.lake.errors import LakeDamaged, OutOfResources, PipelineError, StoreUnreachable
from helen.pipeline.lake.log_entries import ADDED, COMPACTED
from helen.pipeline.lake.places import files_below, read_bytes
from helen.pipeline.lake.schema import Table
from helen.pipeline.lake.stores import is_stored, options_of, url_of

LOG = "_delta_log"
# With which a reader fails: a lake that is damaged or can't be reached, or a place that can't be one.
FAULTS = (PipelineError, DeltaError, pa.ArrowException, OSError)
# Of the columns of all tables, in the description of each one, since a Delta table has no place for a program's own
# numbers. 1 is every lake without a description; 2 has counters that gain across the edges of buckets; 3 has no rows in
# files that count which don't count themselves; 4 may have several rows of one bucket in each level, which add up.
FORMAT, LIVE = 4, 3
_DESCRIPTION = re.compile(r"lake of Helen, format ([0-9]{1,6})")
_READER = 1  # version of Delta's protocol that is read: later ones may hide rows of a file from who doesn't know them
_OURS = re.compile(r"([abc])([0-9]{10})-[0-9]{4,}-[0-9a-f]{8}\.parquet")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_ENTRY = re.compile(r"([0-9]{20})\.json")


def describe() -> str:
    """Return the description that a table of this version has in its log."""
    return f"lake of Helen, format {FORMAT}"


def format_of(opened: DeltaTable) -> int:
    """Return the number of the lake's format that a table has."""
    match = _DESCRIPTION.fullmatch(opened.metadata().description or "")
    return 1 if match is None else int(match[1])


def has_log(folder: Path) -> bool:
    """Return True if anything was published into a table, which may lie in a store.

    Raises LakeDamaged, OSError, and PipelineError for a place that can't be.
    """
    url, options = url_of(folder), options_of(folder)
    with _explained(folder):
        return bool(DeltaTable.is_deltatable(url, options))


def open_table(folder: Path) -> DeltaTable | None:
    """Return the newest version of a table; None where nothing was published. Raises as `has_log` does."""
    if not has_log(folder):
        return None
    with _explained(folder):
        opened = DeltaTable(url_of(folder), storage_options=options_of(folder))
    _check(folder, opened)
    return opened


def follow(folder: Path, opened: DeltaTable) -> None:
    """Bring an opened table to its newest version, in place. Raises LakeDamaged."""
    if not is_stored(folder) and not (folder / LOG).is_dir():  # in a store the next entry of such a one fails
        raise LakeDamaged(f"{folder / LOG} has been deleted while it was in use: stop this process, and restore it.")
    with _explained(folder):
        opened.update_incremental()
    _check(folder, opened)


def bring_up(folder: Path, table: Table) -> None:
    """Add the columns and the description that an older version's table lacks. Only the writer may call it.

    A level that follows another one keeps a description from before LIVE until its rows are live: see
    rollup/following.py. Raises LakeDamaged, also for a table whose log is gone while its files are there: to begin
    anew would lose them.
    """
    opened = open_table(folder)
    if opened is None:
        _check_no_files(folder)
        return
    known = {field.name for field in opened.schema().fields}
    missing = pa.schema([column for column in table.arrow if column.name not in known])
    if len(missing):
        opened.alter.add_columns(Schema.from_arrow(missing).fields)
    if table.level is None or table.level.source is None or format_of(opened) >= LIVE:
        note_format(opened)


def note_format(opened: DeltaTable) -> None:
    """Write the number of this version's format into the log, if another one is there."""
    if opened.metadata().description != describe():
        opened.alter.set_table_description(describe())


@frozen
class Origin:
    """Says in which version of the table a file was named first, and whether its rows were new then, or only added."""

    version: int
    fresh: bool
    adds: bool = False


def of_name(name: str) -> Origin | None:
    """Return the origin that a file's name tells; None for a name that another program gave."""
    match = _OURS.fullmatch(name)
    return None if match is None else Origin(int(match[2]), match[1] != COMPACTED, match[1] == ADDED)


def of_log(folder: Path) -> Mapping[str, Origin]:
    """Return where files come from, by path, as far back as there are entries of the log."""
    found: dict[str, Origin] = {}
    for version, action in _actions(folder):
        if "add" in action:
            found[unquote(action["add"]["path"])] = Origin(version, bool(action["add"]["dataChange"]))
    return found


def before_log(folder: Path) -> Origin:
    """Return the origin of a file that is older than the entries of the log: new to who hasn't seen the oldest one."""
    return Origin(min(_entries(folder), default=0), True)


def _actions(folder: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for version, path in sorted(_entries(folder).items()):
        for line in read_bytes(path).splitlines():
            yield version, json.loads(line)


def _entries(folder: Path) -> dict[int, Path]:
    matches = ((_ENTRY.fullmatch(path.name), path) for path in files_below(folder / LOG, ".json"))
    return {int(match[1]): path for match, path in matches if match is not None}


def _check(folder: Path, opened: DeltaTable) -> None:
    needed = opened.protocol().min_reader_version
    if needed > _READER:
        raise LakeDamaged(
            f"Another program has given {folder} features of Delta that this version can't read (reader version"
            f" {needed} instead of {_READER}), so rows might be shown that were deleted: restore the table, or rewrite"
            " it without these features."
        )
    found = format_of(opened)
    if found > FORMAT:
        raise LakeDamaged(
            f"{folder} was written by a newer version (format {found}, this one knows {FORMAT}): upgrade this one."
        )


def _check_no_files(folder: Path) -> None:
    """Raise LakeDamaged if files lie there that an entry must have named: those of any entry but the first.

    Files for the first entry may be what a crash left that came before it.
    """
    names = [path for path in files_below(folder, ".parquet", recursive=True) if path.parent.name != LOG]
    lost = [path for path in names if (origin := of_name(path.name)) is not None and origin.version > 0]
    if lost:
        found = count(len(lost), "data file lies", "data files lie")
        raise LakeDamaged(
            f"{folder / LOG} is gone, and {found} there that it must have named. Restore it from a backup; to begin"
            f" this table anew, move {folder} away."
        )


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    """Raise in sentences what `deltalake` raises of a table: LakeDamaged, or an OSError."""
    try:
        yield
    except DeltaError as error:
        if cause_of(error) is Cause.SCARCE:
            raise OutOfResources(f"{folder / LOG} could not be read ({error}) and may be sound") from error
        raise _unreadable(folder, error) from error
    except OSError as error:
        raise _unreachable(folder, error) from error


def _unreachable(folder: Path, error: OSError) -> OSError:
    """Return the error to be raised instead: deltalake's own text has lines and colours."""
    if not is_stored(folder):
        return error
    lines = [line.strip(" \t\u21b3") for line in _COLOURS.sub("", str(error)).splitlines()]
    return StoreUnreachable(f"{url_of(folder)} can't be reached: {': '.join(filter(None, lines))[:500]}")


def _unreadable(folder: Path, error: DeltaError) -> LakeDamaged:
    line = (str(error).splitlines() or [type(error).__name__])[0]
    newest = max(_entries(folder).items(), default=(0, None))[1]
    return LakeDamaged(
        f"{folder / LOG} can't be read ({line}). Restore it from a backup; if only the newest entry is damaged"
        f"{'' if newest is None else f' ({newest.name})'}, move that one away: its segments are taken in again."
    )
