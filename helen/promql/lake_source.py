"""Reads samples from the lake: single results, or buckets of a rollup. deltalake and Arrow; no Spark. It blocks.

Files are read some days at a time, and a batch of rows at a time, so that a year takes no more memory than a month.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import field, frozen

from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.lake_files import dataset, instant
from helen.pipeline.lake.levels import Level
from helen.pipeline.lake.schema import ASKED, CHECK, STATUSES
from helen.pipeline.rollup.arrow import merge, newest
from helen.pipeline.rollup.segment_rows import floats, micros
from helen.promql.gathering import TIME, VALUE, Gathering
from helen.promql.series_labels import IS_OK, OWN, STATE, Key

RAW = "raw"
Array = Any  # of numpy
Micros = int
Pair = tuple[Array, Array]


@frozen(eq=False)
class LakeSource:
    """Reads one version of the lake."""

    lake: Lake
    _names: dict[int, Key] = field(init=False)

    @_names.default
    def _read_names(self) -> dict[int, Key]:
        return {row["series"]: (row["agent"], row["check_id"]) for row in self.lake.rows("series")}

    def oldest(self, resolution: str) -> date | None:
        """Return the first day of a resolution; None if there is none."""
        files = self.lake.files("results" if resolution == RAW else resolution)
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
        for lot in self._lots("results", wanted, begin, end, 1):
            for batch in dataset(self.lake.tables["results"], lot).to_batches(
                columns, filter=within, use_threads=False
            ):
                rows = pa.Table.from_batches([batch])
                if rows.num_rows:
                    place = np.searchsorted(np.array(numbers), rows["series"].to_numpy())
                    into.take_results(keys, place, micros(rows["time"]) // 1000, rows)

    def _buckets(self, into: Gathering, wanted: dict[int, Key], level: Level, begin: Micros, end: Micros) -> None:
        table, begin = self.lake.tables[level.name], begin - level.step  # from whose last value the first one gains
        within = (pc.field("bucket") >= instant(level.start(begin))) & (pc.field("bucket") <= instant(end))
        within &= _among(wanted, self._names)
        if (name := into.choice.name) is not None:
            within &= _named(name, level)
        for lot in self._lots(level.name, wanted, begin, end, level.read_days):
            rows = dataset(table, lot).to_table(table.columns.names, filter=within, use_threads=False)
            rows = merge(rows, level) if level.source is None else newest(rows)
            if rows.num_rows:
                self._take(into, wanted, rows, begin, end, level)

    def _take(
        self, into: Gathering, wanted: dict[int, Key], rows: pa.Table, begin: Micros, end: Micros, level: Level
    ) -> None:
        numbers = sorted(wanted)
        keys = [wanted[number] for number in numbers]
        is_check = pc.equal(rows["metric"], CHECK)
        own, place, times = _within(rows.filter(is_check), numbers, begin, end, level)
        for name, columns_of in ((STATE, _of_state), (IS_OK, _of_ok)):
            if own.num_rows and into.choice.takes_name(name):
                texts, blank = pa.array([name] * own.num_rows, pa.string()), [""] * own.num_rows
                into.take_many(keys, place, texts, blank, ["gauge"] * own.num_rows, columns_of(own, times))
        part, place, times = _within(rows.filter(pc.invert(is_check)), numbers, begin, end, level)
        if part.num_rows:
            units, kinds = part["unit"].to_pylist(), part["kind"].to_pylist()
            texts = part["metric"].combine_chunks()
            into.take_many(keys, place, texts, units, kinds, _of_metric(part, times))

    def _lots(self, table: str, wanted: dict[int, Key], begin: Micros, end: Micros, size: int) -> Iterator[list[str]]:
        low, high, by_day = min(wanted), max(wanted), dict[date, list[str]]()
        for file in self.lake.files(table, (_day(begin), _day(end))):
            if (
                file.day is not None
                and file.lowest.get("series", low) <= high
                and file.highest.get("series", high) >= low
            ):
                by_day.setdefault(file.day, []).append(str(self.lake.path(table) / file.path))
        days = sorted(by_day)
        for at in range(0, len(days), size):
            yield [path for day in days[at : at + size] for path in by_day[day]]


def _named(name: str, level: Level) -> Any:
    """Return the condition for rows of one metric; a check's own row has the newest version of its bucket."""
    own = pc.field("metric") == CHECK
    if name in OWN:
        return own
    named = (pc.field("metric") == name) | pc.starts_with(pc.field("metric"), name + "{")
    return named if level.source is None else named | own


def _among(wanted: dict[int, Key], known: dict[int, Key]) -> Any:
    low, high = min(wanted), max(wanted)
    within = (pc.field("series") >= low) & (pc.field("series") <= high)
    return (
        within if len(wanted) == len(known) else within & pc.field("series").isin(pa.array(sorted(wanted), pa.int32()))
    )


def _within(rows: pa.Table, numbers: Sequence[int], begin: Micros, end: Micros, level: Level) -> tuple[Any, Any, Any]:
    """Return rows with a sample in the span, the place of the number of each, and the times of the samples.

    A bucket counts at its last value; where a check has none, its runs took no time that is known, at its end.
    """
    ends = micros(rows["bucket"]) + level.step - 1
    last = rows["last_at"].cast(pa.int64())
    times = np.where(last.is_valid().to_numpy(), last.fill_null(0).to_numpy(), ends)
    kept = np.flatnonzero((times >= begin) & (times <= end))
    rows, times = rows.take(pa.array(kept)), times[kept] // 1000
    return rows, np.searchsorted(np.array(numbers), rows["series"].to_numpy()), times


def _of_metric(rows: pa.Table, times: Array) -> dict[str, Array]:
    found = {name: floats(rows[source]) for name, source in (
        ("count", "values"), ("total", "sum"), ("squares", "sumsq"), ("least", "min"), ("most", "max"))}  # fmt: skip
    found |= {name: floats(rows[name]) for name in ("first", "increase", "increase_s")}
    return found | {TIME: times, VALUE: floats(rows["last"]), "first_time": micros(rows["first_at"]) // 1000}


def _of_state(rows: pa.Table, times: Array) -> dict[str, Array]:
    """Return the worst status of each bucket as its value; unknown, which is 3, is worse than warning alone."""
    counts = np.stack([rows[word].to_numpy() for word in STATUSES])
    has, values = counts > 0, np.arange(4.0)[:, None]
    worst = np.where(has[2], 2, np.where(has[3], 3, np.where(has[1], 1, 0))).astype(float)
    least, most = np.where(has, values, 3.0).min(axis=0), np.where(has, values, 0.0).max(axis=0)
    totals = (counts * values).sum(axis=0), (counts * values**2).sum(axis=0)
    return _own(rows, times, worst, totals, (least, most))


def _of_ok(rows: pa.Table, times: Array) -> dict[str, Array]:
    """Return 1 as the value of a bucket of which all results were ok; the sum is how many were."""
    good, count = rows["ok"].to_numpy().astype(float), rows["n"].to_numpy()
    is_whole, has_some = (good == count).astype(float), (good > 0).astype(float)
    return _own(rows, times, is_whole, (good, good), (is_whole, has_some))


def _own(rows: pa.Table, times: Array, value: Array, totals: Pair, bounds: Pair) -> dict[str, Array]:
    """Return the columns of a series that Helen adds to each check."""
    return {
        TIME: times, VALUE: value, "count": rows["n"].to_numpy().astype(float), "total": totals[0],
        "squares": totals[1], "least": bounds[0], "most": bounds[1], "first_time": times, "first": value,
        "increase": np.zeros(len(times)), "increase_s": np.zeros(len(times)),
    }  # fmt: skip


def _day(micros_: Micros) -> date:
    return datetime.fromtimestamp(micros_ // 1_000_000, UTC).date()
