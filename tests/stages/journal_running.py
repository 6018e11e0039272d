"""Runs a journal on a temporary folder whose threads' calls are collected, and makes results in few words."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from patience import Patience

from helen.journal.journal import Journal, inner_spool
from helen.journal.values import Ack, Batch, Entry, Origin, Recovery, Trouble

PATIENCE = 60.0  # seconds that a test waits for another thread before it fails
NOW = 1_800_000_000.0


def blob(status: str = "ok", **fields: Any) -> bytes:
    return json.dumps({"status": status, "summary": "fine", **fields}).encode()


def entry(
    sequence: int, agent: str = "web1", spool: str = "s1", check_id: str = "cpu", content: bytes | None = None
) -> Entry:
    return Entry(agent, check_id, None, spool, sequence, Origin.SCHEDULED, NOW, blob() if content is None else content)


def mark_of(journal: Journal, agent: str, spool: str) -> tuple[int, list[tuple[int, int]]]:
    """Return how far an agent's spool is counted without a hole, and the spans behind the first one."""
    numbering = journal._numbering
    assert numbering is not None
    marks = {(row[0], row[1]): (row[2], row[4]) for row in numbering.marks.rows()}
    return marks.get((agent, inner_spool(spool)), (0, []))


class TurnedJournal(Journal):
    """Hands its last batches over when it is closed, as with a reactor that still turns."""

    turn: Callable[[], None]

    def close(self) -> None:
        super().close()
        self.turn()


class Running:
    """Runs a journal, and keeps all that it said. The caller's thread is that of the test: whatever asks for news has a
    turn first.
    """

    def __init__(self, state: Path, **options: Any) -> None:
        self.state = state
        self.history = state / "history"
        self.segments = state / "history" / "segments"
        self._batches: list[Batch] = []
        self._troubles: list[Trouble] = []
        self._calls: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._news = threading.Condition()
        options.setdefault("clock", lambda: NOW)
        self.journal = TurnedJournal(
            state / "journal", state / "history", self._call, self._batches.append, self._troubles.append, **options
        )
        self.journal.turn = self.turn
        self.recovery = Recovery()

    def _call(self, function: Callable[..., None], *arguments: Any) -> None:
        with self._news:
            self._calls.append((function, arguments))
            self._news.notify_all()

    def turn(self) -> None:
        """Make the calls that the journal's threads have asked for."""
        while self._calls:
            function, arguments = self._calls.popleft()
            function(*arguments)

    @property
    def batches(self) -> list[Batch]:
        self.turn()
        return self._batches

    @property
    def troubles(self) -> list[Trouble]:
        self.turn()
        return self._troubles

    def open(self) -> Running:
        self.recovery = self.journal.open()
        return self

    def until(self, happened: Callable[[], bool]) -> None:
        """Wait for the threads, at most PATIENCE."""
        bound = Patience(PATIENCE)
        while not happened():
            self.turn()
            with self._news:
                if not self._calls:
                    self._news.wait(0.02)
            assert bound.lasts(), f"nothing happened: {self.batches}, {self.troubles}"

    def until_records(self, count: int) -> None:
        self.until(lambda: sum(len(batch.records) for batch in self.batches) >= count)

    def until_segment(self, number: int) -> None:
        self.until(lambda: self.journal.segment >= number)

    @property
    def records(self) -> list[Any]:
        return [record for batch in self.batches for record in batch.records]

    @property
    def acks(self) -> list[Ack]:
        return [ack for batch in self.batches for ack in batch.acks]

    def high(self, agent: str = "web1", spool: str = "s1") -> int:
        """Return the highest ack that came back, or 0."""
        return max((ack.sequence for ack in self.acks if (ack.agent, ack.spool) == (agent, spool)), default=0)

    def rows(self, kind: str = "seg") -> list[dict[str, Any]]:
        """Return all rows of all segments, in the order of their numbers."""
        paths = sorted(self.segments.glob(f"{kind}-*.parquet"))
        return [row for path in paths for row in pq.read_table(path).to_pylist()]

    def names(self) -> list[str]:
        return sorted(path.name for path in self.segments.iterdir())
