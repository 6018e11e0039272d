"""Keeps the changes of the journal as server-sent events, in order: the newest in memory, older ones in segments.

An id is `EPOCH.AT`: the journal's own number of the record, which a restart doesn't change, behind a random text that
is made with the state directory, so that ids of another Helen are recognized. Only durable changes are here. The frame
of a change is made once, for all its readers.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from attrs import frozen

from helen.evaluation.replay import CHANGE_COLUMNS, HistoryRecord, read_change, series_names, to_microsecond
from helen.evaluation.segment_footers import first_from, last_at
from helen.journal import lazy_parquet as pq
from helen.journal.unread import demand_content
from helen.journal.values import Batch, StoredChange, StoredResult

MOST_LINES = 20_000  # in memory: an hour of a busy fleet, and more than a WAL that is not sealed yet has
MOST_BYTES = 32 * 1024 * 1024  # of them: rules of a great schedule have 100 KiB each
SLACK = 1_000  # lines above that before the oldest are dropped, so that the list is cut seldom
MOST_FILES = 2_000  # segments that a replay reads: five hours at one each 10 s, years of a quiet fleet
ENOUGH = 1_000  # lines of one step of a replay: some 10 ms in a thread
ID = re.compile(r"([0-9a-f]{8})\.([0-9]{1,18})")


class TooOld(Exception):
    """Says that not all changes after an id are kept any more; the text says why."""


@frozen
class Line:
    """Holds one change as a frame of server-sent events. `received` is in unix seconds."""

    at: int
    kind: str
    agent: str | None
    check_id: str | None
    frame: bytes
    received: float = 0.0

    @property
    def data(self) -> bytes:
        """Return the JSON object in the frame."""
        return self.frame.partition(b"\ndata: ")[2].rstrip(b"\n")


class EventLog:
    """Has every durable change by its number `at`. Segments have all up to `sealed_at()`."""

    def __init__(self, epoch: str, history: Path, sealed_at: Callable[[], int], newest: int) -> None:
        self.epoch = epoch
        self.newest = newest  # of all records, results included: `take` had everything up to it
        self.floor = newest  # changes above it are in memory
        self.listeners: list[Callable[[], None]] = []
        self.watched: dict[str, list[Callable[[StoredResult], None]]] = {}  # agent -> those that follow its results
        self._history = history
        self._sealed_at = sealed_at
        self._ats: list[int] = []
        self._lines: list[Line] = []
        self._bytes = 0

    # ---------------------------------------------------------------------------------------------- coming in

    def recall(self, records: Sequence[StoredResult | StoredChange]) -> None:
        """Take the newest records of before this start, all of them up to `newest`."""
        if records:
            self.floor = min(self.floor, records[0].at - 1)
            self._take(Batch(records=tuple(records)))

    def take(self, batch: Batch) -> None:
        """Take records that have become durable, in their order, and tell the listeners of new changes."""
        if self._take(batch):
            for listener in self.listeners:
                listener()

    def _take(self, batch: Batch) -> bool:
        before = len(self._lines)
        if batch.records:
            self.newest = max(self.newest, batch.records[-1].at)
        for result in batch.results if self.watched else ():
            for tell in self.watched.get(result.entry.agent, ()):
                tell(result)
        for change in batch.changes:
            if not self._ats or change.at > self._ats[-1]:
                line = self._line_of(change)
                self._ats.append(line.at)
                self._lines.append(line)
                self._bytes += len(line.frame)
        found = len(self._lines) > before
        if len(self._lines) > MOST_LINES + SLACK or self._bytes > MOST_BYTES:
            self._drop_oldest()
        return found

    def _drop_oldest(self) -> None:
        cut, size = max(0, len(self._lines) - MOST_LINES), 0
        for line in self._lines[:cut]:
            size += len(line.frame)
        while self._bytes - size > MOST_BYTES * 3 // 4 and cut < len(self._lines):
            size += len(self._lines[cut].frame)
            cut += 1
        self.floor = self._ats[cut - 1]
        self._bytes -= size
        del self._ats[:cut], self._lines[:cut]

    def _line_of(self, stored: StoredChange) -> Line:
        change = stored.change
        received = to_microsecond(change.received)
        return self._line(stored.at, change.kind, received, change.agent, change.check_id, change.document)

    def _line(
        self, at: int, kind: str, received: float, agent: str | None, check_id: str | None, document: bytes
    ) -> Line:
        about = json.dumps({"kind": kind, "received": received, "agent": agent, "check_id": check_id})
        data = b'%b, "document": %b}' % (about[:-1].encode(), document)
        return Line(at, kind, agent, check_id, b"id: %b\nevent: %b\ndata: %b\n\n" % (self.id_of(at).encode(),
                    kind.encode(), data), received)  # fmt: skip

    # ---------------------------------------------------------------------------------------------- going out

    def id_of(self, at: int) -> str:
        return f"{self.epoch}.{at}"

    def place(self, event_id: str) -> int:
        """Return the number in an id. Raises TooOld if the id is of another Helen, or newer than the newest record."""
        match = ID.fullmatch(event_id)
        if match is None or match[1] != self.epoch:
            raise TooOld("that id is of another Helen, or of another state directory")
        if int(match[2]) > self.newest:
            raise TooOld("that id is newer than everything here: was the state directory put back from a copy?")
        return int(match[2])

    def after(self, at: int, most: int) -> list[Line]:
        """Return up to `most` changes after a place that is not below `floor`."""
        first = bisect_right(self._ats, at)
        return self._lines[first : first + most]

    def older(self, at: int) -> tuple[list[Line], int] | None:
        """Read the next lines after a place below `floor` from segments; return them and the place where they end.

        It blocks, and is for a thread. None: the segments don't have them yet; ask again in a second. Raises TooOld if
        they are not all there.
        """
        until = self.floor
        if self._sealed_at() < until:
            return None
        lines: list[Line] = []
        files = self._files_after(at)
        names = series_names(self._history / "series.parquet") if files else {}
        for path in files:
            lines += self._read(path, names, at, until)
            if len(lines) >= ENOUGH:
                return lines, lines[-1].at
        return lines, until

    def _files_after(self, at: int) -> list[Path]:
        """Return the files with something above a place. Raises TooOld if one of them is missing."""
        files = sorted((self._history / "segments").glob("chg-*.parquet"))
        low = first_from(files, lambda path: last_at(path) <= at)
        wanted, numbers = files[low:], [_number(path) for path in files[low:]]
        if len(wanted) > MOST_FILES:
            raise TooOld(f"that is more than {MOST_FILES} segments ago")
        if numbers and numbers[-1] - numbers[0] + 1 != len(numbers):
            raise TooOld("a segment of the history is missing since then")
        if low == 0 and wanted and numbers[0] > 1:
            raise TooOld("that is longer ago than the history is kept")
        return wanted

    def _read(self, path: Path, names: Mapping[int, tuple[str, str]], at: int, until: int) -> list[Line]:
        def named(number: int | None) -> tuple[str | None, str | None]:
            return (None, None) if number is None else names.get(number, (None, None))

        try:
            rows = pq.read_table(path, columns=CHANGE_COLUMNS).to_pylist()
        except (OSError, pa.ArrowException) as error:
            demand_content(path, error)
            raise TooOld(f"a segment of the history can't be read: {path.name}") from error
        past = sorted((read_change(row, named) for row in rows if at < row["at"] <= until), key=lambda each: each.at)
        return [self.line_of(each) for each in past]

    def kept_above(self, floor: int) -> list[Line]:
        """Return all lines in memory above a place, in their order."""
        return self._lines[bisect_right(self._ats, floor) :]

    def is_sealed(self) -> bool:
        """Return True if segments have all that memory has not."""
        return self._sealed_at() >= self.floor

    def line_of(self, past: HistoryRecord) -> Line:
        """Return a change of a segment, or of the lake, as the line that it was when it came."""
        agent = past.agent
        if agent is None:  # a change of an agent as a whole has its name in its document
            said = json.loads(past.document).get("agent")
            agent = said if isinstance(said, str) else None
        return self._line(past.at, past.kind, past.received, agent, past.check_id, past.document.encode())


def _number(path: Path) -> int:
    return int(path.stem.rpartition("-")[2])
