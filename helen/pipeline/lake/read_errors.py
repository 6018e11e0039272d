"""Says why a segment or a file of the lake could not be read, wherever it lies, and in which words that is told."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from groundwork.read_errors import OF_FILE, Cause, advice_for, cause_of
from helen.pipeline.lake.errors import BadSegment, OutOfResources
from helen.pipeline.lake.places import size_of
from helen.pipeline.lake.stores import is_stored

PROGRAM = "helen-pipeline"
CAUSED = "Caused by: "
READ_ERRORS = (OSError, MemoryError, pa.ArrowException)


def cause_at(error: BaseException, path: Path | str) -> Cause:
    """Return why this file could not be read.

    Arrow has no number for content that is wrong, and none for an object store that gives no answer: the latter is
    asked once more.
    """
    if isinstance(error, pa.ArrowException) and not isinstance(error, MemoryError):
        return Cause.CONTENT
    cause = cause_of(error)
    if cause is Cause.CONTENT and not isinstance(error, FileNotFoundError) and is_stored(path):
        return cause if _answers(Path(path)) else Cause.OTHER
    return cause


def is_of_file(error: BaseException, path: Path | str) -> bool:
    """Return True if the error is a property of the file, not of the process, the machine or a store."""
    return cause_at(error, path) in OF_FILE


def first_line(error: BaseException) -> str:
    """Return the line of an exception that is of use to people: Java's have pages, and begin with our own call."""
    lines = [line.strip().removeprefix(": ") for line in str(error).splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling"):
        lines = lines[1:]
    if lines and lines[0].endswith("awaitResult:"):  # it says nothing; what is at the root names the file
        lines = [line.removeprefix(CAUSED) for line in lines if line.startswith(CAUSED)][-1:] or lines
    return (lines or [type(error).__name__])[0][:500]


def with_advice(text: str, error: BaseException) -> str:
    """Return a text on an error, followed by what to do if descriptors, memory, rights or a disk are at its root."""
    advice = advice_for(error, PROGRAM)
    return f"{text.rstrip('.')}. {advice}" if advice and advice not in text else text


def lack_of(path: Path | str, error: BaseException) -> str:
    """Return the sentences on a file that could not be read and may be sound."""
    return f"{path} could not be read ({first_line(error)}) and may be sound. {advice_for(error, PROGRAM)}".rstrip()


def segment_error(helen: int, kind: str, number: int, path: Path | str, error: BaseException) -> Exception:
    """Return the error to be raised for a segment that could not be read: BadSegment only if that is a property of
    the file."""
    if is_of_file(error, path):
        return BadSegment(helen, kind, number, path, error)
    return OutOfResources(lack_of(path, error))


def _answers(path: Path) -> bool:
    try:
        size_of(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
