"""Reads segments of results: all of their columns, or those alone that sums of five minutes are made of."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from helen.pipeline.lake.schema import SOURCE
from helen.pipeline.rollup.segment_rows import NEEDED

_METRICS = "metrics"
_ALONE = ["series_id", "at", "received", "started", "clock_offset_ms", *NEEDED[2:-1]]
_WORDS = [f"{_METRICS}.list.element.{name}" for name in ("name", "unit", "kind")]
_VALUE, _LABELS = (f"{_METRICS}.list.element.{name}" for name in ("value", "labels"))
_OF_METRICS = [*_WORDS, _VALUE, _LABELS]
_INSIDE = {*_WORDS, _VALUE, f"{_LABELS}.key_value.key", f"{_LABELS}.key_value.value"}


def read_whole(path: Path) -> pa.Table:
    """Return all columns of a segment; those that an older one lacks are null.

    Raises OSError, and pa.ArrowException for a file that is cut or corrupt.
    """
    return pq.read_table(path, schema=SOURCE.stored)


def read_for_sums(path: Path) -> pa.Table:
    """Return the columns of a segment that sums need, for a third of the CPU: most of a segment is blobs. Raises as
    `read_whole`.

    Words of metrics are codes of a dictionary, as they lie in the file: nothing makes texts of them.
    """
    metadata = pq.read_metadata(path)
    paths = {metadata.schema.column(at).path for at in range(metadata.num_columns)}
    # Another writer has several groups of rows, whose codes Arrow can't join, or other names inside of lists.
    if metadata.num_row_groups > 1 or not paths >= _INSIDE:
        return read_whole(path)
    with pq.ParquetFile(path, metadata=metadata, read_dictionary=_WORDS) as opened:
        stored = opened.read(columns=[*_ALONE, *_OF_METRICS], use_threads=False)
    for name in set(_ALONE) - set(stored.column_names):
        column = SOURCE.stored.field(name)
        stored = stored.append_column(column.with_nullable(True), pa.nulls(stored.num_rows, column.type))
    return stored
