"""Numbers the series: (agent, check_id) -> series_id, in history/series.parquet. Integers halve Spark's cost.

A number is given once and never changes its meaning; the check's name beside it is the one seen last.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa

from groundwork.presence import is_there
from helen.journal import lazy_parquet as pq
from helen.journal.values import JournalDamaged

SERIES = pa.schema(
    [
        pa.field("series_id", pa.int32(), nullable=False),
        pa.field("agent", pa.string(), nullable=False),
        pa.field("check_id", pa.string(), nullable=False),
        pa.field("check", pa.string()),
    ]
)
# Check ids that one agent may fill the table with. A schedule has dozens; an agent that invents an id for each report
# would otherwise grow a file that is rewritten every 10 s. Its further ids share one series; the blobs are kept.
MOST_PER_AGENT = 4096
PIECE_ROWS = 5_000  # of the table, as it is made
OVERFLOW_CHECK_ID = "equus:too-many-checks"


class Series:
    """Holds the table in memory, for the thread that builds rows."""

    def __init__(self) -> None:
        self._ids: dict[tuple[str, str], int] = {}
        self._keys: list[tuple[str, str]] = []  # of `_ids`: another thread may read a list that grows
        self._checks: list[str | None] = []
        self._per_agent: dict[str, int] = {}
        self._changed = False
        self.most = MOST_PER_AGENT  # of one agent; smaller than what the table has: then it takes no more of them
        self.left_out: dict[str, int] = {}  # agent -> results whose series is the shared one, since this start

    def __len__(self) -> int:
        return len(self._ids)

    def number(self, agent: str, check_id: str, check: str | None) -> int:
        """Return the series_id; a new one where the pair is new."""
        number = self._ids.get((agent, check_id))
        if number is None:
            return self._new(agent, check_id, check)
        if check is not None and check != self._checks[number]:
            self._checks[number] = check
            self._changed = True
        return number

    def _new(self, agent: str, check_id: str, check: str | None) -> int:
        if self._per_agent.get(agent, 0) >= self.most and check_id != OVERFLOW_CHECK_ID:
            self.left_out[agent] = self.left_out.get(agent, 0) + 1
            return self.number(agent, OVERFLOW_CHECK_ID, None)
        return self._add(agent, check_id, check)

    def _add(self, agent: str, check_id: str, check: str | None) -> int:
        number = len(self._checks)
        key = agent, check_id
        self._ids[key] = number
        self._keys.append(key)
        self._checks.append(check)
        self._per_agent[agent] = self._per_agent.get(agent, 0) + 1
        self._changed = True
        return number

    def names(self) -> list[tuple[str, str]]:
        """Return (agent, check_id) of all, by number."""
        return self._keys[:]

    def fixed(self) -> FixedSeries:
        """Return a view for another thread, which finds only numbers that were given already."""
        return FixedSeries(self._ids)

    def take_changes(self) -> Callable[[], pa.Table] | None:
        """Return a function that makes the whole table if that has changed: it must be on disk before a segment that
        needs it.

        Another thread may call it: of 500,000 series the table takes a second.
        """
        if not self._changed:
            return None
        self._changed = False
        return partial(self.table, len(self._keys))

    def table(self, most: int | None = None) -> pa.Table:
        """Return all series, or so many of the first, by number; in pieces, which hold the interpreter for 1 ms."""
        keys = self._keys[:most]
        pieces = [self._piece(keys, first) for first in range(0, len(keys), PIECE_ROWS)]
        return pa.Table.from_batches(pieces, SERIES)

    def _piece(self, keys: list[tuple[str, str]], first: int) -> pa.RecordBatch:
        some = keys[first : first + PIECE_ROWS]
        return pa.RecordBatch.from_arrays(
            [
                pa.array(range(first, first + len(some)), pa.int32()),
                pa.array([agent for agent, _ in some], pa.string()),
                pa.array([check_id for _, check_id in some], pa.string()),
                pa.array(self._checks[first : first + len(some)], pa.string()),
            ],
            schema=SERIES,
        )


class FixedSeries:
    """Looks numbers up and changes nothing: for rows that were numbered once and are read back."""

    def __init__(self, ids: dict[tuple[str, str], int]) -> None:
        self._ids = ids

    def number(self, agent: str, check_id: str, check: str | None) -> int:
        """Return the series_id; `check` is known already."""
        number = self._ids.get((agent, check_id))
        return self._ids[agent, OVERFLOW_CHECK_ID] if number is None else number


def load(path: Path) -> Series:
    """Read series.parquet; no file is an empty table. Raises JournalDamaged if it is unreadable or names one twice."""
    series = Series()
    try:
        if not is_there(path):
            return series
        rows = pq.read_table(path, schema=SERIES).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise JournalDamaged(
            f"{path} can't be read ({error}). Segments name their series by the numbers in it: restore it from a backup"
            " or move the whole history folder away to begin a new one."
        ) from error
    for expected, row in enumerate(rows):
        key = row["agent"], row["check_id"]
        if key in series._ids or series._add(*key, row["check"]) != expected:
            raise JournalDamaged(f"{path} names {row['agent']}/{row['check_id']} twice; restore it from a backup.")
    series.take_changes()
    return series
