"""The newest records of this Helen's history, from her closed segments: what a state needs that the file hasn't.

Blocks; before the reactor runs. Only what steps a state is read: no metrics, no blobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from attrs import frozen

from equus_protocol.results import Metric
from helen import parquet as pq
from helen.judged import Result

MOST_SEGMENTS = 500  # of each kind: with 20,000 results each that is 10 million, some minutes; then states start afresh
RESULT_COLUMNS = ["at", "series_id", "received", "started", "took_ms", "status", "origin", "reason", "code", "spool",
                  "sequence", "summary"]  # fmt: skip
CHANGE_COLUMNS = ["at", "series_id", "received", "kind", "document"]

Named = Callable[[int | None], tuple[str | None, str | None]]


@frozen
class Past:
    """A record of the history. `result` is set for results, `document` (JSON text) for changes."""

    at: int
    received: float
    kind: str
    agent: str | None
    check_id: str | None
    result: Result | None = None
    origin: int = 0
    document: str = ""
    metrics: tuple[Any, ...] = ()  # with the attributes of equus_protocol's Metric


def since(history: Path, at: int) -> Iterator[Past]:
    """All records above `at` that are in segments, in their order; files that can't be read are passed over."""
    names = series_names(history / "series.parquet")

    def named(number: int | None) -> tuple[str | None, str | None]:
        return (None, None) if number is None else names.get(number, (None, None))

    found: list[Past] = []
    for prefix, columns, read in (("seg", RESULT_COLUMNS, read_result), ("chg", CHANGE_COLUMNS, read_change)):
        found += _newest(history / "segments", prefix, columns, at, read, named)
    return iter(sorted(found, key=lambda past: past.at))


def changes_since(history: Path, at: int) -> list[Past]:
    """The same without results: whoever only wants changes need not read the many."""
    names = series_names(history / "series.parquet")

    def named(number: int | None) -> tuple[str | None, str | None]:
        return (None, None) if number is None else names.get(number, (None, None))

    found = _newest(history / "segments", "chg", CHANGE_COLUMNS, at, read_change, named)
    return sorted(found, key=lambda past: past.at)


def _newest(
    folder: Path, prefix: str, columns: list[str], at: int, read: Callable[[dict[str, Any], Named], Past], named: Named
) -> list[Past]:
    """From the newest file back to the first that has nothing above `at`."""
    found: list[Past] = []
    for path in sorted(folder.glob(f"{prefix}-*.parquet"), reverse=True)[:MOST_SEGMENTS]:
        try:
            rows = pq.read_table(path, columns=columns).to_pylist()
        except (OSError, pa.ArrowException):
            continue  # the journal's own check tells of it
        newer = [row for row in rows if row["at"] > at]
        found += [read(row, named) for row in newer]
        if len(newer) < len(rows):
            break
    return found


def read_result(row: dict[str, Any], named: Named) -> Past:
    """A row of a segment of results; `named` says what a series_id stands for."""
    received = row["received"].timestamp()
    started = row["started"]
    ended = None if started is None else started.timestamp() + (row["took_ms"] or 0.0) / 1_000
    result = Result(received, row["status"], ended, row["spool"], row["sequence"], row["reason"], row["code"],
                    row["summary"])  # fmt: skip
    metrics = tuple(Metric(**{**each, "labels": dict(each["labels"])}) for each in row.get("metrics") or ())
    return Past(row["at"], received, "result", *named(row["series_id"]), result, row["origin"], metrics=metrics)


def read_change(row: dict[str, Any], named: Named) -> Past:
    """A row of a segment of changes."""
    where = named(row["series_id"])
    return Past(row["at"], row["received"].timestamp(), row["kind"], *where, document=row["document"])


def series_names(path: Path) -> dict[int, tuple[str, str]]:
    """series_id -> agent and check_id; nothing where there is no such file yet."""
    if not path.exists():  # else Arrow is imported, for 0.1 s, to find that out
        return {}
    try:
        rows = pq.read_table(path, columns=["series_id", "agent", "check_id"]).to_pylist()
    except (OSError, pa.ArrowException):
        return {}
    return {row["series_id"]: (row["agent"], row["check_id"]) for row in rows}
