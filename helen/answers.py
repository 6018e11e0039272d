"""What agents said to questions that outlive a restart: a file of lines for each, `STATE/jobs/ID.ndjson`.

The first line names the targets, each further one is an outcome. Nothing is synced: what a power cut takes is asked
again, and the journal has every answer anyway. All of it blocks; call it in a thread.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from helen.question import LONGEST_WAIT, Question, line
from helen.statedir import PRIVATE, make_folder, write_whole

KEEP_SECONDS = 7 * 86_400.0  # after its end a question is remembered; ZeroTask keeps the result as long
STALE_SECONDS = LONGEST_WAIT + KEEP_SECONDS  # without a new line; no question is open for longer
READ_MOST = 1024 * 1024  # bytes at a time for one who follows; longer than any line but the first, of names
ENDING = ".ndjson"


def load(path: Path) -> Question | None:
    """A question as its file has it; None without one. The last line may have been cut off, by a crash."""
    try:
        with open(path, "rb") as file:
            head = _document(file.readline())
            if head is None or not isinstance(head.get("targets"), list):
                return None
            question = Question(tuple(head["targets"]))
            for text in file:
                settle(question, text)
            return question
    except FileNotFoundError:
        return None


def settle(question: Question, text: bytes) -> None:
    outcome = _document(text)
    if outcome is not None and "agent" in outcome and "outcome" in outcome:
        question.settle(outcome)


def read_on(path: Path, offset: int) -> tuple[list[dict[str, Any]], int]:
    """Some outcomes from there on, and where the next ones will be; none is read in part."""
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
    make_folder(path.parent)
    write_whole(path, line({"targets": list(targets)}), PRIVATE)


def forget(path: Path) -> None:
    path.unlink(missing_ok=True)


def append(path: Path, outcomes: list[dict[str, Any]]) -> None:
    """After a line that was cut off a new one begins."""
    with open(path, "ab") as file:
        file.write(b"\n" + b"".join(map(line, outcomes)))


def prune(folder: Path, now: float) -> None:
    """Away with what nobody has written to for long."""
    for path in folder.glob(f"*{ENDING}"):
        if path.stat().st_mtime < now - STALE_SECONDS:
            path.unlink(missing_ok=True)
