"""Says which processes of a pipeline on Spark use the CPU, and what of a JVM's CPU is its compiler's.

A JVM compiles the methods that it runs often, with threads of its own. How much there is to compile depends on the
code, not on the rows; each executor of a cluster does it again.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from attrs import frozen
from lake import TICKS, Tree, cpu_between, look_at_tree

DRIVER, WORKERS, JVMS, DAEMONS, COMPILERS = KINDS = (
    "driver", "Python's workers", "Spark's JVMs", "master, workers", "JVMs' compilers",
)  # fmt: skip
# Compiler threads that have ended can't be asked what they had used: with this they stay.
KEEP_COMPILERS = "-XX:-UseDynamicNumberOfCompilerThreads"


@frozen
class Look:
    """Holds what some processes and those below them had used at a time (Unix seconds), in ticks."""

    at: float
    tree: Tree
    kinds: dict[int, str]
    compilers: dict[int, int]  # process -> its compiler threads

    @classmethod
    def at_trees(cls, roots: Iterable[int]) -> Look:
        """Look at the trees below these processes now."""
        tree = look_at_tree(roots)
        kinds = {pid: kind for pid in tree if (kind := kind_of(pid)) is not None}
        compilers = {pid: compiler_ticks(pid) for pid, kind in kinds.items() if kind in (JVMS, DRIVER)}
        return cls(time.time(), tree, kinds, compilers)


def kind_of(pid: int) -> str | None:
    """Return the kind of a process by its command line; None if it has ended."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return None
    if "org.apache.spark.deploy.master" in words or "org.apache.spark.deploy.worker" in words:
        return DAEMONS
    if "CoarseGrainedExecutorBackend" in words or "SparkSubmit" in words:
        return JVMS
    return WORKERS if "pyspark.daemon" in words else DRIVER


def compiler_ticks(pid: int) -> int:
    """Return what the compiler threads of a JVM have used; 0 for any other process."""
    ticks = 0
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return 0
    for thread in threads:
        try:
            text = Path(f"/proc/{pid}/task/{thread}/stat").read_text()
        except OSError:
            continue
        if text[text.index("(") + 1 :].startswith(("C1 Comp", "C2 Comp")):
            ticks += sum(map(int, text[text.rindex(")") + 2 :].split()[11:13]))
    return ticks


def used_between(before: Look, after: Look) -> dict[str, float]:
    """Return the CPU seconds of each of KINDS; what processes that have ended had used is the workers'."""
    ticks: dict[str, int] = defaultdict(int)
    for pid, (_, own, _) in after.tree.items():
        kind = after.kinds.get(pid, DRIVER)
        compiled = after.compilers.get(pid, 0) - before.compilers.get(pid, 0)
        ticks[kind] += own - before.tree.get(pid, (0, 0, 0))[1] - compiled
        ticks[COMPILERS] += compiled
    found = {kind: ticks[kind] / TICKS for kind in KINDS}
    found[WORKERS] += max(0.0, cpu_between(before.tree, after.tree) - sum(found.values()))
    return found
