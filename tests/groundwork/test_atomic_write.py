"""Tests groundwork.atomic_write: the old content or the new one is there, whatever fails on the way."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from groundwork.atomic_write import (
    Disk,
    remove_leftovers,
    sync_file,
    sync_folder,
    temporary_name,
    write_all_durably,
    write_durably,
)

STEPS = ["remove", "create", "write", "sync", "rename", "sync_folder"]


class Failing(Disk):
    """Notes the calls, and fails at the one of this name."""

    def __init__(self, step: str = "") -> None:
        self.step, self.calls = step, []  # type: tuple[str, list[str]]

    def _do(self, name: str, *given: object) -> object:
        self.calls.append(name)
        if name == self.step and self.calls.count(name) == 1:
            if name == "write":
                super().write(given[0], given[1][:2], 0)  # type: ignore[arg-type,index]
            raise OSError(28, "No space left on device")
        return getattr(Disk, name)(self, *given)

    def __getattribute__(self, name: str) -> object:
        if name in STEPS:
            return lambda *given: self._do(name, *given)
        return super().__getattribute__(name)


@pytest.mark.parametrize("mask", [0o000, 0o077])
@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_modes_do_not_depend_on_the_umask(tmp_path: Path, mask: int, mode: int) -> None:
    """A file has the mode that was asked for, and no other file is left; a second write changes it."""
    before = os.umask(mask)
    try:
        write_durably(tmp_path / "file", b"content", 0o640)
        write_durably(tmp_path / "file", b"content", mode)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == mode
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [(b"bytes\n", b"bytes\n"), ("t\u00e9xt\n", b"t\xc3\xa9xt\n"), (memoryview(b"view"), b"view"), (b"", b"")],
)
def test_bytes_and_text(tmp_path: Path, content: bytes | str, expected: bytes) -> None:
    """A text is UTF-8, its line ends are left alone, and nobody else reads it."""
    write_durably(tmp_path / "file", content)
    assert (tmp_path / "file").read_bytes() == expected
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600


def test_each_step_in_its_order(tmp_path: Path) -> None:
    """The content is durable before its name is, and the name before the call returns."""
    disk = Failing()
    write_durably(tmp_path / "file", b"content", disk=disk)
    assert disk.calls == STEPS


@pytest.mark.parametrize("count", [0, 1, 3])
def test_many_files_of_a_folder(tmp_path: Path, count: int) -> None:
    """Each content is durable before its name, and one sync of the folder is for all names."""
    disk, contents = Failing(), {f"file-{number}": b"%d" % number for number in range(count)}
    write_all_durably(tmp_path, contents, disk=disk)
    assert disk.calls == STEPS[:-1] * count + STEPS[-1:]
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == contents
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} <= {0o600}


@pytest.mark.parametrize("step", STEPS[:-1])
def test_a_write_that_fails_leaves_the_old(tmp_path: Path, step: str) -> None:
    """The disk fills at any step: the file is the one of before, no other is left, and the next write works."""
    write_durably(tmp_path / "file", b"old")
    with pytest.raises(OSError, match="No space"):
        write_durably(tmp_path / "file", b"newer", disk=Failing(step))
    assert (tmp_path / "file").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]
    write_durably(tmp_path / "file", b"newer")
    assert (tmp_path / "file").read_bytes() == b"newer"


def test_a_folder_that_can_not_be_synced(tmp_path: Path) -> None:
    """A folder that can not be synced is told as an error, although a reader sees the new content already."""
    write_durably(tmp_path / "file", b"old")
    with pytest.raises(OSError, match="No space"):
        write_durably(tmp_path / "file", b"new", disk=Failing("sync_folder"))
    assert (tmp_path / "file").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["file"]


def test_a_write_takes_several_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel may take a part at a time."""
    whole = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda descriptor, data, offset: whole(descriptor, data[:3], offset))
    write_durably(tmp_path / "file", b"ten bytes!")
    assert (tmp_path / "file").read_bytes() == b"ten bytes!"


def test_threads_do_not_write_to_one_temporary_file(tmp_path: Path) -> None:
    """The content of one of the threads is there at the end, whole."""
    contents = [bytes([letter]) * 20_000 for letter in b"abcdefgh"]
    threads = [threading.Thread(target=write_durably, args=(tmp_path / "file", each)) for each in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tmp_path / "file").read_bytes() in contents
    assert os.listdir(tmp_path) == ["file"]


def test_leftovers(tmp_path: Path) -> None:
    """A killed process leaves a file; the next write of that name removes it, and so does `remove_leftovers`."""
    temporary_name(tmp_path / "file").write_bytes(b"half")
    (tmp_path / ".other.1-1.tmp").write_bytes(b"half")
    write_durably(tmp_path / "file", b"content")
    assert sorted(os.listdir(tmp_path)) == [".other.1-1.tmp", "file"]
    (tmp_path / "mine.tmp").write_bytes(b"")
    remove_leftovers(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["file", "mine.tmp"]


def test_syncing_what_another_wrote(tmp_path: Path) -> None:
    """A file and a folder can be synced; a name that is not there is an error."""
    (tmp_path / "file").write_bytes(b"content")
    sync_file(tmp_path / "file")
    sync_file(tmp_path)
    sync_folder(tmp_path)
    with pytest.raises(FileNotFoundError):
        sync_file(tmp_path / "gone")
    with pytest.raises(NotADirectoryError):
        sync_folder(tmp_path / "file")
