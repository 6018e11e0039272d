"""Reads results that the lake does not have: from segments of the journal, and from those that are in none yet.

Files are found by bisection; a segment is read with the columns that are needed, and no blob. It blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen
from msgspec import to_builtins

from equus_protocol.result_fields import END_OF_TIME
from groundwork.counts import count
from helen.evaluation.replay import series_names
from helen.evaluation.segment_footers import first_from, newest, oldest
from helen.journal import lazy_parquet as pq
from helen.journal.columns import RESULTS
from helen.journal.unread import demand_content
from helen.journal.values import Origin
from helen.pipeline.rollup.segment_rows import times
from helen.promql.errors import MOST_SEGMENTS, TooMuch
from helen.promql.gathering import Gathering
from helen.promql.series_labels import Key
from helen.promql.wire import Unsealed

COLUMNS = ("at", "series_id", "received", "started", "took_ms", "clock_offset_ms", "status", "origin", "metrics")
STORED = pa.schema([RESULTS.field(name) for name in COLUMNS])  # older segments lack some of them
OUT_OF_ORDER = 60.0  # seconds by which `received` may go back from one file to the next: a clock that was set
METRIC = pa.struct([
    ("name", pa.string()), ("value", pa.float64()), ("unit", pa.string()), ("kind", pa.string()),
    ("labels", pa.map_(pa.string(), pa.string())),
])  # fmt: skip
STAMP = pa.timestamp("us", tz="UTC")
Micros = int


@frozen
class SegmentSource:
    """Reads the segments in a history that have a number above `committed`: those that the lake lacks."""

    history: Path
    committed: int
    unsealed: Sequence[Unsealed]

    def gather(
        self, into: Gathering, begin: Micros, end: Micros, most: int = MOST_SEGMENTS, newest_only: bool = False
    ) -> None:
        """Read results from `begin` to `end`, both included. Raises TooMuch for more than `most` files.

        With `newest_only` the newest `most` files are read instead.
        """
        files = self._files(begin / 1e6, end / 1e6)
        if len(files) > most and not newest_only:
            raise TooMuch(
                f"{count(len(files), 'segment')} of the journal are to be read, and {most} may be: ask for a"
                " shorter time, or let `helen pipeline run` make a lake of them"
            )
        names, seen = series_names(self.history / "series.parquet"), -1
        for path in files[-most:]:
            seen = max(seen, self._read(path, into, names, begin, end))
        rest = [each for each in self.unsealed if each.at > seen]
        if rest:
            keys = [(each.agent, each.check_id) for each in rest]
            _take(into, keys, np.arange(len(rest)), _table(rest), begin, end)

    def _files(self, begin: float, end: float) -> list[Path]:
        found = sorted((self.history / "segments").glob("seg-*.parquet"))
        files = [path for path in found if int(path.stem.partition("-")[2]) > self.committed]
        first = first_from(files, lambda path: newest(path) < begin - OUT_OF_ORDER)
        last = first_from(files, lambda path: oldest(path) <= end + OUT_OF_ORDER)
        return files[first:last]

    def _read(self, path: Path, into: Gathering, names: dict[int, Key], begin: Micros, end: Micros) -> int:
        """Read one file; return its highest number. One that was deleted or damaged has none."""
        try:
            rows = pq.read_table(path, schema=STORED, use_threads=False)
        except (OSError, pa.ArrowException) as error:
            demand_content(path, error)
            return -1
        highest = pc.max(rows["at"]).as_py() or -1
        numbers = np.unique(rows["series_id"].to_numpy())
        keys = {int(number): names.get(int(number)) for number in numbers}
        known = {number: key for number, key in keys.items() if key is not None and into.choice.base(key) is not None}
        rows = rows.filter(pc.is_in(rows["series_id"], pa.array(list(known), pa.int32())))
        rows = rows.filter(pc.not_equal(rows["origin"], int(Origin.ASKED)))
        ordered = sorted(known)
        place = np.searchsorted(np.array(ordered, np.int64), rows["series_id"].to_numpy())
        _take(into, [known[number] for number in ordered], place, rows, begin, end)
        return int(highest)


def _take(into: Gathering, keys: Sequence[Key], place: Any, rows: pa.Table, begin: Micros, end: Micros) -> None:
    time = times(rows)
    within = np.flatnonzero((time >= begin) & (time <= end))
    if len(within):
        into.take_results(keys, place[within], time[within] // 1000, rows.take(pa.array(within)))


def _table(results: Iterable[Unsealed]) -> pa.Table:
    rows = list(results)
    return pa.table({
        "received": pa.array([round(each.received * 1e6) for each in rows], pa.int64()).cast(STAMP),
        "started": pa.array([_micros(each.started) for each in rows], pa.int64()).cast(STAMP),
        "took_ms": pa.array([each.took_ms for each in rows], pa.float64()),
        "clock_offset_ms": pa.nulls(len(rows), pa.int64()),
        "status": pa.array([each.status for each in rows], pa.int8()),
        "metrics": pa.array([[to_builtins(metric) for metric in each.metrics] for each in rows], pa.list_(METRIC)),
    })  # fmt: skip


def _micros(seconds: float | None) -> int | None:
    return round(seconds * 1e6) if seconds is not None and 0 <= seconds < END_OF_TIME else None
