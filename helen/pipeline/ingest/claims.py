"""Makes sure that a history goes into one lake: Helen deletes what one lake has, so a second one would miss it.

    HISTORY/pipeline-lake     {"lake": "4f0c...", "folder": "/var/lib/helen/history/lake"}
    LAKE/lake-id              4f0c...

A lake that was moved keeps its id; one that was deleted, or that is made anew in the same place, gives its claim up.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path

from groundwork.atomic_write import PUBLIC, write_durably
from groundwork.presence import read_if_there
from helen.pipeline.ingest.histories import History
from helen.pipeline.lake.errors import PipelineError
from helen.pipeline.lake.places import read_bytes, write_bytes

CLAIM, IDENTITY = "pipeline-lake", "lake-id"


def identity_of(lake: Path) -> str:
    """Return the id of a lake, made at first sight. Raises OSError."""
    known = _read_identity(lake)
    if known is not None:
        return known
    made = uuid.uuid4().hex
    write_bytes(lake / IDENTITY, made.encode() + b"\n")
    return made


def claim(history: History, lake: Path) -> None:
    """Have this history belong to this lake. Raises PipelineError if another lake has it that is still there.

    So it does if that can't be told: a claim that is written over is lost.
    """
    path = history.folder / CLAIM
    try:
        identity, other = identity_of(lake), _read_claim(path)
        is_taken = other is not None and other[0] != identity and _read_identity(Path(other[1])) == other[0]
    except OSError as error:
        raise PipelineError(
            f"It can't be told whether {history.folder} goes into another lake already ({error}): make readable {path},"
            f" and the {IDENTITY} of {lake} and of the lake that is named there."
        ) from error
    if other is not None and is_taken:
        raise PipelineError(
            f"{history.folder} goes into the lake {other[1]} already, and Helen deletes what that one has: a second"
            f" lake would miss it. To go on with {lake} instead, delete {path}."
        )
    if other != (identity, str(lake)):
        write_durably(path, json.dumps({"lake": identity, "folder": str(lake)}).encode(), PUBLIC)


def check_claim(history: History, lake: Path) -> None:
    """Raise PipelineError if another lake has claimed this history since this one did.

    Raises OSError if that can't be told.
    """
    other = _read_claim(history.folder / CLAIM)
    if other is not None and other[0] != _read_identity(lake):
        raise PipelineError(
            f"{history.folder} now goes into the lake {other[1]}: a history goes into one lake, so this run ends."
        )


def _read_identity(lake: Path) -> str | None:
    """Return the id of a lake; None where there is none, or no text. Raises OSError if it can't be read."""
    try:
        return read_bytes(lake / IDENTITY).decode("ascii").strip() or None
    except (FileNotFoundError, NotADirectoryError, UnicodeDecodeError):
        return None


def _read_claim(path: Path) -> tuple[str, str] | None:
    """Return the id and the folder of the lake; None where there is no claim, or its content is none.

    Raises OSError if it can't be read.
    """
    data = read_if_there(path)
    try:
        found = json.loads(data or b"null")
        return str(found["lake"]), str(found["folder"])
    except (ValueError, LookupError, TypeError):
        return None
