"""Tests that Arrow takes its memory from a pool that keeps it, whatever pools its build has."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from helen import arrow_memory


@pytest.fixture
def pool() -> Iterator[None]:
    before = pa.default_memory_pool()
    yield
    pa.set_memory_pool(before)


@pytest.mark.parametrize("name", arrow_memory.POOLS)
def test_the_first_pool_that_is_there(pool: None, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    if name not in pa.supported_memory_backends():  # a build without jemalloc: `system` is in all of them
        name = "system"
    monkeypatch.setattr(pa, "supported_memory_backends", lambda: ["mimalloc", name, "system"])
    arrow_memory.choose()
    assert pa.default_memory_pool().backend_name == name
