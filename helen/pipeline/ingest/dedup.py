"""Finds results that two Helens have got: an agent that moves before an ack came sends the result to both.

The spool numbers its results, so (agent, spool, sequence) names one of them. A result can only be there already if
another Helen has had its number, or a higher one, from the same spool. These highest numbers are kept in memory; the
lake is searched only for results that are not above them, which happens just after an agent has moved.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from helen.pipeline.ingest.histories import RESULTS, History
from helen.pipeline.ingest.series_names import OWN_SPOOL, SeriesNames
from helen.pipeline.ingest.task import Place
from helen.pipeline.lake import schema
from helen.pipeline.lake.damaged_files import pass_over
from helen.pipeline.lake.errors import LakeDamaged, NoSuchSeries
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.lake_files import batches, held
from helen.pipeline.lake.local_days import date_of
from helen.pipeline.lake.read_errors import READ_ERRORS, segment_error
from helen.pipeline.rollup.segment_rows import coded, micros

# A spool keeps 7 days, and a result may count by a clock that is 8 days behind (segment_rows.BELIEVED).
LOOK_BACK = timedelta(days=16)
UNTOLD = "it can't be told which results of agents that have moved the lake has already, so none is taken in"

Array = Any  # of numpy
Spool = tuple[str, str]  # agent, spool


class Deduplicator:
    """Finds duplicates for the writer. Numbers remembered from a batch that fails may be too high, never too low."""

    def __init__(self, lake: Lake, names: SeriesNames) -> None:
        self._lake = lake
        self._names = names
        self._highest: dict[Spool, dict[int, int]] | None = None  # by Helen; None until a spool has moved

    def duplicates(
        self, places: Sequence[Place], histories: Mapping[int, History], mapping: pa.Table
    ) -> dict[Place, frozenset[int]]:
        """Return the `at` of the results of these segments that are there already, or come earlier in this order."""
        parts = [_read(place, histories[place[0]], mapping) for place in places]
        rows = pa.concat_tables(parts) if parts else None
        if rows is None or not rows.num_rows:
            return {}
        of, groups, highest = _by_spool(rows["helen"], rows["agent"], rows["spool"], rows["sequence"])
        shared = self._names.shared(groups)
        if shared and self._highest is None:
            self._highest = self._load(_since(rows))
        if self._highest is not None:
            _raise(self._highest, groups, highest)
        if not shared:
            return {}
        assert self._highest is not None
        limits = [
            max((most for other, most in self._highest[group[1:]].items() if other != group[0]), default=-1)
            for group in groups
        ]
        suspects = rows.filter(pa.array(rows["sequence"].to_numpy() <= np.array(limits)[of]))
        return self._dropped(suspects) if suspects.num_rows else {}

    def _dropped(self, suspects: pa.Table) -> dict[Place, frozenset[int]]:
        seen = self._before(suspects)
        dropped: dict[Place, set[int]] = defaultdict(set)
        columns = (suspects[name].to_pylist() for name in ("helen", "segment", "at", "agent", "spool", "sequence"))
        for helen, segment, at, *result in zip(*columns, strict=True):
            if tuple(result) in seen:
                dropped[helen, segment].add(at)
            seen.add(tuple(result))
        return {place: frozenset(ats) for place, ats in dropped.items()}

    def _before(self, suspects: pa.Table) -> set[tuple[Any, ...]]:
        """Return (agent, spool, sequence) of those that the lake has."""
        spools, sequences = (suspects[name].unique() for name in ("spool", "sequence"))
        wanted = pc.field("spool").isin(spools) & pc.field("sequence").isin(sequences)
        agents = self._names.agents()
        seen = set()
        for batch in self._batches(_since(suspects), ["series", "spool", "sequence"], wanted):
            for series, spool, sequence in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                seen.add((agents[series], spool, sequence))
        return seen

    def _load(self, since: date) -> dict[Spool, dict[int, int]]:
        """Return the highest numbers of all spools: after one agent has moved, others will."""
        agents = pa.array(self._names.agents(), pa.string())
        found: dict[Spool, dict[int, int]] = {}
        columns, wanted = ["helen", "series", "spool", "sequence"], pc.field("spool") != OWN_SPOOL
        for batch in self._batches(since, columns, wanted):
            if batch.num_rows:
                helen, series, spool, sequence = batch.columns
                _, groups, highest = _by_spool(helen, agents.take(series), spool, sequence)
                _raise(found, groups, highest)
        return found

    def _batches(self, since: date, columns: Sequence[str], wanted: Any) -> Iterator[pa.RecordBatch]:
        """Yield rows of results since a day.

        Raises LakeDamaged for a file that can't be read: whether the lake has its results already can't be told then,
        and to go on would count them twice. Raises OSError if it may be read with the next try.
        """
        table = schema.RESULTS.name
        for file in held(self._lake, table, self._lake.files(table, (since, date.max))):
            try:
                yield from batches(schema.RESULTS, [file.path], columns, wanted)
            except READ_ERRORS as error:
                sentence = pass_over(self._lake, table, file.path, error)
                raise LakeDamaged(f"{sentence} Until then {UNTOLD}.") from error


def _read(place: Place, history: History, mapping: pa.Table) -> pa.Table:
    """Return the columns of a segment that concern spools. Raises BadSegment, OutOfResources, NoSuchSeries."""
    helen, segment = place
    columns = ["at", "received", "series_id", "spool", "sequence"]
    path = history.path(RESULTS, segment)
    try:
        stored = pq.read_table(path, columns=columns).drop_null()
    except READ_ERRORS as error:
        raise segment_error(helen, RESULTS, segment, path, error) from error
    stored = stored.filter(pc.not_equal(stored["spool"], OWN_SPOOL))
    ours = mapping.filter(pc.equal(mapping["helen"], helen))
    found = pc.index_in(stored["series_id"], ours["series_id"].combine_chunks()).combine_chunks()
    if found.null_count:
        raise NoSuchSeries(f"segment {segment}", stored["series_id"].filter(found.is_null()).unique().to_pylist())
    agents = ours["agent"].combine_chunks().take(found)
    front = {"helen": pa.repeat(helen, stored.num_rows), "segment": pa.repeat(segment, stored.num_rows)}
    kept = {name: stored[name] for name in ("at", "received", "spool", "sequence")}
    return pa.table(front | kept | {"agent": agents})


def _by_spool(helen: Any, agent: Any, spool: Any, sequence: Any) -> tuple[Array, list[tuple[int, str, str]], Array]:
    """Return for each row its group; the groups, as (helen, agent, spool); and the highest sequence of each."""
    agents_coded, spools_coded = coded(agent), coded(spool)
    key = (helen.to_numpy().astype(np.int64) * len(agents_coded.words) + agents_coded.codes) * len(
        spools_coded.words
    ) + spools_coded.codes
    keys, of = np.unique(key, return_inverse=True)
    highest = np.full(len(keys), -1, np.int64)
    np.maximum.at(highest, of, sequence.to_numpy())
    agents, spools = agents_coded.words.to_pylist(), spools_coded.words.to_pylist()
    places = ((number // len(spools), number % len(spools)) for number in keys.tolist())
    return of, [(rest // len(agents), agents[rest % len(agents)], spools[at]) for rest, at in places], highest


def _raise(known: dict[Spool, dict[int, int]], groups: Iterable[tuple[int, str, str]], highest: Array) -> None:
    for (helen, *spool), most in zip(groups, highest.tolist(), strict=True):
        of = known.setdefault((spool[0], spool[1]), {})
        of[helen] = max(of.get(helen, -1), most)


def _since(rows: pa.Table) -> date:
    """Return the first day that these results may belong to."""
    return date_of(int(micros(rows["received"]).min())) - LOOK_BACK
