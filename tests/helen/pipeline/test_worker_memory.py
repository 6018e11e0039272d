"""Tests that a task's memory is given back at its end, in Spark's workers and here, and that modules are no garbage."""

from __future__ import annotations

import ctypes
import gc
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from helen.pipeline import worker_memory
from helen.pipeline.spark import RETAINED, SETTINGS, set_environment
from helen.pipeline.worker_memory import GivingBack, Modules, give_back

ROWS = 8_000_000


def anonymous_mib() -> float:
    """Return the memory of this process that is in no file."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("Anonymous:")).split()[1]) / 1024


def test_memory_is_given_back() -> None:
    """A quarter of a gigabyte of C's heap and Arrow's pool is given back after a task."""

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            column = pa.array(np.arange(ROWS))
            kept = [pa.compute.add(column, number).cast(pa.int64()) for number in range(2)]
            pieces = [bytes(1000) for _ in range(64_000)]
            used.append(anonymous_mib())
            assert len(kept) + len(pieces) > 2
            del column, kept, pieces
            yield batch

    used: list[float] = []
    before = anonymous_mib()
    (batch,) = GivingBack(task)([pa.RecordBatch.from_pydict({"id": [7]})])
    assert batch.to_pydict() == {"id": [7]}
    assert used[0] - before > 200
    assert anonymous_mib() - before < 100


@pytest.mark.parametrize("fails", [False, True])
def test_it_is_given_back_however_a_task_ends(monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    """Memory is given back once after a task, also where it fails, and its error stays the same."""
    seen: list[str] = []
    monkeypatch.setattr(worker_memory, "give_back", lambda: seen.append("given back"))
    monkeypatch.setattr(Modules, "spare", lambda self: seen.append("spared"))

    def task(batches: Iterable[str]) -> Iterator[str]:
        for each in batches:
            seen.append(each)
            yield each
        if fails:
            raise OSError("No space left on device")

    made = GivingBack(task)(["a", "b"])  # type: ignore[arg-type]
    assert [next(made), next(made)] == ["a", "b"]
    assert seen == ["a", "b"]
    if fails:
        with pytest.raises(OSError, match="No space"):
            next(made)
    else:
        assert list(made) == []
    assert seen == ["a", "b", "given back", "spared"]


def test_modules_are_spared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules are frozen once, and again when more are loaded, after a collection of garbage."""
    seen: list[str] = []
    monkeypatch.setattr(gc, "collect", lambda: seen.append("collect"))
    monkeypatch.setattr(gc, "freeze", lambda: seen.append("freeze"))
    modules = Modules()
    for count, expected in ((3, 2), (3, 2), (5, 4), (5, 4), (4, 4)):
        monkeypatch.setattr(sys, "modules", dict.fromkeys(map(str, range(count)), sys))
        modules.spare()
        assert len(seen) == expected
    assert seen == ["collect", "freeze"] * 2


def test_a_worker_is_searched_through_once(spark: Any) -> None:
    """After its first task a worker's objects are spared, so that the collector searches few."""

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            found = [[os.getpid()], [gc.get_freeze_count()], [sum(gc.get_count())], [len(gc.get_objects())]]
            yield pa.RecordBatch.from_arrays(list(map(pa.array, found)), ["pid", "spared", "new", "searched"])

    parts = spark.range(0, 8, 1, 8)
    rows = parts.mapInArrow(GivingBack(task), "pid long, spared long, new long, searched long").toArrow().to_pylist()
    workers = {row["pid"] for row in rows}
    later = [row for row in rows if row["spared"]]
    assert len(later) >= len(rows) - len(workers) > 0
    assert all(row["searched"] < row["spared"] / 4 for row in later), later


def test_every_task_gives_back() -> None:
    """Every task that a module hands to Spark's workers is wrapped in GivingBack."""
    found = []
    for path in Path(worker_memory.__file__).parent.rglob("*.py"):
        text = path.read_text()
        for given in re.findall(r"\.mapInArrow\((.*)", text):
            found.append(f"{path.name}: {given}")
            is_named = given.startswith("task,") and "task = GivingBack(" in text
            assert given.startswith("GivingBack(") or is_named, found[-1]
    assert len(found) > 5


def test_a_c_library_without_a_trim(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a C library without malloc_trim only Arrow's pool gives memory back."""
    asked: list[str] = []
    pool = SimpleNamespace(release_unused=lambda: asked.append("arrow"))
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace())
    monkeypatch.setattr(pa, "default_memory_pool", lambda: pool)
    give_back()
    assert asked == ["arrow"]


def test_what_spark_keeps_and_inherits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Spark keeps few finished jobs, and each process has two heaps of C unless another number is set."""
    assert {SETTINGS[name] for name in RETAINED} == {"50"}
    for given, expected in ((None, "2"), ("7", "7")):
        environment: dict[str, Any] = {} if given is None else {"MALLOC_ARENA_MAX": given}
        monkeypatch.setattr("os.environ", environment)
        set_environment(SimpleNamespace(home=tmp_path), tmp_path / "python")  # type: ignore[arg-type]
        assert environment["MALLOC_ARENA_MAX"] == expected
