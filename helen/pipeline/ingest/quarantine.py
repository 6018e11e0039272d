"""Sets a segment aside that can't be read, so that those behind it come into the lake; and takes it in later.

    HISTORY/quarantine/segments/seg-00000004.parquet      another name of the same file: Helen may delete its own

The table `segments` says which ones were set aside, and why. One that can be read again, or was replaced by a sound
copy, is taken in by `helen pipeline readmit`, once.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from groundwork.atomic_write import sync_folder
from groundwork.counts import count
from groundwork.presence import is_there
from groundwork.read_errors import Cause, cause_of
from helen.pipeline.ingest.batch import Sink
from helen.pipeline.ingest.histories import History
from helen.pipeline.ingest.losses import advance
from helen.pipeline.ingest.taken import QUARANTINED, READMITTED
from helen.pipeline.lake.errors import BadSegment, PipelineError
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.lake_files import held, read
from helen.pipeline.lake.schema import TAKEN

FOLDER = "quarantine"
# Segments that follow each other and whose disk or rights don't let them be read, before a run ends: then nothing is
# wrong with the files, and to set more of them aside would put the whole history there.
DISK_SEGMENTS = 3


def set_aside(lake: Lake, sink: Sink, bad: BadSegment) -> Path:
    """Keep the file under another name, and have all tables go on behind it. Returns the new name. Raises OSError."""
    history = sink.histories[bad.helen]
    source, kept = history.path(bad.kind, bad.number), aside(history).path(bad.kind, bad.number)
    kept.parent.mkdir(parents=True, exist_ok=True)
    if not is_there(kept) and is_there(source):
        try:
            os.link(source, kept)
        except OSError:  # a file system without links
            shutil.copyfile(source, kept)
    sync_folder(kept.parent)
    advance(lake, sink, bad.helen, bad.kind, (bad.number, bad.number), QUARANTINED, bad.reason)
    return kept


def disk_fault(lake: Lake, bad: BadSegment) -> str | None:
    """Return the sentence with which a run ends, if the disk has given none of DISK_SEGMENTS in a row.

    This segment is the last of them, and is not set aside: so it is tried first when the disk is mended.
    """
    before = {row["segment"]: row["why"] for row in waiting(lake) if _kind_of(row) == (bad.helen, bad.kind)}
    first = bad.number
    while _is_of_disk(before.get(first - 1)):
        first -= 1
    if not _is_of_disk(bad.reason) or bad.number - first < DISK_SEGMENTS - 1:
        return None
    before_it = count(bad.number - first, "segment")
    return (
        f"The disk does not give files: {bad}, and neither could the {before_it} before it. Mend the"
        " disk, or the rights of its files, then start this again, and `helen pipeline readmit` takes those in."
    )


def _is_of_disk(reason: str | None) -> bool:
    return reason is not None and cause_of(PipelineError(reason)) in (Cause.DISK, Cause.REFUSED)


def aside(history: History) -> History:
    """Return the segments that were set aside, as a history."""
    return History(history.folder / FOLDER)


def waiting(lake: Lake) -> list[dict[str, Any]]:
    """Return the rows of `segments` about those that were set aside and not taken in since, in order."""
    files = held(lake, TAKEN.name, lake.files(TAKEN.name))
    wanted = pc.field("state").isin([QUARANTINED, READMITTED])
    rows = read(TAKEN, [file.path for file in files], TAKEN.columns.names, wanted).to_pylist()
    back = {_key(row) for row in rows if row["state"] == READMITTED}
    return sorted((row for row in rows if row["state"] == QUARANTINED and _key(row) not in back), key=_key)


def _kind_of(row: dict[str, Any]) -> tuple[int, str]:
    return row["helen"], row["kind"]


def _key(row: dict[str, Any]) -> tuple[int, str, int]:
    return *_kind_of(row), row["segment"]


def readmit(lake: Lake, sink: Sink) -> list[str]:
    """Take in what was set aside and can be read now, each once. Returns a line for each segment.

    It looks into the history's own segments first: a sound copy may have been put there. The caller has the lock.
    """
    said = []
    for row in waiting(lake):
        history = sink.histories.get(row["helen"])
        for place in () if history is None else (history, aside(history)):
            path = place.path(row["kind"], row["segment"])
            try:
                sink.take_again(place, row["helen"], row["kind"], row["segment"])
            except (BadSegment, FileNotFoundError) as error:
                said.append(str(error))
            else:
                said.append(f"{path}: taken in")
                break
    return said
