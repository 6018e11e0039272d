"""Reads changes of one Helen from the lake, in order of time. deltalake and Arrow; no Spark, no writes.

They are older than the segments that Helen keeps. Files are read a day at a time, so that a page of a year takes no
more memory than a day, and a reader needs no lock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from helen.pipeline.lake.delta_log import FAULTS
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.lake_files import dataset, instant
from helen.pipeline.lake.local_days import micros_of
from helen.pipeline.lake.log_entries import File
from helen.pipeline.reports.check_history import LakeUnreadable, TooMuch

TABLE = "changes"
IDENTITY = "pipeline-id"  # in the folder of the history: its name in every lake
MOST_BYTES = 64 * 1024 * 1024  # of one day's rows in memory
COLUMNS = ("received", "at", "series", "kind", "document")
Place = tuple[int, int]  # `received` in microseconds, and `at`


def oldest(lake: Path) -> float | None:
    """Return when the oldest change of the lake came, unix seconds; None if it has none. Raises LakeUnreadable."""
    try:
        found = [file.lowest.get("received") for file in Lake(lake).files(TABLE)]
    except FAULTS as error:
        raise LakeUnreadable.of(lake, error) from error
    known = [each for each in found if isinstance(each, datetime)]
    return min(known).timestamp() if known else None


def read_changes(
    lake: Path, history: Path, begin: int, end: int, before: int, after: Place | None, kinds: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Yield {"at", "received", "agent", "check_id", "kind", "document"} in order of `received`, then `at`.

    They came from `begin` on and before `end`, microseconds since 1970, and have a number below `before`; `after` is
    the place of a row that was seen already. `kinds`: of these kinds alone, if there are any. Raises TooMuch and
    LakeUnreadable, while it yields too.
    """
    try:
        yield from _changes(Lake(lake), history, begin, end, before, after, kinds)
    except FAULTS as error:
        raise LakeUnreadable.of(lake, error) from error


def _changes(
    lake: Lake, history: Path, begin: int, end: int, before: int, after: Place | None, kinds: Sequence[str]
) -> Iterator[dict[str, Any]]:
    number = _number_of(lake, history)
    if number is None or begin >= end:
        return
    first = max(begin, after[0] if after is not None else begin)
    wanted = (pc.field("helen") == number) & (pc.field("at") < before)
    wanted &= (pc.field("received") >= instant(first)) & (pc.field("received") < instant(end))
    wanted = wanted & pc.field("kind").isin(list(kinds)) if kinds else wanted
    names = {row["series"]: (row["agent"], row["check_id"]) for row in lake.rows("series")}
    for files in _by_day(lake.files(TABLE, (_day(first), _day(end - 1)))):
        found = [_row(row, names) for row in _read(lake, files, wanted)]
        for row in sorted(found, key=place_of):
            if after is None or place_of(row) > after:
                yield row


def place_of(row: dict[str, Any]) -> Place:
    """Return the place of a row in the order of read_changes."""
    return row["received"], row["at"]


def _row(row: dict[str, Any], names: dict[int, tuple[str, str]]) -> dict[str, Any]:
    agent, check_id = names.get(row["series"], (None, None))
    return {**row, "received": micros_of(row["received"]), "agent": agent, "check_id": check_id}


def _number_of(lake: Lake, history: Path) -> int | None:
    """Return the number of this history in the lake; None if nothing of it has come there."""
    try:
        identity = (history / IDENTITY).read_text("ascii").strip()
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    return next((int(row["helen"]) for row in lake.rows("helens") if row["id"] == identity), None)


def _by_day(files: Sequence[File]) -> Iterator[list[File]]:
    days: dict[date, list[File]] = {}
    for file in files:
        if file.day is not None:
            days.setdefault(file.day, []).append(file)
    yield from (days[day] for day in sorted(days))


def _read(lake: Lake, files: Sequence[File], wanted: Any) -> list[dict[str, Any]]:
    """Return the rows of one day that meet a condition. Raises TooMuch beyond MOST_BYTES."""
    paths = [str(lake.path(TABLE) / file.path) for file in files]
    batches, held = [], 0
    for batch in dataset(lake.tables[TABLE], paths).to_batches(list(COLUMNS), filter=wanted):
        held += batch.nbytes
        if held > MOST_BYTES:
            raise TooMuch("that is too big for one answer: ask for a shorter time, or for fewer kinds")
        batches.append(batch)
    return [row for batch in batches for row in batch.to_pylist()]


def _day(micros: int) -> date:
    return datetime.fromtimestamp(micros // 1_000_000, UTC).date()
