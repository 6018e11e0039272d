"""What agents said to questions that outlive a restart: a file of lines for each, `STATE/jobs/ID.ndjson`.

The first line names the targets, each further one is an outcome. Nothing is synced: what a power cut takes is asked
again, and the journal has every answer anyway. All of it blocks; call it in a thread.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from attrs import field, frozen

from helen.question import LONGEST_WAIT, line
from helen.statedir import PRIVATE, make_folder, write_whole

KEEP_SECONDS = 7 * 86_400.0  # after its end a question is remembered; ZeroTask keeps the result as long
STALE_SECONDS = LONGEST_WAIT + KEEP_SECONDS  # without a new line; no question is open for longer
ENDING = ".ndjson"


@frozen
class Kept:
    """A file that was read; without one there are no targets."""

    targets: tuple[str, ...] = ()
    outcomes: list[dict[str, Any]] = field(factory=list)


def read(path: Path) -> Kept:
    """What is there. The last line may have been cut off in the middle, by a crash."""
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return Kept()
    documents = [document for document in map(_document, lines) if document is not None]
    if not documents or not isinstance(documents[0].get("targets"), list):
        return Kept()
    return Kept(tuple(documents[0]["targets"]), [each for each in documents[1:] if "agent" in each])


def _document(text: bytes) -> dict[str, Any] | None:
    try:
        document = json.loads(text)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def begin(path: Path, targets: tuple[str, ...]) -> None:
    make_folder(path.parent)
    write_whole(path, line({"targets": list(targets)}), PRIVATE)


def append(path: Path, outcomes: list[dict[str, Any]]) -> None:
    """After a line that was cut off a new one begins."""
    with open(path, "ab") as file:
        file.write(b"\n" + b"".join(map(line, outcomes)))


def prune(folder: Path, now: float) -> None:
    """Away with what nobody has written to for long."""
    for path in folder.glob(f"*{ENDING}"):
        if path.stat().st_mtime < now - STALE_SECONDS:
            path.unlink(missing_ok=True)
