"""Makes fixtures of the tests of forwards from the parts in forward_stage.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from forward_stage import LineReceiver, Receiver, Stage
from telling import Pump
from twisted.internet.defer import maybeDeferred


@pytest.fixture(scope="module")
def pump() -> Iterator[Pump]:
    pump = Pump()
    yield pump
    pump.close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as each:
        yield each


@pytest.fixture
def lines() -> Iterator[LineReceiver]:
    with LineReceiver() as each:
        yield each


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits between looks and tries are short, and files are read in the test's own thread."""
    monkeypatch.setattr("helen.files.watched_file.deferToThread", maybeDeferred)
    monkeypatch.setattr("helen.forwards.forwarder.LOOK_SECONDS", 0.01)
    monkeypatch.setattr("helen.forwards.delivery.FIRST_RETRY", 0.01)
    monkeypatch.setattr("helen.forwards.delivery.LONGEST_RETRY", 0.02)


@pytest.fixture
def stages(pump: Pump, tmp_path: Path, soon: None) -> Iterator[Callable[..., Stage]]:
    """Make stages, which end with the test."""
    made: list[Stage] = []

    def make(**limits: Any) -> Stage:
        folder = tmp_path / f"state-{len(made)}"
        folder.mkdir()
        made.append(Stage(pump, folder, **limits))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def stage(stages: Callable[..., Stage]) -> Stage:
    return stages()
