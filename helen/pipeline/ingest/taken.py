"""Counts the rows that a segment brought into the lake: its results, a checksum of them, and when Helen got the first
and last.

The table `segments` has these rows. They say that nothing of a segment is missing or twice, and when a Helen was there,
for as long as the lake exists: raw results are forgotten much earlier.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from helen.pipeline.lake.schema import TAKEN
from helen.pipeline.rollup.segment_rows import micros, moments

SOUND, QUARANTINED, READMITTED, LOST, FORGOTTEN = STATES = (
    "sound", "quarantined", "readmitted", "lost", "forgotten",
)  # `state` of a segment  # fmt: skip
KIND = "seg"
MOST_WAITING = 500_000  # rows that `added_up` takes in before it adds them up
DIGESTED = ("at", "received", "origin", "sequence")  # parsing a document anew changes none of them
PLACE = ("helen", "segment")
_HOW = {"rows": "sum", "dropped": "sum", "digest": "sum", "first": "min", "last": "max", "begin": "min", "end": "max"}
PROOF = ("rows", "digest", "begin")  # of these, those that prove a segment
NEEDED = ("helen", "segment", *DIGESTED, "raw")  # columns of results that `grouped` reads
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB), np.uint64(0x9E3779B97F4A7C15))
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))

Array = Any  # of numpy


def digests(rows: pa.Table) -> Array:
    """Return a checksum of each row of results as int64. They add up modulo 2 ** 64, in whatever order rows lie.

    It covers DIGESTED and the length of the raw document.
    """
    found = np.zeros(rows.num_rows, np.uint64)
    with np.errstate(over="ignore"):
        for name in DIGESTED:
            found = _mixed(found ^ _integers(rows[name]))
        found = _mixed(found ^ _integers(pc.binary_length(rows["raw"])))
    return found.view(np.int64)


def _integers(column: pa.ChunkedArray) -> Array:
    return column.cast(pa.int64()).fill_null(-1).to_numpy().astype(np.int64).view(np.uint64)


def _mixed(value: Array) -> Array:
    """Return numbers that differ in half of their bits wherever the given ones differ in one (splitmix64)."""
    value = value + _MIX[2]
    value = (value ^ (value >> _SHIFTS[0])) * _MIX[0]
    value = (value ^ (value >> _SHIFTS[1])) * _MIX[1]
    return value ^ (value >> _SHIFTS[2])


def total(digest: Array) -> int:
    """Return the sum of checksums, as a signed number of 64 bits."""
    with np.errstate(over="ignore"):
        return int(np.add.reduce(digest.view(np.uint64)).astype(np.uint64).view(np.int64)) if len(digest) else 0


def taken_of(stored: pa.Table, kept: pa.Table, helen: int, segment: int, state: str = SOUND) -> pa.Table:
    """Return the row about a segment: `stored` are all of its results, `kept` those that went into the lake."""
    received, at = micros(stored["received"]), stored["at"].to_numpy()
    heard = (int(received.min()), int(received.max())) if len(received) else (0, 0)
    numbers = (int(at.min()), int(at.max())) if len(at) else (0, -1)
    row = {
        "helen": helen, "kind": KIND, "segment": segment, "rows": kept.num_rows,
        "dropped": stored.num_rows - kept.num_rows, "digest": total(digests(kept)), "first": numbers[0],
        "last": numbers[1], "begin": heard[0], "end": heard[1], "state": state, "why": None,
    }  # fmt: skip
    return as_rows([row])


def as_rows(rows: list[dict[str, Any]]) -> pa.Table:
    """Return rows of `segments`, `day` included; `begin` and `end` in microseconds."""
    return _table({name: [row[name] for row in rows] for name in TAKEN.columns.names})


def _table(columns: Mapping[str, Any]) -> pa.Table:
    made = {name: pa.array(columns[name], TAKEN.columns.field(name).type)
            for name in TAKEN.columns.names if name not in ("begin", "end")}  # fmt: skip
    for name in ("begin", "end"):
        made[name] = moments(np.array(columns[name], np.int64))
    made["day"] = pc.cast(made["end"], pa.date32(), safe=False)
    return pa.table([made[name] for name in TAKEN.arrow.names], schema=TAKEN.arrow)


def grouped(results: pa.Table) -> pa.Table:
    """Return rows of `segments` for results of the lake of many segments; rows of one segment add up."""
    if not results.num_rows:
        return TAKEN.arrow.empty_table()
    helen, segment = results["helen"].to_numpy().astype(np.int64), results["segment"].to_numpy()
    order = np.lexsort((segment, helen))
    helen, segment = helen[order], segment[order]
    begins = np.flatnonzero(np.concatenate([[True], (helen[1:] != helen[:-1]) | (segment[1:] != segment[:-1])]))
    digest, received, at = (
        each[order] for each in (digests(results), micros(results["received"]), results["at"].to_numpy())
    )
    count = len(begins)
    return _table({
        "helen": helen[begins], "kind": [KIND] * count, "segment": segment[begins],
        "rows": np.diff(np.append(begins, len(order))), "dropped": np.zeros(count, np.int64),
        "digest": np.add.reduceat(digest.view(np.uint64), begins).view(np.int64),
        "first": np.minimum.reduceat(at, begins), "last": np.maximum.reduceat(at, begins),
        "begin": np.minimum.reduceat(received, begins), "end": np.maximum.reduceat(received, begins),
        "state": [SOUND] * count, "why": [None] * count,
    })  # fmt: skip


def added_up(parts: Iterable[pa.Table], names: Sequence[str] = PROOF) -> pa.Table:
    """Return one row for each segment, with PLACE and these columns, of rows of `segments`. Checksums wrap.

    MOST_WAITING rows wait at most, or as many as there are segments: memory grows with segments alone.
    """
    whole, waiting, rows = _summed(TAKEN.arrow.empty_table(), names), list[pa.Table](), 0
    for part in parts:
        waiting.append(part.select([*PLACE, *names]))
        rows += part.num_rows
        if rows > max(MOST_WAITING, whole.num_rows):
            whole, waiting, rows = _summed(pa.concat_tables([whole, *waiting]), names), [], 0
    return _summed(pa.concat_tables([whole, *waiting]), names)


def _summed(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    found = rows.group_by(list(PLACE), use_threads=False).aggregate([(name, _HOW[name]) for name in names])
    return found.select([*PLACE, *(f"{name}_{_HOW[name]}" for name in names)]).rename_columns([*PLACE, *names])


def listed(parts: Iterable[pa.Table]) -> pa.Table:
    """Return one row of `segments` for each segment, of results of the lake that come in parts."""
    sums = added_up(map(grouped, parts), tuple(_HOW))
    count = sums.num_rows
    times = {name: micros(sums[name]) for name in ("begin", "end")}
    words = {"kind": [KIND] * count, "state": [SOUND] * count, "why": [None] * count}
    return _table({name: sums[name].combine_chunks() for name in sums.column_names} | times | words)


def taken_back(results: pa.Table, why: str) -> pa.Table:
    """Return rows of `segments` that take these results of the lake back: they are forgotten, and so not missing."""
    rows = grouped(results)
    changed = {"rows": pc.negate(rows["rows"]), "digest": pc.negate(rows["digest"]),
               "state": pa.repeat(FORGOTTEN, rows.num_rows), "why": pa.repeat(why, rows.num_rows)}  # fmt: skip
    return pa.table([changed.get(name, rows[name]) for name in rows.column_names], schema=TAKEN.arrow)
