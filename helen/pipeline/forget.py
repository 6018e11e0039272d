"""Takes all rows of an agent out of the lake, and leaves all else as it is. It counts rows of others that name it.

Files with rows of the agent are written anew without them, table by table, each in one entry of the log. The list of
segments gets rows that take its results back, so that `verify` still proves what is left. The names go last: a run that
is ended on the way is begun again with the same command, and does what is missing.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import field, frozen
from pyspark.sql import SparkSession

from groundwork.target_ids import kept_spool
from helen.pipeline.engine import run_parts
from helen.pipeline.ingest.series_names import NUMBERS
from helen.pipeline.ingest.taken import FORGOTTEN, NEEDED, PLACE, taken_back
from helen.pipeline.lake.day_files import write_days
from helen.pipeline.lake.errors import PipelineError
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.lake_files import Held, batches, held, read
from helen.pipeline.lake.log_entries import File, Kept
from helen.pipeline.lake.schema import CHANGES, RESULTS, SERIES, SPOOLS, STANDING, TAKEN, WRITTEN, Table
from helen.pipeline.rollup.job import KEPT
from helen.pipeline.rollup.live_rows import Array, count_gone, write_rest
from helen.pipeline.rollup.unseen import is_unseen

LITTLE_ROWS = 400_000  # of the files to look at: these are worked on in this process

NAMING = (CHANGES, STANDING)  # have documents that name agents

Say = Callable[[str], None]
Whom = tuple[str, tuple[int, ...]]  # an agent and its series


@frozen
class RestTask:
    """Turns numbers of files into files without the rows of some series. `staged` is None where rows are counted."""

    table: Table
    files: Sequence[Held]
    series: tuple[int, ...]
    staged: str | None
    noted: str | None = None  # where rows of `segments` go that take results back
    agent: str | None = None  # of changes: also those about no check, but about this agent

    def __call__(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files = [self.files[number] for batch in numbers for number in batch.column(0).to_pylist()]
        yield pa.RecordBatch.from_pylist([row for file in files for row in self._rest(file)], schema=WRITTEN.arrow)

    def _rest(self, file: Held) -> Iterator[dict[str, Any]]:
        """Yield a row for a file that has any of these series: what is left of it, and how many rows went."""
        columns = ["series"] if self.agent is None else ["series", "document"]
        rows, gone = count_gone(self.table, file.path, columns, None, self._gone)
        if not gone:
            return
        path = None
        if self.staged is not None and rows > gone:
            path = Path(self.staged) / uuid.uuid4().hex / Path(file.path).parent.name / "part.parquet"
            write_rest(self.table, file.path, None, self._gone, path)
        found = {"helen": 0, "segment": gone, "folder": file.path}
        yield {"table": KEPT, "path": None if path is None else str(path), **found}
        if self.noted is not None:
            removed = read(RESULTS, [file.path], NEEDED, pc.field("series").isin(list(self.series)))
            notes = taken_back(removed, f"series {self.series[0]}")
            for each in write_days(TAKEN, notes, Path(self.noted) / uuid.uuid4().hex):
                yield {"table": TAKEN.name, "path": str(each), **found}

    def _gone(self, rows: pa.RecordBatch) -> Array:
        found = np.isin(rows["series"].fill_null(-1).to_numpy(zero_copy_only=False), self.series)
        if self.agent is not None:
            documents = rows["document"]
            for place in np.flatnonzero(names_it(documents, self.agent)).tolist():
                found[place] |= json.loads(documents[place].as_py()).get("agent") == self.agent
        return found


def names_it(documents: pa.Array, agent: str) -> Array:
    """Return True for each JSON document that has the name of an agent somewhere, escaped or not."""
    forms = {json.dumps(agent)[1:-1], json.dumps(agent, ensure_ascii=False)[1:-1]}
    found = np.zeros(len(documents), bool)
    for form in forms:
        found |= pc.match_substring(documents, form).fill_null(False).to_numpy(zero_copy_only=False)
    return found


@frozen
class Forgotten:
    """Counts the rows that went, by table, and those that still name the agent.

    `mentions` are changes about several agents; `runs` are rows of targets that it ran, by table: {"results": 12}.
    """

    rows: dict[str, int] = field(factory=dict)
    mentions: int = 0
    runs: dict[str, int] = field(factory=dict)


def forget(
    spark: SparkSession, lake: Lake, agent: str, dry_run: bool = False, say: Say = lambda line: None
) -> Forgotten:
    """Take an agent out of every table. The caller has the lock, except for a dry run.

    Raises PipelineError if the lake doesn't know it, or if anything of it is left.
    """
    series = tuple(sorted(row["series"] for row in lake.rows(SERIES.name) if row["agent"] == agent))
    spools = sum(row["agent"] == agent for row in lake.rows(SPOOLS.name))
    if not series and not spools:
        raise PipelineError(
            f"The lake knows no agent {agent!r}: `helen pipeline sql 'select distinct agent from series'`."
        )
    rows: dict[str, int] = {}
    for name, table in lake.tables.items() if series else ():
        if table.by_day and "series" in table.columns.names:
            rows[name] = _take_out(spark, lake, table, (agent, series), dry_run)
            say(f"{name}: {rows[name]} rows")
    tables = [lake.tables[name] for name in rows]
    rows |= {SPOOLS.name: spools, SERIES.name: len(series)}
    found = Forgotten(rows, _mentions(lake, agent), _runs(lake, (agent, series)))
    if not dry_run:
        left = {table.name: _count(spark, lake, table, (agent, series)) for table in tables}
        if any(left.values()):
            raise PipelineError(f"Rows of {agent!r} are left ({left}): begin again with the same command.")
        _take_names(lake, agent)
    return found


def _files(lake: Lake, table: Table, series: Sequence[int]) -> dict[str, tuple[Held, File]]:
    """Return the files that may have rows of these series, by their whole paths; of changes all."""
    files = lake.files(table.name)
    pairs = zip(held(lake, table.name, files), files, strict=True)
    return {one.path: (one, file) for one, file in pairs if table in NAMING or one.may_hold(series[0], series[-1])}


def _count(spark: SparkSession, lake: Lake, table: Table, whom: Whom) -> int:
    agent, series = whom
    chosen = [one for one, _ in _files(lake, table, series).values()]
    task = RestTask(table, chosen, series, None, agent=agent if table in NAMING else None)
    return sum(row["segment"] for row in _run(spark, task))


def _run(spark: SparkSession, task: RestTask) -> list[dict[str, Any]]:
    rows = sum(file.rows for file in task.files)
    return run_parts(spark, task, len(task.files), rows, LITTLE_ROWS) if task.files else []


def _take_out(spark: SparkSession, lake: Lake, table: Table, whom: Whom, dry_run: bool) -> int:
    if dry_run:
        return _count(spark, lake, table, whom)
    agent, series = whom
    files = _files(lake, table, series)
    noted = str(lake.staging(TAKEN.name)) if table is RESULTS else None
    staged, sources = str(lake.staging(table.name)), [one for one, _ in files.values()]
    task = RestTask(table, sources, series, staged, noted, agent if table in NAMING else None)
    written = _run(spark, task)
    _note(lake, [row["path"] for row in written if row["table"] == TAKEN.name], f"series {series[0]}")
    rest = [row for row in written if row["table"] == KEPT]
    left = [(Path(row["path"]), files[row["folder"]][1]) for row in rest if row["path"] is not None]
    kept = [Kept.of(path, file, _stays_fresh(lake, table, file)) for path, file in left]
    if rest:
        lake.publish(table.name, [], {}, [files[row["folder"]][1] for row in rest], kept=kept)
    return sum(row["segment"] for row in rest)


def _stays_fresh(lake: Lake, table: Table, file: File) -> bool:
    return file.fresh if table.level is None else is_unseen(lake, table.level, file)


def _note(lake: Lake, paths: Sequence[str], why: str) -> None:
    """Publish rows that take results back, but for segments of which this was done by a run that was ended."""
    if not paths:
        return
    notes = read(TAKEN, paths, TAKEN.columns.names, None)
    there = [file.path for file in held(lake, TAKEN.name, lake.files(TAKEN.name))]
    wanted = (pc.field("state") == FORGOTTEN) & (pc.field("why") == why)
    new = notes.join(read(TAKEN, there, PLACE, wanted), list(PLACE), join_type="left anti", use_threads=False)
    if new.num_rows:
        new = new.append_column("day", pc.cast(new["end"], pa.date32(), safe=False)).select(TAKEN.arrow.names)
        lake.publish(TAKEN.name, lake.stage_rows(TAKEN.name, new.cast(TAKEN.arrow)), {})


def _take_names(lake: Lake, agent: str) -> None:
    """Take the names out; their numbers are never given again."""
    for table in (SPOOLS, SERIES):
        files, rows = lake.files(table.name), lake.rows(table.name)
        rest = [row for row in rows if row["agent"] != agent]
        if len(rest) == len(rows):
            continue
        given = max([lake.done(SERIES.name, NUMBERS), *(row["series"] + 1 for row in rows if "series" in row)])
        staged = lake.stage_rows(table.name, pa.Table.from_pylist(rest, schema=table.arrow))
        lake.publish(table.name, staged, {NUMBERS: given} if table is SERIES else {}, files)


def _mentions(lake: Lake, agent: str) -> int:
    """Return how many changes that are about no single agent have its name in them: downtimes and rules, say."""
    paths = [file.path for file in held(lake, CHANGES.name, lake.files(CHANGES.name))]
    found = 0
    for batch in batches(CHANGES, paths, ["document"], pc.field("series").is_null()):
        documents = batch["document"]
        named = (documents[at].as_py() for at in np.flatnonzero(names_it(documents, agent)).tolist())
        found += sum(json.loads(document).get("agent") != agent for document in named)
    return found


def _runs(lake: Lake, whom: Whom) -> dict[str, int]:
    """Return how many rows of others have the name of an agent in front of their spool: it ran them for targets."""
    agent, series = whom
    front = kept_spool(agent, "")
    paths = [file.path for file in held(lake, RESULTS.name, lake.files(RESULTS.name))]
    wanted = pc.starts_with(pc.field("spool"), front) & ~pc.field("series").isin(list(series))
    results = sum(batch.num_rows for batch in batches(RESULTS, paths, ["series"], wanted))
    spools = sum(row["spool"].startswith(front) and row["agent"] != agent for row in lake.rows(SPOOLS.name))
    return {RESULTS.name: results, SPOOLS.name: spools}
