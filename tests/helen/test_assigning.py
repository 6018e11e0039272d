"""assignments.toml on disk: faults change nothing, restarts neither; the file is the truth."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helen_parts import Inbox
from twisted.internet.defer import fail
from twisted.internet.task import Clock

from helen.assigning import MAX_FILE, POLL_SECONDS, AssignmentBook
from helen.policy import AssignmentsError
from helen.store import Store, StoreFailed

CPU = '[[assign]]\ncheck = "cpu"\n'
DISK = '[[assign]]\ncheck = "disk"\n'


class Shelf:
    """A state directory with a book on it."""

    def __init__(self, tmp_path: Path, inbox: Inbox, clock: Clock) -> None:
        self.path, self.inbox, self.clock = tmp_path / "assignments.toml", inbox, clock
        self.state = tmp_path / "state"
        self.open()

    def open(self) -> None:
        self.taken: list[list[str]] = []
        self.store = Store(self.state, self.inbox)
        loaded = self.store.open(5.0)
        self.book = AssignmentBook(
            self.clock, self.path, self.store, lambda: 7.0, lambda a: self.taken.append([e.check for e in a.entries])
        )
        self.inbox.wait(self.book.start(loaded.assignments))

    def close(self) -> None:
        self.book.stop()
        self.inbox.wait(self.store.close())

    def save(self, text: str | bytes) -> Shelf:
        self.path.unlink(missing_ok=True)
        self.path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return self

    def poll(self) -> Shelf:
        self.clock.advance(POLL_SECONDS)
        self.inbox.wait(self.book.reread("file"))
        return self


@pytest.fixture
def shelf(tmp_path: Path, inbox: Inbox, clock: Clock, no_threads: None) -> Iterator[Shelf]:
    made = Shelf(tmp_path, inbox, clock)
    yield made
    made.close()


def test_no_file(shelf: Shelf) -> None:
    """Everybody runs the default set; there is no revision of nothing."""
    assert (shelf.taken, shelf.book.revision, shelf.book.fault) == ([[]], 0, None)


def test_a_save_is_seen(shelf: Shelf) -> None:
    """Once; the poll itself reads nothing that it has seen."""
    shelf.save(CPU).poll().poll()
    assert (shelf.taken, shelf.book.revision) == ([[], ["cpu"]], 1)
    shelf.save("").poll()
    assert (shelf.taken[2:], shelf.book.revision) == ([[]], 2)


@pytest.mark.parametrize("text", ["[[assign]", CPU + "x = 1", b"\xff", "x" * (MAX_FILE + 1)])
def test_a_fault_changes_nothing(shelf: Shelf, text: str | bytes) -> None:
    """It is told until it is mended."""
    shelf.save(CPU).poll()
    shelf.save(text).poll()
    assert (shelf.taken, shelf.book.revision) == ([[], ["cpu"]], 1)
    assert shelf.book.fault
    shelf.save(DISK).poll()
    assert (shelf.taken[2:], shelf.book.fault) == ([["disk"]], None)


def test_a_restart_with_a_fault_in_the_file(shelf: Shelf) -> None:
    """The newest revision stays in force: agents don't fall back to the default set."""
    shelf.save(CPU).poll()
    shelf.save("[[assign").poll()
    shelf.close()
    shelf.open()
    assert (shelf.taken, shelf.book.revision) == ([["cpu"]], 1)
    assert "no TOML" in shelf.book.fault


def test_rewrite(shelf: Shelf) -> None:
    """In one step, and not seen as somebody else's change afterwards."""
    shelf.inbox.wait(shelf.book.rewrite(CPU, "operator"))
    shelf.poll()
    assert (shelf.path.read_text(), shelf.taken, shelf.book.revision) == (CPU, [[], ["cpu"]], 1)
    assert shelf.inbox.wait(shelf.book.text()) == CPU


@pytest.mark.parametrize("text", ["[[assign", "#" * (MAX_FILE + 1)])
def test_a_rewrite_that_is_refused(shelf: Shelf, text: str) -> None:
    """The file is left alone."""
    shelf.save(CPU).poll()
    with pytest.raises(AssignmentsError):
        shelf.inbox.wait(shelf.book.rewrite(text, "operator"))
    assert shelf.path.read_text() == CPU


def test_a_full_disk(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is as it was, and a sentence says why."""

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("helen.assigning.write_whole", full)
    with pytest.raises(AssignmentsError, match="can't be written: No space left on device"):
        shelf.inbox.wait(shelf.book.rewrite(CPU, "operator"))


def test_a_store_that_fails(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is in force all the same, and the poll goes on."""
    works = shelf.store.call
    monkeypatch.setattr(shelf.store, "call", lambda *_: fail(StoreFailed("disk full")))
    shelf.save(CPU).poll()
    assert (shelf.taken[1:], shelf.book.revision) == ([["cpu"]], 0)
    monkeypatch.setattr(shelf.store, "call", works)
    shelf.save(DISK).poll()
    assert (shelf.taken[2:], shelf.book.revision) == ([["disk"]], 1)
