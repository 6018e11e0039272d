"""Test signatures over the kind of a document: who makes and who demands them, and that peers of version 0.1.0
go on.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from equus_protocol import freshness, manifest, one_off, roots
from equus_protocol.manifest import ManifestRefused, key_id
from equus_protocol.roots import Root

ANNA, BERT, ONLINE = (Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32) for n in range(3))
KEYS = {key_id(ANNA.public_key()): ANNA.public_key()}
NOW = 1_800_000_000.0
FILES = {"disk.lua": b"return 1"}
SET = manifest.build(FILES, 7, NOW - 100, NOW + 3_600)
ROOT = roots.build(2, [BERT.public_key()], 1, ONLINE.public_key())
ORDER = one_off.build("0" * 32, "disk", FILES, {}, ["*"], NOW, NOW + 60)
WORD = freshness.build(manifest.read_unverified(manifest.sign(SET, [ANNA])), NOW)
KINDS = {manifest.TYPE: SET, roots.TYPE: ROOT, one_off.TYPE: ORDER, freshness.TYPE: WORD}
HELD = Root(KEYS, 1, 1, ONLINE.public_key(), typed=True)


def read_root(envelope: bytes) -> object:
    return roots.follow(envelope, HELD)


READERS: dict[str, Callable[[bytes], object]] = {
    manifest.TYPE: lambda envelope: manifest.verify(envelope, KEYS, NOW, typed=True),
    roots.TYPE: read_root,
    one_off.TYPE: lambda envelope: one_off.read(one_off.pack(envelope, FILES), KEYS, 1, NOW, typed=True),
    freshness.TYPE: lambda envelope: freshness.verify(
        envelope, ANNA.public_key(), manifest.read_unverified(manifest.sign(SET, [ANNA])), NOW, typed=True
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("signed_as", KINDS)
def test_a_signature_counts_for_its_kind_alone(kind: str, signed_as: str) -> None:
    """A reader that demands the kind accepts each document under a signature over its own kind alone (F36)."""
    signers = [ANNA, BERT] if kind == roots.TYPE else [ANNA]
    envelope = manifest.sign(KINDS[kind], signers, signed_as)
    if kind == signed_as:
        READERS[kind](envelope)
        return
    with pytest.raises(ManifestRefused) as refused:
        READERS[kind](envelope)
    assert refused.value.reason in ("bad-signature", "frozen")


@pytest.mark.parametrize("kind", KINDS)
def test_without_the_kind_nothing_is_taken(kind: str) -> None:
    """Signatures without the kind, as Helen 0.1.0 makes them, are refused where the root demands it (F36)."""
    document = json.loads(manifest.sign(KINDS[kind], [ANNA, BERT], kind))
    for each in document["signatures"]:
        del each["typed"]
    with pytest.raises(ManifestRefused):
        READERS[kind](json.dumps(document).encode())


def test_the_sentence_names_keys_that_left_the_kind_out() -> None:
    """The refusal of signatures without the kind, as of an old `helen push --key`, names what is missing and the key
    (F36).
    """
    document = json.loads(manifest.sign(SET, [ANNA]))
    del document["signatures"][0]["typed"]
    with pytest.raises(ManifestRefused) as refused:
        manifest.verify(json.dumps(document).encode(), KEYS, NOW, typed=True)
    assert f"without the kind of the document, which the root demands: {next(iter(KEYS))}" in str(refused.value)


def test_both_generations_verify_what_is_signed_now() -> None:
    """A signature can be verified over the bytes alone, as agents of 0.1.0 do, and another one over the kind and the
    bytes.
    """
    [one] = json.loads(manifest.sign(SET, [ANNA]))["signatures"]
    decoded = {name: base64.b64decode(one[name]) for name in ("signature", "typed")}
    ANNA.public_key().verify(decoded["signature"], SET)
    ANNA.public_key().verify(decoded["typed"], b"equus-manifest\0" + SET)
    with pytest.raises(InvalidSignature):
        ANNA.public_key().verify(decoded["signature"], b"equus-manifest\0" + SET)


def test_a_root_of_before_is_followed_by_one_that_demands_the_kind() -> None:
    """Plain signatures count under a root of 0.1.0, which a root that demands the kind may follow (F36)."""
    before = roots.read(roots.sign(roots.build(1, [ANNA.public_key()], 1, None, typed=False), [ANNA]))
    assert (before.typed, before.kind(roots.TYPE)) == (False, None)
    after = roots.follow(roots.sign(ROOT, [ANNA, BERT]), before)
    assert (after.typed, after.kind(roots.TYPE)) == (True, "equus-root")
    plain = json.loads(manifest.sign(SET, [ANNA]))
    del plain["signatures"][0]["typed"]
    assert manifest.verify(json.dumps(plain).encode(), before.keys, NOW, typed=before.typed).version == 7


def test_the_longest_root_fits() -> None:
    """A root with 16 keys and 16 signatures of both forms stays below the length of a root."""
    many = [Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32) for n in range(16)]
    text = roots.build(2**52, [key.public_key() for key in many], 16, ONLINE.public_key())
    assert len(roots.sign(text, many)) < roots.MAX_ROOT
