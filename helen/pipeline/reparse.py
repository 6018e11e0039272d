"""Reads the stored blobs once more, with a parser that knows better, and puts what it finds in the place of the old.

For whole UTC days. Only what comes from the blob changes: status, reason, metrics, times, summary; never who, when it
arrived, or under which number. The sums of these days are made anew from all of their results, and the cascade does
the rest. Each table's day is replaced in one step; done twice it changes nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from importlib import import_module
from typing import Any

import pyarrow as pa
from attrs import frozen
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from equus_protocol.results import UNKNOWN, ResultDocument
from helen.pipeline.cascade import cascade
from helen.pipeline.errors import PipelineError
from helen.pipeline.lake import Lake
from helen.pipeline.partials import partials
from helen.pipeline.schema import RESULTS

USUAL = "equus_protocol.results:parse"
END_OF_TIME = 253_402_300_800.0  # the year 10000, as in the segments
GAP = "gap"  # reason of gap rows, which Helen gives them whatever their blob says
Parser = Callable[[bytes], ResultDocument]
Say = Callable[[str], None]


def load_parser(name: str) -> Parser:
    """`MODULE:FUNCTION`, which takes the bytes of a blob and gives a ResultDocument."""
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
    """Runs in Spark's workers: rows of `results` -> the same rows, read anew."""

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
        said = parse(row["raw"])
        is_gap = row["reason"] == GAP
        started = said.started if said.started is not None and 0 <= said.started < END_OF_TIME else None
        metrics = [
            {name: getattr(each, name) for name in ("name", "value", "unit", "kind", "warn", "crit", "min", "max")}
            | {"labels": list(each.labels.items())} for each in said.metrics
        ]  # fmt: skip
        return {
            "status": UNKNOWN if is_gap else said.status, "reason": GAP if is_gap else said.reason,
            "started": None if started is None else round(started * 1_000_000), "took_ms": said.took_ms,
            "cpu_ms": said.cpu_ms, "peak_kib": said.peak_kib, "code": said.code, "summary": said.summary,
            "metrics": metrics, "truncated": list(said.truncated.items()),
        }  # fmt: skip


def reparse(
    spark: SparkSession, lake: Lake, days: Sequence[date], parser: str = USUAL, dry: bool = False,
    say: Say = lambda line: None,
) -> dict[str, int]:  # fmt: skip
    """How many results changed in which column, over these days. With `dry` nothing is written."""
    load_parser(parser)
    changed: dict[str, int] = {}
    for day in days:
        files = lake.files("results", (day, day))
        if not files:
            continue
        before = lake.frame(spark, "results", files)
        after = before.mapInArrow(Task(parser), RESULTS.ddl)
        staged = lake.stage("results", after)
        base = staged[0].parents[1]
        read = spark.read.schema(RESULTS.ddl).option("basePath", str(base)).parquet(*map(str, staged))
        found = _differences(before, read)
        say(f"{day}: {sum(found.values())} values of {sum(file.rows for file in files)} results differ")
        if any(found.values()) and not dry:
            # The sums first: after a crash in between, the results still differ, and both are done again.
            lake.publish("m5", lake.stage("m5", partials(read)), {}, lake.files("m5", (day, day)))
            lake.publish("results", staged, {}, files)
        lake.discard(base)
        for name, count in found.items():
            changed[name] = changed.get(name, 0) + count
    if not dry:
        cascade(spark, lake)
    return changed


def _differences(before: Any, after: Any) -> dict[str, int]:
    """By column, how many values are others now. Metrics and maps are compared as JSON."""
    names = ("status", "reason", "started", "took_ms", "cpu_ms", "peak_kib", "code", "summary", "metrics")
    key = ["helen", "at"]

    def shaped(frame: Any, suffix: str) -> Any:
        values = [F.to_json(name) if name == "metrics" else F.col(name) for name in names]
        return frame.select(*key, *(value.alias(name + suffix) for value, name in zip(values, names, strict=True)))

    both = shaped(before, "_old").join(shaped(after, "_new"), key)
    counts = [F.count_if(~F.col(f"{name}_old").eqNullSafe(F.col(f"{name}_new"))).alias(name) for name in names]
    found: dict[str, int] = both.agg(*counts).collect()[0].asDict()
    return found
