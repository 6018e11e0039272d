"""Runs the pipeline: the stream of batches, the upkeep between them, and the status files.

One process, one writer. Batches are published by Spark's callback thread and upkeep is done by the main one. A lock is
held by each while it looks at the log or publishes; what upkeep does in between, which may take minutes, holds no batch
back. Work that fails again and again ends the process with a sentence; the next start goes on where the
lake says.
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
from typing import Any, TypeVar

from attrs import evolve, field, frozen
from pyspark.sql import DataFrame, SparkSession

from groundwork.counts import count
from helen.pipeline import telemetry, upkeep
from helen.pipeline.engine import works_here
from helen.pipeline.ingest.batch import Sink
from helen.pipeline.ingest.claims import claim
from helen.pipeline.ingest.histories import open_history
from helen.pipeline.ingest.offsets import EVERYTHING, MAX_SEGMENTS, Options, initial, latest, ranges
from helen.pipeline.ingest.quarantine import disk_fault, set_aside
from helen.pipeline.ingest.segment_frames import segments_of
from helen.pipeline.ingest.series_names import SeriesNames
from helen.pipeline.lake.damaged_files import forget_mended
from helen.pipeline.lake.errors import BadSegment, LakeDamaged, LakeFileUnread, PipelineError
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.levels import Level, derived
from helen.pipeline.lake.read_errors import first_line, with_advice
from helen.pipeline.rollup.following import cascade
from helen.pipeline.spark import PARTITIONS
from helen.pipeline.telemetry import BEAT, Batch, RunStatus

TRIGGER = 10.0  # a batch costs about the same however small it is: at 1 s it took a third of two cores
UPKEEP = 3600.0  # seconds from one upkeep to the next. Levels that follow no oftener are brought up to date by it
GATHER = 12  # new files of a source in a day that are put together after a cascade: the next one reads a fifth of it
LOOK = 1.0  # seconds between two looks of the main thread whether it is to end, or work is due
RETRIES = 10  # failures in a row at one place: a machine that swaps lets Spark's own timeouts of 10 s pass
RETRY_SECONDS = 0.5
Say = Callable[[str], None]


@frozen
class Settings:
    """Holds the settings of a run. `once`: take in the results that are there now, then end."""

    trigger: float = TRIGGER
    once: bool = False
    max_segments: int = MAX_SEGMENTS
    upkeep: bool = True
    keep: Mapping[str, int | None] = field(factory=lambda: upkeep.KEEP)


class Driver:
    """Makes one run over these histories into this lake. `reached` is called at the points of batch.POINTS."""

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
        self._busy = lake.turn
        self._status = RunStatus(lake.folder, settings.trigger)
        self._published: dict[str, dict[str, int]] = {}
        self._failure: Exception | None = None
        self._frequent = [level for level in derived(lake.levels) if level.follow_seconds < UPKEEP]
        self._due: dict[str, float] = {}
        self._failed: dict[str, int] = {}  # times in a row, of what is done between batches
        self._bad: BadSegment | None = None  # the last failure, if it was that a segment can't be read
        self._noted: dict[str, str] = {}  # what fails while results come in, and why
        self._told: set[str] = set()  # paths of files of the lake that are noted there

    def run(self, ending: threading.Event | None = None) -> None:
        """Run until `ending` is set, or all is done. Raises PipelineError."""
        self._lake.lock()
        try:
            for history in self.histories:
                claim(history, self._lake.folder)
            names = SeriesNames(self._lake)
            sink = Sink(self._lake, names, names.number(self.histories), self._reached, works_here(self._spark))
            began = time.monotonic()
            due = {level.name: began + level.follow_seconds for level in self._frequent}
            # The first upkeep comes with the first rollup: a run that is often started anew must get there, too.
            self._due = {**due, "beat": began, "upkeep": min(due.values(), default=began + UPKEEP)}
            self._published = sink.start()
            try:
                self._keep_at_it(sink, ending or threading.Event())
                sink.commit()
                self._status = evolve(self._status, error=None)  # upkeep may have failed, but it isn't why this ends
            except Exception as error:
                self._status = evolve(self._status, error=str(error))
                raise
            finally:
                self._status = evolve(self._status, running=False)
                with contextlib.suppress(OSError):  # a full disk must not hide why it has ended
                    self._write_status(sink)
        finally:
            self._lake.unlock()

    def _keep_at_it(self, sink: Sink, ending: threading.Event) -> None:
        """Work, and begin again after a failure: published results are left out, so that is always safe.

        A segment that can't be read holds nothing back for long: those before it are taken in, and after RETRIES it is
        set aside.
        """
        work, failures = self._take_what_is_there if self._settings.once else self._stream, 0
        while not failures or not ending.is_set():
            place, self._failure = self._place(sink), None
            try:
                if self._bad is not None:
                    self._take_up_to(sink, self._bad, ending)
                work(sink, ending)
                break
            except PipelineError:
                raise
            except Exception as error:
                reason = self._failure or PipelineError(first_line(error))
                failures = failures + 1 if place == self._place(sink) else 1
                self._bad = _first(BadSegment, error, self._failure)
                if failures > RETRIES:
                    if not self._go_on_without(sink, _first(LakeFileUnread, error, self._failure)):
                        text = f"It has failed {count(failures, 'time')} at one place: {reason}"
                        raise PipelineError(with_advice(text, self._failure or error)) from error
                    self._bad, failures = None, 1
                    continue
                self._say(f"failed, and begun again: {reason}")
                ending.wait(RETRY_SECONDS * failures)
        if self._settings.once and self._settings.upkeep:
            self._tidy()

    def _go_on_without(self, sink: Sink, unread: LakeFileUnread | None) -> bool:
        """Go on without the file that has failed so often: a segment is set aside, a file of the lake is passed over.

        Returns False if the failure is not that of a file. Raises PipelineError if the disk doesn't give any.
        """
        if self._bad is not None:
            if fault := disk_fault(self._lake, self._bad):
                raise PipelineError(fault)
            kept = set_aside(self._lake, sink, self._bad)
            self._say(f"{self._bad}: it is kept as {kept}, and those behind it are taken in")
        elif unread is not None:
            self._lake.given_up.add(unread.path)
            self._say(f"{unread} Results are taken in without it.")
        return self._bad is not None or unread is not None

    def _place(self, sink: Sink) -> dict[str, dict[str, int]]:
        """Return how far the tables are, or were while a store doesn't say it, or no log can be opened.

        A store that answers now and then gets no further by that: each failure at one place is counted.
        """
        with contextlib.suppress(OSError):
            self._published = sink.start()
        return self._published

    def _take_up_to(self, sink: Sink, bad: BadSegment, ending: threading.Event) -> None:
        """Take in all that comes before a bad segment, so that it is the next one."""
        sink.caps = {(bad.helen, bad.kind): bad.number - 1}
        try:
            self._take_what_is_there(sink, ending)
        finally:
            sink.caps = {}

    def _take_what_is_there(self, sink: Sink, ending: threading.Event) -> None:
        """Take batch by batch without a stream, which has a process of its own that takes up to 10 s to start."""
        sink.check()
        given = Options(self._options(sink))
        start = initial(given)
        until = latest(given, start, EVERYTHING)
        for (helen, kind), last in sink.caps.items():
            until[str(helen)][kind] = max(start[str(helen)][kind], min(until[str(helen)][kind], last))
        while start != until and not ending.is_set():
            end = latest(given, start, self._settings.max_segments, until)
            self._take(sink, segments_of(self._spark, ranges(given, start, end)))
            sink.commit()
            start = end

    def _stream(self, sink: Sink, ending: threading.Event) -> None:
        query = self._start(sink)
        try:
            while not query.awaitTermination(LOOK) and not ending.is_set():
                if self._is_due("beat", BEAT):
                    with self._busy:
                        sink.check()
                        self._write_status(sink)
                if self._settings.upkeep:
                    self._look_after()
        finally:
            query.stop()

    def _options(self, sink: Sink) -> dict[str, str]:
        folders = {helen: str(history.folder) for helen, history in sink.histories.items()}
        return {
            "histories": json.dumps(list(folders.values())), "helens": json.dumps(list(folders)),
            "start": json.dumps(sink.start()), "rows": "segments", "cores": self._spark.conf.get(PARTITIONS, "0"),
        }  # fmt: skip

    def _start(self, sink: Sink) -> Any:
        options = self._options(sink) | {"commit": "true", "maxSegments": str(self._settings.max_segments)}
        stream = self._spark.readStream.format("helen").options(**options).load().writeStream
        stream = stream.option("checkpointLocation", str(self._checkpoint()))
        timed = stream.trigger(processingTime=f"{self._settings.trigger} seconds")
        return timed.foreachBatch(lambda batch, number: self._take(sink, batch)).start()

    def _checkpoint(self) -> Path:
        """Return the folder of Spark's checkpoint, made anew for each run: the lake knows better how far it is."""
        # Spark has no jars for a store, and only this process reads these notes.
        place = self.histories[0].folder if self._lake.is_stored else self._lake.folder
        folder = place / "_checkpoint"
        shutil.rmtree(folder, ignore_errors=True)
        return folder

    def _take(self, sink: Sink, batch: DataFrame) -> None:
        """Take one batch. Spark calls it, and would wrap an exception into pages of Java."""
        with self._busy:
            began = time.monotonic()
            try:
                done = sink.take(batch)
            except Exception as error:
                self._failure = error
                raise
            took = time.monotonic() - began
            self._published = sink.start()
            self._status = self._status.with_batch(Batch(time.time(), done.results, done.changes, took))
            behind = self._write_status(sink)
        self._tell_unread()
        taken = f"{count(done.results, 'result')} and {count(done.changes, 'change')}"
        self._say(f"{taken} in {took:.1f} s; {count(behind, 'segment')} behind")

    def _tell_unread(self) -> None:
        """Say of each file of the lake once that results are taken in without it; the status has it until it is mended.

        Upkeep finds out about that.
        """
        unread = dict(self._lake.unread)
        for path, sentence in unread.items():
            if path not in self._told:
                self._note(path, sentence)
                self._say(sentence)
        for path in self._told - unread.keys():
            self._note(path, None)
        self._told = set(unread)

    def _write_status(self, sink: Sink) -> int:
        """Write the status files, for `helen status`, /metrics and people. The caller has the lock `_busy`."""
        return telemetry.write(self._status, sink.histories, self._published)

    def _is_due(self, name: str, every: float) -> bool:
        now = time.monotonic()
        if now < self._due[name]:
            return False
        self._due[name] = now + every
        return True

    def _look_after(self) -> None:
        # Tasks of upkeep share the cores with those of a batch, instead of going before them.
        self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", "upkeep")
        due = [level for level in self._frequent if self._is_due(level.name, level.follow_seconds)]
        if due:
            self._try(f"rollup {' and '.join(level.name for level in due)}", lambda: self._follow(due))
        if self._is_due("upkeep", UPKEEP):
            self._try("upkeep", self._tidy)

    def _follow(self, levels: Sequence[Level]) -> None:
        cascade(self._spark, self._lake, levels, self._say)
        sources = [level.source for level in levels if level.source is not None]
        upkeep.gather(self._spark, self._lake, GATHER, tables=sources, past=False)

    def _tidy(self) -> None:
        with self._busy:
            forget_mended(self._lake)
        tidy(self._spark, self._lake, self._settings.keep, self._say)

    def _try(self, what: str, work: Callable[[], None]) -> None:
        """Do some upkeep. Results come in if it fails, too; the status says so, and many failures end the run."""
        try:
            work()
        except LakeDamaged as error:  # all else was done, and an operator must mend this: no reason to end
            self._note(what, str(error))
            self._say(str(error))
        except Exception as error:
            self._failed[what] = self._failed.get(what, 0) + 1
            times = count(self._failed[what], "time")
            reason = with_advice(f"{what} failed, {times} in a row: {first_line(error)}", error)
            if self._failed[what] > RETRIES:
                raise PipelineError(reason) from error
            self._note(what, reason)
            self._say(reason)
        else:
            self._failed.pop(what, None)
            if what in self._noted:
                self._note(what, None)

    def _note(self, what: str, error: str | None) -> None:
        """Keep why some work fails, None once it is done again; the status has the oldest that is left."""
        with self._busy:  # the other thread notes its batches there
            if error is None:
                self._noted.pop(what, None)
            else:
                self._noted[what] = error
            self._status = evolve(self._status, error=next(iter(self._noted.values()), None))


Kind = TypeVar("Kind", bound=Exception)


def _first(kind: type[Kind], *errors: Exception | None) -> Kind | None:
    """Return the first of these errors that is of a kind."""
    return next((each for each in errors if isinstance(each, kind)), None)


def tidy(spark: SparkSession, lake: Lake, keep: Mapping[str, int | None], say: Say) -> None:
    """Expire, sweep, compact: the steps that make room come first, because the last one needs some."""
    upkeep.expire(lake, datetime.now(UTC).date(), keep)
    upkeep.sweep(lake)
    upkeep.compact(spark, lake, say=say)
