"""Makes fixtures of the tests of Helen from the parts in helen_parts.py."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from twisted.internet.defer import maybeDeferred
from twisted.internet.task import Clock

sys.path.insert(0, str(Path(__file__).parent))

from helen_parts import Notebook
from helen_running import Running, a_fleet_of_one
from inbox import Inbox


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def notebook(clock: Clock) -> Notebook:
    return Notebook(clock)


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Do at once what Helen does in a thread of the reactor's: there is no reactor here."""
    for module in (
        "files.watched_file", "library.check_folder", "sessions.rollout_control", "sessions.session_service",
        "library.adopted_sets", "library.linter", "library.publisher", "library.push_checks", "library.pushes",
        "library.releases", "library.ring_control", "library.set_builder", "web.bodies",
    ):  # fmt: skip
        monkeypatch.setattr(f"helen.{module}.deferToThread", maybeDeferred)
    yield


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Yield one Helen and one agent, for all tests that only ask and direct them."""
    with a_fleet_of_one(tmp_path_factory.mktemp("fleet")) as running:
        yield running
