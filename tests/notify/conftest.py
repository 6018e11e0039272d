"""`remotes` and `telling` are importable by the tests of this folder, `helen_running` of tests/helen is as well."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("remotes", "telling")
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "helen")]

from remotes import Receiver, Sink


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as each:
        yield each


@pytest.fixture
def sink() -> Iterator[Sink]:
    with Sink() as each:
        yield each
