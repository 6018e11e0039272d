"""Test the host key: it is made once, for its owner alone, and signed so that no server in between can show another."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

from equus.identity.new_keys import key_pem
from equus.shell import host_key
from equus_protocol.host_key import fault, sign


def test_made_once(tmp_path: Path) -> None:
    """The host key is the same at each start, readable by its owner alone, and has the fingerprint that ssh-keygen
    prints.
    """
    made = host_key.load(tmp_path)
    assert host_key.load(tmp_path) == made
    assert (tmp_path / host_key.FILE).stat().st_mode & 0o777 == 0o600
    words = ["ssh-keygen", "-lf", str(tmp_path / host_key.PUBLIC_FILE)]
    shown = subprocess.run(words, capture_output=True, text=True, check=True)
    assert shown.stdout.split()[1] == made.fingerprint
    assert made.pem not in repr(made)


def test_files_that_are_none(tmp_path: Path) -> None:
    """A host key that others can read, or of another kind, is refused and not replaced."""
    host_key.load(tmp_path)
    os.chmod(tmp_path / host_key.FILE, 0o644)
    with pytest.raises(ValueError, match="can be read by others"):
        host_key.load(tmp_path)
    os.chmod(tmp_path / host_key.FILE, 0o600)
    (tmp_path / host_key.FILE).write_bytes(key_pem(generate_private_key(SECP256R1())))
    with pytest.raises(ValueError, match="is no Ed25519 key"):
        host_key.load(tmp_path)


def test_signed_by_the_agent(tmp_path: Path, authority, other_authority) -> None:  # type: ignore[no-untyped-def]
    """A host key's signature is good for this agent, key and CA, and each of them replaced is reported."""
    line = host_key.load(tmp_path).line
    certificate, key = authority.agent("web-1")
    signature = sign(line, key)
    assert fault("web-1", line, signature, certificate, authority.pem) is None
    assert fault("web-1", line, signature, certificate, other_authority.pem + authority.pem) is None
    assert fault("web-1", line, signature, certificate, None) is None
    assert fault("web-2", line, signature, certificate, authority.pem) == "its certificate is not that of web-2"
    foreign = "its certificate is not signed by the CA of this Helen"
    assert fault("web-1", line, signature, certificate, other_authority.pem) == foreign
    unsigned = "it is not signed with the key of its certificate"
    (tmp_path / "other").mkdir()
    other = host_key.load(tmp_path / "other")
    for bad in (
        ("web-1", other.line, signature, certificate, authority.pem),
        ("web-1", line, sign(other.line, key), certificate, authority.pem),
        ("web-1", line, "", certificate, authority.pem),
        ("web-1", line, "é", certificate, authority.pem),
        ("web-1", line, signature, b"no certificate", authority.pem),
    ):
        assert fault(*bad) == unsigned
