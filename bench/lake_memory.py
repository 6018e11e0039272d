"""Measures the memory of a pipeline that has taken days in, one after the other: the JVM, Python's driver, its workers.

    python bench/lake_memory.py [--days 16] [--checks 500] [--every 300] [--engine auto]

Each day comes in segments of 20,000 results. It is taken in, followed by hours and days, and put together; then one
report asks for that day, and one for all days. The table has what the processes hold after some days and after the
last one.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from collections import defaultdict
from datetime import date, timedelta
from pathlib import Path

from groundwork import arrow_memory

arrow_memory.choose_pool(os.environ)
arrow_memory.choose_arenas(os.environ)  # as `helen pipeline` does, before Arrow is loaded

from lake import SEGMENT, Fleet, History, look_at_tree  # noqa: E402

from helen.pipeline.driver import Driver, Settings  # noqa: E402
from helen.pipeline.engine import AUTO, ENGINES, SETTING  # noqa: E402
from helen.pipeline.lake.lake import Lake  # noqa: E402
from helen.pipeline.lake.local_days import local_days  # noqa: E402
from helen.pipeline.reports.availability import availability, choose  # noqa: E402
from helen.pipeline.spark import start_spark  # noqa: E402

DAY, DAY_BEGINS, SECONDS = date(2026, 9, 22), 1_790_035_200, 86_400
SHOWN = (1, 3, 8)
Held = dict[str, float]


def memory() -> Held:
    """Return the MiB of this process tree by kind of process: a page that several have is shared out among them."""
    found: Held = defaultdict(float)
    for pid in look_at_tree():
        try:
            name = Path(f"/proc/{pid}/comm").read_text().strip()
            pages = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:  # it has ended
            continue
        kind = "driver" if pid == os.getpid() else "JVM" if name == "java" else "workers"
        if "Pss:" in pages:
            found[kind] += int(pages.partition("Pss:")[2].split()[0]) / 1024
    return found


def show(when: str, held: Held) -> None:
    kinds = ("JVM", "driver", "workers")
    print(f"{when:24}" + "".join(f"{held[kind]:10.0f}" for kind in kinds) + f"{sum(held.values()):10.0f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--days", type=int, default=16)
    parser.add_argument("--checks", type=int, default=500)
    parser.add_argument("--every", type=float, default=300.0, help="seconds between two results of a check")
    parser.add_argument("--engine", choices=ENGINES, default=AUTO)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="lake-memory-"))
    print(f"load {os.getloadavg()[0]:.1f}\n{'MiB':24}{'JVM':>10}{'driver':>10}{'workers':>10}{'all':>10}", flush=True)
    try:
        fleet = Fleet(max(1, options.checks // 50), min(50, options.checks), start=DAY_BEGINS, every=options.every)
        history, lake = History(folder / "helen" / "history", fleet), Lake(folder / "lake")
        spark = start_spark("bench", scratch=folder / "scratch")
        spark.conf.set(SETTING, options.engine)
        a_day, results = round(fleet.series * SECONDS / options.every), 0
        for number in range(options.days):
            for begin in range(0, a_day, SEGMENT):
                history.add(fleet.take(min(SEGMENT, a_day - begin)))
            results += a_day
            Driver(spark, lake, [history.folder], Settings(once=True, keep={})).run()
            last = DAY + timedelta(days=number)
            for first in (last, DAY):
                availability(spark, lake, local_days(first, last, "UTC"), "strict", "UTC", choose(lake))
            if number + 1 in {*SHOWN, options.days}:
                show(f"{results:,} results", memory())
        spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
