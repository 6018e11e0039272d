"""Rows of a table as Parquet files, one for each day, encoded as its columns need it. For tasks; no Spark, no log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from helen.pipeline.schema import TABLES


def write_days(table: str, rows: pa.Table, target: Path) -> list[Path]:
    """Parquet files of a table's rows under `target`, one for each day, without the day in them."""
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
            part.select(described.columns.names), written[-1], compression="zstd", compression_level=1,
            use_dictionary=leaves(described.columns, _repeats), write_statistics=list(described.statistics),
            column_encoding=dict.fromkeys(leaves(described.columns, _counts_up), "DELTA_BINARY_PACKED"),
        )  # fmt: skip
    return written


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
