"""helen.statedir: private files and whole files."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from helen import statedir
from helen.statedir import KeyExposed


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700])
def test_what_only_the_owner_reads(tmp_path: Path, mode: int) -> None:
    """Such a file is read."""
    (tmp_path / "key").write_bytes(b"secret")
    (tmp_path / "key").chmod(mode)
    assert statedir.read_private(tmp_path / "key") == b"secret"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601, 0o666, 0o610])
def test_what_others_can_touch(tmp_path: Path, mode: int) -> None:
    """It is refused with the command that mends it."""
    path = tmp_path / "key"
    path.write_bytes(b"secret")
    path.chmod(mode)
    with pytest.raises(KeyExposed, match=f"chmod 600 {path}$"):
        statedir.read_private(path)


def test_a_private_link_to_a_public_file(tmp_path: Path) -> None:
    """What counts is the file that is read."""
    (tmp_path / "key").write_bytes(b"secret")
    (tmp_path / "key").chmod(0o644)
    (tmp_path / "link").symlink_to("key")
    with pytest.raises(KeyExposed):
        statedir.read_private(tmp_path / "link")


@pytest.mark.parametrize("mask", [0o000, 0o077])
@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_modes_do_not_depend_on_the_umask(tmp_path: Path, mask: int, mode: int) -> None:
    """What was asked for is what is there, and no other file is left."""
    before = os.umask(mask)
    try:
        statedir.write_whole(tmp_path / "file", b"content", mode)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == mode
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_write_that_fails_leaves_the_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk fills half-way: the file is the one of before, and the next write works."""
    statedir.write_whole(tmp_path / "file", b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            statedir.write_whole(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"old"
    statedir.write_whole(tmp_path / "file", b"newer")
    assert (tmp_path / "file").read_bytes() == b"newer"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
