"""Writes histories of a few rows with the journal's own code. Times are unix seconds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from helen.journal import segments
from helen.journal.document import read_document
from helen.journal.rows import Rows
from helen.journal.series import Series
from helen.journal.values import Change, Entry, Origin, StoredChange, StoredResult


class Written:
    """Writes a Helen's history folder, segment by segment. Times are Unix seconds."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.folder = state / "history"
        self.segments = self.folder / "segments"
        self.segments.mkdir(parents=True)
        self._series = Series()
        self._at = 0
        self._numbers = {"seg": 0, "chg": 0}
        self._sequences: dict[tuple[str, str], int] = {}

    def result(self, series: str, received: float, status: str = "ok", **more: Any) -> StoredResult:
        """Return one result of AGENT/CHECK; `more` are parts of the document, or other fields of the entry."""
        agent, _, check = series.partition("/")
        spool = more.pop("spool", f"spool-{agent}")
        sequence = more.pop("sequence", self._sequences.get((agent, spool), 0) + 1)
        self._sequences[agent, spool] = sequence
        origin = Origin(more.pop("origin", 0))
        offset = more.pop("clock_offset_ms", None)
        blob = more.pop("blob", None) or json.dumps({"status": status, **more}, separators=(",", ":")).encode()
        self._at += 1
        entry = Entry(agent, check, check, spool, sequence, origin, received, blob, offset)
        return StoredResult(self._at, entry, read_document(check, blob))

    def change(self, kind: str, received: float, series: str | None = None, **document: Any) -> StoredChange:
        """Return one change; `series` is AGENT/CHECK or AGENT or None."""
        agent, _, check = (series or "").partition("/")
        self._at += 1
        content = json.dumps(document).encode()
        return StoredChange(self._at, Change(kind, received, agent or None, check or None, content))

    def segment(self, *records: StoredResult | StoredChange) -> None:
        """Close a segment of each kind that there are records of."""
        rows = Rows(self._series)
        for record in records:
            rows.add(record)
        rows.finish()
        pq.write_table(self._series.table(), self.folder / "series.parquet")
        for kind, count, table in (("seg", rows.results, rows.result_table), ("chg", rows.changes, rows.change_table)):
            if count:
                self._numbers[kind] += 1
                path = self.segments / f"{kind}-{self._numbers[kind]:08}.parquet"
                path.write_bytes(memoryview(segments.to_parquet(table(), self._at)))
