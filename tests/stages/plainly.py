"""Ingests without Spark: it does what a driver does with its stream, in this process. Not a test; it imports no
pyspark.

python plainly.py

As a program it does so again and again, each time in a child of its own that is killed where it was told: a line of
JSON on stdin is (lake, state, where), a line on stdout the exit status. `where` is POINT:TIMES, or a number of seconds
after which the child ends, or nothing. A child is forked before any thread was started, so a kill costs no imports.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from helen.pipeline.ingest.batch import Sink
from helen.pipeline.ingest.histories import open_history
from helen.pipeline.ingest.offsets import Options, initial, latest, ranges, read
from helen.pipeline.ingest.series_names import SeriesNames
from helen.pipeline.lake.lake import Lake


class PlainBatch:
    """Stands for a micro-batch of the stream `helen` and runs its tasks here: a tenth of a second instead of one."""

    def __init__(self, sink: Sink, most: int) -> None:
        folders = [str(history.folder) for history in sink.histories.values()]
        given = {"histories": json.dumps(folders), "helens": json.dumps(list(sink.histories))}
        options = Options({**given, "start": json.dumps(sink.start())})
        start = initial(options)
        end = latest(options, start, most)
        self.is_empty = end == start
        self._parts = [[*read(part, True)] for part in ranges(options, start, end)]

    def mapInArrow(self, task: Any, schema: Any) -> Plain:
        return Plain([made for part in self._parts for made in task(iter(part))])

    def toArrow(self) -> pa.Table:
        return Plain([batch for part in self._parts for batch in part]).toArrow()


class Plain:
    """Stands in for a frame of Spark whose rows are here."""

    def __init__(self, batches: list[pa.RecordBatch]) -> None:
        self._batches = batches

    def toArrow(self) -> pa.Table:
        return pa.Table.from_batches(self._batches)


def take_all(
    lake: Lake, *states: Path, most: int = 1_000_000_000, reached: Callable[[str], None] = lambda point: None
) -> None:
    """Take all that these Helens have into the lake, `most` segments at once."""
    sink = sink_of(lake, *states, reached=reached)
    while not (batch := PlainBatch(sink, most)).is_empty:
        sink.take(batch)
        sink.commit()
        reached("committed")
    lake.unlock()


def sink_of(lake: Lake, *states: Path, reached: Callable[[str], None] = lambda point: None) -> Any:
    """Return a writer that has just started."""
    if lake._lock is not None:
        lake.unlock()
    lake.lock()
    names = SeriesNames(lake)
    return Sink(lake, names, names.number([open_history(state) for state in states]), reached)


def refuse_once(monkeypatch: Any, lake: Lake, table: str) -> None:
    """Make the disk full when this table is published next."""
    given, left = lake.publish, [1]

    def publish(name: str, *words: Any, **more: Any) -> int:
        if name == table and left:
            left.pop()
            raise OSError(28, "No space left on device")
        return given(name, *words, **more)

    monkeypatch.setattr(lake, "publish", publish)


def until(where: str) -> Callable[[str], None]:
    """Return what ends this process there."""
    point, _, times = where.partition(":")
    left = [int(times or 0)]
    if where and not times:
        signal.setitimer(signal.ITIMER_REAL, float(where))  # nobody catches its signal, so it ends us as it is
        point = ""

    def reached(name: str) -> None:
        if name == point:
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)

    return reached


def main() -> None:
    for line in sys.stdin:
        lake, state, where = json.loads(line)
        child = os.fork()
        if not child:
            opened = Lake(Path(lake))
            opened.lease_seconds = 0.0  # nobody waits until the one that was killed is known to be dead
            take_all(opened, Path(state), most=1, reached=until(where))
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
