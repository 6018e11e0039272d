"""Defines each field of a result once; readers, columns of the history and tables of the lake follow from it.

`ResultDocument` and `Metric` are the table. An attribute names its form in JSON and, where the history has a column for
it, that column. The readers are equus_protocol.results and helen.journal.document; the columns of the segments are made
in helen.journal.columns, those of the lake in helen.pipeline.lake.schema. docs/results.rst describes them.

A new column is one attribute here, with the next free `place`, and one row in docs/results.rst.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from attrs import NOTHING, field, fields, frozen

from equus_protocol.result_words import MAX_METRICS as MAX_METRICS
from equus_protocol.result_words import STATUS_WORDS as STATUS_WORDS

STATUS_NUMBERS = {word: number for number, word in enumerate(STATUS_WORDS)}
OK, WARNING, CRITICAL, UNKNOWN = range(4)
METRIC_KINDS = ("gauge", "counter")
MAX_DEPTH = 64  # of a JSON document; deeper ones are an attack on a parser. Of `truncated`: entries
MAX_PARTS = 26_624  # of a JSON document: 26 for each metric, which are its nine fields and an agent's 16 labels
MAX_REASON = 64  # characters of the reason that a foreign agent gives
GAP_CHECK_ID = "equus:gap"  # check id of the record with which an agent says what it had to drop
GAP_REASON = "gap"  # reason of the result that such a record becomes, whatever its blob says
END_OF_TIME = 253_402_300_800.0  # the year 10000, unix seconds: later than any reader of Parquet can show


class Form(Enum):
    """Names how JSON holds a field. A field whose default is None may be null as well."""

    STATUS = "one of STATUS_WORDS"
    TEXT = "a string"
    NAME = "a string that isn't empty"
    REASON = "a string of 1 to MAX_REASON characters"
    NUMBER = "a number"
    RANGE = "a Nagios range as a string, or a number"
    KIND = "one of METRIC_KINDS"
    LABELS = "an object of strings"
    LENGTHS = "an object of whole numbers, 0 or more, with MAX_DEPTH entries at most"
    METRICS = "a list of MAX_METRICS metrics at most"


@frozen
class Column:
    """Describes a column of the history.

    `type` is Arrow's name of a type, or one of `time` (microseconds, UTC), `labels` and `lengths` (maps from string to
    string and to int64) and `metrics` (a list of structs). `place` is its position in a file and never changes.
    """

    place: int
    type: str
    nullable: bool = True


@frozen
class Field:
    """Holds one row of the table. `default` is NOTHING where JSON must have the field; `form` is None for no JSON."""

    name: str
    form: Form | None
    default: Any
    column: Column | None

    @property
    def is_required(self) -> bool:
        """Return True where JSON without this field is no sound result, or no metric."""
        return self.default is NOTHING


def _is(form: Form | None, column: Column | None = None) -> dict[str, Any]:
    return {"form": form, "column": column}


@frozen
class Metric:
    """Hold one figure. `value` is None where a float can't hold it; `text` then has the original text.

    `unit` is one of Nagios' performance data (`s`, `B`, `%`, `c`), of UCUM, or a name. `warn` and `crit` are Nagios
    ranges.
    """

    name: str = field(metadata=_is(Form.NAME, Column(1, "string", nullable=False)))
    value: float | None = field(default=None, metadata=_is(Form.NUMBER, Column(2, "double")))
    unit: str = field(default="", metadata=_is(Form.TEXT, Column(3, "string", nullable=False)))
    kind: str = field(default="gauge", metadata=_is(Form.KIND, Column(4, "string", nullable=False)))
    labels: dict[str, str] = field(factory=dict, metadata=_is(Form.LABELS, Column(5, "labels", nullable=False)))
    warn: str | None = field(default=None, metadata=_is(Form.RANGE, Column(6, "string")))
    crit: str | None = field(default=None, metadata=_is(Form.RANGE, Column(7, "string")))
    min: float | None = field(default=None, metadata=_is(Form.NUMBER, Column(8, "double")))
    max: float | None = field(default=None, metadata=_is(Form.NUMBER, Column(9, "double")))
    text: str | None = field(default=None, metadata=_is(None))


@frozen
class ResultDocument:
    """Hold a result that has been read. `started` is in unix seconds, `*_ms` in milliseconds, a KiB is 1,024 bytes."""

    status: int = field(metadata=_is(Form.STATUS, Column(8, "int8", nullable=False)))
    summary: str = field(default="", metadata=_is(Form.TEXT, Column(14, "string", nullable=False)))
    metrics: tuple[Metric, ...] = field(default=(), metadata=_is(Form.METRICS, Column(15, "metrics", nullable=False)))
    output: str | None = field(default=None, metadata=_is(Form.TEXT))
    reason: str | None = field(default=None, metadata=_is(Form.REASON, Column(10, "string")))
    started: float | None = field(default=None, metadata=_is(Form.NUMBER, Column(4, "time")))
    took_ms: float | None = field(default=None, metadata=_is(Form.NUMBER, Column(5, "double")))
    cpu_ms: float | None = field(default=None, metadata=_is(Form.NUMBER, Column(6, "double")))
    peak_kib: float | None = field(default=None, metadata=_is(Form.NUMBER, Column(7, "double")))
    check: str | None = field(default=None, metadata=_is(Form.TEXT))
    code: str | None = field(default=None, metadata=_is(Form.TEXT, Column(11, "string")))
    truncated: dict[str, int] = field(factory=dict, metadata=_is(Form.LENGTHS, Column(17, "lengths", nullable=False)))


# Columns of a result that come from Helen instead of from the document.
HELEN_COLUMNS = {
    "at": Column(1, "int64", nullable=False), "series_id": Column(2, "int32", nullable=False),
    "received": Column(3, "time", nullable=False), "origin": Column(9, "int8", nullable=False),
    "spool": Column(12, "string", nullable=False), "sequence": Column(13, "int64", nullable=False),
    "raw": Column(16, "binary", nullable=False), "clock_offset_ms": Column(18, "int64"),
}  # fmt: skip


def _fields(of: type) -> tuple[Field, ...]:
    return tuple(
        Field(each.name, each.metadata["form"], _default(each.default), each.metadata["column"]) for each in fields(of)
    )


def _default(default: Any) -> Any:
    return default.factory() if hasattr(default, "factory") else default


def _columns(*parts: dict[str, Column | None]) -> dict[str, Column]:
    found = {name: column for part in parts for name, column in part.items() if column is not None}
    return dict(sorted(found.items(), key=lambda item: item[1].place))


RESULT_FIELDS = _fields(ResultDocument)
METRIC_FIELDS = _fields(Metric)
# Name -> column, in the order of a file.
RESULT_COLUMNS = _columns(dict(HELEN_COLUMNS), {each.name: each.column for each in RESULT_FIELDS})
METRIC_COLUMNS = _columns({each.name: each.column for each in METRIC_FIELDS})
