"""Finds files of the lake that count and can't be read, once some work has failed: the rest of the work goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from attrs import field, frozen

from groundwork.read_errors import OF_FILE, Cause
from helen.pipeline.lake.errors import LakeDamaged, LakeFileUnread, OutOfResources
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.log_entries import File
from helen.pipeline.lake.places import parquet_file
from helen.pipeline.lake.read_errors import READ_ERRORS, cause_at, first_line, is_of_file, lack_of
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
        self.sentences.extend(_sentence(lake, table, lake.path(table) / file.path, reason) for file, reason in bad)
        return bool(bad)

    def tell(self) -> None:
        """Raise LakeDamaged if there was any."""
        if self.sentences:
            more = f" There are {len(self.sentences) - 1} more." if len(self.sentences) > 1 else ""
            raise LakeDamaged(self.sentences[0] + more)


def pass_over(lake: Lake, table: str, path: str, error: BaseException) -> str:
    """Note that work goes on without a file, and return the sentence about it.

    Raises LakeFileUnread if its disk or its rights don't let it be read and it wasn't given up yet, and the error
    itself if that says nothing about the file.
    """
    cause = cause_at(error, path)
    if cause not in OF_FILE:
        raise error
    sentence = _sentence(lake, table, Path(path), first_line(error))
    if cause is not Cause.CONTENT and path not in lake.given_up:
        raise LakeFileUnread(path, sentence) from error
    lake.unread[path] = sentence
    return sentence


def forget_mended(lake: Lake) -> None:
    """Forget which files could not be read, of those that can be by now, or that count no more. Raises OSError."""
    for path in [*lake.unread]:
        table = Path(path).relative_to(lake.folder).parts[0]
        file = next((file for file in lake.files(table) if str(lake.path(table) / file.path) == path), None)
        if file is None or unreadable(lake, table, file) is None:
            del lake.unread[path]
            lake.given_up.discard(path)


def unreadable(lake: Lake, table: str, file: File) -> str | None:
    """Return why a file can't be read; None if it can, every row of it.

    Raises OutOfResources if that can't be told: descriptors or memory are short, or a store gives no answer.
    """
    path = lake.path(table) / file.path
    try:
        with parquet_file(path) as opened:
            for _ in opened.iter_batches():
                pass
    except READ_ERRORS as error:
        if not is_of_file(error, path):
            raise OutOfResources(lack_of(path, error)) from error
        return first_line(error)
    return None


def _sentence(lake: Lake, table: str, path: Path, reason: str) -> str:
    mend, (_, is_by_day, day) = "restore it from a backup", path.parent.name.partition("day=")
    if table in lake.levels and is_by_day:
        mend += f", or make its day anew: `helen pipeline rebuild {table} --from {day}`"
    elif is_by_day:
        mend += f", or accept that its rows are lost: `helen pipeline accept-loss --file {url_of(path)}`"
    return f"{url_of(path)} can't be read ({reason}): {mend}."
