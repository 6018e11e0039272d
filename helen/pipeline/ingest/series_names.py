"""Numbers Helens and series for the lake: Helens by the id in their history, series by (agent, check_id).

Each Helen numbers its own series. Here a series has one number whichever Helen it came through, so that an agent that
moves stays one series. A number is published before the first row that carries it, and never changes its meaning: a run
after a crash finds the same number again. Histories have more names than rows: those of rows alone are published.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from helen.pipeline.ingest.histories import History
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.schema import HELENS, SERIES, SPOOLS

NUMBERS = "numbers"  # transaction of the table `series`: numbers below this one are given
OWN_SPOOL = "helen"  # numbered by each Helen on its own: the same triple in two histories is two results


class SeriesNames:
    """Keeps the lake's numbers in memory, for the writer."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._helens: dict[str, int] = {row["id"]: row["helen"] for row in lake.rows("helens")}
        self._folders: dict[str, str] = {row["id"]: row["folder"] for row in lake.rows("helens")}
        self._series: dict[tuple[str, str], int] = {}
        self._checks: dict[int, str | None] = {}
        for row in sorted(lake.rows("series"), key=lambda row: row["series"]):
            self._series[row["agent"], row["check_id"]] = row["series"]
            self._checks[row["series"]] = row["check"]
        # Numbers rise for ever: one whose name was forgotten is not given again.
        self._next = max([0, lake.done("series", NUMBERS), *(series + 1 for series in self._checks)])
        self._unnamed: dict[tuple[str, str], int] = {}
        self._mapped: tuple[Mapping[int, object], pa.Table] | None = None  # the last answer of `map`, and its files
        self._spools: dict[tuple[str, str], set[int]] = defaultdict(set)
        for row in lake.rows("spools"):
            self._spools[row["agent"], row["spool"]].add(row["helen"])

    def number(self, histories: Sequence[History]) -> dict[int, History]:
        """Return the histories by their numbers in this lake."""
        numbered = {}
        for history in histories:
            identity = history.identity()
            numbered[self._helens.setdefault(identity, len(self._helens))] = history
            self._folders[identity] = str(history.folder)
        rows = [(number, identity, self._folders[identity]) for identity, number in self._helens.items()]
        if rows != [tuple(row.values()) for row in self._lake.rows("helens")]:
            self._replace("helens", rows, HELENS.columns)
        return numbered

    def map(self, histories: Mapping[int, History]) -> pa.Table:
        """Return (helen, series_id) -> series and agent, for all series that these Helens have numbered so far.

        A series without a name in the lake has a number, too; call `name` before the first row of it is published. It
        is the same table as before while there are no new ones. A check's new name is published.
        """
        stamps = {helen: history.series_stamp() for helen, history in histories.items()}
        if self._mapped is None or self._mapped[0] != stamps:
            self._mapped = stamps, self._map(histories)
        return self._mapped[1]

    def _map(self, histories: Mapping[int, History]) -> pa.Table:
        """Make the table anew. A series that couldn't be published stays unknown: the next attempt must publish it."""
        checks, unnamed = dict(self._checks), dict(self._unnamed)
        rows: list[tuple[int, int, int, str]] = []
        for helen, history in histories.items():
            for series_id, agent, check_id, check in history.series():
                series = self._series.get((agent, check_id))
                if series is None:
                    series = unnamed.setdefault((agent, check_id), self._next + len(unnamed) - len(self._unnamed))
                if check is not None or series not in checks:
                    checks[series] = check
                rows.append((helen, series_id, series, agent))
        if any(checks[series] != self._checks[series] for series in self._series.values()):
            self._publish(self._series, checks)
        self._next += len(unnamed) - len(self._unnamed)
        self._unnamed, self._checks = unnamed, checks
        columns = [("helen", pa.int32()), ("series_id", pa.int32()), ("series", pa.int32()), ("agent", pa.string())]
        return _table(rows, pa.schema(columns))

    def name(self, columns: Iterable[pa.ChunkedArray]) -> None:
        """Publish the names of those of these series that have none yet: rows of them are about to be published.

        A name comes with its first row, so that one whose rows were all forgotten stays forgotten, though the history
        of its Helen still has it.
        """
        if not self._unnamed:
            return
        found = {series for column in columns for series in column.unique().to_pylist()}
        new = {name: series for name, series in self._unnamed.items() if series in found}
        if new:
            named = self._series | new
            self._publish(named, self._checks)
            self._series = named
            self._unnamed = {name: series for name, series in self._unnamed.items() if name not in new}

    def _publish(self, named: Mapping[tuple[str, str], int], checks: Mapping[int, str | None]) -> None:
        ordered = sorted((series, *name) for name, series in named.items())
        self._replace("series", [(*each, checks[each[0]]) for each in ordered], SERIES.columns)

    def agents(self) -> list[str | None]:
        """Return the agent of each series, by the number of the series; None for a number that has no name."""
        found: list[str | None] = [None] * self._next
        for (agent, _), series in (self._series | self._unnamed).items():
            found[series] = agent
        return found

    def shared(self, seen: Iterable[tuple[int, str, str]]) -> set[tuple[str, str]]:
        """Return as (agent, spool) those of these (helen, agent, spool) that another Helen has seen, too."""
        names = set(seen)
        new = sorted(name for name in names if name[0] not in self._spools[name[1:]])
        if new:
            self._lake.publish("spools", self._lake.stage_rows("spools", _table(new, SPOOLS.columns)), {})
        for helen, *spool in new:
            self._spools[spool[0], spool[1]].add(helen)
        return {(agent, spool) for _, agent, spool in names if len(self._spools[agent, spool]) > 1}

    def _replace(self, table: str, rows: Sequence[tuple[object, ...]], schema: pa.Schema) -> None:
        before = self._lake.files(table)
        staged = self._lake.stage_rows(table, _table(rows, schema))
        self._lake.publish(table, staged, {}, before)


def _table(rows: Sequence[tuple[object, ...]], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [() for _ in schema]
    return pa.Table.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )
