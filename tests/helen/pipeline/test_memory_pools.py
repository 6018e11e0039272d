"""Tests that the process of a run takes Arrow's memory from C's heap, where no thread keeps pages to itself."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from helen.pipeline import memory_pools
from helen.pipeline.memory_pools import ARENAS, POOL, choose

SHOW = "import pyarrow; print(pyarrow.default_memory_pool().backend_name)"


@pytest.mark.parametrize("more", [{}, {POOL: "mimalloc"}, {ARENAS: "7"}, {ARENAS: "any"}])
def test_what_is_set_already_stays(more: dict[str, str]) -> None:
    environment = dict(more)
    choose(environment)
    assert environment == {POOL: "system", ARENAS: "2"} | more


def test_a_heap_that_cannot_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without mallopt in the C library only the environment of started processes is set."""
    monkeypatch.setattr(memory_pools.ctypes, "CDLL", lambda name: object())
    environment: dict[str, str] = {}
    choose(environment)
    assert environment == {POOL: "system", ARENAS: "2"}


@pytest.mark.parametrize(("given", "pool"), [({}, "system"), ({POOL: "mimalloc"}, "mimalloc")])
def test_helen_pipeline_has_chosen_before_arrow_is_loaded(given: dict[str, str], pool: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in (POOL, ARENAS)} | given
    words = [sys.executable, "-c", f"import helen.pipeline.__main__; {SHOW}"]
    assert subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout == f"{pool}\n"
