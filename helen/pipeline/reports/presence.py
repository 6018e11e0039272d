"""Tells when Helens were there: by the list of segments, which is kept for ever, and by recorded changes.

A killed Helen was there until its last result. If a lake has no list yet (one of an older version, before a writer has
started), the results themselves are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from helen.pipeline.ingest.taken import READMITTED, SOUND
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.lake_files import batches, held, read
from helen.pipeline.lake.schema import CHANGES, RESULTS, TAKEN, Table
from helen.pipeline.reports.check_columns import EMPTY, Columns, Spans, begins_anew, spread
from helen.pipeline.reports.downtimes import Span, in_common
from helen.pipeline.rollup.segment_rows import micros

_COLUMNS = ["helen", "segment", "first", "last", "begin", "end"]
Array = Any  # of numpy


@frozen(eq=False)
class Presence:
    """Knows the segments of some days, by arrays of one length; times in microseconds."""

    lake: Lake
    days: tuple[date, date]
    listed: Mapping[str, Array] | None

    @classmethod
    def of(cls, lake: Lake, days: tuple[date, date]) -> Presence:
        """Read the lake's list of segments for these UTC days."""
        if not lake.files(TAKEN.name):
            return cls(lake, days, None)
        sound = pc.field("state").isin([SOUND, READMITTED]) & (pc.field("kind") == "seg")
        rows = read(TAKEN, _paths(lake, TAKEN, days), _COLUMNS, sound)
        columns = {name: rows[name].to_numpy() for name in _COLUMNS[:4]}
        return cls(lake, days, columns | {name: micros(rows[name]) for name in ("begin", "end")})

    def newest(self) -> dict[int, int]:
        """Return when each Helen got or wrote its last record of these days: {HELEN: MICROSECONDS}."""
        found = _last_received(_paths(self.lake, CHANGES, self.days), CHANGES)
        if self.listed is None:
            results = _last_received(_paths(self.lake, RESULTS, self.days), RESULTS)
        else:
            helens, ends = self.listed["helen"], self.listed["end"]
            results = {helen: int(ends[helens == helen].max()) for helen in np.unique(helens).tolist()}
        return {helen: max(found.get(helen, 0), results.get(helen, 0)) for helen in {*found, *results}}

    def last_heard(self, helen: int, after: int, before: int) -> int | None:
        """Return when a killed Helen got its last result, between two values of `at`; None: none that matters."""
        between = (pc.field("helen") == helen) & (pc.field("at") >= after) & (pc.field("at") <= before)
        if self.listed is None:
            return max(_last_received(_paths(self.lake, RESULTS, self.days), RESULTS, between).values(), default=None)
        known = self.listed
        ours = (known["helen"] == helen) & (known["last"] >= after) & (known["first"] <= before)
        whole, across = ours & (known["last"] <= before), ours & (known["last"] > before)
        heard = [*known["end"][whole].tolist(), *known["begin"][across & (known["first"] >= after)].tolist()]
        if across.any():  # one that was closed only after the next start: its rows say which came before
            between &= pc.field("segment").isin(known["segment"][across].tolist())
            heard += _last_received(_paths(self.lake, RESULTS, self.days), RESULTS, between).values()
        return max(heard, default=None)


def _paths(lake: Lake, table: Table, days: tuple[date, date]) -> list[str]:
    return [file.path for file in held(lake, table.name, lake.files(table.name, days))]


def _last_received(paths: Sequence[str], table: Table, wanted: Any = None) -> dict[int, int]:
    """Return when each Helen got or wrote the last of these rows, read piece by piece: {HELEN: MICROSECONDS}."""
    last: dict[int, int] = {}
    for batch in batches(table, paths, ["helen", "received"], wanted):
        helens, received = batch["helen"].to_numpy(), batch["received"].cast(pa.int64()).to_numpy()
        for helen in np.unique(helens).tolist():
            last[helen] = max(last.get(helen, 0), int(received[helens == helen].max()))
    return last


# ------------------------------------------------------------------------------------------------ whose agent


@frozen(eq=False)
class Heard(Columns):
    """Says when results of a check began to come to another Helen, the first one included; in order."""

    time: Array = EMPTY
    helen: Array = EMPTY

    @classmethod
    def of_results(cls, of: Array, received: Array, helen: Array) -> Heard:
        """Return the same for results in any order."""
        order = np.lexsort((received, of))
        of, received, helen = of[order], received[order], helen[order]
        is_new = begins_anew(of, helen)
        return cls(of[is_new], received[is_new], helen[is_new])


def absences_for(heard: Heard, count: int, away: Mapping[int, Sequence[Span]], span: Span) -> Spans:
    """Return the times in which the Helen that had the agent of each check was away. The first one had it before, too.

    For a check that nobody has heard of, they are the times in which no Helen ran.
    """
    of, begin, end = heard.of, np.maximum(heard.time, span[0]), np.full(len(heard), span[1])
    goes_on = of[1:] == of[:-1]
    end[:-1][goes_on] = np.minimum(span[1], heard.time[1:][goes_on])
    begin[np.unique(of, return_index=True)[1]] = span[0]
    silent = np.setdiff1d(np.arange(count), of)
    common = in_common(away, span)
    found = [_crossed(silent, np.full(len(silent), span[0]), np.full(len(silent), span[1]), common)]
    for helen, spans in away.items():
        ours = heard.helen == helen
        found.append(_crossed(of[ours], begin[ours], end[ours], spans))
    return Spans.union(*(np.concatenate(column) for column in zip(*found, strict=True)))


def _crossed(of: Array, begin: Array, end: Array, spans: Sequence[Span]) -> tuple[Array, Array, Array]:
    """Return the intersection of each row with each of the spans; some are empty."""
    a, b = np.array(spans, np.int64).reshape(len(spans), 2).T
    row, each = spread(np.full(len(of), len(spans)))
    return of[row], np.maximum(begin[row], a[each]), np.minimum(end[row], b[each])
