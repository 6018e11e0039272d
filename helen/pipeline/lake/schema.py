"""Defines the columns of the source `helen` and of each table of the lake. docs/pipeline.rst describes them.

Arrow schemas are the truth; Spark's and Delta's are made from them. Columns of a result follow from
equus_protocol.result_fields, tables of rollups from lake/levels.py. Nothing in a table is declared as never null: Spark
writes every column as nullable, and a reader that believed otherwise would be wrong. Spark itself isn't needed here: a
process that only reads the lake does without it.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from attrs import field, frozen

from equus_protocol.result_fields import METRIC_COLUMNS, RESULT_COLUMNS, STATUS_WORDS, Column
from helen.pipeline.lake.levels import LEVELS, M5, Level, Levels

STATUSES = STATUS_WORDS
ASKED = 1  # `origin` of an operator's question: in the history, in no figure
CHECK = ""  # `metric` of the rows about the check itself: its results, their statuses, its run time as the value
COUNTER = "counter"
TIME = pa.timestamp("us", tz="UTC")
_TYPES: dict[str, pa.DataType] = {
    "time": TIME, "labels": pa.map_(pa.string(), pa.string()), "lengths": pa.map_(pa.string(), pa.int64()),
}  # fmt: skip


def _arrow(columns: Mapping[str, Column]) -> list[tuple[str, pa.DataType]]:
    return [(name, _TYPES.get(each.type) or pa.type_for_alias(each.type)) for name, each in columns.items()]


METRICS = _TYPES["metrics"] = pa.list_(pa.field("element", pa.struct(_arrow(METRIC_COLUMNS))))
_FROM_HELEN = _arrow(RESULT_COLUMNS)
_WORDS = {
    pa.string(): "string", pa.binary(): "binary", pa.bool_(): "boolean", pa.date32(): "date", TIME: "timestamp",
    pa.int8(): "tinyint", pa.int32(): "int", pa.int64(): "bigint", pa.float64(): "double",
}  # fmt: skip


def ddl(schema: pa.Schema) -> str:
    """Return the columns as Spark writes them: `series int, metrics array<struct<name:string,...>>`."""
    return ", ".join(f"`{column.name}` {spark_type(column.type)}" for column in schema)


def spark_type(kind: pa.DataType) -> str:
    """Return Spark's word for one of the types that occur here."""
    if pa.types.is_list(kind):
        return f"array<{spark_type(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{spark_type(kind.key_type)},{spark_type(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'`{part.name}`:{spark_type(part.type)}' for part in kind)}>"
    return _WORDS[kind]


@frozen
class Source:
    """Holds the columns that the source `helen` returns: those of a segment behind two of the lake's own."""

    stored: pa.Schema
    arrow: pa.Schema

    @property
    def ddl(self) -> str:
        """Return the columns as Spark writes them."""
        return ddl(self.arrow)


@frozen
class Table:
    """Describes a table of the lake. `by_day`: partitioned by the UTC day, a column that isn't in the files themselves.

    `sort` is the order that compaction gives the rows, `statistics` the columns with a range per file in the log. A
    reader of some series reads no more of a sorted file than groups of `rows_per_group`. `level` is set for rollups.
    """

    name: str
    columns: pa.Schema
    by_day: bool = True
    sort: tuple[str, ...] = field(default=())
    statistics: tuple[str, ...] = field(default=())
    rows_per_group: int = 1 << 20
    level: Level | None = None

    @property
    def arrow(self) -> pa.Schema:
        """Return the columns that a reader of the table sees."""
        return self.columns.append(pa.field("day", pa.date32())) if self.by_day else self.columns

    @property
    def ddl(self) -> str:
        """Return the columns as Spark writes them."""
        return ddl(self.arrow)

    @property
    def partitions(self) -> list[str]:
        return ["day"] if self.by_day else []


def _table(name: str, columns: list[tuple[str, pa.DataType]], **more: object) -> Table:
    return Table(name, pa.schema(columns), **more)  # type: ignore[arg-type]


SOURCE = Source(pa.schema(_FROM_HELEN), pa.schema([("helen", pa.int32()), ("segment", pa.int64()), *_FROM_HELEN]))
SEGMENTS = Source(pa.schema([]), pa.schema([("helen", pa.int32()), ("segment", pa.int64()), ("folder", pa.string())]))
# What a task of the pipeline hands back: a file that it wrote, or (without a path) a segment that it has read.
WRITTEN = Source(pa.schema([]), pa.schema([("table", pa.string()), ("path", pa.string()), *SEGMENTS.arrow]))
# `time` is what everything is computed by; helen/pipeline/rollup/segment_rows.py says how it comes from `received`
# and `started`.
RESULTS = _table(
    "results",
    [("helen", pa.int32()), ("segment", pa.int64()), ("series", pa.int32()), ("time", TIME),
     *[column for column in _FROM_HELEN if column[0] != "series_id"]],
    sort=("series", "time"), statistics=("series", "time"), rows_per_group=1 << 17,
)  # fmt: skip
CHANGES = _table(
    "changes",
    [("helen", pa.int32()), ("segment", pa.int64()), ("at", pa.int64()), ("received", TIME), ("series", pa.int32()),
     ("kind", pa.string()), ("document", pa.string())],
    sort=("series", "received", "at"), statistics=("series", "received"),
)  # fmt: skip
# Of each week that is over (`day` is its Sunday) the changes that still matter behind it; standing.py chooses them.
STANDING = Table("standing", CHANGES.columns, sort=CHANGES.sort, statistics=CHANGES.statistics)
_FIGURES = [
    ("series", pa.int32()), ("bucket", TIME), ("metric", pa.string()), ("unit", pa.string()), ("kind", pa.string()),
    ("n", pa.int64()), ("ok", pa.int64()), ("warning", pa.int64()), ("critical", pa.int64()), ("unknown", pa.int64()),
    ("values", pa.int64()), ("sum", pa.float64()), ("sumsq", pa.float64()), ("min", pa.float64()),
    ("max", pa.float64()),
    ("first", pa.float64()), ("first_at", TIME), ("last", pa.float64()), ("last_at", TIME), ("increase", pa.float64()),
    ("increase_s", pa.float64()), ("cpu_ms", pa.float64()), ("cpu_runs", pa.int64()), ("peak_kib", pa.float64()),
]  # fmt: skip


def rollup(level: Level) -> Table:
    """Return the table of a level.

    Rows add up: a bucket may have several. In levels that follow another one, `version` says which version of their
    source a row has seen.
    """
    version = [] if level.source is None else [("version", pa.int64())]
    return _table(
        level.name, [*_FIGURES, *version], sort=("series", "metric", "bucket"), statistics=("series", "bucket"),
        rows_per_group=1 << 16, level=level,
    )  # fmt: skip


SUMS = rollup(M5)
SERIES = _table(
    "series", [("series", pa.int32()), ("agent", pa.string()), ("check_id", pa.string()), ("check", pa.string())],
    by_day=False,
)  # fmt: skip
HELENS = _table("helens", [("helen", pa.int32()), ("id", pa.string()), ("folder", pa.string())], by_day=False)
# What each segment brought, how that can be proved later, and when its Helen was there: kept for ever.
TAKEN = _table(
    "segments",
    [("helen", pa.int32()), ("kind", pa.string()), ("segment", pa.int64()), ("rows", pa.int64()),
     ("dropped", pa.int64()), ("digest", pa.int64()), ("first", pa.int64()), ("last", pa.int64()), ("begin", TIME),
     ("end", TIME), ("state", pa.string()), ("why", pa.string())],
    sort=("helen", "kind", "segment"), statistics=("helen", "end"),
)  # fmt: skip
SPOOLS = _table("spools", [("helen", pa.int32()), ("agent", pa.string()), ("spool", pa.string())], by_day=False)
AVAILABILITY = _table(
    "availability_daily",
    [("series", pa.int32()), ("date", pa.date32()), ("zone", pa.string()), ("profile", pa.string()),
     ("seconds", pa.float64()), ("ok", pa.float64()), ("bad", pa.float64()), ("planned", pa.float64()),
     ("unknown", pa.float64()), ("no_data", pa.float64()), ("percent", pa.float64()), ("outages", pa.int64()),
     ("why", pa.string()), ("from_changes", pa.bool_()), ("version", pa.int64())],
    sort=("series", "date"), statistics=("series",),
)  # fmt: skip
Tables = Mapping[str, Table]


def tables_of(levels: Levels) -> Tables:
    """Return all tables of a lake with these levels, by name."""
    rollups = map(rollup, levels.values())
    others = (TAKEN, SERIES, HELENS, SPOOLS, AVAILABILITY)
    return {table.name: table for table in (RESULTS, CHANGES, STANDING, *rollups, *others)}


TABLES = tables_of(LEVELS)
