"""Tests the folder of checks: which files are read, which are left out, and when a change is reported."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from twisted.internet.task import Clock

from equus_protocol.manifest import MAX_FILE
from helen.library import check_folder
from helen.library.check_folder import (
    BUSY_SECONDS,
    POLL_SECONDS,
    QUIET_SECONDS,
    FolderWatch,
    Reading,
    fill,
    put,
    read,
    stamp,
)


def test_what_is_read(tmp_path: Path) -> None:
    """Checks and libraries are read; tests, hidden files, editors' backups and other types are not."""
    for name in ("lib", "tests"):
        (tmp_path / name).mkdir()
    for name in ("a.lua", "lib/b.lua", "tests/a.lua", ".c.lua", "#d.lua", "e.lua~", "f.txt"):
        (tmp_path / name).write_text(name)
    assert read(tmp_path) == Reading({"a.lua": b"a.lua", "lib/b.lua": b"lib/b.lua"}, {})


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (make_fifo, "left out: it is no regular file"),
        (Path.mkdir, "it can't be read: Is a directory"),
        (lambda path: path.symlink_to("nowhere"), "it can't be read: No such file or directory"),
        (lambda path: path.write_bytes(b"x" * (MAX_FILE + 1)), f"left out: more than {MAX_FILE} bytes"),
    ],
)
def test_what_is_left_out(tmp_path: Path, make: Callable[[Path], None], fault: str) -> None:
    """An entry that cannot be read as a check is left out with a reason; the others are read, and a FIFO blocks
    nothing."""
    (tmp_path / "good.lua").write_text("x")
    make(tmp_path / "bad.lua")
    assert read(tmp_path) == Reading({"good.lua": b"x"}, {"bad.lua": fault})


def test_a_name_that_no_check_has(tmp_path: Path) -> None:
    """A file whose name no manifest can hold is left out as a fault."""
    (tmp_path / "a b.lua").touch()
    assert list(read(tmp_path).faults) == ["a b.lua"]


@pytest.mark.parametrize("limit", ["MAX_FILES", "MAX_SET"])
def test_a_set_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    """Files beyond a limit of a set are left out, and named."""
    monkeypatch.setattr(check_folder, limit, 2)
    for name in "abc":
        (tmp_path / f"{name}.lua").write_text("x")
    reading = read(tmp_path)
    assert (list(reading.files), list(reading.faults)) == (["a.lua", "b.lua"], ["c.lua"])


def test_fill(tmp_path: Path) -> None:
    """`fill` writes the shipped checks into a new folder once, and leaves a folder that exists as it is."""
    assert fill(tmp_path / "checks") is True
    assert "load.lua" in read(tmp_path / "checks").files
    assert fill(tmp_path / "checks") is False


def test_put(tmp_path: Path) -> None:
    """`put` writes each file, and makes the folders that it needs."""
    put(tmp_path, {"a.lua": b"1", "lib/b.lua": b"2", "tests/a.lua": b"3"})
    assert read(tmp_path).files == {"a.lua": b"1", "lib/b.lua": b"2"}


def test_stamps(tmp_path: Path) -> None:
    """The stamp of a folder changes with every check that is written, renamed or removed, and with no other file."""
    (tmp_path / "lib").mkdir()
    seen = [stamp(tmp_path)]
    for deed in (
        lambda: (tmp_path / "a.lua").write_text("1"),
        lambda: (tmp_path / "lib/b.lua").write_text("22"),
        lambda: (tmp_path / "a.lua").rename(tmp_path / "c.lua"),
        lambda: (tmp_path / "c.lua").unlink(),
    ):
        deed()
        seen.append(stamp(tmp_path))
    (tmp_path / "notes.txt").touch()
    assert stamp(tmp_path) == seen[-1]
    assert len(set(seen)) == 5
    assert stamp(tmp_path / "none") == ()


def make_loop(folder: Path) -> None:
    (folder / "loop.lua").symlink_to("loop.lua")


def make_closed(folder: Path) -> None:
    (folder / "file").touch()
    (folder / "aa.lua").symlink_to("file/x")


UNSEEN: list[Callable[[Path], None]] = [
    lambda folder: (folder / ".#zz.lua").symlink_to("user@host.1:1"),
    lambda folder: (folder / "gone.lua").symlink_to("..data/gone.lua"),
    lambda folder: (folder / "lib" / "a.lua").symlink_to("nowhere"),
    lambda folder: (folder / "long.lua").symlink_to("x" * 300),
    make_loop,
    make_closed,
]


@pytest.mark.parametrize("make", UNSEEN)
def test_an_entry_that_cannot_be_examined_hides_no_other(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """A link that cannot be examined hides the change of no other entry, before or after it in the folder (F32)."""
    folder, data = tmp_path / "checks", tmp_path / "data"
    for place in (folder / "lib", data):
        place.mkdir(parents=True)
    linked = [folder / name for name in ("a.lua", "flag.lua", "zz.lua", "lib/b.lua")]
    for path in linked:
        (data / path.name).write_text("1")
        path.symlink_to(data / path.name)
    make(folder)
    seen = [stamp(folder)]
    for number, path in enumerate(linked, 2):
        (data / path.name).write_text("1" * number)
        seen.append(stamp(folder))
    assert len(set(seen)) == len(linked) + 1


class Watched:
    """Run a FolderWatch without inotify on a test's clock; `told` holds the moments of its calls, in seconds."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock, self.folder = Clock(), folder
        self.told: list[float] = []

        def none(*_: object) -> None:
            raise OSError(24, "too many watches")

        monkeypatch.setattr("helen.library.check_folder.inotify.INotify", none)
        self.watch = FolderWatch(self.clock, folder, lambda: self.told.append(round(self.clock.seconds(), 2)))
        self.watch.start()

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds / 0.1)):
            self.clock.advance(0.1)


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_threads: None) -> Watched:
    return Watched(tmp_path, monkeypatch)


def test_the_poll_alone(watched: Watched) -> None:
    """Without inotify a change is reported once, within two seconds, and no call comes without a change."""
    watched.run(3)
    assert watched.told == []
    (watched.folder / "a.lua").touch()
    watched.run(5)
    assert len(watched.told) == 1
    assert watched.told[0] <= 3 + POLL_SECONDS + QUIET_SECONDS + 0.2 < 3 + 2
    watched.watch.stop()
    assert watched.clock.getDelayedCalls() == []


def test_a_change_right_after_the_start(watched: Watched) -> None:
    """A change right after the start is reported, although the first look at the folder has not seen it."""
    (watched.folder / "a.lua").touch()
    watched.run(3)
    assert len(watched.told) == 1
    watched.watch.stop()


def test_a_save_of_many_events(watched: Watched) -> None:
    """Many events of one save lead to one call, QUIET_SECONDS after the last of them."""
    for _ in range(4):
        watched.watch._event(None, None, 0)
        watched.run(0.1)
    watched.run(1)
    assert watched.told == [0.5]
    watched.watch.stop()


def test_a_folder_that_is_never_quiet(watched: Watched) -> None:
    """A folder in which something is written all the time is reported all the same, after BUSY_SECONDS."""
    for _ in range(30):
        watched.watch._event(None, None, 0)
        watched.run(0.1)
    assert len(watched.told) >= 2
    assert watched.told[0] <= BUSY_SECONDS + 0.1
    watched.watch.stop()
