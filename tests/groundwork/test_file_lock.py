"""Tests groundwork.file_lock: one holder at a time, named in words, and free when its process ends."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from groundwork.file_lock import FileLock, LockHeld

HOLD = "import sys; from pathlib import Path; from groundwork.file_lock import FileLock; FileLock(Path(sys.argv[1]));"


@pytest.mark.adversary(55)
def test_the_second_is_told_who_has_it(tmp_path: Path) -> None:
    """The second holder is refused without a wait, with the first one's process id; when the first lets go, it may have
    the lock.
    """
    first = FileLock(tmp_path / "lock")
    with pytest.raises(LockHeld, match=rf"^process {os.getpid()} has the lock {tmp_path}/lock$") as caught:
        FileLock(tmp_path / "lock")
    assert (caught.value.holder, caught.value.path) == (f"process {os.getpid()}", tmp_path / "lock")
    first.release()
    first.release()
    FileLock(tmp_path / "lock").release()


@pytest.mark.adversary(55)
def test_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    """The file of a killed holder stays, and blocks no start."""
    path = tmp_path / "lock"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD + "print('held', flush=True); sys.stdin.read()", str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        with pytest.raises(LockHeld, match=f"process {holder.pid} "):
            FileLock(path)
    finally:
        holder.kill()
        holder.communicate(timeout=30)
    assert path.read_text() == f"{holder.pid}\n"
    FileLock(path).release()
    assert path.read_text() == f"{os.getpid()}\n"


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"held by me\n"])
def test_a_holder_that_left_no_id(tmp_path: Path, content: bytes) -> None:
    """An unknown process has the lock if the file has no id: it has only just begun, or something else wrote to the
    file.
    """
    held = FileLock(tmp_path / "lock")
    (tmp_path / "lock").write_bytes(content)
    with pytest.raises(LockHeld, match=r"^an unknown process has the lock"):
        FileLock(tmp_path / "lock")
    held.release()


def test_a_child_does_not_inherit_it(tmp_path: Path) -> None:
    """A program that was started meanwhile does not keep the lock."""
    held = FileLock(tmp_path / "lock")
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, close_fds=False)
    try:
        held.release()
        FileLock(tmp_path / "lock").release()
    finally:
        child.communicate(timeout=30)


def test_the_mode_is_given(tmp_path: Path) -> None:
    """Nobody else opens it unless that was asked for."""
    before = os.umask(0)
    try:
        FileLock(tmp_path / "one").release()
        FileLock(tmp_path / "two", 0o640).release()
    finally:
        os.umask(before)
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("one", "two")] == [0o600, 0o640]


def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    """A file that cannot be opened raises OSError and not LockHeld."""
    with pytest.raises(FileNotFoundError):
        FileLock(tmp_path / "nowhere" / "lock")
    with pytest.raises(IsADirectoryError):
        FileLock(tmp_path)


def test_a_lock_is_in_place_while_its_path_leads_to_it(tmp_path: Path) -> None:
    """A lock is not in place once its file is gone or another one, since a second process can lock that one."""
    held = FileLock(tmp_path / "lock")
    assert held.is_in_place()
    (tmp_path / "lock").unlink()
    assert not held.is_in_place()
    (tmp_path / "lock").touch()
    assert not held.is_in_place()
    held.release()
    assert not held.is_in_place()
