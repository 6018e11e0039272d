"""Reads the newest records of the history from closed segments: those that the saved states don't have yet.

It blocks, and is for the start, before the reactor runs. Only columns that step a state are read: no metrics, no blobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from equus_protocol.result_fields import END_OF_TIME, STATUS_NUMBERS
from equus_protocol.results import Metric
from groundwork.presence import is_there, names_in
from helen.journal import lazy_parquet as pq
from helen.journal.unread import demand_content
from helen.journal.values import StoredChange, StoredResult
from helen.states.inputs import Result

MOST_SEGMENTS = 500  # of each kind: 10 million results take some minutes to replay; older ones are left out
RESULT_COLUMNS = ["at", "series_id", "received", "started", "took_ms", "status", "origin", "reason", "code", "spool",
                  "sequence", "summary"]  # fmt: skip
CHANGE_COLUMNS = ["at", "series_id", "received", "kind", "document"]

Named = Callable[[int | None], tuple[str | None, str | None]]


class HistoryRecord(msgspec.Struct, frozen=True, gc=False):
    """Holds a record of the history. `result` is set for results, `document` (JSON text) for changes; unix seconds.

    One is made for each result, so it is of the kind that costs least and that the garbage collector passes over.
    """

    at: int
    received: float
    kind: str
    agent: str | None
    check_id: str | None
    result: Result | None = None
    origin: int = 0
    document: str = ""
    metrics: tuple[Any, ...] = ()  # with the attributes of equus_protocol's Metric
    started: float | None = None  # of a result: when its run began, by its agent's clock
    took_ms: float | None = None
    peak_kib: float | None = None


def since(history: Path, at: int) -> Iterator[HistoryRecord]:
    """Give all records above `at` that are in segments, in their order; files that can't be read are passed over."""
    names = series_names(history / "series.parquet")

    def named(number: int | None) -> tuple[str | None, str | None]:
        return (None, None) if number is None else names.get(number, (None, None))

    found: list[HistoryRecord] = []
    for prefix, columns, read in (("seg", RESULT_COLUMNS, read_result), ("chg", CHANGE_COLUMNS, read_change)):
        found += _newest(history / "segments", prefix, columns, at, read, named)
    return iter(sorted(found, key=lambda past: past.at))


def changes_since(history: Path, at: int) -> list[HistoryRecord]:
    """Return the changes above `at` that are in segments, in their order; results are many, and not read.

    Raises HistoryUnread if a file can't be read.
    """
    names = series_names(history / "series.parquet")

    def named(number: int | None) -> tuple[str | None, str | None]:
        return (None, None) if number is None else names.get(number, (None, None))

    found = _newest(history / "segments", "chg", CHANGE_COLUMNS, at, read_change, named)
    return sorted(found, key=lambda past: past.at)


def _newest(
    folder: Path,
    prefix: str,
    columns: list[str],
    at: int,
    read: Callable[[dict[str, Any], Named], HistoryRecord],
    named: Named,
) -> list[HistoryRecord]:
    """Read from the newest file back to the first that has nothing above `at`. Raises HistoryUnread."""
    found: list[HistoryRecord] = []
    names = [name for name in names_in(folder) if name.startswith(f"{prefix}-") and name.endswith(".parquet")]
    for name in reversed(names[-MOST_SEGMENTS:]):
        path = folder / name
        try:
            rows = pq.read_table(path, columns=columns).to_pylist()
        except (OSError, pa.ArrowException) as error:
            demand_content(path, error)
            continue  # helen.journal.verify reports it
        newer = [row for row in rows if row["at"] > at]
        found += [read(row, named) for row in newer]
        if len(newer) < len(rows):
            break
    return found


def read_result(row: dict[str, Any], named: Named) -> HistoryRecord:
    """Read a row of a segment of results; `named` gives the agent and check_id of a series_id."""
    received = row["received"].timestamp()
    started = row["started"]
    ended = None if started is None else started.timestamp() + (row["took_ms"] or 0.0) / 1_000
    result = Result(received, row["status"], ended, row["spool"], row["sequence"], row["reason"], row["code"],
                    row["summary"])  # fmt: skip
    metrics = tuple(Metric(**{**each, "labels": dict(each["labels"])}) for each in row.get("metrics") or ())
    return HistoryRecord(
        row["at"], received, "result", *named(row["series_id"]), result, row["origin"], metrics=metrics
    )


def read_change(row: dict[str, Any], named: Named) -> HistoryRecord:
    """Read a row of a segment of changes; `named` gives the agent and check_id of a series_id."""
    where = named(row["series_id"])
    return HistoryRecord(row["at"], row["received"].timestamp(), row["kind"], *where, document=row["document"])


def series_names(path: Path) -> dict[int, tuple[str, str]]:
    """Read the agent and check_id of each series_id; an empty dict where there is no such file yet.

    A damaged file has none either: the journal refuses to start on it. Raises HistoryUnread if it can't be read.
    """
    try:
        if not is_there(path):  # else Arrow is imported, for 0.1 s, to find that out
            return {}
        rows = pq.read_table(path, columns=["series_id", "agent", "check_id"]).to_pylist()
    except (OSError, pa.ArrowException) as error:
        demand_content(path, error)
        return {}
    return {row["series_id"]: (row["agent"], row["check_id"]) for row in rows}


def record_of(stored: StoredResult | StoredChange) -> HistoryRecord:
    """Return a durable record as a segment will have it, to the microsecond: a replay must find the same."""
    if isinstance(stored, StoredChange):
        change, received = stored.change, to_microsecond(stored.change.received)
        document = change.document.decode()
        return HistoryRecord(stored.at, received, change.kind, change.agent, change.check_id, document=document)
    entry, said = stored.entry, stored.document
    received, started, took_ms, ended = round(entry.received * 1_000_000) / 1_000_000, said.started, said.took_ms, None
    if started is not None and 0 <= started < END_OF_TIME:
        started = round(started * 1_000_000) / 1_000_000
        ended = started + (took_ms or 0.0) / 1_000
    result = Result(
        received, STATUS_NUMBERS[said.word], ended, entry.spool, entry.sequence, said.reason, said.code, said.summary
    )  # fmt: skip
    return HistoryRecord(
        stored.at, received, "result", entry.agent, entry.check_id, result, entry.origin, "", said.metrics, started,
        took_ms, said.peak_kib,
    )  # fmt: skip


def to_microsecond(moment: float) -> float:
    """Round unix seconds as segments store them."""
    return round(moment * 1_000_000) / 1_000_000
