"""One Spark for all tests, tuned for their size; and histories of a few rows, written by the journal's own code.

They need the extras `spark` and `dev`, and fail without them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import plainly
import pyarrow.parquet as pq
import pytest

from helen.journal import segments
from helen.journal.columns import Rows
from helen.journal.document import read_document
from helen.journal.series import Series
from helen.journal.values import Change, Entry, Origin, StoredChange, StoredResult
from helen.pipeline.spark import start_spark

# A test's frames have a hundred rows: nothing is worth compiling twice, splitting or planning again.
QUICK = {
    "spark.driver.memory": "700m",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.streaming.metricsEnabled": "false",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The one Spark of this run."""
    started = start_spark("tests", "local[2]", QUICK, tmp_path_factory.mktemp("spark"))
    yield started
    started.stop()


@pytest.fixture(scope="session")
def quick() -> dict[str, str]:
    """Settings of a Spark for tests, where one has a Spark of its own."""
    return QUICK


class Written:
    """A Helen's history folder, written segment by segment. Times are Unix seconds."""

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
        """One result of AGENT/CHECK; `more` are parts of the document, or other fields of the entry."""
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
        """One change; `series` is AGENT/CHECK or AGENT or None."""
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


@pytest.fixture(scope="session")
def new_history() -> Any:
    """Makes an empty history in a folder."""
    return Written


@pytest.fixture
def history(tmp_path: Path) -> Written:
    """An empty history."""
    return Written(tmp_path / "helen")


@pytest.fixture
def histories(tmp_path: Path) -> list[Written]:
    """Those of two Helens."""
    return [Written(tmp_path / "helen-1"), Written(tmp_path / "helen-2")]


@pytest.fixture(scope="session")
def take_in() -> Any:
    """The histories of some Helens into a lake, without Spark."""
    return plainly.take_all
