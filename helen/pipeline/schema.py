"""The columns of everything: of the source, and of each table of the lake. docs/pipeline.rst describes them.

Arrow schemas are the truth; Spark's and Delta's are made from them. Nothing in a table is declared as never null:
Spark writes every column as nullable, and a reader that believed otherwise would be wrong. Spark itself isn't needed
here: whoever only reads the lake does without it.
"""

from __future__ import annotations

import pyarrow as pa
from attrs import field, frozen

FIVE_MINUTES, HOUR, DAY = 300, 3600, 86_400  # seconds of a bucket
STATUSES = ("ok", "warning", "critical", "unknown")
ASKED = 1  # `origin` of an operator's question: in the history, in no figure
CHECK = ""  # `metric` of the rows about the check itself: its results, their statuses, its run time as the value
COUNTER = "counter"
TIME = pa.timestamp("us", tz="UTC")
METRICS = pa.list_(
    pa.field(
        "element",
        pa.struct(
            [
                pa.field("name", pa.string()), pa.field("value", pa.float64()), pa.field("unit", pa.string()),
                pa.field("kind", pa.string()), pa.field("labels", pa.map_(pa.string(), pa.string())),
                pa.field("warn", pa.string()), pa.field("crit", pa.string()), pa.field("min", pa.float64()),
                pa.field("max", pa.float64()),
            ]
        ),
    )
)  # fmt: skip
_FROM_HELEN = [
    ("at", pa.int64()), ("series_id", pa.int32()), ("received", TIME), ("started", TIME), ("took_ms", pa.float64()),
    ("cpu_ms", pa.float64()), ("peak_kib", pa.float64()), ("status", pa.int8()), ("origin", pa.int8()),
    ("reason", pa.string()), ("code", pa.string()), ("spool", pa.string()), ("sequence", pa.int64()),
    ("summary", pa.string()), ("metrics", METRICS), ("raw", pa.binary()),
    ("truncated", pa.map_(pa.string(), pa.int64())),
]  # fmt: skip
_WORDS = {
    pa.string(): "string", pa.binary(): "binary", pa.bool_(): "boolean", pa.date32(): "date", TIME: "timestamp",
    pa.int8(): "tinyint", pa.int32(): "int", pa.int64(): "bigint", pa.float64(): "double",
}  # fmt: skip


def ddl(schema: pa.Schema) -> str:
    """The same columns as Spark writes them: `series int, metrics array<struct<name:string,...>>`."""
    return ", ".join(f"`{column.name}` {spark_type(column.type)}" for column in schema)


def spark_type(kind: pa.DataType) -> str:
    """Spark's word for one of the types that occur here."""
    if pa.types.is_list(kind):
        return f"array<{spark_type(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{spark_type(kind.key_type)},{spark_type(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'`{part.name}`:{spark_type(part.type)}' for part in kind)}>"
    return _WORDS[kind]


@frozen
class Source:
    """What the source `helen` hands out: the columns of a segment behind two of ours."""

    stored: pa.Schema
    arrow: pa.Schema

    @property
    def ddl(self) -> str:
        return ddl(self.arrow)


@frozen
class Table:
    """A table of the lake. `by_day`: partitioned by the UTC day, a column that isn't in the files themselves.

    `sort` is the order that compaction gives the rows, `statistics` the columns whose range the log knows per file.
    `rows_per_group`: who wants some series only needn't read more of a sorted file.
    """

    name: str
    columns: pa.Schema
    by_day: bool = True
    sort: tuple[str, ...] = field(default=())
    statistics: tuple[str, ...] = field(default=())
    rows_per_group: int = 1 << 20

    @property
    def arrow(self) -> pa.Schema:
        """As a reader sees it."""
        return self.columns.append(pa.field("day", pa.date32())) if self.by_day else self.columns

    @property
    def ddl(self) -> str:
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
# `time` is what everything is computed by; digest.py says how it comes from `received` and `started`.
RESULTS = _table(
    "results",
    [("helen", pa.int32()), ("segment", pa.int64()), ("series", pa.int32()), ("time", TIME),
     *[column for column in _FROM_HELEN if column[0] != "series_id"]],
    sort=("series", "time"), statistics=("series", "time"),
)  # fmt: skip
CHANGES = _table(
    "changes",
    [("helen", pa.int32()), ("segment", pa.int64()), ("at", pa.int64()), ("received", TIME), ("series", pa.int32()),
     ("kind", pa.string()), ("document", pa.string())],
    sort=("series", "received", "at"), statistics=("series", "received"),
)  # fmt: skip
_FIGURES = [
    ("series", pa.int32()), ("bucket", TIME), ("metric", pa.string()), ("unit", pa.string()), ("kind", pa.string()),
    ("n", pa.int64()), ("ok", pa.int64()), ("warning", pa.int64()), ("critical", pa.int64()), ("unknown", pa.int64()),
    ("values", pa.int64()), ("sum", pa.float64()), ("sumsq", pa.float64()), ("min", pa.float64()),
    ("max", pa.float64()),
    ("first", pa.float64()), ("first_at", TIME), ("last", pa.float64()), ("last_at", TIME), ("increase", pa.float64()),
    ("cpu_ms", pa.float64()), ("peak_kib", pa.float64()),
]  # fmt: skip
# Rows of m5 add up: a bucket may have several. Of h1 and d1 the row with the highest `version` counts.
_ROLLUP = {"sort": ("series", "metric", "bucket"), "statistics": ("series", "bucket"), "rows_per_group": 1 << 16}
M5 = _table("m5", _FIGURES, **_ROLLUP)
H1 = _table("h1", [*_FIGURES, ("version", pa.int64())], **_ROLLUP)
D1 = _table("d1", [*_FIGURES, ("version", pa.int64())], **_ROLLUP)
SERIES = _table(
    "series", [("series", pa.int32()), ("agent", pa.string()), ("check_id", pa.string()), ("check", pa.string())],
    by_day=False,
)  # fmt: skip
HELENS = _table("helens", [("helen", pa.int32()), ("id", pa.string()), ("folder", pa.string())], by_day=False)
SPOOLS = _table("spools", [("helen", pa.int32()), ("agent", pa.string()), ("spool", pa.string())], by_day=False)
AVAILABILITY = _table(
    "availability_daily",
    [("series", pa.int32()), ("date", pa.date32()), ("zone", pa.string()), ("profile", pa.string()),
     ("seconds", pa.float64()), ("ok", pa.float64()), ("bad", pa.float64()), ("planned", pa.float64()),
     ("unknown", pa.float64()), ("no_data", pa.float64()), ("percent", pa.float64()), ("outages", pa.int64()),
     ("why", pa.string()), ("from_changes", pa.bool_()), ("version", pa.int64())],
    sort=("series", "date"), statistics=("series",),
)  # fmt: skip
TABLES = {table.name: table for table in (RESULTS, CHANGES, M5, H1, D1, SERIES, HELENS, SPOOLS, AVAILABILITY)}
