"""Prints to stderr how many of Spark's tasks are done, while an operator waits for a report.

On a terminal it is one line that is written over; elsewhere (cron, a log) a line each half minute.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

LOOK_SECONDS = 1.0
LINE_SECONDS = 30.0  # between two lines of a log


@contextmanager
def progress(spark: Any, stream: TextIO | None = None) -> Iterator[None]:
    """Print the progress of this Spark until the block ends."""
    stop = threading.Event()
    watcher = threading.Thread(target=_watch, args=(spark, stop, stream or sys.stderr), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join()


def _watch(spark: Any, stop: threading.Event, stream: TextIO) -> None:
    terminal, waited, shown = stream.isatty(), 0.0, False
    while not stop.wait(LOOK_SECONDS):
        waited += LOOK_SECONDS
        line = _line(spark)
        if line is None or (not terminal and waited % LINE_SECONDS):
            continue
        stream.write(f"\r\x1b[K{line}, {waited:.0f} s" if terminal else f"{line}, {waited:.0f} s\n")
        stream.flush()
        shown = terminal
    if shown:
        stream.write("\r\x1b[K")
        stream.flush()


def _line(spark: Any) -> str | None:
    """Return the line; None while nothing runs. A stage that has just ended may be gone between two calls."""
    try:
        tracker = spark.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
    except Exception:  # a Spark that stops, or one that is elsewhere (Connect) and has no such thing
        return None
    known = [stage for stage in stages if stage is not None]
    if not known:
        return None
    return f"{sum(stage.numCompletedTasks for stage in known)} of {sum(stage.numTasks for stage in known)} tasks"
