"""Parses the stored blobs of whole UTC days once more, with a better parser, and replaces the values of the old one.

Only columns that come from the blob change: status, reason, metrics, times, summary; never the series, the time of
arrival or the sequence. The sums of these days are made anew from all of their results, and the cascade does the rest.
Each table's day is replaced in one step; done twice it changes nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from importlib import import_module
from typing import Any

import pyarrow as pa
from attrs import evolve, frozen
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from equus_protocol.result_fields import (
    END_OF_TIME,
    GAP_REASON,
    METRIC_COLUMNS,
    RESULT_FIELDS,
    UNKNOWN,
    ResultDocument,
)
from helen.pipeline.lake.errors import PipelineError
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.lake_files import MOST, Held
from helen.pipeline.lake.places import metadata_of
from helen.pipeline.lake.schema import RESULTS
from helen.pipeline.lake.stored_frames import frame_of
from helen.pipeline.rollup.following import cascade
from helen.pipeline.rollup.rebuild import check_even, days_behind, rebuild_sums, sum_again
from helen.pipeline.worker_memory import GivingBack

USUAL = "equus_protocol.results:parse"
# Columns that come from the blob, and their types.
_FROM_BLOB = {each.name: each.column.type for each in RESULT_FIELDS if each.column is not None}
Parser = Callable[[bytes], ResultDocument]
Say = Callable[[str], None]


def load_parser(name: str) -> Parser:
    """Return the function `MODULE:FUNCTION`, which takes the bytes of a blob and returns a ResultDocument.

    Raises PipelineError if there is none.
    """
    module, colon, function = name.partition(":")
    try:
        found = getattr(import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise PipelineError(
            f"There is no parser {name!r} ({error}): write MODULE:FUNCTION, such as {USUAL}."
        ) from error
    if not colon or not callable(found):
        raise PipelineError(f"{name!r} is no function: write MODULE:FUNCTION, such as {USUAL}.")
    parser: Parser = found
    return parser


@frozen
class Task:
    """Turns rows of `results` into the same rows, parsed anew, in Spark's workers."""

    parser: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parse = load_parser(self.parser)
        for batch in batches:
            read = [self._read(parse, row) for row in batch.select(["raw", "reason"]).to_pylist()]
            columns = {name: batch.column(name) for name in batch.schema.names}
            for name in read[0] if read else ():
                columns[name] = pa.array([row[name] for row in read], RESULTS.columns.field(name).type)
            yield pa.RecordBatch.from_arrays([columns[n] for n in RESULTS.arrow.names], schema=RESULTS.arrow)

    def _read(self, parse: Parser, row: Mapping[str, Any]) -> dict[str, Any]:
        document = parse(row["raw"])
        if row["reason"] == GAP_REASON:
            document = evolve(document, status=UNKNOWN, reason=GAP_REASON)
        return {name: _stored(getattr(document, name), kind) for name, kind in _FROM_BLOB.items()}


def _stored(value: Any, kind: str) -> Any:
    """Return a value of a document as its column holds it."""
    if kind == "time":
        return None if value is None or not 0 <= value < END_OF_TIME else round(value * 1_000_000)
    if kind == "metrics":
        return [
            {name: _stored(getattr(each, name), column.type) for name, column in METRIC_COLUMNS.items()}
            for each in value
        ]  # fmt: skip
    return list(value.items()) if kind in ("labels", "lengths") else value


def reparse(
    spark: SparkSession, lake: Lake, days: Sequence[date], parser: str = USUAL, dry: bool = False,
    say: Say = lambda line: None,
) -> dict[str, int]:  # fmt: skip
    """Parse these days anew and return how many results changed in each column: {"status": 3, ...}.

    With `dry` nothing is written. Raises PipelineError if there is no such parser.
    """
    load_parser(parser)
    check_even(lake)
    changed: dict[str, int] = {}
    summed: list[date] = []
    for day in days:
        files = lake.files("results", (day, day))
        if not files:
            continue
        before = lake.frame(spark, "results", files)
        after = before.mapInArrow(GivingBack(Task(parser)), RESULTS.ddl)
        staged = lake.stage("results", after)
        base = staged[0].parents[1]
        read = frame_of(spark, RESULTS, base, staged)
        found = _differences(before, read)
        say(f"{day}: {sum(found.values())} values of {sum(file.rows for file in files)} results differ")
        if any(found.values()) and not dry:
            # The sums first: after a crash in between, the results still differ, and both are done again.
            rows = {path: metadata_of(path).num_rows for path in staged}
            rebuild_sums(spark, lake, day, [Held(str(path), count, 0, MOST) for path, count in rows.items()])
            lake.publish("results", staged, {}, files)
            summed.append(day)
        lake.discard(base)
        for name, count in found.items():
            changed[name] = changed.get(name, 0) + count
    for day in days_behind(lake, summed):
        sum_again(spark, lake, day)
    if not dry:
        cascade(spark, lake)
    return changed


def _differences(before: Any, after: Any) -> dict[str, int]:
    """Return how many values have changed, by column. Metrics and maps are compared as JSON."""
    key = ["helen", "at"]

    def shaped(frame: Any, suffix: str) -> Any:
        """Select the columns to be compared, with a suffix to their names."""
        values = [
            (F.to_json(name) if kind in ("metrics", "lengths") else F.col(name)).alias(name + suffix)
            for name, kind in _FROM_BLOB.items()
        ]
        return frame.select(*key, *values)

    both = shaped(before, "_old").join(shaped(after, "_new"), key)
    counts = [F.count_if(~F.col(f"{name}_old").eqNullSafe(F.col(f"{name}_new"))).alias(name)
              for name in _FROM_BLOB]  # fmt: skip
    found: dict[str, int] = both.agg(*counts).collect()[0].asDict()
    return found
