"""Tests that Arrow takes its memory from the pool that each process of ours has chosen, its readers in C++ included."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from groundwork import arrow_memory
from groundwork.arrow_memory import ARENAS, POOL, choose_arenas, choose_pool

SHOW = """
import sys, pyarrow as pa, pyarrow.dataset as ds
rows = ds.dataset(sys.argv[1]).to_table()
name = pa.default_memory_pool().backend_name
print(name, getattr(pa, f"{name}_memory_pool")().bytes_allocated() >= rows.nbytes)
"""


@pytest.mark.parametrize("more", [{}, {POOL: "mimalloc"}, {ARENAS: "7"}, {ARENAS: "any"}])
def test_what_is_set_already_stays(more: dict[str, str]) -> None:
    environment = dict(more)
    choose_pool(environment)
    choose_arenas(environment)
    assert environment == {POOL: "system", ARENAS: "2"} | more


def test_a_heap_that_cannot_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without mallopt in the C library only the environment of started processes is set."""
    monkeypatch.setattr(arrow_memory.ctypes, "CDLL", lambda name: object())
    environment: dict[str, str] = {}
    choose_arenas(environment)
    assert environment == {ARENAS: "2"}


@pytest.mark.parametrize(
    ("module", "given", "shown"),
    [
        ("helen.pipeline.__main__", {}, "system"), ("helen.pipeline.__main__", {POOL: "mimalloc"}, "mimalloc"),
        ("helen.tap", {}, "jemalloc"), ("helen.tap", {POOL: "system"}, "system"),
    ],
)  # fmt: skip
def test_a_process_has_chosen_before_arrow_is_loaded(
    module: str, given: dict[str, str], shown: str, tmp_path: Path
) -> None:
    """Readers in C++ take the memory of their rows from the pool, too."""
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"n": range(100_000)}), path)
    environment = {name: value for name, value in os.environ.items() if name not in (POOL, ARENAS)} | given
    words = [sys.executable, "-c", f"import {module}{SHOW}", str(path)]
    told = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert told.stdout == f"{shown} True\n"
