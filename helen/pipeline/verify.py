"""Proves that the lake has every result of every segment once, and that all sums are those of the results.

It reads what is there and nothing else: the list of segments with its checksums, the raw results, and the rollups.
Results that are forgotten by now can't be looked at, and are left out. No Spark. Memory is bounded by PART_ROWS, and
has 36 bytes for each segment.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from groundwork.counts import count
from helen.pipeline.ingest.taken import KIND, NEEDED, PLACE, PROOF, added_up, grouped
from helen.pipeline.lake.damaged_files import unreadable
from helen.pipeline.lake.errors import OutOfResources
from helen.pipeline.lake.kept_days import kept_from, oldest_day
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.lake_files import batches, between, held, read
from helen.pipeline.lake.levels import D1, LATEST_DAYS, derived
from helen.pipeline.lake.local_days import micros_of_day
from helen.pipeline.lake.merging import MERGING, Merging, columns_of
from helen.pipeline.lake.read_errors import READ_ERRORS, first_line, is_of_file, lack_of
from helen.pipeline.lake.schema import CHECK, RESULTS, SUMS, TAKEN
from helen.pipeline.lake.stores import url_of
from helen.pipeline.rollup.arrow import merge, newest
from helen.pipeline.rollup.job import bounds_of
from helen.pipeline.rollup.rebuild import sums_of_raw
from helen.pipeline.rollup.steps import DAYS

PART_ROWS = 500_000  # of results that are summed up at once
EXACT = (*columns_of(Merging.COUNT), "first_at", "last_at")
CLOSE = tuple(name for name in MERGING if name not in EXACT)
_KEY = ("series", "metric", "unit", "kind")
Place = tuple[int, int]  # Helen, segment


@frozen
class ProvedDay:
    """Says how many counted results each table has of a day; `faults` are sentences, none if all is equal."""

    day: date
    counts: dict[str, int | None]
    faults: list[str]


def verify_segments(lake: Lake) -> list[str]:
    """Return a sentence for each segment of which results are missing, twice or changed; none if all are sound."""
    files = lake.files(RESULTS.name)
    bad = [(file, reason) for file in files if (reason := unreadable(lake, RESULTS.name, file)) is not None]
    faults = [f"{url_of(lake.path(RESULTS.name) / file.path)} can't be read ({reason})" for file, reason in bad]
    if bad:
        return faults
    listed, found = _listed(lake), _found(lake)
    oldest = oldest_day(lake, RESULTS.name)
    faults = [
        f"segment {segment} of Helen {helen}: {text}" for (helen, segment), text in _compared(listed, found, oldest)
    ]
    helens, segments = (listed[name].to_numpy() for name in PLACE)
    for helen in np.unique(helens).tolist():
        numbers = np.sort(segments[helens == helen])
        gaps = np.flatnonzero(np.diff(numbers) > 1)
        faults += [f"segments {numbers[at] + 1} to {numbers[at + 1] - 1} of Helen {helen} aren't listed" for at in gaps]
    return faults


def _compared(listed: pa.Table, found: pa.Table, oldest: date | None) -> Iterator[tuple[Place, str]]:
    """Yield the fault of each segment that has one. One that may have results of forgotten days can't lack any."""
    kept_from = math.inf if oldest is None else micros_of_day(oldest + timedelta(days=LATEST_DAYS))
    both = listed.join(found, list(PLACE), join_type="full outer", right_suffix=" found", use_threads=False)
    both = both.sort_by([(name, "ascending") for name in PLACE])
    is_listed = both["rows"].is_valid().to_numpy()
    known, rows, digest, seen, begin = (
        both[name].cast(pa.int64()).fill_null(0).to_numpy()
        for name in ("rows", "rows found", "digest", "digest found", "begin")
    )
    is_lacking, is_changed = (rows < known) & (begin >= kept_from), (rows == known) & (digest != seen)
    wrong = np.flatnonzero(~is_listed | (rows > known) | is_lacking | is_changed)
    helens, segments = (both[name].to_numpy()[wrong].tolist() for name in PLACE)
    for at, *place in zip(wrong.tolist(), helens, segments, strict=True):
        said = count(int(rows[at]), "result")
        if not is_listed[at]:
            text = f"{said}, and the list doesn't have it"
        elif rows[at] > known[at]:
            text = f"{said} instead of {known[at]}: some are there twice"
        elif is_lacking[at]:
            text = f"{said} instead of {known[at]}"
        else:
            text = f"another checksum of {said} than when {'it' if rows[at] == 1 else 'they'} came"
        yield (place[0], place[1]), text


def _listed(lake: Lake) -> pa.Table:
    """Return PLACE and PROOF of each segment of the list: it may have several rows there."""
    paths = [file.path for file in held(lake, TAKEN.name, lake.files(TAKEN.name))]
    rows = batches(TAKEN, paths, [*PLACE, *PROOF], pc.field("kind") == KIND)
    return added_up(pa.Table.from_batches([batch]) for batch in rows)


def _found(lake: Lake) -> pa.Table:
    """Return PLACE and PROOF of the results of each segment. Arrow would read four files ahead, with their blobs."""
    paths = [file.path for file in held(lake, RESULTS.name, lake.files(RESULTS.name))]
    rows = (batch for path in paths for batch in batches(RESULTS, [path], NEEDED, None))
    return added_up(grouped(pa.Table.from_batches([batch])) for batch in rows)


# ------------------------------------------------------------------------------------------------ sums


def verify_days(lake: Lake, first: date = date.min, last: date = date.max) -> Iterator[ProvedDay]:
    """Yield each day of these of which results are kept, with what the rollups have of it."""
    first = max(first, kept_from(lake, RESULTS.name))
    days = sorted({file.day for file in lake.files(RESULTS.name, (first, last)) if file.day is not None})
    for day in days:
        try:
            yield _day(lake, day)
        except READ_ERRORS as error:
            if not is_of_file(error, lake.folder):
                raise OutOfResources(lack_of(f"A file of {day}", error)) from error
            yield _unread(lake, day, error)


def _unread(lake: Lake, day: date, error: BaseException) -> ProvedDay:
    """Return a day with files that can't be read. Files of rollups are named by table, so that `mending` has it."""
    named = {name: _bad_files(lake, name, day) for name in (RESULTS.name, *_tables(lake))}
    bad = {name: faults for name, faults in named.items() if faults}
    if not bad or RESULTS.name in bad:  # no rollup can be made of these results
        return ProvedDay(day, {}, [f"a file can't be read ({first_line(error)})"])
    return ProvedDay(day, dict.fromkeys(bad), [fault for faults in bad.values() for fault in faults])


def _bad_files(lake: Lake, table: str, day: date) -> list[str]:
    looked = [(file, unreadable(lake, table, file)) for file in lake.files(table, (day, day))]
    base = lake.path(table)
    return [f"{table}: {url_of(base / file.path)} can't be read ({why})" for file, why in looked if why is not None]


def _tables(lake: Lake) -> list[str]:
    """Return the rollups whose buckets lie in one day."""
    return [SUMS.name, *(level.name for level in derived(lake.levels) if D1.seconds % level.seconds == 0)]


def _day(lake: Lake, day: date) -> ProvedDay:
    tables = _tables(lake)
    results = held(lake, RESULTS.name, lake.files(RESULTS.name, (day, day)))
    rows = sum(file.rows for file in results)
    counts: dict[str, int | None] = dict.fromkeys(("results", *tables), 0)
    faults: list[str] = []
    behind = {name for name in tables[1:] if _is_behind(lake, name, day)}
    for lowest, highest in bounds_of(RESULTS, results, -(-rows // PART_ROWS)):
        wanted = between(lowest, highest)
        before = lake.files(SUMS.name, (day - DAYS, day - timedelta(days=1)))
        raw = merge(sums_of_raw(results, held(lake, SUMS.name, before), wanted), D1)
        _add(counts, "results", raw)
        for name in tables:
            files = [file.path for file in held(lake, name, lake.files(name, (day, day)))]
            table = lake.tables[name]
            kept = read(table, files, table.columns.names, wanted)
            made = merge(kept if lake.is_live(name) else newest(kept), D1)
            _add(counts, name, made)
            if name not in behind:
                faults += [f"{name}: {text}" for text in differences(raw, made)]
    counts |= dict.fromkeys(behind)
    return ProvedDay(day, counts, faults)


def _is_behind(lake: Lake, name: str, day: date) -> bool:
    """Return True if a level has not followed its source yet, in what is new of a day: there is nothing to compare."""
    source = lake.levels[name].source
    assert source is not None
    done = lake.done(name, f"cascade:{source}")
    new = any(file.fresh and file.version + 1 > done for file in lake.files(source, (day, day)))
    return new or (source != SUMS.name and _is_behind(lake, source, day))


def _add(counts: dict[str, int | None], name: str, rows: pa.Table) -> None:
    checks = [n for n, metric in zip(rows["n"].to_pylist(), rows["metric"].to_pylist(), strict=True) if metric == CHECK]
    counts[name] = (counts[name] or 0) + sum(checks)


def differences(expected: pa.Table, found: pa.Table, most: int = 3) -> list[str]:
    """Return sentences about the first rows that differ: counts and times exactly, sums by more than 1e-9 of them."""
    ours, theirs = _by_key(expected), _by_key(found)
    said = []
    for key in sorted({*ours, *theirs}):
        one, other = ours.get(key), theirs.get(key)
        name = f"series {key[0]}{f', {key[1]}' if key[1] else ''}"
        if one is None or other is None:
            said.append(f"{name} is {'missing' if other is None else 'there without results'}")
        else:
            wrong = [column for column in (*EXACT, *CLOSE) if not _same(column, one[column], other[column], one)]
            said += [f"{name}: {column} is {other[column]} instead of {one[column]}" for column in wrong[:1]]
        if len(said) == most:
            break
    return said


def _by_key(rows: pa.Table) -> dict[Any, dict[str, Any]]:
    return {tuple(row[name] for name in _KEY): row for row in rows.to_pylist()}


def _same(column: str, one: Any, other: Any, row: dict[str, Any]) -> bool:
    if one == other or one is None or other is None or column in EXACT:
        return bool(one == other)
    if one != one or other != other:  # neither is a number
        return bool(one != one and other != other)
    size = max(abs(one), abs(other), _size(column, row))
    return bool(abs(one - other) <= 1e-9 * size)


def _size(column: str, row: dict[str, Any]) -> float:
    """Return the magnitude that rounding is measured by: of a sum the sum of absolute values, at most, since they may
    cancel out.

    The gain of a counter may be a difference between values: values are exact to 1e-16 of themselves.
    """
    if column == "sum" and row["sumsq"] is not None:
        return float(np.sqrt(max(row["sumsq"], 0.0) * max(row["values"], 1)))
    if column == "increase" and row["max"] is not None:  # steps that were taken back again were as large as a value
        return 1e-5 * max(abs(row["min"]), abs(row["max"]))
    return 0.0


def mending(days: Sequence[ProvedDay]) -> list[str]:
    """Return the commands that make wrong sums anew, one for days that follow each other.

    Each names the first level that is wrong there: the others are made of it. Where raw results are wrong, no rollup is
    to be made of them.
    """
    found = list[tuple[str, date, date]]()
    for each in days:
        wrong = (name for name in each.counts if any(fault.startswith(f"{name}: ") for fault in each.faults))
        level = next(wrong, None)
        if level is None:
            continue
        if found and found[-1][0] == level and each.day - found[-1][2] == timedelta(days=1):
            found[-1] = (level, found[-1][1], each.day)
        else:
            found.append((level, each.day, each.day))
    return [f"helen pipeline rebuild {level} --from {first} --to {last}" for level, first, last in found]


def table_of(days: Sequence[ProvedDay]) -> list[dict[str, Any]]:
    """Return a row for each day: its counts, and what is wrong."""
    return [{"day": each.day, **each.counts, "wrong": "; ".join(each.faults) or None} for each in days]
