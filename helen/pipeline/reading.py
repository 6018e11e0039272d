"""What pages ask of the lake: the figures of one check over some time. deltalake and Arrow; no Spark, nothing written.

An answer is bounded (`limit` points, and a cursor for the rest) and comes of one version of the table: a batch is in it
whole or not at all. Files are read some days at a time, so that a year takes no more memory than a month. A reader
needs no lock; where files that it was about to read have just been swept it looks once more.

h1 follows m5 within five minutes, d1 within an hour. What `resolution` None means is said at RESOLUTIONS.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from attrs import field, frozen
from deltalake.exceptions import DeltaError

from equus_protocol.results import STATUS_WORDS
from helen.pipeline.days import micros_of
from helen.pipeline.files import instant
from helen.pipeline.lake import File, Lake
from helen.pipeline.schema import TABLES

DAY = 86_400 * 1_000_000
END_OF_TIME = 253_402_300_800 * 1_000_000  # the year 10000
RAW = "raw"
ORIGINS = ("scheduled", "asked", "passive")
MOST_POINTS = 10_000  # in one answer: 2 MB of JSON
MOST_RESULTS = 1_000  # raw ones in one answer
MOST_METRICS = 50  # in one answer: with LOTS that makes at most 50,000 rows in memory at once
MOST_BYTES = 64 * 1024 * 1024  # of rows in memory: a summary and metrics can be as big as a blob, 1 MiB
_RAW = ("helen", "at", "time", "received", "started", "took_ms", "cpu_ms", "peak_kib", "status", "origin", "reason",
        "code", "spool", "sequence", "summary", "metrics")  # fmt: skip
_ADDED = ("n", "ok", "warning", "critical", "unknown", "values", "sum", "cpu_ms")
_SUMS = ("bucket", "metric", "unit", "kind", *_ADDED, "min", "max", "first", "first_at", "last", "last_at", "increase",
         "peak_kib")  # fmt: skip

Row = dict[str, Any]


@frozen
class Resolution:
    """Seconds of a bucket; the longest span in days that it is taken for by itself; days that are read at once."""

    seconds: int
    most_days: float
    lot: int


# At most 576, 1,440 and (in four years) 1,460 points of a metric: as many as a screen is wide.
RESOLUTIONS: Mapping[str, Resolution] = {
    "m5": Resolution(300, 2.0, 3), "h1": Resolution(3600, 60.0, 31), "d1": Resolution(86_400, math.inf, 366),
}  # fmt: skip
RAW_LOT = 1


class NotInLake(Exception):
    """Nothing is known under this name. The text says what to look at."""


class WrongQuestion(Exception):
    """What is asked for makes no sense."""


class TooMuch(Exception):
    """More than one answer takes. The text says how to ask for less."""


class LakeUnreadable(Exception):
    """The lake is damaged, or changes faster than it can be read."""


@frozen
class Cursor:
    """Where the next answer begins. A rollup goes on at a bucket, raw results behind one of them."""

    resolution: str
    time: int
    helen: int = 0
    at: int = 0

    def __str__(self) -> str:
        return f"{self.resolution}.{self.time}.{self.helen}.{self.at}"

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """Raises WrongQuestion for what is none of ours."""
        word, *numbers = text.split(".")
        sound = (word == RAW or word in RESOLUTIONS) and len(numbers) == 3
        if not sound or not all(each.isascii() and each.isdigit() and len(each) <= 18 for each in numbers):
            raise WrongQuestion("`cursor` is the `next` of the answer before")
        return cls(word, *map(int, numbers))


@frozen
class Asked:
    """Microseconds, the end not included. `metrics` none: all of the check."""

    agent: str
    check_id: str
    begin: int
    end: int
    resolution: str | None = None
    metrics: Sequence[str] = ()
    limit: int = MOST_POINTS
    cursor: Cursor | None = None

    @classmethod
    def of(cls, *, resolution: str | None, limit: int | None, cursor: str | None, **more: Any) -> Asked:
        """From words; a limit that is too high is the highest. Raises WrongQuestion."""
        place = None if cursor is None else Cursor.parse(cursor)
        resolution = resolution if place is None else place.resolution
        if resolution not in (None, RAW, *RESOLUTIONS):
            words = ", ".join((*RESOLUTIONS, RAW))
            raise WrongQuestion(f"`resolution` is one of {words}; without it the span decides")
        most = MOST_RESULTS if resolution == RAW else MOST_POINTS
        return cls(resolution=resolution, limit=min(limit or most, most), cursor=place, **more)


@frozen
class _Where:
    """One series in the files of one table, read lot by lot."""

    lake: Lake
    table: str
    series: int
    files: Sequence[File] = field(factory=list)

    def read(self, lot: Sequence[File], columns: Sequence[str], wanted: Any) -> pa.Table:
        schema = TABLES[self.table].columns
        return pa.Table.from_batches(self.batches(lot, columns, wanted), pa.schema([schema.field(c) for c in columns]))

    def batches(self, lot: Sequence[File], columns: Sequence[str], wanted: Any) -> Iterator[pa.RecordBatch]:
        """Raises TooMuch when there is more than a server should hold for one reader."""
        names = [str(self.lake.path(self.table) / file.path) for file in lot]
        dataset = ds.dataset(names, schema=TABLES[self.table].columns, format="parquet")
        held = 0
        for batch in dataset.to_batches(list(columns), filter=(pc.field("series") == self.series) & wanted):
            held += batch.nbytes
            if held > MOST_BYTES:
                raise TooMuch("that is too big for one answer: ask for a shorter time, or for fewer metrics")
            yield batch

    def lots(self, begin: int, end: int, size: int) -> Iterator[list[File]]:
        """Files that may hold rows of the series between two moments, some days at a time, in the order of days."""
        first, last = _day(begin), _day(end - 1)
        by_day: dict[date, list[File]] = {}
        for file in self.files:
            if file.day is not None and first <= file.day <= last and self._may_hold(file):
                by_day.setdefault(file.day, []).append(file)
        days = sorted(by_day)
        for at in range(0, len(days), size):
            yield [file for day in days[at : at + size] for file in by_day[day]]

    def _may_hold(self, file: File) -> bool:
        low, high = file.lowest.get("series", self.series), file.highest.get("series", self.series)
        return bool(low <= self.series <= high)


def read_history(folder: Path, asked: Asked) -> Row:
    """The answer, as plain data. Raises NotInLake, WrongQuestion, TooMuch, LakeUnreadable."""
    for attempt in (1, 2):
        try:
            return _answer(Lake(folder), asked)
        except FileNotFoundError as error:  # swept after we had looked into the log
            if attempt == 2:
                raise LakeUnreadable(f"a file of the lake is missing ({error}): `helen pipeline doctor`") from error
        except (DeltaError, pa.ArrowException, OSError) as error:
            raise LakeUnreadable(f"the lake {folder} can't be read ({error}): `helen pipeline doctor`") from error
    raise AssertionError("unreachable")


def _answer(lake: Lake, asked: Asked) -> Row:
    series = _series(lake, asked)
    resolution = asked.resolution or _resolution(lake, asked)
    table = "results" if resolution == RAW else resolution
    where = _Where(lake, table, series, lake.files(table))
    found = _raw(where, asked) if resolution == RAW else _rollup(where, asked)
    return {"agent": asked.agent, "check": asked.check_id, "resolution": resolution, "from": asked.begin / 1e6,
            "to": asked.end / 1e6, **found}  # fmt: skip


def _series(lake: Lake, asked: Asked) -> int:
    opened = lake.open("series")
    if opened is not None:
        named = opened.to_pyarrow_table(columns=["series", "agent", "check_id"])
        is_it = pc.and_(pc.equal(named["agent"], asked.agent), pc.equal(named["check_id"], asked.check_id))
        numbers = named.filter(is_it)["series"].to_pylist()
        if numbers:
            return int(numbers[0])
    raise NotInLake(
        f"the lake knows no {asked.agent}/{asked.check_id}: a new check is there some 20 s after its first result, and"
        " `helen status` says whether the pipeline is behind"
    )


def _resolution(lake: Lake, asked: Asked) -> str:
    """By the span; a coarser one where that is kept longer and the finer one doesn't reach back so far."""
    span = (asked.end - asked.begin) / DAY
    fitting = [name for name, each in RESOLUTIONS.items() if span <= each.most_days]
    chosen, reach = fitting[0], _oldest(lake, fitting[0])
    for name in fitting[1:]:
        if reach is not None and reach <= _day(asked.begin):
            break
        further = _oldest(lake, name)
        if further is not None and (reach is None or further < reach):
            chosen, reach = name, further
    return chosen


def _oldest(lake: Lake, table: str) -> date | None:
    return min((file.day for file in lake.files(table) if file.day is not None), default=None)


# ------------------------------------------------------------------------------------------------ rollups


def _rollup(where: _Where, asked: Asked) -> Row:
    step = RESOLUTIONS[where.table].seconds * 1_000_000
    begin = max(asked.begin - asked.begin % step, asked.cursor.time if asked.cursor else 0)
    wanted = (pc.field("bucket") >= instant(begin)) & (pc.field("bucket") < instant(asked.end))
    if asked.metrics:
        wanted &= pc.field("metric").isin(list(asked.metrics))
    columns = _SUMS if where.table == "m5" else (*_SUMS, "version")
    points: list[Row] = []
    for lot in where.lots(begin, asked.end, RESOLUTIONS[where.table].lot):
        if not asked.metrics:
            _check_metrics(asked, where.batches(lot, ["metric"], wanted))
        points += _condensed(where.read(lot, columns, wanted).to_pylist())
        if len(points) > asked.limit:
            break
    following = None
    if len(points) > asked.limit:
        bucket = points[asked.limit]["bucket"]
        if bucket == points[0]["bucket"]:
            raise TooMuch(f"one bucket has more than {asked.limit} metrics: ask for some of them with `metric`")
        points = [point for point in points if point["bucket"] < bucket]
        following = str(Cursor(where.table, micros_of(bucket)))
    return {"step": step // 1_000_000, "metrics": _by_metric(points), "next": following}


def _check_metrics(asked: Asked, batches: Iterable[pa.RecordBatch]) -> None:
    names: set[str] = set()
    for batch in batches:
        names.update(batch.column(0).unique().to_pylist())
        if len(names) > MOST_METRICS:
            raise TooMuch(
                f"{asked.agent}/{asked.check_id} has more than {MOST_METRICS} metrics: ask for some of them with"
                f" `metric`, such as {max(names)}"
            )


def _condensed(rows: Iterable[Row]) -> list[Row]:
    """One row for each bucket and metric: those of m5 are added up, of h1 and d1 the newest counts."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["bucket"], row["metric"], row["unit"], row["kind"]), []).append(row)
    return [_one_of(groups[key]) for key in sorted(groups)]


def _one_of(rows: list[Row]) -> Row:
    if "version" in rows[0]:
        return max(rows, key=lambda row: int(row["version"]))
    if len(rows) == 1:
        return rows[0]
    timed = sorted((row for row in rows if row["first_at"] is not None), key=lambda row: row["first_at"])
    whole = dict(rows[0])
    for name in _ADDED:
        whole[name] = _some(sum, [row[name] for row in rows])
    for name, of in (("min", min), ("max", max), ("peak_kib", max)):
        whole[name] = _some(of, [row[name] for row in rows])
    if timed:
        newest = max(timed, key=lambda row: row["last_at"])
        whole |= {"first": timed[0]["first"], "first_at": timed[0]["first_at"]}
        whole |= {"last": newest["last"], "last_at": newest["last_at"], "increase": _increase(timed)}
    return whole


def _increase(rows: Sequence[Row]) -> float | None:
    """As `partials.merged` has it: what was gained within, and between the rows."""
    if rows[0]["increase"] is None:
        return None
    gained = float(rows[0]["increase"])
    for before, row in pairwise(rows):
        difference = row["first"] - before["last"]
        gained += row["increase"] + (difference if difference >= 0 else row["first"])
    return gained


def _some(of: Any, values: Iterable[Any]) -> Any:
    known = [value for value in values if value is not None]
    return of(known) if known else None


def _by_metric(points: Iterable[Row]) -> list[Row]:
    found: dict[tuple[str, str, str], Row] = {}
    for point in points:
        key = point["metric"], point["unit"], point["kind"]
        head = dict(zip(("metric", "unit", "kind"), key, strict=True))
        found.setdefault(key, {**head, "points": []})["points"].append(_shown(point))
    return [found[key] for key in sorted(found)]


def _shown(point: Row) -> Row:
    """A mean may be shown, though none is ever stored."""
    known, lasted = point["values"], 0.0
    if point["increase"] is not None:
        lasted = (micros_of(point["last_at"]) - micros_of(point["first_at"])) / 1e6
    row = {name: point[name] for name in ("n", "ok", "warning", "critical", "unknown", "min", "max", "last")}
    row |= {"at": micros_of(point["bucket"]) // 1_000_000, "mean": point["sum"] / known if known else None,
            "rate": point["increase"] / lasted if lasted > 0 else None, "cpu_ms": point["cpu_ms"],
            "peak_kib": point["peak_kib"]}  # fmt: skip
    return {name: _finite(value) for name, value in row.items()}


# ------------------------------------------------------------------------------------------------ raw results


def _raw(where: _Where, asked: Asked) -> Row:
    after = asked.cursor
    begin = max(asked.begin, after.time) if after else asked.begin
    rows: list[Row] = []
    for lot in where.lots(begin, asked.end, RAW_LOT):
        rows += _results(where, lot, begin, asked.end, after, asked.limit + 1 - len(rows))
        if len(rows) > asked.limit:
            break
    following = None
    if len(rows) > asked.limit:
        rows = rows[: asked.limit]
        following = str(Cursor(RAW, *_place(rows[-1])))
    return {"results": [_result(row, asked.metrics) for row in rows], "next": following}


def _results(where: _Where, files: Sequence[File], begin: int, end: int, after: Cursor | None, count: int) -> list[Row]:
    """The first `count` of these files' results. Looks at their times first, so that no blob is read for nothing."""
    within = (pc.field("time") >= instant(begin)) & (pc.field("time") < instant(end))
    times = where.read(files, ["time"], within)["time"]
    held = 0 if after is None else pc.sum(pc.equal(times, instant(after.time))).as_py() or 0
    if len(times) > count + held:
        places = pc.select_k_unstable(times, count + held, [("", "ascending")])
        within &= pc.field("time") <= pc.max(times.take(places))
    rows = sorted(where.read(files, _RAW, within).to_pylist(), key=_place)
    if after is not None:
        rows = [row for row in rows if _place(row) > (after.time, after.helen, after.at)]
    return rows[:count]


def _place(row: Row) -> tuple[int, int, int]:
    return micros_of(row["time"]), row["helen"], row["at"]


def _result(row: Row, wanted: Sequence[str]) -> Row:
    names = ("took_ms", "cpu_ms", "peak_kib", "reason", "code", "spool", "sequence", "summary")
    metrics = [
        {name: _finite(value) for name, value in each.items()} | {"labels": dict(each["labels"])}
        for each in row["metrics"] if not wanted or each["name"] in wanted
    ]  # fmt: skip
    times = {
        name: None if row[name] is None else micros_of(row[name]) / 1e6 for name in ("time", "received", "started")
    }
    words = {"status": STATUS_WORDS[row["status"]], "origin": ORIGINS[row["origin"]]}
    return times | words | {name: _finite(row[name]) for name in names} | {"metrics": metrics}


# ------------------------------------------------------------------------------------------------ times


def _day(micros: int) -> date:
    """The UTC day; the last one that there is for what comes later."""
    return datetime.fromtimestamp(min(micros, END_OF_TIME - 1) // 1_000_000, UTC).date()


def _finite(value: Any) -> Any:
    """JSON has no infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
