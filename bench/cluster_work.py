"""Does the work that bench/cluster.py measures, in a process of its own, and waits for its turn after each piece.

It says which step a piece belongs to on standard output, and goes on when it reads a line.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from cluster_cpu import KEEP_COMPILERS

from helen.pipeline.driver import Driver, Settings
from helen.pipeline.engine import SETTING, SPARK
from helen.pipeline.lake.lake import Lake
from helen.pipeline.rollup.following import cascade
from helen.pipeline.spark import HERE_SETTINGS, SETTINGS, start_spark
from helen.pipeline.upkeep import gather

EVENTS = {
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
}
JVMS = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions")
SEGMENTS_IN_TURN = 20  # short turns: a Python worker that waits for a minute is ended, and its imports are made anew
WARM, TAKE, FOLLOW, GATHER = STEPS = (
    "started, warmed up",
    "results taken in",
    "hours and days",
    "results put together",
)


def pause(step: str) -> None:
    """Say that a piece of a step is done, and wait."""
    print(step, flush=True)
    if not sys.stdin.readline():
        raise SystemExit("whoever measures has ended")


def work(master: str, folder: Path, sizes: list[str]) -> None:
    """Start Spark, warm it up, and take in the history of each size, batch by batch; then hours and days follow."""
    events = folder / "events"
    events.mkdir()
    ours = SETTINGS | HERE_SETTINGS
    settings = EVENTS | {name: f"{ours[name]} {KEEP_COMPILERS}" for name in JVMS}
    settings["spark.eventLog.dir"] = f"file://{events}"
    spark = start_spark("bench", master, settings, folder / "scratch")
    spark.conf.set(SETTING, SPARK)
    once = Settings(once=True, upkeep=False, max_segments=SEGMENTS_IN_TURN)
    Driver(spark, Lake(folder / "warm-lake"), [folder / "warm"], once).run()
    pause(WARM)
    for size in sizes:
        lake = Lake(folder / f"lake-{size}")
        Driver(spark, lake, [folder / size], once, say=lambda line: pause(TAKE)).run()
        lake.lock()
        pause(TAKE)
        cascade(spark, lake)
        pause(FOLLOW)
        gather(spark, lake, 0, all_days=True, tables=["results"])
        pause(GATHER)
        lake.unlock()
        shutil.rmtree(lake.folder)
    spark.stop()


if __name__ == "__main__":
    work(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
