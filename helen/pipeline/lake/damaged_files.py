"""Finds files of the lake that count and can't be read, once some work has failed: the rest of the work goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import pyarrow as pa
from attrs import field, frozen

from helen.pipeline.lake.errors import LakeDamaged
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.log_entries import File
from helen.pipeline.lake.places import parquet_file
from helen.pipeline.lake.stores import url_of

Made = TypeVar("Made")


@frozen
class Damage:
    """Collects sentences about files, one for each, until the work is done."""

    sentences: list[str] = field(factory=list)

    def without(
        self, lake: Lake, table: str, files: Sequence[File], work: Callable[[Sequence[File]], Made]
    ) -> Made | None:
        """Do some work on files of a table, or on those that can be read; None where damage left it undone.

        An error that no file explains is raised as it came.
        """
        try:
            return work(files)
        except Exception:
            if not self.note(lake, table, files):
                raise
            return None

    def note(self, lake: Lake, table: str, files: Sequence[File]) -> bool:
        """Add a sentence for each of these files that can't be read; return True if there is any."""
        bad = [(file, reason) for file in files if (reason := unreadable(lake, table, file)) is not None]
        self.sentences.extend(_sentence(lake, table, file, reason) for file, reason in bad)
        return bool(bad)

    def tell(self) -> None:
        """Raise LakeDamaged if there was any."""
        if self.sentences:
            more = f" There are {len(self.sentences) - 1} more." if len(self.sentences) > 1 else ""
            raise LakeDamaged(self.sentences[0] + more)


def unreadable(lake: Lake, table: str, file: File) -> str | None:
    """Return why a file can't be read; None if it can, every row of it."""
    try:
        with parquet_file(lake.path(table) / file.path) as opened:
            for _ in opened.iter_batches():
                pass
    except (OSError, pa.ArrowException) as error:
        return (str(error).splitlines() or [type(error).__name__])[0]
    return None


def _sentence(lake: Lake, table: str, file: File, reason: str) -> str:
    mend = "restore it from a backup"
    if table in lake.levels and file.day is not None:
        mend += f", or make its day anew: `helen pipeline rebuild {table} --from {file.day}`"
    return f"{url_of(lake.path(table) / file.path)} can't be read ({reason}): {mend}."
