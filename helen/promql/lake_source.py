"""Reads samples from the lake: single results, or buckets of a rollup. deltalake and Arrow; no Spark. It blocks.

Files are read some days at a time, and a batch of rows at a time, so that a year takes no more memory than a month.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import field, frozen

from helen.pipeline.lake.delta_log import FAULTS, has_log
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.lake_files import dataset, instant
from helen.pipeline.lake.levels import Level
from helen.pipeline.lake.log_entries import File
from helen.pipeline.lake.schema import ASKED
from helen.pipeline.lake.stores import url_of
from helen.pipeline.rollup.segment_rows import micros
from helen.promql.bucket_files import BucketFiles
from helen.promql.errors import Unavailable
from helen.promql.gathering import TIME, Gathering
from helen.promql.kept_pieces import Columns, KeptPieces, Lot
from helen.promql.series_labels import OWN, Key

RAW = "raw"
LIVE_DAYS = 2  # that nearly all rows come for: results of the evening come after midnight
Micros = int
Millis = int


@frozen(eq=False)
class LakeSource:
    """Reads one version of the lake. `kept` has what was read before, by questions before this one as well."""

    lake: Lake
    kept: KeptPieces = field(factory=KeptPieces)
    _files: dict[str, list[File]] = field(init=False, factory=dict)
    _names: dict[int, Key] = field(init=False)

    @_names.default
    def _read_names(self) -> dict[int, Key]:
        return {row["series"]: (row["agent"], row["check_id"]) for row in self.lake.rows("series")}

    @classmethod
    def of(cls, folder: Path, kept: KeptPieces) -> LakeSource | None:
        """Open a lake, in a folder or in a store; None where nothing was published. Raises Unavailable."""
        try:
            lake = Lake(folder)
            return cls(lake, kept) if has_log(lake.path("series")) else None
        except MemoryError:  # Arrow's as well, which is one of its other errors too
            raise
        except FAULTS as error:
            raise Unavailable(f"the lake {url_of(folder)} can't be read ({error}): `helen pipeline doctor`") from error

    def oldest(self, resolution: str) -> date | None:
        """Return the first day of a resolution; None if there is none."""
        files = self._listed("results" if resolution == RAW else resolution)
        return min((file.day for file in files if file.day is not None), default=None)

    def gather(self, into: Gathering, resolution: str, begin: Micros, end: Micros) -> None:
        """Read samples from `begin` to `end`, both included. Raises TooMuch."""
        wanted = {number: key for number, key in self._names.items() if into.choice.base(key) is not None}
        if wanted and resolution == RAW:
            self._results(into, wanted, begin, end)
        elif wanted:
            self._buckets(into, wanted, self.lake.levels[resolution], begin, end)

    def _results(self, into: Gathering, wanted: dict[int, Key], begin: Micros, end: Micros) -> None:
        columns = ["series", "time", "status", "origin"] + ([] if into.choice.name in OWN else ["metrics"])
        within = _among(wanted, self._names) & (pc.field("time") >= instant(begin)) & (pc.field("time") <= instant(end))
        within &= pc.field("origin") != ASKED
        numbers = sorted(wanted)
        keys = [wanted[number] for number in numbers]
        for _, files in self._lots("results", wanted, begin, end, 1):
            paths = [path for day in files.values() for path in day]
            for batch in dataset(self.lake.tables["results"], paths).to_batches(
                columns, filter=within, use_threads=False
            ):
                rows = pa.Table.from_batches([batch])
                if rows.num_rows:
                    place = np.searchsorted(np.array(numbers), rows["series"].to_numpy())
                    into.take_results(keys, place, micros(rows["time"]) // 1000, rows)

    def _buckets(self, into: Gathering, wanted: dict[int, Key], level: Level, begin: Micros, end: Micros) -> None:
        begin -= level.step  # from whose last value the first one gains
        needed = frozenset() if into.names_only else into.needed
        has_old_rows = level.source is not None and not self.lake.is_live(level.name)
        numbers = np.array(sorted(wanted), np.int32)
        span = (begin, end) if into.names_only else None
        reading = BucketFiles(
            self.lake.tables[level.name], level, into.choice.name, needed, numbers, has_old_rows, span
        )
        days = _day(begin).toordinal(), _day(end).toordinal()
        for name, files in self._lots(level.name, wanted, begin, end, level.read_days):
            lot = Lot(name, files, *days, reading.day_of)
            # A list of names is of a span that moves, so what it reads is never asked for again.
            is_list = into.names_only
            for piece in reading.read(lot.paths(files)) if is_list else self.kept.of(reading.key(), lot, reading.read):
                columns = _within(piece.columns, begin // 1000, end // 1000)
                if len(columns[TIME]):
                    into.take(wanted[piece.series], piece.metric, piece.unit, piece.kind, columns)

    def _listed(self, table: str) -> list[File]:
        if table not in self._files:
            self._files[table] = self.lake.files(table)
        return self._files[table]

    def _lots(
        self, table: str, wanted: dict[int, Key], begin: Micros, end: Micros, size: int
    ) -> Iterator[tuple[str, dict[int, list[str]]]]:
        """Yield for each lot its name and the files of its days, by their numbers."""
        low, high, by_day = min(wanted), max(wanted), dict[int, list[str]]()
        for file in self._listed(table):
            if (
                file.day is not None
                and _day(begin) <= file.day <= _day(end)
                and file.lowest.get("series", low) <= high
                and file.highest.get("series", high) >= low
            ):
                by_day.setdefault(file.day.toordinal(), []).append(str(self.lake.path(table) / file.path))
        own = {day.toordinal() for day in self._days_apart(table)}
        # By the number of the day, so that a span that moves has the same lots.
        for name, days in groupby(sorted(by_day), lambda day: f"day {day}" if day in own else f"lot {day // size}"):
            yield name, {day: by_day[day] for day in days}

    def _days_apart(self, table: str) -> set[date]:
        """Return the days that still get rows with each commit, so that each is a lot of its own.

        A day that shared a lot with older ones would have them read again each time.
        """
        newest = max((file.day for file in self._listed(table) if file.day is not None), default=None)
        return set() if newest is None else {newest - timedelta(days=number) for number in range(LIVE_DAYS)}


def _among(wanted: dict[int, Key], known: dict[int, Key]) -> Any:
    low, high = min(wanted), max(wanted)
    within = (pc.field("series") >= low) & (pc.field("series") <= high)
    return (
        within if len(wanted) == len(known) else within & pc.field("series").isin(pa.array(sorted(wanted), pa.int32()))
    )


def _within(columns: Columns, begin: Millis, end: Millis) -> Columns:
    """Return what has its time in the span, both ends included."""
    times = columns[TIME]
    if begin <= times[0] and times[-1] <= end:
        return columns
    first, behind = np.searchsorted(times, begin), np.searchsorted(times, end, side="right")
    return {name: each[first:behind] for name, each in columns.items()}


def _day(micros_: Micros) -> date:
    return datetime.fromtimestamp(micros_ // 1_000_000, UTC).date()
