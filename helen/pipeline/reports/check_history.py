"""Reads the figures of one check over some time from the lake, for pages. deltalake and Arrow; no Spark, no writes.

An answer is bounded (`limit` points, and a cursor for the rest) and comes of one version of the table: a batch is in it
whole or not at all. Files are read some days at a time, so that a year takes no more memory than a month. A reader
needs no lock; if files that it was about to read have just been swept, it reads once more.

Each level follows its source within minutes or an hour (lake/levels.py). Without a resolution the span chooses the
level.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from attrs import field, frozen

from equus_protocol.results import STATUS_WORDS
from helen.pipeline.lake.delta_log import FAULTS
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.lake_files import dataset, instant
from helen.pipeline.lake.levels import LEVELS, Level
from helen.pipeline.lake.local_days import micros_of
from helen.pipeline.lake.log_entries import File
from helen.pipeline.lake.schema import CHECK
from helen.pipeline.lake.stores import url_of
from helen.pipeline.rollup.arrow import merge, newest

DAY = 86_400 * 1_000_000
END_OF_TIME = 253_402_300_800 * 1_000_000  # the year 10000
RAW = "raw"
ORIGINS = ("scheduled", "asked", "passive", "target")
MOST_POINTS = 10_000  # in one answer: 2 MB of JSON
MOST_RESULTS = 1_000  # raw ones in one answer
MOST_METRICS = 50  # in one answer: with LOTS that makes at most 50,000 rows in memory at once
MOST_BYTES = 64 * 1024 * 1024  # of rows in memory: a summary and metrics can be as big as a blob, 1 MiB
_RAW = ("helen", "at", "time", "received", "started", "took_ms", "cpu_ms", "peak_kib", "status", "origin", "reason",
        "code", "spool", "sequence", "summary", "metrics")  # fmt: skip
Row = dict[str, Any]
RAW_LOT = 1


class NoLake(Exception):
    """Says that nothing was ever published there. The text names the next step."""


class NotInLake(Exception):
    """Says that the lake has nothing under this name. The text names the next step."""


class BadRequest(Exception):
    """Says that a request makes no sense."""


class TooMuch(Exception):
    """Says that one answer can't hold so much. The text says how to ask for less."""


class LakeUnreadable(Exception):
    """Says that the lake is damaged or can't be reached, or changes faster than it can be read."""

    @classmethod
    def of(cls, folder: Path, error: Exception) -> LakeUnreadable:
        """Return the error to be raised instead of one of FAULTS."""
        return cls(f"the lake {url_of(folder)} can't be read ({error}): `helen pipeline doctor`")


@frozen
class Cursor:
    """Holds where the next answer begins. A rollup goes on at a bucket, raw results behind one of them."""

    resolution: str
    time: int
    helen: int = 0
    at: int = 0

    def __str__(self) -> str:
        return f"{self.resolution}.{self.time}.{self.helen}.{self.at}"

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """Read the text of a cursor. Raises BadRequest for any other text."""
        word, *numbers = text.split(".")
        sound = (word == RAW or word in LEVELS) and len(numbers) == 3
        if not sound or not all(each.isascii() and each.isdigit() and len(each) <= 18 for each in numbers):
            raise BadRequest("`cursor` is the `next` of the answer before")
        return cls(word, *map(int, numbers))


@frozen
class HistoryRequest:
    """Asks for one check from `begin` to `end`, microseconds, the end not included. No `metrics`: all of them."""

    agent: str
    check_id: str
    begin: int
    end: int
    resolution: str | None = None
    metrics: Sequence[str] = ()
    limit: int = MOST_POINTS
    cursor: Cursor | None = None

    @classmethod
    def of(cls, *, resolution: str | None, limit: int | None, cursor: str | None, **more: Any) -> HistoryRequest:
        """Make a request from words; a limit that is too high becomes the highest one. Raises BadRequest."""
        place = None if cursor is None else Cursor.parse(cursor)
        resolution = resolution if place is None else place.resolution
        if resolution not in (None, RAW, *LEVELS):
            words = ", ".join((*LEVELS, RAW))
            raise BadRequest(f"`resolution` is one of {words}; without it the span decides")
        most = MOST_RESULTS if resolution == RAW else MOST_POINTS
        return cls(resolution=resolution, limit=min(limit or most, most), cursor=place, **more)


@frozen
class _SeriesFiles:
    """Reads one series from the files of one table, some days at a time."""

    lake: Lake
    table: str
    series: int
    files: Sequence[File] = field(factory=list)

    def read(self, lot: Sequence[File], columns: Sequence[str], wanted: Any) -> pa.Table:
        """Return the rows of the series in these files that meet a condition. Raises TooMuch."""
        schema = self.lake.tables[self.table].columns
        return pa.Table.from_batches(self.batches(lot, columns, wanted), pa.schema([schema.field(c) for c in columns]))

    def batches(self, lot: Sequence[File], columns: Sequence[str], wanted: Any) -> Iterator[pa.RecordBatch]:
        """Yield the same rows piece by piece. Raises TooMuch beyond MOST_BYTES, a server's share for one reader."""
        names = [str(self.lake.path(self.table) / file.path) for file in lot]
        held = 0
        ours = (pc.field("series") == self.series) & wanted
        for batch in dataset(self.lake.tables[self.table], names).to_batches(list(columns), filter=ours):
            held += batch.nbytes
            if held > MOST_BYTES:
                raise TooMuch("that is too big for one answer: ask for a shorter time, or for fewer metrics")
            yield batch

    def lots(self, begin: int, end: int, level: Level | None) -> Iterator[list[File]]:
        """Yield files that may hold rows of the series between two moments, some days at a time, in their order."""
        first, last = _day(begin), _day(end - 1)
        size = RAW_LOT if level is None else level.read_days
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


def read_history(folder: Path, request: HistoryRequest) -> Row:
    """Return the answer as plain data, see `answer`. Raises NoLake, NotInLake, TooMuch, LakeUnreadable."""
    for attempt in (1, 2):
        try:
            return answer(Lake(folder), request)
        except FileNotFoundError as error:  # swept after the log was read
            if attempt == 2:
                raise LakeUnreadable(f"a file of the lake is missing ({error}): `helen pipeline doctor`") from error
        except FAULTS as error:
            raise LakeUnreadable.of(folder, error) from error
    raise AssertionError("unreachable")


def answer(lake: Lake, request: HistoryRequest) -> Row:
    """Return {"agent", "check", "resolution", "from", "to", "next"} with "step" and "metrics", or with "results".

    docs/api.rst describes it. Raises NoLake, NotInLake, TooMuch.
    """
    series = _series(lake, request)
    resolution = request.resolution or _resolution(lake, request)
    table = "results" if resolution == RAW else resolution
    source = _SeriesFiles(lake, table, series, lake.files(table))
    found = _raw(source, request) if resolution == RAW else _rollup(source, request)
    return {"agent": request.agent, "check": request.check_id, "resolution": resolution, "from": request.begin / 1e6,
            "to": request.end / 1e6, **found}  # fmt: skip


def _series(lake: Lake, request: HistoryRequest) -> int:
    opened = lake.open("series")
    if opened is None:
        raise NoLake(
            f"there is no lake in {url_of(lake.folder)} yet: `helen pipeline run --state DIR` makes one of Helen's"
            " history, and goes on with it"
        )
    named = opened.to_pyarrow_table(columns=["series", "agent", "check_id"])
    is_it = pc.and_(pc.equal(named["agent"], request.agent), pc.equal(named["check_id"], request.check_id))
    numbers = named.filter(is_it)["series"].to_pylist()
    if numbers:
        return int(numbers[0])
    raise NotInLake(
        f"the lake knows no {request.agent}/{request.check_id}: a new check is there some 20 s after its first result,"
        " and `helen status` says whether the pipeline is behind"
    )


def _resolution(lake: Lake, request: HistoryRequest) -> str:
    """Choose a level by the span; a coarser one where the finer one doesn't reach back so far and it does."""
    span = (request.end - request.begin) / DAY
    fitting = [name for name, each in lake.levels.items() if span <= each.most_days]
    chosen, reach = fitting[0], _oldest(lake, fitting[0])
    for name in fitting[1:]:
        if reach is not None and reach <= _day(request.begin):
            break
        further = _oldest(lake, name)
        if further is not None and (reach is None or further < reach):
            chosen, reach = name, further
    return chosen


def _oldest(lake: Lake, table: str) -> date | None:
    return min((file.day for file in lake.files(table) if file.day is not None), default=None)


# ------------------------------------------------------------------------------------------------ rollups


def _rollup(source: _SeriesFiles, request: HistoryRequest) -> Row:
    level = source.lake.levels[source.table]
    begin = max(level.start(request.begin), request.cursor.time if request.cursor else 0)
    wanted = (pc.field("bucket") >= instant(begin)) & (pc.field("bucket") < instant(request.end))
    if request.metrics:
        wanted &= pc.field("metric").isin([CHECK, *request.metrics])  # the check's own row has the newest version
    columns = source.lake.tables[source.table].columns.names
    is_live, points = source.lake.is_live(source.table), list[Row]()
    for lot in source.lots(begin, request.end, level):
        if not request.metrics:
            _check_metrics(request, source.batches(lot, ["metric"], wanted))
        found = _condensed(source.read(lot, columns, wanted), level, is_live)
        points += [row for row in found if not request.metrics or row["metric"] in request.metrics]
        if len(points) > request.limit:
            break
    following = None
    if len(points) > request.limit:
        bucket = points[request.limit]["bucket"]
        if bucket == points[0]["bucket"]:
            raise TooMuch(f"one bucket has more than {request.limit} metrics: ask for some of them with `metric`")
        points = [point for point in points if point["bucket"] < bucket]
        following = str(Cursor(source.table, micros_of(bucket)))
    return {"step": level.seconds, "metrics": _by_metric(points), "next": following}


def _check_metrics(request: HistoryRequest, batches: Iterable[pa.RecordBatch]) -> None:
    names: set[str] = set()
    for batch in batches:
        names.update(batch.column(0).unique().to_pylist())
        if len(names) > MOST_METRICS:
            raise TooMuch(
                f"{request.agent}/{request.check_id} has more than {MOST_METRICS} metrics: ask for some of them with"
                f" `metric`, such as {max(names)}"
            )


def _condensed(rows: pa.Table, level: Level, is_live: bool = True) -> list[Row]:
    """Return one row for each bucket and metric, in their order: rows of a bucket add up.

    A level of an older format is not live: of several versions of a bucket the newest counts.
    """
    whole = merge(rows, level) if is_live else newest(rows)
    found: list[Row] = whole.to_pylist()
    return sorted(found, key=lambda row: (row["bucket"], row["metric"], row["unit"], row["kind"]))


def _by_metric(points: Iterable[Row]) -> list[Row]:
    found: dict[tuple[str, str, str], Row] = {}
    for point in points:
        key = point["metric"], point["unit"], point["kind"]
        head = dict(zip(("metric", "unit", "kind"), key, strict=True))
        found.setdefault(key, {**head, "points": []})["points"].append(_shown(point))
    return [found[key] for key in sorted(found)]


def _shown(point: Row) -> Row:
    """Return a point as pages get it. A mean may be shown, though none is ever stored."""
    known, lasted = point["values"], 0.0
    if point["increase_s"] is not None:
        lasted = point["increase_s"]
    elif point["increase"] is not None:  # of a version that did not note it
        lasted = (micros_of(point["last_at"]) - micros_of(point["first_at"])) / 1e6
    row = {name: point[name] for name in ("n", "ok", "warning", "critical", "unknown", "min", "max", "last")}
    row |= {"at": micros_of(point["bucket"]) // 1_000_000, "mean": point["sum"] / known if known else None,
            "rate": point["increase"] / lasted if lasted > 0 else None, "cpu_ms": point["cpu_ms"],
            "peak_kib": point["peak_kib"]}  # fmt: skip
    return {name: _finite(value) for name, value in row.items()}


# ------------------------------------------------------------------------------------------------ raw results


def _raw(source: _SeriesFiles, request: HistoryRequest) -> Row:
    after = request.cursor
    begin = max(request.begin, after.time) if after else request.begin
    rows: list[Row] = []
    for lot in source.lots(begin, request.end, None):
        rows += _results(source, lot, begin, request.end, after, request.limit + 1 - len(rows))
        if len(rows) > request.limit:
            break
    following = None
    if len(rows) > request.limit:
        rows = rows[: request.limit]
        following = str(Cursor(RAW, *_place(rows[-1])))
    return {"results": [_result(row, request.metrics) for row in rows], "next": following}


def _results(
    source: _SeriesFiles, files: Sequence[File], begin: int, end: int, after: Cursor | None, count: int
) -> list[Row]:
    """Return the first `count` results of these files. Times are read first, so that no blob is read in vain."""
    within = (pc.field("time") >= instant(begin)) & (pc.field("time") < instant(end))
    times = source.read(files, ["time"], within)["time"]
    held = 0 if after is None else pc.sum(pc.equal(times, instant(after.time))).as_py() or 0
    if len(times) > count + held:
        places = pc.select_k_unstable(times, count + held, [("", "ascending")])
        within &= pc.field("time") <= pc.max(times.take(places))
    rows = sorted(source.read(files, _RAW, within).to_pylist(), key=_place)
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
    """Return the UTC day of a time in microseconds; the last day that there is for later times."""
    return datetime.fromtimestamp(min(micros, END_OF_TIME - 1) // 1_000_000, UTC).date()


def _finite(value: Any) -> Any:
    """Return a value for JSON, which has no infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
