"""Tests assignments.toml on disk: faults change nothing, restarts neither; the file is the truth."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from inbox import Inbox
from twisted.internet.defer import fail
from twisted.internet.task import Clock

from helen.assignments.assignments_file import MAX_FILE, AssignmentsFile
from helen.assignments.schedule import AssignmentsError
from helen.files.watched_file import POLL_SECONDS
from helen.storage.database import Store, StoreFailed

CPU = '[[assign]]\ncheck = "cpu"\n'
DISK = '[[assign]]\ncheck = "disk"\n'


class Stage:
    """Holds a state directory with a file of assignments in it."""

    def __init__(self, tmp_path: Path, inbox: Inbox, clock: Clock) -> None:
        self.path, self.inbox, self.clock = tmp_path / "assignments.toml", inbox, clock
        self.state = tmp_path / "state"
        self.open()

    def open(self) -> None:
        self.taken: list[list[str]] = []
        self.store = Store(self.state, self.inbox)
        loaded = self.store.open(5.0)
        self.file = AssignmentsFile(
            self.clock, self.path, self.store, lambda: 7.0, lambda a: self.taken.append([e.check for e in a.entries])
        )
        self.inbox.wait(self.file.start_from(loaded.assignments))

    def close(self) -> None:
        self.file.stop()
        self.inbox.wait(self.store.close())

    def save(self, text: str | bytes) -> Stage:
        self.path.unlink(missing_ok=True)
        self.path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return self

    def poll(self) -> Stage:
        self.clock.advance(POLL_SECONDS)
        self.inbox.wait(self.file.reread("file"))
        return self


@pytest.fixture
def stage(tmp_path: Path, inbox: Inbox, clock: Clock, no_threads: None) -> Iterator[Stage]:
    made = Stage(tmp_path, inbox, clock)
    yield made
    made.close()


def test_no_file(stage: Stage) -> None:
    """Everybody runs the default set without a file, and there is no revision of nothing."""
    assert (stage.taken, stage.file.revision, stage.file.fault) == ([[]], 0, None)


def test_a_save_is_seen(stage: Stage) -> None:
    """A save is seen once; the poll itself reads nothing that it has seen."""
    stage.save(CPU).poll().poll()
    assert (stage.taken, stage.file.revision) == ([[], ["cpu"]], 1)
    stage.save("").poll()
    assert (stage.taken[2:], stage.file.revision) == ([[]], 2)


@pytest.mark.parametrize("text", ["[[assign]", CPU + "x = 1", b"\xff", "x" * (MAX_FILE + 1)])
def test_a_fault_changes_nothing(stage: Stage, text: str | bytes) -> None:
    """A file with a fault leaves the assignments as they were, and the fault is told until it is mended."""
    stage.save(CPU).poll()
    stage.save(text).poll()
    assert (stage.taken, stage.file.revision) == ([[], ["cpu"]], 1)
    assert stage.file.fault
    stage.save(DISK).poll()
    assert (stage.taken[2:], stage.file.fault) == ([["disk"]], None)


def test_a_restart_with_a_fault_in_the_file(stage: Stage) -> None:
    """The newest revision stays in force: agents don't fall back to the default set."""
    stage.save(CPU).poll()
    stage.save("[[assign").poll()
    stage.close()
    stage.open()
    assert (stage.taken, stage.file.revision) == ([["cpu"]], 1)
    assert "no TOML" in stage.file.fault


def test_rewrite(stage: Stage) -> None:
    """A rewrite is one step, and is not seen as somebody else's change afterwards."""
    stage.inbox.wait(stage.file.rewrite(CPU, "operator"))
    stage.poll()
    assert (stage.path.read_text(), stage.taken, stage.file.revision) == (CPU, [[], ["cpu"]], 1)
    assert stage.inbox.wait(stage.file.text()) == CPU


@pytest.mark.parametrize("text", ["[[assign", "#" * (MAX_FILE + 1)])
def test_a_rewrite_that_is_refused(stage: Stage, text: str) -> None:
    """A refused rewrite leaves the file alone."""
    stage.save(CPU).poll()
    with pytest.raises(AssignmentsError):
        stage.inbox.wait(stage.file.rewrite(text, "operator"))
    assert stage.path.read_text() == CPU


def test_a_full_disk(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk leaves the file as it was, and a sentence tells why."""

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("helen.files.watched_file.write_durably", full)
    with pytest.raises(AssignmentsError, match="can't be written: No space left on device"):
        stage.inbox.wait(stage.file.rewrite(CPU, "operator"))


def test_a_store_that_fails(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is in force although its store failed, and the poll goes on."""
    works = stage.store.call
    monkeypatch.setattr(stage.store, "call", lambda *_: fail(StoreFailed("disk full")))
    stage.save(CPU).poll()
    assert (stage.taken[1:], stage.file.revision) == ([["cpu"]], 0)
    monkeypatch.setattr(stage.store, "call", works)
    stage.save(DISK).poll()
    assert (stage.taken[2:], stage.file.revision) == ([["disk"]], 1)


def test_observers_hear_of_another_text(stage: Stage) -> None:
    """Observers hear once of each text that is put in force; the same text and a refused one are no news."""
    heard: list[str] = []
    stage.file.observers.append(lambda: heard.append(stage.file.taken))
    for text in (CPU, CPU, DISK, "[[assign]]\n", DISK, ""):
        stage.save(text).poll()
    assert heard == [CPU, DISK, ""]
