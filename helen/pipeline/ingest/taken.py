"""Counts what a segment brought into the lake: its results, a checksum of them, and when Helen got the first and last.

The table `segments` has these rows. They say that nothing of a segment is missing or twice, and when a Helen was there,
for as long as the lake exists: raw results are forgotten much earlier.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from helen.pipeline.lake.local_days import micros_of
from helen.pipeline.lake.schema import TAKEN
from helen.pipeline.rollup.segment_rows import micros, moments

SOUND, QUARANTINED, READMITTED, LOST, FORGOTTEN = STATES = (
    "sound", "quarantined", "readmitted", "lost", "forgotten",
)  # `state` of a segment  # fmt: skip
KIND = "seg"
DIGESTED = ("at", "received", "origin", "sequence")  # parsing a document anew changes none of them
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
    columns = {name: pa.array([row[name] for row in rows], TAKEN.columns.field(name).type)
               for name in TAKEN.columns.names if name not in ("begin", "end")}  # fmt: skip
    for name in ("begin", "end"):
        columns[name] = moments(np.array([row[name] for row in rows], np.int64))
    columns["day"] = pc.cast(columns["end"], pa.date32(), safe=False)
    return pa.table([columns[name] for name in TAKEN.arrow.names], schema=TAKEN.arrow)


def grouped(results: pa.Table) -> pa.Table:
    """Return rows of `segments` for results of the lake of many segments; rows of one segment add up."""
    helen, segment = results["helen"].to_numpy().astype(np.int64), results["segment"].to_numpy()
    order = np.lexsort((segment, helen))
    helen, segment = helen[order], segment[order]
    starts = np.flatnonzero(np.concatenate([[True], (helen[1:] != helen[:-1]) | (segment[1:] != segment[:-1])]))
    digest, received, at = (
        each[order] for each in (digests(results), micros(results["received"]), results["at"].to_numpy())
    )
    ends = np.append(starts[1:], len(order))
    return as_rows([
        {"helen": int(helen[a]), "kind": KIND, "segment": int(segment[a]), "rows": int(b - a), "dropped": 0,
         "digest": total(digest[a:b]), "first": int(at[a:b].min()), "last": int(at[a:b].max()),
         "begin": int(received[a:b].min()), "end": int(received[a:b].max()), "state": SOUND, "why": None}
        for a, b in zip(starts.tolist(), ends.tolist(), strict=True)
    ])  # fmt: skip


def taken_back(results: pa.Table, why: str) -> pa.Table:
    """Return rows of `segments` that take these results of the lake back: they are forgotten, and so not missing."""
    rows = grouped(results).to_pylist() if results.num_rows else []
    for row in rows:
        row |= {"rows": -row["rows"], "digest": _signed(-row["digest"]), "state": FORGOTTEN, "why": why}
        row |= {name: micros_of(row[name]) for name in ("begin", "end")}
    return as_rows(rows)


def _signed(digest: int) -> int:
    return (digest + 2**63) % 2**64 - 2**63
