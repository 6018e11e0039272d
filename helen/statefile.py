"""STATE/states.json.gz: the timeline as it was after some record of the journal, so that a start needn't replay it all.

A cache: what is in it follows from the journal. One that is missing or damaged costs time, not states. Gzip of lines of
JSON: `at` and everything but the states, then one state a line.
"""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Iterator
from pathlib import Path

from helen.judged import State
from helen.statedir import write_whole
from helen.timeline import Timeline

NAME = "states.json.gz"
FORMAT = 1
LEVEL = 1  # of gzip: a tenth of the size for a fifth of the time of the usual 9


class StatesUnreadable(Exception):
    """The file can't be used; the text is a sentence for the log."""


def save(folder: Path, at: int, timeline: Timeline) -> None:
    """Replace the file; blocks (some 10 us per state), so it is for a thread. Raises OSError."""
    write_whole(folder / NAME, gzip.compress("\n".join(_lines(at, timeline)).encode(), LEVEL))


def _lines(at: int, timeline: Timeline) -> Iterator[str]:
    yield json.dumps({"format": FORMAT, "at": at, **timeline.header()})
    for (agent, check_id), state in timeline.states.items():
        yield json.dumps([agent, check_id, state.to_json()])


def load(folder: Path) -> tuple[int, Timeline] | None:
    """The `at` of the last record in it, and the timeline; None where there is no file. Raises StatesUnreadable."""
    path = folder / NAME
    try:
        with gzip.open(path, "rb") as packed, io.TextIOWrapper(packed, "utf-8") as lines:
            header = json.loads(next(lines, "null"))
            if not isinstance(header, dict) or header.get("format") != FORMAT:
                raise StatesUnreadable(f"{path} is of another version; states are made again from the journal")
            states = ((agent, check_id, State.from_json(each)) for agent, check_id, each in map(json.loads, lines))
            return header["at"], Timeline.restore(header, states)
    except FileNotFoundError:
        return None
    except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError, IndexError) as error:
        raise StatesUnreadable(f"{path} can't be read ({error}); states are made again from the journal") from error
