"""The always-on part: the stream, the upkeep between its batches, and what it says of itself.

One process, one writer. Batches are published by Spark's callback thread and upkeep is done by the main one, so a lock
keeps them apart. What fails again and again ends the process with a sentence; the next start goes on where the lake
says.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen
from pyspark.sql import DataFrame, SparkSession

from helen.pipeline import telemetry, upkeep
from helen.pipeline.cascade import HOURS, cascade
from helen.pipeline.errors import PipelineError
from helen.pipeline.histories import open_history
from helen.pipeline.ingest import Sink
from helen.pipeline.lake import Lake
from helen.pipeline.naming import Names
from helen.pipeline.offsets import EVERYTHING, MAX_SEGMENTS, Options, initial, latest
from helen.pipeline.telemetry import BEAT, Batch, Told

TRIGGER = 10.0  # a batch costs about the same however small it is: at 1 s it took a third of two cores
CASCADE = 300.0  # seconds from one cascade of hours to the next
UPKEEP = 3600.0  # with it days follow hours; the first time as soon as hours do
GATHER = 12  # new files of m5 in a day that are put together after a cascade: the next one reads a fifth of the rows
LOOK = 1.0  # how often the main thread looks whether it is to end, or something is due
RETRIES = 10  # failures in a row at one place: a machine that swaps lets Spark's own timeouts of 10 s pass
RETRY_SECONDS = 0.5
Say = Callable[[str], None]


@frozen
class Settings:
    """How to run. `once`: what is there now, then end."""

    trigger: float = TRIGGER
    once: bool = False
    max_segments: int = MAX_SEGMENTS
    upkeep: bool = True
    keep: Mapping[str, int | None] = field(factory=lambda: upkeep.KEEP)


class Driver:
    """One run over these histories into this lake. `reached` is told the points of ingest.POINTS."""

    def __init__(
        self,
        spark: SparkSession,
        lake: Lake,
        folders: Sequence[Path],
        settings: Settings,
        say: Say = lambda line: None,
        reached: Callable[[str], None] = lambda point: None,
    ) -> None:
        self.histories = [open_history(folder) for folder in folders]
        self._spark = spark
        self._lake = lake
        self._settings = settings
        self._say = say
        self._reached = reached
        self._busy = threading.Lock()
        self._told = Told(lake.folder, settings.trigger)
        self._published: dict[str, dict[str, int]] = {}
        self._failure: Exception | None = None
        self._due: dict[str, float] = {}
        self._failed: dict[str, int] = {}  # times in a row, of what is done between batches

    def run(self, ending: threading.Event | None = None) -> None:
        """Until `ending` is set, or all is done. Raises PipelineError."""
        self._lake.lock()
        try:
            names = Names(self._lake)
            sink = Sink(self._lake, names, names.number(self.histories), self._reached)
            began = time.monotonic()
            self._due = {"beat": began, "cascade": began + CASCADE, "upkeep": began + CASCADE}
            self._published = sink.start()
            try:
                self._keep_at_it(sink, ending or threading.Event())
                sink.commit()
                self._told = evolve(self._told, error=None)  # upkeep may have failed, but it isn't why this ends
            except Exception as error:
                self._told = evolve(self._told, error=str(error))
                raise
            finally:
                self._told = evolve(self._told, running=False)
                with contextlib.suppress(OSError):  # a full disk must not hide why it has ended
                    self._tell(sink)
        finally:
            self._lake.unlock()

    def _keep_at_it(self, sink: Sink, ending: threading.Event) -> None:
        """Begun again after a failure: what is published already is left out, so that is always safe."""
        work, failures = self._take_what_is_there if self._settings.once else self._stream, 0
        while not failures or not ending.is_set():
            place, self._failure = sink.start(), None
            try:
                work(sink, ending)
                break
            except PipelineError:
                raise
            except Exception as error:
                reason = self._failure or PipelineError(first_line(error))
                failures = failures + 1 if place == sink.start() else 1
                if failures > RETRIES:
                    raise PipelineError(f"It has failed {failures} times at one place: {reason}") from error
                self._say(f"failed, and begun again: {reason}")
                ending.wait(RETRY_SECONDS * failures)
        if self._settings.once and self._settings.upkeep:
            with self._busy:
                self._tidy()

    def _take_what_is_there(self, sink: Sink, ending: threading.Event) -> None:
        """Batch by batch, without a stream: a stream has a process of its own, to which Spark gives 10 s to start."""
        options = self._options(sink)
        given = Options(options)
        start = initial(given)
        until = latest(given, start, EVERYTHING)
        while start != until and not ending.is_set():
            end = latest(given, start, self._settings.max_segments, until)
            part = options | {"start": json.dumps(start), "end": json.dumps(end)}
            self._take(sink, self._spark.read.format("helen").options(**part).load())
            sink.commit()
            start = end

    def _stream(self, sink: Sink, ending: threading.Event) -> None:
        query = self._start(sink)
        try:
            while not query.awaitTermination(LOOK) and not ending.is_set():
                if self._is_due("beat", BEAT):
                    with self._busy:
                        self._tell(sink)
                if self._settings.upkeep:
                    self._look_after()
        finally:
            query.stop()

    def _options(self, sink: Sink) -> dict[str, str]:
        folders = {helen: str(history.folder) for helen, history in sink.histories.items()}
        return {
            "histories": json.dumps(list(folders.values())), "helens": json.dumps(list(folders)),
            "start": json.dumps(sink.start()), "rows": "segments",
        }  # fmt: skip

    def _start(self, sink: Sink) -> Any:
        options = self._options(sink) | {"commit": "true", "maxSegments": str(self._settings.max_segments)}
        stream = self._spark.readStream.format("helen").options(**options).load().writeStream
        stream = stream.option("checkpointLocation", str(self._checkpoint()))
        timed = stream.trigger(processingTime=f"{self._settings.trigger} seconds")
        return timed.foreachBatch(lambda batch, number: self._take(sink, batch)).start()

    def _checkpoint(self) -> Path:
        """Spark's own notes, made anew for each run: the lake knows better how far it is."""
        folder = self._lake.folder / "_checkpoint"
        shutil.rmtree(folder, ignore_errors=True)
        return folder

    def _take(self, sink: Sink, batch: DataFrame) -> None:
        """Called by Spark, which would wrap an exception into pages of Java."""
        with self._busy:
            began = time.monotonic()
            try:
                done = sink.take(batch)
            except Exception as error:
                self._failure = error
                raise
            took = time.monotonic() - began
            self._published = sink.start()
            self._told = self._told.with_batch(Batch(time.time(), done.results, done.changes, took))
            behind = self._tell(sink)
        self._say(f"{done.results} results and {done.changes} changes in {took:.1f} s; {behind} segments behind")

    def _tell(self, sink: Sink) -> int:
        """For `helen status`, /metrics and people. Nobody else may be at it."""
        return telemetry.write(self._told, sink.histories, self._published)

    def _is_due(self, name: str, every: float) -> bool:
        now = time.monotonic()
        if now < self._due[name]:
            return False
        self._due[name] = now + every
        return True

    def _look_after(self) -> None:
        if self._is_due("cascade", CASCADE):
            self._try("hours", self._hours)
        if self._is_due("upkeep", UPKEEP):
            self._try("upkeep", self._tidy)

    def _hours(self) -> None:
        cascade(self._spark, self._lake, [HOURS])
        upkeep.gather(self._spark, self._lake, GATHER, tables=["m5"], past=False)

    def _tidy(self) -> None:
        tidy(self._spark, self._lake, self._settings.keep, self._say)

    def _try(self, what: str, work: Callable[[], None]) -> None:
        """Results come in whether it succeeds or not. It is told while it doesn't, and ends the run in the end."""
        with self._busy:
            try:
                work()
            except Exception as error:
                self._failed[what] = self._failed.get(what, 0) + 1
                reason = f"{what} failed, {self._failed[what]} times in a row: {first_line(error)}"
                if self._failed[what] > RETRIES:
                    raise PipelineError(reason) from error
                self._told = evolve(self._told, error=reason)
                self._say(reason)
            else:
                if self._failed.pop(what, 0) and not self._failed:
                    self._told = evolve(self._told, error=None)


def tidy(spark: SparkSession, lake: Lake, keep: Mapping[str, int | None], say: Say) -> None:
    """Retention, sweep, compaction: what makes room comes first, for who needs some."""
    upkeep.expire(lake, datetime.now(UTC).date(), keep)
    upkeep.sweep(lake)
    upkeep.compact(spark, lake, say=say)


def first_line(error: Exception) -> str:
    """What a person can use of a Java exception."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines or [type(error).__name__])[0][:500]
