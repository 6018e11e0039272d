"""The service's own decisions: what ends it, and with which status."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helen import tap
from helen.journal.values import Trouble
from helen.settings import Settings
from helen.tap import Helen


class Stopped:
    """A reactor that is only ever stopped."""

    stops = 0

    def stop(self) -> None:
        self.stops += 1


@pytest.fixture
def helen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(tap.atexit, "register", lambda call: None)  # it would end pytest with her status
    made = Helen(Stopped(), Settings(tmp_path), lambda: Settings(tmp_path))
    yield made
    made.left.set()


@pytest.mark.parametrize(
    ("troubles", "status", "stops", "told"),
    [
        ([Trouble("disk full")], 0, 0, "disk full"),
        ([Trouble("disk full"), Trouble("room again", over=True)], 0, 0, None),
        ([Trouble("EIO", fatal=True)], 1, 1, "EIO"),
        ([Trouble("EIO", fatal=True), Trouble("EIO", fatal=True)], 1, 2, "EIO"),
    ],
)
def test_trouble_of_the_journal(helen: Any, troubles: list[Trouble], status: int, stops: int, told: str | None) -> None:
    """A full disk passes; one that is not to be trusted ends Helen with status 1."""
    for trouble in troubles:
        helen._on_trouble(trouble)
    assert (helen._exit_status, helen.reactor.stops, helen.trouble) == (status, stops, told)


def test_sigterm_after_a_fatal_trouble(helen: Any) -> None:
    """The status stays what it was."""
    helen.end(1)
    helen.end(0)
    assert helen._exit_status == 1


def test_what_hangs_is_left_behind(helen: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that never answers: out after STOP_SECONDS, and not with status 0."""
    left: list[int] = []
    monkeypatch.setattr(tap, "STOP_SECONDS", 0.01)
    monkeypatch.setattr(tap.os, "_exit", left.append)
    helen._leave_in_time()
    assert left == [1]
