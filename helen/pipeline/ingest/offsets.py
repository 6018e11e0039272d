"""Chooses the segments that a reader of one or many Helens gets next, and reads their rows as Arrow, without Spark.

An offset is {"HELEN": {"seg": n, "chg": m}}: the last segments that are read. Segments of changes aren't read here
(the sink does, they are few); they are in the offset so that a batch begins when there are only changes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from attrs import frozen

from groundwork.presence import is_there
from helen.pipeline.ingest.histories import CHANGES, RESULTS, History
from helen.pipeline.lake.schema import SEGMENTS, SOURCE

MAX_SEGMENTS = 50  # 1,000,000 results in a micro-batch: a quarter of the default heap
PER_TASK = 5  # 100,000 results: large enough that a task's start doesn't count. A task holds so many with their blobs
MOST_PER_TASK = 15  # 300,000 results; a task holds what sums are made of, up to a number of metrics (task.py)
BATCH_ROWS = 10_000  # handed to the JVM at once
EVERYTHING = 1_000_000_000

Offset = dict[str, dict[str, int]]


@frozen
class Part:
    """Names the segments that one task reads: `first` to `last` of one Helen."""

    helen: int
    folder: str
    first: int
    last: int


class Options:
    """Holds the parsed options of the source. Spark makes their names small letters."""

    def __init__(self, given: Any) -> None:
        listed = given.get("histories")
        folders = json.loads(listed) if listed else [given["path"]] if given.get("path") else []
        if not folders:
            raise ValueError("the source `helen` needs load(HISTORY), or the option `histories`")
        numbers = json.loads(given.get("helens") or "null") or list(range(len(folders)))
        self.histories = {str(number): folder for number, folder in zip(numbers, folders, strict=True)}
        self.start: Offset = json.loads(given.get("start") or "{}")
        self.end: Offset | None = json.loads(given.get("end") or "null")
        self.max_segments = int(given.get("maxsegments") or MAX_SEGMENTS)
        self.per_task = int(given.get("pertask") or PER_TASK)
        self.cores = int(given.get("cores") or 0)
        self.segments = (given.get("rows") or "results") == "segments"
        self.commit = (given.get("commit") or "false").lower() == "true"


def initial(options: Options) -> Offset:
    """Return where a stream without a checkpoint begins: after the last segments that the lake has."""
    nothing = {RESULTS: 0, CHANGES: 0}
    return {helen: nothing | options.start.get(helen, {}) for helen in options.histories}


def latest(options: Options, start: Offset, most: int, until: Offset | None = None) -> Offset:
    """Return the end of the next micro-batch: each Helen gets its share of `most`, and at least one segment."""
    share = max(1, most // len(options.histories))
    found: Offset = {}
    for helen, folder in options.histories.items():
        found[helen] = {}
        for kind in (RESULTS, CHANGES):
            done = start.get(helen, {}).get(kind, 0)
            reach = History(Path(folder)).next_after(kind, done, share)
            last = done if reach is None else reach[1]
            cap = last if until is None else until.get(helen, {}).get(kind, 0)
            found[helen][kind] = max(done, min(last, cap))
    return found


def ranges(options: Options, start: Offset, end: Offset) -> list[Part]:
    """Return the parts of the tasks that read all segments between two offsets."""
    parts: list[Part] = []
    for helen, folder in options.histories.items():
        first = start.get(helen, {}).get(RESULTS, 0) + 1
        last = end.get(helen, {}).get(RESULTS, 0)
        if first <= last and not is_there(History(Path(folder)).path(RESULTS, first)):
            there = [number for number in History(Path(folder)).numbers(RESULTS) if first <= number <= last]
            first = there[0] if there else last + 1
        size = size_of_parts(options, last - first + 1)
        for lowest in range(first, last + 1, size):
            highest = min(lowest + size - 1, last)
            parts.append(Part(int(helen), folder, lowest, highest))
    return parts


def size_of_parts(options: Options, count: int) -> int:
    """Return how many of these segments of a Helen one task reads.

    Where the cores are known there are as many tasks, or twice as many and so on: each task writes a row of its own for
    a bucket that it shares with another one, and costs Spark a worker's turn.
    """
    if not options.cores or count < 1:
        return options.per_task
    rounds = -(-count // (options.cores * MOST_PER_TASK))
    parts = min(-(-count // options.per_task), options.cores * rounds)
    return -(-count // parts)


def read(part: Part, segments: bool) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task: one per segment, or one per result."""
    if not segments:
        yield from read_results(part)
        return
    numbers = range(part.first, part.last + 1)
    yield pa.RecordBatch.from_pydict(
        {"helen": [part.helen] * len(numbers), "segment": numbers, "folder": [part.folder] * len(numbers)},
        schema=SEGMENTS.arrow,
    )


def read_results(part: Part) -> Iterator[pa.RecordBatch]:
    """Yield results with the numbers of their Helen and of their segment in front."""
    history = History(Path(part.folder))
    for number in range(part.first, part.last + 1):
        table = pq.read_table(history.path(RESULTS, number), schema=SOURCE.stored)
        for batch in table.to_batches(max_chunksize=BATCH_ROWS):
            front = [pa.repeat(pa.scalar(part.helen, pa.int32()), batch.num_rows),
                     pa.repeat(pa.scalar(number, pa.int64()), batch.num_rows)]  # fmt: skip
            yield pa.RecordBatch.from_arrays([*front, *batch.columns], schema=SOURCE.arrow)
