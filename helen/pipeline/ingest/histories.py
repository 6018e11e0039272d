"""Reads the history folder of one Helen: which segments there are, and how far the pipeline has come.

    HISTORY/segments/seg-NNNNNNNN.parquet  chg-NNNNNNNN.parquet      written by Helen, never changed
    HISTORY/series.parquet                                           written by Helen
    HISTORY/committed  committed-changes  pipeline-id                written by the pipeline

docs/results.rst is the contract. Numbers begin at 1 and have no holes, but the oldest files may be gone.
"""

from __future__ import annotations

import os
import re
import uuid
from pathlib import Path

import pyarrow.parquet as pq

from groundwork.atomic_write import PUBLIC, write_durably
from groundwork.presence import is_there, read_if_there
from helen.pipeline.lake.errors import PipelineError

RESULTS, CHANGES = "seg", "chg"
_COMMITTED = {RESULTS: "committed", CHANGES: "committed-changes"}
_NUMBERED = re.compile(r"(seg|chg)-([0-9]{8,})\.parquet")
_IDENTITY = "pipeline-id"
SERIES = "series.parquet"


class History:
    """Reads one history folder. Nothing is kept: each call looks at the disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.segments = folder / "segments"

    def path(self, kind: str, number: int) -> Path:
        """Return the path of the segment of this number."""
        return self.segments / f"{kind}-{number:08}.parquet"

    def size(self, kind: str, number: int) -> int:
        """Return the size of a segment in bytes; 0 where it is gone."""
        try:
            return self.path(kind, number).stat().st_size
        except FileNotFoundError:
            return 0

    def numbers(self, kind: str) -> list[int]:
        """Return the numbers of all segments that are there, in order."""
        try:
            names = os.listdir(self.segments)
        except FileNotFoundError:
            return []
        found = (_NUMBERED.fullmatch(name) for name in names)
        return sorted(int(match[2]) for match in found if match and match[1] == kind)

    def next_after(self, kind: str, number: int, most: int) -> tuple[int, int] | None:
        """Return the first and the last number of the next segments to read, `most` of them; None: nothing new.

        Looks for the next names instead of listing the folder: at the usual pace that is one or two calls. Only
        where the next one is missing does it matter whether Helen hasn't written it yet, or has deleted it.
        """
        first = number + 1
        if not is_there(self.path(kind, first)):
            later = [each for each in self.numbers(kind) if each > number]
            if not later:
                return None
            first = later[0]
        last = first
        while last - first + 1 < most and is_there(self.path(kind, last + 1)):
            last += 1
        return first, last

    def hole_after(self, kind: str, number: int) -> tuple[int, int] | None:
        """Return the first and the last of the numbers that are missing behind this one, and should be there.

        Helen deletes what was committed, and before there is a pipeline whatever is old: neither is a hole.
        """
        first = number + 1
        if is_there(self.path(kind, first)):
            return None
        later = next((each for each in self.numbers(kind) if each > number), None)
        if later is None or is_there(self.path(kind, first)):
            return None
        told = self.committed(kind)
        if later - 1 <= told or (not number and not told):
            return None
        return max(first, told + 1), later - 1

    def committed(self, kind: str) -> int:
        """Return the number that Helen was told; 0: none yet, or a text that is no number.

        Raises OSError if that can't be told: a number taken for none would be written over by a lower one.
        """
        text = (read_if_there(self.folder / _COMMITTED[kind]) or b"").strip()
        return int(text) if re.fullmatch(b"[0-9]{1,18}", text) else 0

    def commit(self, kind: str, number: int) -> None:
        """Tell Helen that everything up to this number is published. It never takes a step back. Raises OSError."""
        if number > self.committed(kind):
            write_durably(self.folder / _COMMITTED[kind], b"%d\n" % number, PUBLIC)

    def identity(self) -> str:
        """Return the name of this history in every lake, made at first sight; it moves with the folder.

        Raises PipelineError if the folder can't be written.
        """
        path = self.folder / _IDENTITY
        try:
            return path.read_text("ascii").strip()
        except FileNotFoundError:
            pass
        made = uuid.uuid4().hex
        try:
            write_durably(path, made.encode() + b"\n", PUBLIC)
        except OSError as error:
            raise PipelineError(
                f"{self.folder} can't be written ({error.strerror}). The pipeline keeps its place there: run it as the"
                " user that Helen runs as."
            ) from error
        return made

    def series_stamp(self) -> tuple[int, int, int] | None:
        """Return a value that is another one once `series` may have changed: Helen replaces the file as a whole."""
        try:
            found = (self.folder / SERIES).stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns

    def series(self) -> list[tuple[int, str, str, str | None]]:
        """Return (series_id, agent, check_id, check) of all series; empty before the first segment."""
        path = self.folder / SERIES
        if not is_there(path):
            return []
        columns = pq.read_table(path, columns=["series_id", "agent", "check_id", "check"]).to_pydict()
        return list(zip(*columns.values(), strict=True))


def open_history(folder: Path) -> History:
    """Return the history in STATE/history, or in the folder itself. Raises PipelineError if there is none."""
    for candidate in (folder / "history", folder):
        try:
            if is_there(candidate / "segments") and (candidate / "segments").is_dir():
                return History(candidate.resolve())
        except OSError as error:
            raise PipelineError(
                f"{candidate}/segments can't be opened ({error.strerror}): run the pipeline as the user that Helen runs"
                " as."
            ) from error
    raise PipelineError(
        f"There is no history in {folder}: neither {folder}/history/segments nor {folder}/segments exists. Give the"
        " state folder of a Helen that has run, or its history folder."
    )
