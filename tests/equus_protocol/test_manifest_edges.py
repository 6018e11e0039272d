"""Test edges of manifests: the longest that can be signed, the sentence of a refusal, and the number of signatures."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from equus_protocol.manifest import (
    MAX_FILE,
    MAX_MANIFEST,
    MAX_RINGS,
    ROOM,
    FileEntry,
    ManifestRefused,
    build,
    key_id,
    sign,
    verify,
)

ANNA, BERT = (Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32) for number in (1, 2))
PINNED = {"anna": ANNA.public_key(), "bert": BERT.public_key().public_bytes_raw()}
DOCUMENT = b'{"spec":1}'


def test_the_longest_that_can_be_signed() -> None:
    """The longest manifest leaves ROOM in a blob, and one byte more is refused with both figures."""
    spare = MAX_MANIFEST - ROOM - len(sign(b"", [ANNA]))
    assert len(sign(b"x" * spare, [ANNA])) == MAX_MANIFEST - ROOM
    with pytest.raises(ValueError, match=f"a manifest of {MAX_MANIFEST - ROOM + 1} bytes; {MAX_MANIFEST - ROOM} is"):
        sign(b"x" * (spare + 1), [ANNA])


def test_a_refusal_is_a_sentence() -> None:
    """A refusal has a sentence for people, and a word for programs."""
    refused = ManifestRefused("expired", "it was good until noon")
    assert (str(refused), refused.reason) == ("it was good until noon", "expired")


def test_an_envelope() -> None:
    """An envelope has the signed text and a signature for each key, under the first 16 digits of the key's hash."""
    envelope = json.loads(sign(DOCUMENT, [ANNA, BERT]))
    assert envelope["signed"] == DOCUMENT.decode()
    ids = [hashlib.sha256(key.public_key().public_bytes_raw()).hexdigest()[:16] for key in (ANNA, BERT)]
    assert [each["key"] for each in envelope["signatures"]] == ids == [key_id(k.public_key()) for k in (ANNA, BERT)]


@pytest.mark.parametrize(("signers", "threshold", "taken"), [
    ([ANNA], 1, True), ([ANNA], 2, False), ([ANNA, BERT], 2, True), ([ANNA, ANNA], 2, False), ([], 1, False),
    ([ANNA, BERT], 3, False),
])  # fmt: skip
def test_how_many_signatures_are_enough(signers: list[Ed25519PrivateKey], threshold: int, taken: bool) -> None:
    """As many different keys must have signed as the threshold says."""
    envelope = sign(manifest(), signers)
    if taken:
        assert verify(envelope, PINNED, 150.0, threshold=threshold).version == 3
        return
    with pytest.raises(ManifestRefused) as refused:
        verify(envelope, PINNED, 150.0, threshold=threshold)
    assert refused.value.reason == "bad-signature"


@pytest.mark.parametrize("threshold", [0, -1])
def test_no_signature_is_never_enough(threshold: int) -> None:
    """A threshold below 1 raises ValueError, because it would accept a manifest without a signature."""
    with pytest.raises(ValueError):
        verify(sign(manifest(), [ANNA]), PINNED, 150.0, threshold=threshold)


def manifest(**changes: Any) -> bytes:
    return build(**{"files": {"a.lua": b"return 1"}, "version": 3, "created": 100.0, "expires": 200.0} | changes)


@pytest.mark.parametrize(("changes", "said"), [
    ({"version": 1}, ""), ({"version": 0}, "version 0"), ({"version": 2**53 - 1}, ""), ({"version": 2**53}, "version"),
    ({"version": True}, "version True"), ({"created": 0}, ""), ({"created": -0.1}, "created -0.1"),
    ({"expires": 2**40 - 1}, ""), ({"expires": 2**40}, "expires"), ({"created": 200.0}, "expires before it was"),
    ({"created": 199.9}, ""), ({"rings": [{}] * MAX_RINGS}, ""), ({"rings": [{}] * (MAX_RINGS + 1)}, "`rings`"),
    ({"files": {"a.lua": FileEntry("0" * 64, 0)}}, ""), ({"files": {"a.lua": FileEntry("0" * 63, 0)}}, "no SHA-256"),
    ({"files": {"a.lua": FileEntry("0" * 64, MAX_FILE)}}, ""), ({"files": {"a.lua": FileEntry("F" * 64, 0)}}, "no SHA"),
    ({"files": {"a.lua": FileEntry("0" * 64, MAX_FILE + 1)}}, "a.lua: size"),
    ({"files": {"a.lua": FileEntry("0" * 64, -1)}}, "a.lua: size -1"), ({"files": {".lua": b""}}, "'.lua' is no file"),
    ({"agent": {"version": "1 2", "files": {}}}, "`agent`"), ({"agent": {"version": "1", "files": {".x": {}}}}, "'.x'"),
    ({"agent": {"version": "1", "files": {"equus/main.py": {"sha256": "0" * 64, "size": 1}}}}, ""),
])  # fmt: skip
def test_numbers_and_names(changes: dict[str, Any], said: str) -> None:
    """A manifest that an agent would refuse cannot be built, and the sentence names the faulty field."""
    if not said:
        assert verify(sign(manifest(**changes), [ANNA]), PINNED, 150.0).version == changes.get("version", 3)
        return
    with pytest.raises(ValueError) as refused:
        manifest(**changes)
    assert said in str(refused.value)


@pytest.mark.parametrize(("now", "taken"), [(199.9, True), (200.0, False), (260.4, False)])
def test_it_expires_to_the_second(now: float, taken: bool) -> None:
    """A manifest is not good any more at the very second of its end, and the sentence says for how long."""
    if taken:
        assert verify(sign(manifest(), [ANNA]), PINNED, now).expires == 200.0
        return
    with pytest.raises(ManifestRefused, match=f"manifest 3 expired {now - 200:.0f} s ago") as refused:
        verify(sign(manifest(), [ANNA]), PINNED, now)
    assert refused.value.reason == "expired"


@pytest.mark.parametrize(("held", "files", "taken"), [
    (3, b"return 1", True), (2, b"return 2", True), (4, b"return 1", False), (3, b"return 2", False),
])  # fmt: skip
def test_against_the_one_in_use(held: int, files: bytes, taken: bool) -> None:
    """A newer manifest or the same one replaces the held one, and neither an older nor another of the same version
    does.
    """
    before = verify(sign(manifest(version=held, files={"a.lua": files}), [BERT]), PINNED, 150.0)
    if taken:
        assert verify(sign(manifest(), [ANNA]), PINNED, 150.0, held=before).signers == {key_id(ANNA.public_key())}
        return
    with pytest.raises(ManifestRefused) as refused:
        verify(sign(manifest(), [ANNA]), PINNED, 150.0, held=before)
    assert refused.value.reason == "rollback"
