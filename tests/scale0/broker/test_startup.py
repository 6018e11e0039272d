"""Tests what a broker starts with: its state, its version, and the passwords that it takes."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from scale0.broker.configurations import Configurations
from scale0.broker.startup import first_state, load_file, password_is_right
from scale0.broker.state_folder import Record
from scale0.config.config import ConfigFault


def record(state: str = "active", version: int = 5, digest: str = "") -> Record:
    return Record(state, version, digest, {})


@pytest.mark.parametrize(
    "kept, same_file, wanted, has_received, state",
    [
        (None, False, "active", False, "active"), (None, False, "disabled", False, "disabled"),
        (None, False, "joining", False, "joining"), (None, False, "joining", True, "active"),
        ("disabled", False, "active", True, "disabled"), ("active", True, "disabled", False, "active"),
        ("active", False, "disabled", False, "disabled"), ("joining", True, "disabled", False, "joining"),
        ("active", True, "joining", False, "joining"), ("active", True, "joining", True, "active"),
    ],
)  # fmt: skip
def test_the_state_to_start_in(kept, same_file, wanted, has_received, state) -> None:
    assert first_state(None if kept is None else record(kept), same_file, wanted, has_received) == state


@pytest.mark.parametrize("n, r, p", [(2, 1, 1), (16_384, 8, 1), (2, 64, 2), (1024, 1, 16)])
def test_passwords_by_their_record(n: int, r: int, p: int) -> None:
    """The memory for each is 128 * N * r bytes and a little."""
    key = hashlib.scrypt(b"secret", salt=b"s" * 8, n=n, r=r, p=p, dklen=24, maxmem=1 << 26)
    stored = f"scrypt${n}${r}${p}${(b's' * 8).hex()}${key.hex()}"
    assert password_is_right(stored, "secret") and not password_is_right(stored, "Secret")


def loaded(folder: Path, state: str = "active"):
    file = folder / "b.json"
    file.write_text(f'{{"identity": "b1", "state": "{state}", "frontend_port": 0, "backend_port": 0}}')
    return load_file(file)


def test_versions_rise_with_the_file_and_stay_with_it(tmp_path: Path) -> None:
    read = loaded(tmp_path)
    assert read.changed_ms == int(1000 * (tmp_path / "b.json").stat().st_mtime)
    assert Configurations(read, None, None).version == read.changed_ms
    later = read.changed_ms + 1000
    assert Configurations(read, record(version=5, digest=read.digest), None).version == 5
    assert Configurations(read, record(version=5, digest="other"), None).version == read.changed_ms
    assert Configurations(read, record(version=later, digest="other"), None).version == later + 1
    joining = loaded(tmp_path, "joining")
    assert Configurations(joining, record(version=5, digest=joining.digest), None).version == 0


def test_a_reloaded_file_is_above_the_version_in_force(tmp_path: Path) -> None:
    read = loaded(tmp_path)
    held = Configurations(read, None, None)
    for version, own in ((5, read.changed_ms), (read.changed_ms, read.changed_ms + 1)):
        assert held.reload(read, version) == read.config and held.own_version == own


def test_a_file_with_another_ending_or_none_is_no_configuration(tmp_path: Path) -> None:
    for name, why in (("b.txt", "its name ends in .json, .xml, .zfl"), ("none.json", "No such file or directory")):
        with pytest.raises(ConfigFault, match=why):
            load_file(tmp_path / name)
