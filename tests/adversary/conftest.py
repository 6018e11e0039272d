"""Provide a Helen of its own for the cases that need one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from helen_running import Running, a_fleet_of_one
from twisted.internet.task import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Yield one Helen and one agent, of which tests only ask."""
    with a_fleet_of_one(tmp_path_factory.mktemp("fleet")) as running:
        yield running


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Start Helens without TLS, for peers that are made of raw lines; they end with the test."""
    started: list[Running] = []

    def one(*options: str, **more: Any) -> Running:
        started.append(Running(tmp_path / "helen", "--insecure-plaintext", *options, **more))
        return started[-1].up()

    yield one
    for running in started:
        running.end()
