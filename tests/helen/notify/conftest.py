"""Makes `remotes` and `telling` importable by the tests of this folder, and `helen_running` of tests/helen as well."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from notifier_life import FILE, Life
from remotes import Receiver, Sink
from telling import Pump
from twisted.internet.defer import maybeDeferred
from twisted.internet.task import Clock


@pytest.fixture(scope="module")
def pump() -> Iterator[Pump]:
    pump = Pump()
    yield pump
    pump.close()


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in the test's own thread what a channel would do in another one."""
    monkeypatch.setattr("helen.notify.attempt.deferToThread", maybeDeferred)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as each:
        yield each


@pytest.fixture
def sink() -> Iterator[Sink]:
    with Sink() as each:
        yield each


@pytest.fixture
def life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Life:
    monkeypatch.setattr("helen.files.watched_file.deferToThread", maybeDeferred)
    (tmp_path / "notifications.toml").write_text(FILE)
    return Life(tmp_path, Clock())
