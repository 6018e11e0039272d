"""Measures what logs of few and of many files cost, in seconds and bytes, by the lake's own code."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
from deltalake import Schema
from lake_meters import held_by, own_cpu

from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.levels import M5
from helen.pipeline.lake.log_entries import add
from helen.pipeline.lake.schema import SUMS

DAY = date(2026, 9, 22)
LISTED = (1_000, 5_000)  # files of the logs that are compared


def measure_logs(folder: Path) -> dict[str, float]:
    """Publish into tables of few and of many files. The files of the log are there in name alone."""
    few, many = (_log_of(folder / f"log-{count}", count) for count in LISTED)
    more = LISTED[1] - LISTED[0]
    found = {name: (many[name] - few[name]) / more for name in ("list", "publish", "size", "note", "memory")}
    return {
        "list_file": found["list"], "publish_listed": max(0.0, found["publish"]), "note_file": found["note"],
        "entry": many["entry"], "checkpoint": found["size"], "publish": few["publish"],
        "publish_file": (many["publish_all"] - many["publish"]) / 99, "file_memory": found["memory"],
    }  # fmt: skip


def _log_of(folder: Path, count: int) -> dict[str, float]:
    lake = Lake(folder)
    lake.lock()
    row = _a_row()
    lake.publish(M5.name, lake.stage_rows(M5.name, row), {})
    opened = lake.open(M5.name)
    assert opened is not None
    said = {"numRecords": 1_000_000, "minValues": {"series": 1, "bucket": "2026-09-22T00:00:00.000000Z"},
            "maxValues": {"series": 999_999, "bucket": "2026-09-22T23:55:00.000000Z"}}  # fmt: skip
    names = [f"day=2026-09-22/c0000000001-{number:04}-0a1b2c3d.parquet" for number in range(count)]
    adds = [add(name, 30_000_000, DAY, True, said) for name in names]
    opened.create_write_transaction(adds, "append", Schema.from_arrow(SUMS.arrow), ["day"])
    log = lake.path(M5.name) / "_delta_log"
    entry = (log / f"{1:020}.json").stat().st_size / count
    memory = held_by(lambda: lake.files(M5.name))
    listing = own_cpu(lambda: lake.files(M5.name))
    one = _publishing(lake, row, 1)
    hundred = _publishing(lake, row, 100)
    began = time.process_time()
    opened.create_checkpoint()
    note = time.process_time() - began
    size = sum(path.stat().st_size for path in log.glob("*.checkpoint*.parquet"))
    lake.unlock()
    return {"list": listing, "publish": one, "publish_all": hundred, "entry": entry, "size": size, "note": note,
            "memory": memory}  # fmt: skip


def _a_row() -> pa.Table:
    """Return a row of m5 with a key and nothing else."""
    key = {"series": 1, "bucket": datetime.combine(DAY, datetime.min.time(), UTC), "day": DAY}
    return pa.Table.from_pylist([key], schema=SUMS.arrow)


def _publishing(lake: Lake, row: pa.Table, files: int) -> float:
    """Return the least seconds on the clock, of three times, to publish so many small files: disks are in it."""
    found = []
    for _ in range(3):
        staged = [path for _ in range(files) for path in lake.stage_rows(M5.name, row)]
        began = time.monotonic()
        lake.publish(M5.name, staged, {})
        found.append(time.monotonic() - began)
    return min(found)
