"""`remotes` and `telling` are importable by the tests of this folder, `helen_running` of tests/helen is as well."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from remotes import Receiver, Sink


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as each:
        yield each


@pytest.fixture
def sink() -> Iterator[Sink]:
    with Sink() as each:
        yield each
