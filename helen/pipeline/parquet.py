"""Rows of a table as Parquet files, one for each day, encoded as its columns need it. For tasks; no Spark, no log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from helen.pipeline.schema import TABLES

QUICK, DENSE = -1, 3  # levels of zstd: the first takes 10 % more room and half of the time


def write_days(table: str, rows: pa.Table, target: Path, is_final: bool = False) -> list[Path]:
    """Parquet files of a table's rows under `target`, one for each day, without the day in them.

    `is_final`: they won't be compacted any more, and are worth more work.
    """
    described = TABLES[table]
    parts = {"": rows}
    if described.by_day:
        days = rows["day"].unique().to_pylist()
        whole = len(days) == 1
        parts = {f"day={day}": rows if whole else rows.filter(pc.equal(rows["day"], day)) for day in days}
    written = []
    for name, part in parts.items():
        folder = target / name
        folder.mkdir(parents=True)
        written.append(folder / "part.parquet")
        pq.write_table(
            part.select(described.columns.names), written[-1], row_group_size=described.rows_per_group,
            write_statistics=list(described.statistics), compression="zstd", **_encoded(described.columns, is_final),
        )  # fmt: skip
    return written


def _encoded(schema: pa.Schema, is_final: bool) -> dict[str, Any]:
    """Sums of sorted rows repeat, whatever they are: of files that stay every column has a dictionary."""
    if is_final:
        return {"compression_level": DENSE, "use_dictionary": True}
    return {
        "compression_level": QUICK, "use_dictionary": leaves(schema, _repeats),
        "column_encoding": dict.fromkeys(leaves(schema, _counts_up), "DELTA_BINARY_PACKED"),
    }  # fmt: skip


def leaves(schema: pa.Schema, wanted: Callable[[pa.DataType], bool]) -> list[str]:
    """The Parquet paths of the columns of some type, those inside of lists, structs and maps included."""

    def walk(path: str, kind: pa.DataType) -> Iterator[str]:
        if pa.types.is_list(kind):
            yield from walk(f"{path}.list.element", kind.value_type)
        elif pa.types.is_map(kind):
            yield from walk(f"{path}.key_value.key", kind.key_type)
            yield from walk(f"{path}.key_value.value", kind.item_type)
        elif pa.types.is_struct(kind):
            for at in range(kind.num_fields):
                yield from walk(f"{path}.{kind.field(at).name}", kind.field(at).type)
        elif wanted(kind):
            yield path

    return [path for field in schema for path in walk(field.name, field.type)]


def _repeats(kind: pa.DataType) -> bool:
    """Few different values: a dictionary pays. Figures and blobs would fill it and fall back."""
    return pa.types.is_string(kind) or pa.types.is_int8(kind) or pa.types.is_int32(kind)


def _counts_up(kind: pa.DataType) -> bool:
    """Neighbours are near each other."""
    return pa.types.is_int64(kind) or pa.types.is_timestamp(kind)
