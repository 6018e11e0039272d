"""The numbers of the series: (agent, check_id) -> series_id, in history/series.parquet. Integers halve Spark's cost.

A number is given once and never changes its meaning; the check's name beside it is the one seen last.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from helen import parquet as pq
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
OVERFLOW_CHECK_ID = "equus:too-many-checks"


class Series:
    """The table in memory. Used by the thread that builds rows."""

    def __init__(self) -> None:
        self._ids: dict[tuple[str, str], int] = {}
        self._checks: list[str | None] = []
        self._per_agent: dict[str, int] = {}
        self._changed = False

    def __len__(self) -> int:
        return len(self._ids)

    def number(self, agent: str, check_id: str, check: str | None) -> int:
        """The series_id; a new one where the pair is new."""
        number = self._ids.get((agent, check_id))
        if number is None:
            return self._new(agent, check_id, check)
        if check is not None and check != self._checks[number]:
            self._checks[number] = check
            self._changed = True
        return number

    def _new(self, agent: str, check_id: str, check: str | None) -> int:
        count = self._per_agent.get(agent, 0)
        if count >= MOST_PER_AGENT and check_id != OVERFLOW_CHECK_ID:
            return self.number(agent, OVERFLOW_CHECK_ID, None)
        number = len(self._checks)
        self._ids[agent, check_id] = number
        self._checks.append(check)
        self._per_agent[agent] = count + 1
        self._changed = True
        return number

    def names(self) -> list[tuple[str, str]]:
        """(agent, check_id), by number."""
        return list(self._ids)

    def fixed(self) -> FixedSeries:
        """For another thread: only numbers that were given already."""
        return FixedSeries(self._ids)

    def take_changes(self) -> pa.Table | None:
        """The whole table if anything changed since the last call: to be on disk before a segment that needs it."""
        if not self._changed:
            return None
        self._changed = False
        return self.table()

    def table(self) -> pa.Table:
        """All series, by number."""
        agents, check_ids = [agent for agent, _ in self._ids], [check_id for _, check_id in self._ids]
        return pa.Table.from_arrays(
            [
                pa.array(range(len(agents)), pa.int32()),
                pa.array(agents, pa.string()),
                pa.array(check_ids, pa.string()),
                pa.array(self._checks, pa.string()),
            ],
            schema=SERIES,
        )


class FixedSeries:
    """Looks numbers up and changes nothing: for rows that were numbered once and are read back."""

    def __init__(self, ids: dict[tuple[str, str], int]) -> None:
        self._ids = ids

    def number(self, agent: str, check_id: str, check: str | None) -> int:
        """The series_id; `check` is known already."""
        number = self._ids.get((agent, check_id))
        return self._ids[agent, OVERFLOW_CHECK_ID] if number is None else number


def load(path: Path) -> Series:
    """Read series.parquet; no file is an empty table."""
    series = Series()
    if not path.exists():
        return series
    try:
        rows = pq.read_table(path, schema=SERIES).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise JournalDamaged(
            f"{path} can't be read ({error}). Segments name their series by the numbers in it: restore it from a backup"
            " or move the whole history folder away to begin a new one."
        ) from error
    for expected, row in enumerate(rows):
        if series._new(row["agent"], row["check_id"], row["check"]) != expected:
            raise JournalDamaged(f"{path} names {row['agent']}/{row['check_id']} twice; restore it from a backup.")
    series.take_changes()
    return series
