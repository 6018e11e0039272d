"""`remotes` and `telling` are importable by the tests of this folder, `helen_running` of tests/helen is as well."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "helen"))
sys.path.insert(0, str(Path(__file__).parent))

from remotes import Receiver, Sink


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as each:
        yield each


@pytest.fixture
def sink() -> Iterator[Sink]:
    with Sink() as each:
        yield each
