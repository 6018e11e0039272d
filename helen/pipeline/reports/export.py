"""Writes tables of the lake as plain files for other programs: Parquet or CSV, a folder for each table. No Spark.

Only rows that count are written, each once, with the agent and the check id in front of the number of the series. Each
table is written in the version that it has at the beginning. The target is a folder, or a place in an object store;
`export.json` in it comes last: where it is, the export is whole.
"""

from __future__ import annotations

import csv
import io
import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from attrs import frozen
from pyarrow import fs

from groundwork.counts import count
from helen.pipeline.lake.damaged_files import Damage
from helen.pipeline.lake.errors import PipelineError
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.lake_files import batches, between, held, read
from helen.pipeline.lake.log_entries import File
from helen.pipeline.lake.schema import AVAILABILITY, SERIES, Table
from helen.pipeline.lake.stores import check_place, filesystem, is_stored
from helen.pipeline.reports.report_formats import cell
from helen.pipeline.rollup.arrow import merge, newest
from helen.pipeline.rollup.job import bounds_of
from helen.pipeline.rollup.sorting import newest_version

FORMATS = ("parquet", "csv")
MANIFEST, FORMAT = "export.json", 1
PART_ROWS = 500_000  # of a rollup that are put together at once

Days = tuple[date, date]
Say = Callable[[str], None]


@frozen
class Names:
    """Knows the agent and the check id of each series. `chosen` are the series to write; None: all."""

    agents: pa.Array
    checks: pa.Array
    chosen: list[int] | None

    @classmethod
    def of(cls, lake: Lake, wanted: Collection[str]) -> Names:
        """Return the names, choosing the series of some agents. Raises PipelineError for one that the lake lacks."""
        rows = lake.rows(SERIES.name)
        unknown = sorted(set(wanted) - {row["agent"] for row in rows})
        if unknown:
            raise PipelineError(f"The lake knows no agent {unknown[0]!r}: look at its name in `helen agents`.")
        size = max((row["series"] for row in rows), default=-1) + 1
        agents, checks = [None] * size, [None] * size
        for row in rows:
            agents[row["series"]], checks[row["series"]] = row["agent"], row["check_id"]
        chosen = sorted(row["series"] for row in rows if row["agent"] in wanted) if wanted else None
        return cls(pa.array(agents, pa.string()), pa.array(checks, pa.string()), chosen)

    def condition(self, table: Table) -> Any:
        """Return the condition for the rows to write; None for all. A table that has no such column is left out."""
        return None if self.chosen is None else pc.field("series").isin(self.chosen)

    def in_front(self, rows: pa.Table) -> pa.Table:
        """Return rows with their names as first columns."""
        if "series" not in rows.schema.names or "agent" in rows.schema.names:
            return rows
        named = {"agent": self.agents.take(rows["series"]), "check_id": self.checks.take(rows["series"])}
        return pa.table({**named, **{name: rows[name] for name in rows.schema.names}})


def export(
    lake: Lake, target: str, form: str, tables: Sequence[str], days: Days, agents: Collection[str] = (),
    say: Say = lambda line: None,
) -> dict[str, int]:  # fmt: skip
    """Write these tables, by default all, of these UTC days. Returns the rows by table.

    Raises PipelineError for a target that is not empty, and LakeDamaged at the end if files couldn't be read.
    """
    chosen = [lake.tables[name] for name in tables or lake.tables if _has(lake.tables[name], agents)]
    listed = {table.name: lake.files(table.name, days) for table in chosen}
    names, damage = Names.of(lake, agents), Damage()  # behind the files: a series has its name before its first row
    writer = _writer(target, form)
    written: dict[str, dict[str, Any]] = {}
    for table in chosen:
        by_day: dict[date | None, list[File]] = defaultdict(list)
        for file in listed[table.name]:
            by_day[file.day].append(file)
        written[table.name] = {"rows": 0, "files": []}
        for day, files in sorted(by_day.items(), key=lambda each: each[0] or date.min):
            place = f"{table.name}/{_file_name(day, form)}"
            rows = damage.without(
                lake, table.name, files,
                lambda sound, table=table, place=place: writer.write(place, _rows(lake, table, sound, names)),
            )  # fmt: skip
            if rows:
                written[table.name]["rows"] += rows
                written[table.name]["files"].append(place)
        say(f"{table.name}: {count(written[table.name]['rows'], 'row')}")
    damage.tell()
    writer.finish({"format": FORMAT, "files": form, "tables": written})
    return {name: each["rows"] for name, each in written.items()}


def _has(table: Table, agents: Collection[str]) -> bool:
    return not agents or "series" in table.columns.names


def _file_name(day: date | None, form: str) -> str:
    if form == "csv":
        return f"{day or 'all'}.csv"
    return "part-0.parquet" if day is None else f"day={day}/part-0.parquet"


def _rows(lake: Lake, table: Table, files: Sequence[File], names: Names) -> Iterator[pa.Table]:
    """Yield the rows of one day of a table that count, with their names."""
    sources, columns, wanted = held(lake, table.name, files), table.columns.names, names.condition(table)
    paths = [file.path for file in sources]
    if table is AVAILABILITY:
        yield names.in_front(newest_version(read(table, paths, columns, wanted)))
    elif table.level is None:
        for batch in batches(table, paths, columns, wanted):
            yield names.in_front(pa.Table.from_batches([batch]))
    else:
        for lowest, highest in bounds_of(table, sources, -(-sum(file.rows for file in files) // PART_ROWS)):
            within = between(lowest, highest) if wanted is None else between(lowest, highest) & wanted
            rows = read(table, [file.path for file in sources if file.may_hold(lowest, highest)], columns, within)
            made = merge(rows, table.level) if lake.is_live(table.name) else newest(rows)
            yield names.in_front(made.select(columns))


# ------------------------------------------------------------------------------------------------ files


def _writer(target: str, form: str) -> _Writer:
    """Return a writer into an empty folder or a URL. Raises PipelineError."""
    try:
        check_place(target)
        store, base = filesystem(target if is_stored(target) else Path(target).resolve())
        there = store.get_file_info(fs.FileSelector(base, allow_not_found=True))
        store.create_dir(base, recursive=True)
    except (OSError, pa.ArrowException) as error:
        raise PipelineError(f"{target} can't be written ({str(error).splitlines()[0]}).") from error
    if there:
        raise PipelineError(f"{target} is not empty: give a folder that is new.")
    return _Writer(store, base, form)


@frozen
class _Writer:
    store: Any
    base: str
    form: str

    def write(self, place: str, parts: Iterable[pa.Table]) -> int:
        """Write a file of these rows; none if there are no rows. Returns how many. Raises OSError."""
        path, rows, opened = f"{self.base}/{place}", 0, None
        for part in parts:
            if not part.num_rows:
                continue
            if opened is None:
                self.store.create_dir(path.rpartition("/")[0], recursive=True)
                kind = _Parquet if self.form == "parquet" else _Csv
                opened = kind(self.store, path, part.schema)
            opened.write(part)
            rows += part.num_rows
        if opened is not None:
            opened.close()
        return rows

    def finish(self, manifest: Mapping[str, Any]) -> None:
        """Write the manifest, in one piece."""
        with self.store.open_output_stream(f"{self.base}/{MANIFEST}") as stream:
            stream.write(json.dumps(manifest, indent=2).encode() + b"\n")


class _Parquet:
    def __init__(self, store: Any, path: str, schema: pa.Schema) -> None:
        self._writer = pq.ParquetWriter(path, schema, filesystem=store, compression="zstd")

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows)

    def close(self) -> None:
        self._writer.close()


class _Csv:
    """Writes RFC 4180 with a head. Lists, maps and structs are JSON; times ISO 8601 in UTC."""

    def __init__(self, store: Any, path: str, schema: pa.Schema) -> None:
        self._stream = store.open_output_stream(path)
        self._put([schema.names])

    def write(self, rows: pa.Table) -> None:
        columns = [[csv_cell(value) for value in column.to_pylist()] for column in rows.columns]
        self._put(zip(*columns, strict=True))

    def _put(self, rows: Iterable[Iterable[Any]]) -> None:
        text = io.StringIO()
        csv.writer(text, lineterminator="\r\n").writerows(rows)
        self._stream.write(text.getvalue().encode())

    def close(self) -> None:
        self._stream.close()


def csv_cell(value: Any) -> Any:
    """Return a value as a cell: text as in reports, where a spreadsheet takes none of it for a formula."""
    if isinstance(value, bytes):
        return cell(value.decode("utf-8", "backslashreplace"))
    if isinstance(value, list | dict | tuple):
        return cell(json.dumps(value, ensure_ascii=False, default=str))
    if hasattr(value, "isoformat"):
        return value.isoformat().replace("+00:00", "Z")
    return cell(value)
