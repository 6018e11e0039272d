"""Writes rows of a table as Parquet files, one for each day, encoded as its columns need it. No Spark, no log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from helen.pipeline.lake.places import parquet_writer
from helen.pipeline.lake.schema import Table

QUICK, DENSE = -1, 3  # levels of zstd: the first takes 10 % more room and half of the time


def write_days(table: Table, rows: pa.Table, target: Path, is_final: bool = False) -> list[Path]:
    """Write rows of a table as Parquet under `target`, one file for each day, and return the files.

    The day isn't in them, it names their folder. Files that `is_final` won't be compacted any more, and are worth more
    work. Raises OSError.
    """
    parts = {"": rows}
    if table.by_day:
        days = rows["day"].unique().to_pylist()
        whole = len(days) == 1
        parts = {f"day={day}": rows if whole else rows.filter(pc.equal(rows["day"], day)) for day in days}
    written = []
    for name, part in parts.items():
        written.append(target / name / "part.parquet")
        with _writer(table, written[-1], _encoded(table.columns, is_final)) as writer:
            writer.write_table(part.select(table.columns.names), row_group_size=table.rows_per_group)
    return written


def open_writer(table: Table, path: Path) -> pq.ParquetWriter:
    """Return a writer for rows that come sorted and won't be written again; it is a context manager.

    Columns that hold blobs keep the encoding of fresh files, because a dictionary of blobs would overflow.
    """
    return _writer(table, path, _encoded(table.columns, table.level is not None) | {"compression_level": DENSE})


def _writer(table: Table, path: Path, options: dict[str, Any]) -> pq.ParquetWriter:
    return parquet_writer(path, table.columns, write_statistics=list(table.statistics), compression="zstd", **options)


def _encoded(schema: pa.Schema, is_final: bool) -> dict[str, Any]:
    """Return the options of the writer. Sums of sorted rows repeat: in final files every column has a dictionary."""
    if is_final:
        return {"compression_level": DENSE, "use_dictionary": True}
    return {
        "compression_level": QUICK, "use_dictionary": leaves(schema, _repeats),
        "column_encoding": dict.fromkeys(leaves(schema, _counts_up), "DELTA_BINARY_PACKED"),
    }  # fmt: skip


def leaves(schema: pa.Schema, wanted: Callable[[pa.DataType], bool]) -> list[str]:
    """Return the Parquet paths of the columns of some type, those inside of lists, structs and maps included."""

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
    """Return True for types with few different values, where a dictionary pays. Figures and blobs would overflow it."""
    return pa.types.is_string(kind) or pa.types.is_int8(kind) or pa.types.is_int32(kind)


def _counts_up(kind: pa.DataType) -> bool:
    """Return True for types with neighbours in a file that are near each other."""
    return pa.types.is_int64(kind) or pa.types.is_timestamp(kind)
