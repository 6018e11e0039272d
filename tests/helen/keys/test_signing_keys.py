"""Tests helen.keys.signing_keys: keys that are made, read, or refused."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from equus_protocol import manifest
from groundwork.atomic_write import write_durably
from helen.files.state_dir import KeyExposed
from helen.keys import ca_files, signing_keys
from helen.keys.signing_keys import SigningKeyUnusable

KEYS = [Ed25519PrivateKey.generate() for _ in range(3)]


def publics(*keys: Ed25519PrivateKey) -> str:
    return "".join(signing_keys.public_pem(key.public_key()) for key in keys)


def test_the_first_start(tmp_path: Path) -> None:
    """A first start makes a key for the owner alone, and later starts use the same."""
    first = signing_keys.load(tmp_path)
    assert stat.S_IMODE((tmp_path / "signing.key").stat().st_mode) == 0o600
    assert first.private
    assert signing_keys.load(tmp_path).public == first.public
    assert list(first.public) == [manifest.key_id(first.private[0].public_key())]
    assert "private" not in repr(first)


def test_what_is_signed_verifies(tmp_path: Path) -> None:
    """The two halves are those that equus_protocol.manifest wants."""
    keys = signing_keys.load(tmp_path)
    envelope = manifest.sign(manifest.build({"a.lua": b"return 1"}, 1, 0.0, 10.0), keys.private)
    assert manifest.verify(envelope, keys.public, 5.0).version == 1


def test_public_keys_only(tmp_path: Path) -> None:
    """With --signing-keys Helen holds no private key and makes none; every key of the file counts, in its order."""
    (tmp_path / "keys.pem").write_text("# ann\n" + publics(KEYS[0]) + "# bob\n" + publics(KEYS[1], KEYS[0]))
    keys = signing_keys.load(tmp_path, tmp_path / "keys.pem")
    assert not keys.private
    assert list(keys.public) == [manifest.key_id(key.public_key()) for key in KEYS[:2]]
    assert keys.pem() == publics(*KEYS[:2])
    assert not (tmp_path / "signing.key").exists()


@pytest.mark.adversary(31)
def test_a_key_that_others_can_read(tmp_path: Path) -> None:
    """A key that others can read is refused with the command to run."""
    signing_keys.make_private(tmp_path / "signing.key")
    (tmp_path / "signing.key").chmod(0o644)
    with pytest.raises(KeyExposed, match=f"chmod 600 {tmp_path}/signing.key$"):
        signing_keys.load(tmp_path)


def test_a_key_is_never_overwritten(tmp_path: Path) -> None:
    """A key that is there is not overwritten, since every agent pins it."""
    signing_keys.make_private(tmp_path / "signing.key")
    with pytest.raises(SigningKeyUnusable, match="is there already"):
        signing_keys.make_private(tmp_path / "signing.key")


PRIVATE = {
    "nothing": (b"", "no unencrypted private key"),
    "text": (b"hello", "no unencrypted private key"),
    "a public key": (publics(KEYS[0]).encode(), "no unencrypted private key"),
    "another kind": (ca_files.key_pem(ec.generate_private_key(ec.SECP256R1())), "no Ed25519 key"),
    "a locked one": (
        KEYS[0].private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"word"),
        ),
        "no unencrypted private key",
    ),
}


@pytest.mark.parametrize("title", PRIVATE)
def test_private_keys_that_cannot_be_used(tmp_path: Path, title: str) -> None:
    """A private key that cannot be used is refused with a sentence that names the file."""
    content, sentence = PRIVATE[title]
    write_durably(tmp_path / "signing.key", content)
    with pytest.raises(SigningKeyUnusable, match=rf"signing\.key is .*{sentence}"):
        signing_keys.load(tmp_path)


def test_a_private_key_that_is_not_there(tmp_path: Path) -> None:
    """A private key that is not there is refused by its name, as for `helen push --key FILE`."""
    with pytest.raises(SigningKeyUnusable, match="No such file"):
        signing_keys.load_private(tmp_path / "absent.key")


PUBLIC = {
    "nothing": (b"", "must hold 1 to 16"),
    "text": (b"hello", "must hold 1 to 16"),
    "seventeen": (publics(KEYS[0]).encode() * 17, "must hold 1 to 16"),
    "far too much": (publics(KEYS[0]).encode() + b"#" * 70_000, "must hold 1 to 16"),
    "a private key": (ca_files.key_pem(KEYS[0]), "holds a private key"),
    "one among others": (publics(KEYS[0]).encode() + ca_files.key_pem(KEYS[1]), "holds a private key"),
    "a broken block": (b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "is no public key"),
    "another kind": (
        ec.generate_private_key(ec.SECP256R1())
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo),
        "no Ed25519 key",
    ),
}


@pytest.mark.parametrize("title", PUBLIC)
def test_public_keys_that_cannot_be_used(tmp_path: Path, title: str) -> None:
    """The option is named, and no key is made instead."""
    content, sentence = PUBLIC[title]
    (tmp_path / "keys.pem").write_bytes(content)
    with pytest.raises(SigningKeyUnusable, match=f"--signing-keys: .*{sentence}"):
        signing_keys.load(tmp_path, tmp_path / "keys.pem")
    assert not (tmp_path / "signing.key").exists()


def test_sixteen_public_keys(tmp_path: Path) -> None:
    """A file may have sixteen public keys, as many as a manifest takes signatures."""
    keys = [Ed25519PrivateKey.generate() for _ in range(16)]
    (tmp_path / "keys.pem").write_text(publics(*keys))
    assert len(signing_keys.load(tmp_path, tmp_path / "keys.pem").public) == 16
