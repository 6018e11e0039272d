"""Numbers of the lake for names of the world: Helens by the id in their history, series by (agent, check_id).

Each Helen numbers her series herself. Here a series has one number whichever Helen it came through, so that an agent
that moves stays one series. A number is published before the first row that carries it, and never changes its meaning:
whatever crashes afterwards finds the same number again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from helen.pipeline.histories import History
from helen.pipeline.lake import Lake
from helen.pipeline.schema import HELENS, SERIES, SPOOLS

OWN_SPOOL = "helen"  # numbered by each Helen for herself: the same triple in two histories is two results


class Names:
    """What the lake knows, in memory. Used by the writer only."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._helens: dict[str, int] = {row["id"]: row["helen"] for row in lake.rows("helens")}
        self._folders: dict[str, str] = {row["id"]: row["folder"] for row in lake.rows("helens")}
        self._series: dict[tuple[str, str], int] = {}
        self._checks: dict[int, str | None] = {}
        for row in sorted(lake.rows("series"), key=lambda row: row["series"]):
            self._series[row["agent"], row["check_id"]] = row["series"]
            self._checks[row["series"]] = row["check"]
        self._mapped: tuple[Mapping[int, object], pa.Table] | None = None  # what `map` said last, and of which files
        self._spools: dict[tuple[str, str], set[int]] = defaultdict(set)
        for row in lake.rows("spools"):
            self._spools[row["agent"], row["spool"]].add(row["helen"])

    def number(self, histories: Sequence[History]) -> dict[int, History]:
        """The histories by their numbers in this lake."""
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
        """(helen, series_id) -> series and agent, for everything that these Helens have numbered so far.

        Publishes the names of new series first. The same table as before while nobody has numbered another one.
        """
        stamps = {helen: history.series_stamp() for helen, history in histories.items()}
        if self._mapped is None or self._mapped[0] != stamps:
            self._mapped = stamps, self._map(histories)
        return self._mapped[1]

    def _map(self, histories: Mapping[int, History]) -> pa.Table:
        """What can't be published isn't known either: the next attempt must publish it."""
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
        """Whose each series is, by its number."""
        return [agent for agent, _ in sorted(self._series, key=lambda name: self._series[name])]

    def shared(self, seen: Iterable[tuple[int, str, str]]) -> set[tuple[str, str]]:
        """Those of these (helen, agent, spool) whose spool has shown up at another Helen, too, as (agent, spool)."""
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
