"""Measures what late results of a day that is over cost: the hour and the day that they belong to, and their bytes.

    python bench/lake_late.py [--series 41000] [--late 1 20 200] [--rounds 4]

A day of `h1` is made with a row for each series and hour (984,000 by default: one file as compaction writes it), from
a day of `m5` with one row for each of them. Then some agents of 50 checks deliver one late result of each of their
checks, one round after the other, once with rows that are added and once with buckets that are made anew. Figures are
CPU seconds of this process and MB that were written, for a round; the daily compaction of what came late is a line of
its own.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
from lake_meters import own_cpu

from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.schema import SUMS
from helen.pipeline.rollup import adding, job
from helen.pipeline.rollup.following import cascade
from helen.pipeline.upkeep import gather

DAY = 1_790_035_200_000_000  # 2026-09-22 00:00:00 UTC, microseconds
HOUR, CHECKS = 3_600_000_000, 50
ADD_FROM = adding.ADD_FROM


def sums(series: np.ndarray, bucket: np.ndarray) -> pa.Table:
    """Return rows of m5 with one result each."""
    count, known = len(series), {"series": series.astype(np.int32), "bucket": bucket}
    columns = []
    for column in SUMS.arrow:
        if column.name in known:
            columns.append(pa.array(known[column.name]).cast(column.type))
        elif column.name in ("first_at", "last_at"):
            columns.append(pa.array(bucket + 1_000_000).cast(column.type))
        elif column.name == "day":
            columns.append(pa.array(bucket).cast(pa.timestamp("us")).cast(pa.date32()))
        elif pa.types.is_string(column.type):
            columns.append(pa.repeat(pa.scalar("ms" if column.name == "unit" else ""), count))
        else:
            columns.append(pa.array(np.random.default_rng(1).integers(1, 99, count)).cast(column.type))
    return pa.table(columns, schema=SUMS.arrow)


def publish(lake: Lake, rows: pa.Table) -> None:
    staged = lake.stage_rows(SUMS.name, rows)
    lake.publish(SUMS.name, staged, {}, adding={*staged})


def one(series: int, late: int, rounds: int, add: bool) -> tuple[float, float, float]:
    """Return CPU seconds and MB of a round, and CPU seconds of putting together what came late."""
    folder = Path(tempfile.mkdtemp(prefix="lake-late-"))
    adding.ADD_FROM, job.LITTLE_ROWS = ADD_FROM if add else 1 << 60, 1 << 60  # all of it in this process
    try:
        lake = Lake(folder)
        lake.lock()
        hours = np.arange(24) * HOUR + DAY
        publish(lake, sums(np.repeat(np.arange(series), 24), np.tile(hours, series)))
        publish(lake, sums(np.arange(1), np.array([DAY + 72 * HOUR])))
        cascade(None, lake)  # type: ignore[arg-type]
        gather(None, lake, 0, all_days=True)  # type: ignore[arg-type]
        there, cpu, rng = written(lake), 0.0, np.random.default_rng(2)
        for number in range(rounds):
            agents = rng.choice(series // CHECKS, late, replace=False)
            chosen = (agents[:, None] * CHECKS + np.arange(CHECKS)).ravel()
            publish(lake, sums(chosen, np.full(len(chosen), DAY + number % 24 * HOUR)))
            cpu += own_cpu(lambda: cascade(None, lake), 1)  # type: ignore[arg-type]
        size = written(lake) - there
        together = own_cpu(lambda: gather(None, lake, 0, tables=["h1", "d1"]), 1)  # type: ignore[arg-type]
        assert sum(row["n"] > 0 for row in lake.rows("d1", [date(2026, 9, 22)])) >= series
        lake.unlock()
        return cpu / rounds, size / rounds / 1e6, together
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def written(lake: Lake) -> int:
    """Return the bytes of all files of hours and days, those that count no more among them."""
    return sum(path.stat().st_size for name in ("h1", "d1") for path in lake.path(name).rglob("*.parquet"))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--series", type=int, default=41_000)
    parser.add_argument("--late", type=int, nargs="+", default=[1, 20, 200], help="agents that deliver in a round")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    print(f"{'agents':>8}{'rows':>8}  way         CPU s a round  MB a round  put together, CPU s")
    for late in options.late:
        for name, add in (("made anew", False), ("added", True)):
            began = time.monotonic()
            cpu, size, together = one(options.series, late, options.rounds, add)
            print(f"{late:8}{late * CHECKS:8}  {name:12}{cpu:13.3f}{size:12.2f}{together:22.3f}"
                  f"   ({time.monotonic() - began:.0f} s)")  # fmt: skip


if __name__ == "__main__":
    main()
