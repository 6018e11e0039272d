"""Reads results as a gate compares them, live and out of the history: the baseline of a rollout.

`look_back` blocks (files), so it is for a thread: 400 segments take a second or two. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from equus_protocol.cheap_values import cheap_value
from helen.evaluation.replay import HistoryRecord, series_names
from helen.journal import lazy_parquet as pq
from helen.journal.unread import demand_content
from helen.journal.values import Origin
from helen.rollout.gates import OLD_RUNS, Key, Run

MOST_FILES = 400  # an hour of a busy Helen, a file each 10 s
OLDEST = 86_400.0  # seconds: what is older says nothing about how a check behaves now
SUMMARY_KEPT = 100  # characters
COLUMNS = ["at", "series_id", "received", "started", "took_ms", "peak_kib", "status", "origin", "code", "summary"]


@cheap_value
class Sample:
    """Holds one scheduled result, for comparison by gates. `received`: unix seconds.

    `ran_at`: when its run began, in unix seconds by its agent's clock, or else when it came.
    """

    at: int
    key: Key
    received: float
    ran_at: float
    code: str | None
    run: Run


def sample_of(record: HistoryRecord) -> Sample | None:
    """Return the sample of a result that has become durable lately; None for a change, and for an answer to a query."""
    result = record.result
    if result is None or record.origin == Origin.ASKED or record.agent is None or record.check_id is None:
        return None
    run = Run(result.status, record.took_ms, record.peak_kib, result.summary[:SUMMARY_KEPT])
    ran_at = record.received if record.started is None else record.started
    return Sample(record.at, (record.agent, record.check_id), record.received, ran_at, result.code, run)


def by_check(
    samples: Iterable[Sample], recent: Iterable[HistoryRecord], keys: Collection[Key]
) -> dict[Key, list[Sample]]:
    """Return the samples of these checks in the order of the journal, those of recent records among them.

    For a thread: a great fleet has a hundred thousand of them.
    """
    found = {sample.at: sample for sample in samples}
    made = (sample_of(each) for each in recent if (each.agent, each.check_id) in keys)
    found |= {sample.at: sample for sample in made if sample is not None}  # some are in no segment yet
    sorted_ = dict[Key, list[Sample]]()
    for at in sorted(found):
        sorted_.setdefault(found[at].key, []).append(found[at])
    return sorted_


def look_back(history: Path, keys: Collection[Key], until: float) -> list[Sample]:
    """Return the newest results of these checks, back to OLD_RUNS of each before `until`, if there are as many.

    `until`: unix seconds.
    """
    names = {number: key for number, key in series_names(history / "series.parquet").items() if key in keys}
    found: list[Sample] = []
    wanted = dict.fromkeys(names.values(), OLD_RUNS)
    for path in sorted((history / "segments").glob("seg-*.parquet"), reverse=True)[:MOST_FILES]:
        rows = _rows(path, sorted(names))
        for row in reversed(rows):
            sample = _sample(row, names[row["series_id"]])
            found.append(sample)
            if sample.received <= until and sample.key in wanted:
                wanted[sample.key] -= 1
                if wanted[sample.key] == 0:
                    del wanted[sample.key]
        if not wanted or (rows and rows[-1]["received"].timestamp() < until - OLDEST):
            break
    return found


def _rows(path: Path, numbers: list[int]) -> list[dict[str, Any]]:
    """Return the rows of a segment; none of a damaged one, which the journal's own check reports.

    Raises HistoryUnread if it can't be read.
    """
    if not numbers:
        return []
    wanted = [("series_id", "in", numbers), ("origin", "!=", int(Origin.ASKED))]
    try:
        rows: list[dict[str, Any]] = pq.read_table(path, columns=COLUMNS, filters=wanted).to_pylist()
    except (OSError, pa.ArrowException) as error:
        demand_content(path, error)
        return []
    return rows


def _sample(row: dict[str, Any], key: Key) -> Sample:
    received, started = row["received"].timestamp(), row["started"]
    run = Run(row["status"], row["took_ms"], row["peak_kib"], row["summary"][:SUMMARY_KEPT])
    ran_at = received if started is None else started.timestamp()
    return Sample(row["at"], key, received, ran_at, row["code"], run)
