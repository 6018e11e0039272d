"""Test which key opens which account: files of keys, certificates of a CA, and keys that are nearly right."""

from __future__ import annotations

import base64
import os
import subprocess
import time
from pathlib import Path

import pytest
from ssh_stage import keygen

from equus.shell.permits import MAX_FILE, Access, Permit, permit
from equus_protocol.host_key import fingerprint

NOW = 1_800_000_000.0


def blob(path: Path) -> bytes:
    return base64.b64decode(path.with_suffix(".pub").read_text().split()[1])


def certificate(folder: Path, ca: Path, *more: str, principals: str = "ops,root", name: str = "user") -> bytes:
    """Return a certificate for a new key as bytes; it is good for an hour around NOW unless `more` says otherwise."""
    key = keygen(folder / f"{name}-{time.monotonic_ns()}")
    when = [] if "-V" in more else ["-V", "20260101000000Z:20300101000000Z"]
    words = ["ssh-keygen", "-q", "-s", str(ca), "-I", "anna", "-z", "7", *when, *more]
    words += ["-n", principals] if principals else []
    subprocess.run([*words, f"{key}.pub"], check=True, timeout=60)
    return base64.b64decode(Path(f"{key}-cert.pub").read_text().split()[1])


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """Write a file with comments, a key of another kind, one with options, and a good one, and return its folder."""
    for name in ("good", "limited", "other"):
        keygen(tmp_path / name)
    lines = ["# people", "", (tmp_path / "good.pub").read_text().strip(), "ssh-ed25519 not-base64", "ssh-ed25519",
             f'from="10.0.0.0/8" {(tmp_path / "limited.pub").read_text().strip()}']  # fmt: skip
    (tmp_path / "keys").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_a_key_of_the_file(keys: Path) -> None:
    """A key of the file opens the users of the policy alone; another key, one with options and no key open none."""
    access = Access(("ops", "root"), str(keys / "keys"))
    good = blob(keys / "good")
    assert permit(access, "ops", good, NOW) == Permit(fingerprint(good), good)
    assert permit(access, "anna", good, NOW) is None
    for other in (blob(keys / "other"), blob(keys / "limited"), b"", b"\xff" * 9, good[:-1], good + b"x" * 70_000):
        assert permit(access, "ops", other, NOW) is None


def test_a_file_for_each_user(keys: Path) -> None:
    """`%u` in the path of keys stands for the user, and a user without a file is refused with the reason."""
    (keys / "ops").write_text((keys / "good.pub").read_text())
    access = Access(("ops", "root"), str(keys / "%u"))
    assert permit(access, "ops", blob(keys / "good"), NOW) is not None
    with pytest.raises(FileNotFoundError):
        permit(access, "root", blob(keys / "good"), NOW)


def test_a_key_that_is_taken_out_opens_nothing_any_more(keys: Path) -> None:
    """A key that is taken out of the file opens nothing any more, because the file is read each time."""
    access = Access(("ops",), str(keys / "keys"))
    assert permit(access, "ops", blob(keys / "good"), NOW) is not None
    (keys / "keys").write_text("")
    assert permit(access, "ops", blob(keys / "good"), NOW) is None


def test_a_file_that_others_can_write_opens_nothing(keys: Path) -> None:
    """A file of keys that others can write, or that is too long, opens nothing."""
    access = Access(("ops",), str(keys / "keys"))
    os.chmod(keys / "keys", 0o666)
    with pytest.raises(PermissionError, match="can be written by others"):
        permit(access, "ops", blob(keys / "good"), NOW)
    os.chmod(keys / "keys", 0o600)
    (keys / "keys").write_bytes(b"#" * (MAX_FILE + 1))
    with pytest.raises(OSError, match="is larger than"):
        permit(access, "ops", blob(keys / "good"), NOW)


def test_certificates(tmp_path: Path) -> None:
    """A certificate of the CA opens for its user and time with what its extensions allow, and any other certificate
    opens nothing.
    """
    ca, other = keygen(tmp_path / "ca"), keygen(tmp_path / "other")
    access = Access(("ops", "web"), None, f"{ca}.pub")
    good = certificate(tmp_path, ca)
    found = permit(access, "ops", good, NOW)
    assert found is not None
    assert (found.may_pty, found.may_forward, found.command) == (True, True, None)
    assert found.who == f"certificate 'anna' 7 of {fingerprint(blob(ca))}"
    narrow = certificate(tmp_path, ca, "-O", "clear", "-O", "force-command=uptime")
    found = permit(access, "ops", narrow, NOW)
    assert found is not None
    assert (found.may_pty, found.may_forward, found.command) == (False, False, "uptime")
    assert permit(access, "web", good, NOW) is None, "its principals don't have this user"
    assert permit(access, "root", good, NOW) is None, "the policy doesn't have this user"
    assert permit(Access(("ops",), f"{ca}.pub"), "ops", good, NOW) is None, "no CA is trusted"
    for bad in (
        certificate(tmp_path, other),
        certificate(tmp_path, ca, "-h", principals="ops"),
        certificate(tmp_path, ca, "-O", "source-address=10.0.0.0/8"),
        certificate(tmp_path, ca, "-V", "20250101000000Z:20250102000000Z"),
        certificate(tmp_path, ca, "-V", "20290101000000Z:20300101000000Z"),
        certificate(tmp_path, ca, principals=""),
        good[:-1] + bytes([good[-1] ^ 1]),
        good[:200],
    ):
        assert permit(access, "ops", bad, NOW) is None
