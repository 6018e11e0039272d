"""Tests helen.files.state_dir: private files."""

from __future__ import annotations

from pathlib import Path

import pytest

from helen.files import state_dir
from helen.files.state_dir import KeyExposed


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700])
def test_what_only_the_owner_reads(tmp_path: Path, mode: int) -> None:
    """A file that only its owner can read is read."""
    (tmp_path / "key").write_bytes(b"secret")
    (tmp_path / "key").chmod(mode)
    assert state_dir.read_private(tmp_path / "key") == b"secret"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601, 0o666, 0o610])
def test_what_others_can_touch(tmp_path: Path, mode: int) -> None:
    """A file that others can touch is refused with the command that mends it."""
    path = tmp_path / "key"
    path.write_bytes(b"secret")
    path.chmod(mode)
    with pytest.raises(KeyExposed, match=f"chmod 600 {path}$"):
        state_dir.read_private(path)


def test_a_private_link_to_a_public_file(tmp_path: Path) -> None:
    """A link is refused by the mode of the file that is read."""
    (tmp_path / "key").write_bytes(b"secret")
    (tmp_path / "key").chmod(0o644)
    (tmp_path / "link").symlink_to("key")
    with pytest.raises(KeyExposed):
        state_dir.read_private(tmp_path / "link")
