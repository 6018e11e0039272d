"""Numbers Helens and series for the lake: Helens by the id in their history, series by (agent, check_id).

Each Helen numbers its own series. Here a series has one number whichever Helen it came through, so that an agent that
moves stays one series. A number is published before the first row that carries it, and never changes its meaning: a run
after a crash finds the same number again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from helen.pipeline.ingest.histories import History
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.schema import HELENS, SERIES, SPOOLS

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

        The names of new series are published first. It is the same table as before while there are no new ones.
        """
        stamps = {helen: history.series_stamp() for helen, history in histories.items()}
        if self._mapped is None or self._mapped[0] != stamps:
            self._mapped = stamps, self._map(histories)
        return self._mapped[1]

    def _map(self, histories: Mapping[int, History]) -> pa.Table:
        """Make the table anew. Series that couldn't be published stay unknown: the next attempt must publish them."""
        series_of, checks = dict(self._series), dict(self._checks)
        rows: list[tuple[int, int, int, str]] = []
        changed = False
        for helen, history in histories.items():
            for series_id, agent, check_id, check in history.series():
                series = series_of.setdefault((agent, check_id), len(series_of))
                known = checks.get(series, "")
                if known == "" or (check is not None and check != known):
                    checks[series] = check
                    changed = True
                rows.append((helen, series_id, series, agent))
        if changed:
            names = [(series, *name, checks[series]) for name, series in series_of.items()]
            self._replace("series", names, SERIES.columns)
        self._series, self._checks = series_of, checks
        columns = [("helen", pa.int32()), ("series_id", pa.int32()), ("series", pa.int32()), ("agent", pa.string())]
        return _table(rows, pa.schema(columns))

    def agents(self) -> list[str]:
        """Return the agent of each series, by the number of the series."""
        return [agent for agent, _ in sorted(self._series, key=lambda name: self._series[name])]

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
