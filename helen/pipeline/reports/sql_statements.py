"""Answers statements in SQL, and the few words that begin with a dot and need no Spark: `.tables`, `.schema TABLE`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count as numbers
from typing import Any

import pyarrow as pa
from attrs import frozen

from groundwork.counts import count
from helen.pipeline.lake import schema
from helen.pipeline.lake.errors import PipelineError
from helen.pipeline.lake.lake import Lake
from helen.pipeline.reports.answer_files import answer
from helen.pipeline.reports.report_formats import Report
from helen.pipeline.reports.sql_views import CHANGES, register

MOST_ROWS = 10_000  # of an answer, unless another limit is given: more is for a file, not for a terminal
WHAT: Mapping[str, str] = {
    "results": "each result, with its metrics and its raw document",
    "changes": "each change: transitions, downtimes, links, alerts",
    "standing": "changes that still stood at the end of each week",
    "segments": "each segment that was taken in",
    "series": "agent and check id of each number in `series`",
    "helens": "each Helen whose history is here",
    "spools": "spools that were seen, of several Helens",
    "availability_daily": "days that `report availability --store` has kept",
    **{name: f"changes of the kind {kind}, with columns" for name, (kind, _) in CHANGES.items()},
}
_END = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|--[^\n]*|/\*.*?\*/)|;""", re.DOTALL)


@frozen
class Answer:
    """Holds an answer for people, and a function that yields the same rows with their types, piece by piece."""

    report: Report
    schema: pa.Schema
    pieces: Callable[[], Iterator[pa.RecordBatch]]


def statements(text: str) -> Iterator[str]:
    """Yield the statements of a text: they end with a semicolon that is in no quotes and in no comment."""
    begin = 0
    ends = [each.start() for each in _END.finditer(text) if each[1] is None]
    for end in [*ends, len(text)]:
        statement = text[begin:end].strip()
        if statement:
            yield statement
        begin = end + 1


def is_whole(text: str) -> bool:
    """Return True if a text that is typed ends a statement, or is one of the words with a dot."""
    found = [each for each in _END.finditer(text) if each[1] is None]
    return text.lstrip().startswith(".") or bool(found and not text[found[-1].end() :].strip())


class Questions:
    """Answers statements one by one; `start` returns Spark when the first one needs it."""

    def __init__(self, lake: Lake, start: Callable[[], Any], limit: int = MOST_ROWS) -> None:
        self._lake = lake
        self._start = start
        self._limit = limit
        self._spark: Any = None

    def ask(self, statement: str) -> Answer:
        """Return the answer, at most `limit` rows of it unless that is 0. Raises PipelineError, PySparkException."""
        words = statement.rstrip(";").split()
        if words and words[0].startswith("."):
            return self._dotted(words)
        if self._spark is None:
            self._spark = self._start()
            register(self._spark, self._lake)
        frame = self._spark.sql(statement)
        frame = frame.toDF(*distinct(frame.columns))
        return self._short(frame) if 0 < self._limit <= MOST_ROWS else self._long(frame)

    def _short(self, frame: Any) -> Answer:
        """Return an answer that fits into memory."""
        rows = frame.limit(self._limit + 1).toArrow()
        notes = self._notes(rows.num_rows)
        return _answer("SQL", rows.slice(0, self._limit), notes)

    def _long(self, frame: Any) -> Answer:
        """Return an answer that tasks have written into files: it may be as large as the lake."""
        chosen = frame.limit(self._limit + 1) if self._limit else frame
        rows = answer(self._spark, self._lake, chosen, most=self._limit or None)
        return Answer(Report("SQL", rows.schema.names, rows, self._notes(rows.whole)), rows.schema, rows.pieces)

    def _notes(self, count_of: int) -> list[str]:
        is_cut = self._limit and count_of > self._limit
        return [f"Only the first {count(self._limit, 'row')}: --limit gives more."] if is_cut else []

    def _dotted(self, words: Sequence[str]) -> Answer:
        if words == [".tables"]:
            return _answer("Tables", pa.Table.from_pylist([*tables(self._lake)]))
        if words[0] == ".schema" and len(words) == 2:
            return _answer(f"Columns of {words[1]}", pa.Table.from_pylist([*columns(self._lake, words[1])]))
        raise PipelineError(f"{words[0]} is neither .tables nor .schema TABLE; SQL has no dot in front.")


def distinct(names: Sequence[str]) -> list[str]:
    """Return names of columns, each once: of `n, n` the second one is `n_2`. Rows would show one value under both."""
    found: list[str] = []
    taken = set(names)
    for name in names:
        given = name
        if name in found:
            given = next(new for number in numbers(2) if (new := f"{name}_{number}") not in taken)
            taken.add(given)
        found.append(given)
    return found


def tables(lake: Lake) -> Iterator[dict[str, Any]]:
    """Yield for each view its rows as they lie in the lake, its first and last UTC day, and what it has."""
    for name, table in lake.tables.items():
        files = lake.files(name)
        days = sorted({file.day for file in files if file.day is not None})
        what = WHAT.get(name) or f"sums of each {_span(table)}, one row for each series, metric and bucket"
        yield {"table": name, "rows": sum(file.rows for file in files), "first_day": days[0] if days else None,
               "last_day": days[-1] if days else None, "what": what}  # fmt: skip
    for name in CHANGES:
        yield {"table": name, "rows": None, "first_day": None, "last_day": None, "what": WHAT[name]}


def _span(table: schema.Table) -> str:
    assert table.level is not None
    seconds = table.level.seconds
    for size, word in ((86_400, "day"), (3600, "hour"), (60, "minute")):
        if seconds % size == 0:
            return word if seconds == size else count(seconds // size, word)
    return count(seconds, "second")


def columns(lake: Lake, name: str) -> Iterator[dict[str, Any]]:
    """Yield the name and the type, in Spark's words, of each column of a view. Raises PipelineError."""
    if name in CHANGES:
        table = schema.CHANGES.columns
        front = [(each, schema.spark_type(table.field(each).type)) for each in ("helen", "at", "received", "series")]
        found = [*front, *((column, kind) for column, (kind, _) in CHANGES[name][1].items())]
        found += [("document", "string"), ("day", "date")]
    elif name in lake.tables:
        found = [(field.name, schema.spark_type(field.type)) for field in lake.tables[name].arrow]
    else:
        raise PipelineError(f"There is no table {name}: .tables names them all.")
    for column, kind in found:
        yield {"column": column, "type": kind.replace("`", "")}


def _answer(title: str, rows: pa.Table, notes: Sequence[str] = ()) -> Answer:
    report = Report(title, rows.column_names, rows.to_pylist(), notes)
    return Answer(report, rows.schema, lambda: iter(rows.to_batches()))
