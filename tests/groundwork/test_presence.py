"""Tests whether a file is there: only the answer of the system that it is not counts as no."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from groundwork.presence import is_there, names_in, read_if_there


def test_what_is_there_and_what_is_not(tmp_path: Path) -> None:
    """A folder and a file are there; nothing lies below a file, or behind a link to nothing."""
    (tmp_path / "a").write_bytes(b"x")
    (tmp_path / "to-nothing").symlink_to("b")
    assert [is_there(tmp_path / name) for name in (".", "a", "b", "a/b", "to-nothing")] == [True, True, *[False] * 3]
    assert [read_if_there(tmp_path / name) for name in ("a", "b", "a/b", "to-nothing")] == [b"x", None, None, None]


def test_names(tmp_path: Path) -> None:
    """Names come in order; a folder that is missing has none, and one that can't be listed raises."""
    for name in ("b", "a"):
        (tmp_path / name).touch()
    assert names_in(tmp_path) == ["a", "b"]
    assert names_in(tmp_path / "c") == []
    with pytest.raises(NotADirectoryError):
        names_in(tmp_path / "a")


def test_a_link_to_itself_is_not_taken_for_nothing(tmp_path: Path) -> None:
    """A link to itself raises, where `Path.exists` says False."""
    (tmp_path / "loop").symlink_to("loop")
    assert not (tmp_path / "loop").exists()
    for look in (is_there, read_if_there):
        with pytest.raises(OSError, match="Too many levels"):
            look(tmp_path / "loop")


@pytest.mark.parametrize("code", [errno.EACCES, errno.EIO, errno.ESTALE])
def test_what_cannot_be_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """A closed folder and a failing disk are told, whatever Python's version makes of them."""

    def broken(path: Path) -> None:
        raise OSError(code, os.strerror(code), str(path))

    monkeypatch.setattr(os, "stat", broken)
    with pytest.raises(OSError, match=os.strerror(code)):
        is_there(tmp_path)
