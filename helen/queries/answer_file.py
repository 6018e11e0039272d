"""Keeps the outcomes of a job over restarts, in a file of lines: `STATE/jobs/ID.ndjson`.

The first line names the targets, each further one is an outcome. Nothing is synced: an agent whose outcome a power cut
takes is asked again, and the journal has every answer anyway. All functions block; call them in a thread.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from groundwork.atomic_write import PRIVATE, write_durably
from helen.files.state_dir import make_folder
from helen.queries.job_outcomes import JobOutcomes, line
from helen.queries.job_request import LONGEST_WAIT

KEEP_SECONDS = 7 * 86_400.0  # that a job is remembered after its end; ZeroTask keeps the result as long
STALE_SECONDS = LONGEST_WAIT + KEEP_SECONDS  # without a new line; no job is open for longer
READ_MOST = 1024 * 1024  # bytes at a time for a client that follows; longer than any line but the first, of names
ENDING = ".ndjson"


def load(path: Path) -> JobOutcomes | None:
    """Return the outcomes that a file holds, or None without one. A crash may have cut its last line off."""
    try:
        with open(path, "rb") as file:
            head = _document(file.readline())
            if head is None or not isinstance(head.get("targets"), list):
                return None
            job = JobOutcomes(tuple(head["targets"]))
            for text in file:
                settle(job, text)
            return job
    except FileNotFoundError:
        return None


def settle(job: JobOutcomes, text: bytes) -> None:
    """Take the outcome of one line; a line that is none is passed over."""
    outcome = _document(text)
    if outcome is not None and "agent" in outcome and "outcome" in outcome:
        job.settle(outcome)


def read_on(path: Path, offset: int) -> tuple[list[dict[str, Any]], int]:
    """Return some outcomes from an offset on, and the offset of the next ones; none is read in part."""
    try:
        with open(path, "rb") as file:
            file.seek(offset)
            lines = file.read(READ_MOST)
    except FileNotFoundError:
        return [], offset
    whole = lines[: lines.rfind(b"\n") + 1]
    documents = [document for document in map(_document, whole.split(b"\n")) if document is not None]
    return [document for document in documents if "agent" in document and "outcome" in document], offset + len(whole)


def _document(text: bytes) -> dict[str, Any] | None:
    try:
        document = json.loads(text)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def begin(path: Path, targets: tuple[str, ...]) -> None:
    """Make the file, with its targets. Raises OSError if it can't be written."""
    make_folder(path.parent)
    write_durably(path, line({"targets": list(targets)}), PRIVATE)


def forget(path: Path) -> None:
    """Delete the file, if there is one."""
    path.unlink(missing_ok=True)


def append(path: Path, outcomes: list[dict[str, Any]]) -> None:
    """Add outcomes, on lines of their own even after one that was cut off. Raises OSError if they can't be written."""
    with open(path, "ab") as file:
        file.write(b"\n" + b"".join(map(line, outcomes)))


def prune(folder: Path, now: float) -> None:
    """Delete the files that have had no new line for STALE_SECONDS. `now`: unix seconds."""
    for path in folder.glob(f"*{ENDING}"):
        if path.stat().st_mtime < now - STALE_SECONDS:
            path.unlink(missing_ok=True)
