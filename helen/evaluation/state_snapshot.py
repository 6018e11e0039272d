"""Saves the timeline as STATE/states.json.gz, as it was after some record of the journal, so that a start is fast.

The file is a cache: its content follows from the journal, and one that is missing or damaged costs time, not states.
It is gzip of lines of JSON: `at` and everything but the states, then one state a line.
"""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Iterator
from pathlib import Path

from groundwork.atomic_write import write_durably
from helen.journal.unread import demand_content
from helen.states.fleet_timeline import Timeline
from helen.states.model import State
from helen.states.timeline_snapshot import header_of, restore

NAME = "states.json.gz"
FORMAT = 1
LEVEL = 1  # of gzip: a tenth of the size for a fifth of the time of the usual 9


class StatesUnreadable(Exception):
    """Says that the file of states can't be used; the text is a sentence for the log."""


def save(folder: Path, at: int, timeline: Timeline) -> None:
    """Replace the file. It blocks (some 10 us per state), so it is for a thread. Raises OSError."""
    write_durably(folder / NAME, gzip.compress("\n".join(_lines(at, timeline)).encode(), LEVEL))


def _lines(at: int, timeline: Timeline) -> Iterator[str]:
    yield json.dumps({"format": FORMAT, "at": at, **header_of(timeline)})
    for (agent, check_id), state in timeline.states.items():
        yield json.dumps([agent, check_id, state.to_json()])


def at_of(packed: bytes) -> int | None:
    """Return the `at` of the last record in a file of these bytes; None if it is damaged or of another version."""
    try:
        with gzip.open(io.BytesIO(packed)) as lines:
            header = json.loads(next(iter(lines), b"null"))
        return int(header["at"]) if header["format"] == FORMAT else None
    except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError):
        return None


def load(folder: Path) -> tuple[int, Timeline] | None:
    """Return the `at` of the last record in the file, and the timeline; None if there is no file.

    Raises StatesUnreadable if the file is damaged or of another version, HistoryUnread if it can't be read now.
    """
    path = folder / NAME
    try:
        with gzip.open(path, "rb") as packed, io.TextIOWrapper(packed, "utf-8") as lines:
            header = json.loads(next(lines, "null"))
            if not isinstance(header, dict) or header.get("format") != FORMAT:
                raise StatesUnreadable(f"{path} is of another version; states are made again from the journal")
            states = ((agent, check_id, State.from_json(each)) for agent, check_id, each in map(json.loads, lines))
            return header["at"], restore(header, states)
    except FileNotFoundError:
        return None
    except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError, IndexError) as error:
        demand_content(path, error)
        raise StatesUnreadable(f"{path} can't be read ({error}); states are made again from the journal") from error
