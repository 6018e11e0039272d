"""Test section 6 of docs/protocol.rst: signed manifests, and by name each attack that they prevent."""

from __future__ import annotations

import base64
import hashlib
import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from equus_protocol import manifest
from equus_protocol.manifest import (
    MAX_FILE,
    MAX_FILES,
    MAX_MANIFEST,
    MAX_RINGS,
    MAX_SIGNATURES,
    FileEntry,
    ManifestDocument,
    ManifestRefused,
    build,
    entry,
    key_id,
    read_unverified,
    sign,
    verify,
    verify_file,
)  # fmt: skip

ANNA, BERT, MALLORY = (Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32) for n in range(3))
PINNED = {key_id(key.public_key()): key.public_key() for key in (ANNA, BERT)}
CREATED, EXPIRES, NOW = 1_000.0, 2_000.0, 1_500.0
FILES = {"disk.lua": b"return 1", "lib/text.lua": b"return 2"}


def made(version: int = 7, files: dict[str, bytes] = FILES, expires: float = EXPIRES) -> bytes:
    return build(files, version, CREATED, expires)


def signed(version: int = 7, *keys: Ed25519PrivateKey, **more: Any) -> bytes:
    return sign(made(version, **more), keys or [ANNA])


def reason(envelope: bytes, **more: Any) -> str:
    """Return the reason of a refusal, and check that it has a sentence."""
    with pytest.raises(ManifestRefused) as refused:
        verify(envelope, more.pop("pinned", PINNED), more.pop("now", NOW), **more)
    assert str(refused.value)
    return refused.value.reason


def test_a_good_manifest_is_read_whole() -> None:
    """The manifest that is read is the one that was built, and its digest is that of the signed bytes."""
    rings, agent = [{"percent": 1}], {"version": "0.2.0", "files": {"equus/main.py": {"sha256": "a" * 64, "size": 5}}}
    text = build(FILES, 7, CREATED, EXPIRES, rings=rings, agent=agent)
    envelope = sign(text, [ANNA, BERT])
    expected = ManifestDocument(
        7, CREATED, EXPIRES, {name: entry(content) for name, content in FILES.items()},
        hashlib.sha256(text).hexdigest(), ({"percent": 1},), agent, frozenset(PINNED),
    )  # fmt: skip
    assert verify(envelope, PINNED, NOW, threshold=2) == expected
    assert read_unverified(envelope).digest == expected.digest


def test_building_is_canonical() -> None:
    """The same set gives the same bytes, however it was put together, so that digests can be compared."""
    backwards = dict(reversed(FILES.items()))
    entries = {name: entry(content) for name, content in FILES.items()}
    assert made() == made(files=backwards) == build(entries, 7, CREATED, EXPIRES)
    first, second = (entry(content).sha256 for content in FILES.values())
    assert made().decode() == (
        f'{{"created":1000.0,"expires":2000.0,"files":{{"disk.lua":{{"sha256":"{first}","size":8}},'
        f'"lib/text.lua":{{"sha256":"{second}","size":8}}}},"type":"equus-manifest","version":7}}'
    )


def test_keys_may_be_pinned_as_bytes() -> None:
    """A pinned key may be given as 32 bytes, and the name that it is kept under does not matter."""
    as_bytes = {"anna": ANNA.public_key().public_bytes_raw()}
    assert verify(signed(), as_bytes, NOW).signers == {key_id(ANNA.public_key())}


# ------------------------------------------------------------------------------------------------ attacks


@pytest.mark.adversary(29)
def test_arbitrary_software_attack() -> None:
    """A manifest without a good signature is refused: none, one of other bytes, or a changed byte."""
    document = json.loads(signed())
    assert reason(json.dumps(document | {"signatures": []}).encode()) == "bad-signature"
    text = document["signed"]
    for other in (made(8).decode(), text.replace("8", "9", 1), text + " ", "", "{}"):
        assert other != text
        assert reason(json.dumps(document | {"signed": other}).encode()) == "bad-signature"


def test_wrong_key_attack() -> None:
    """A signature of a key that is not pinned counts for nothing, also under the id of one that is."""
    assert reason(signed(7, MALLORY)) == "bad-signature"
    document = json.loads(signed(7, MALLORY))
    document["signatures"][0]["key"] = key_id(ANNA.public_key())
    assert reason(json.dumps(document).encode()) == "bad-signature"
    assert reason(signed(), pinned={}) == "bad-signature"


def test_rollback_attack() -> None:
    """A holder of a set refuses an older one, and another one of the same version, however well signed."""
    held = verify(signed(7), PINNED, NOW)
    assert reason(signed(6), held=held) == "rollback"
    assert reason(signed(7, files={"disk.lua": b"other"}), held=held) == "rollback"
    assert verify(signed(7), PINNED, NOW, held=held) == held
    assert verify(signed(8), PINNED, NOW, held=held).version == 8


def test_going_back_is_a_new_version() -> None:
    """The manifest that undoes a push has a higher version and the hashes of before."""
    before, pushed = verify(signed(6), PINNED, NOW), verify(signed(7, files={"disk.lua": b"bad"}), PINNED, NOW)
    undo = verify(signed(8), PINNED, NOW, held=pushed)
    assert undo.files == before.files


def test_freeze_attack() -> None:
    """A manifest is refused after its end, so that a Helen can hold back news only until then."""
    assert verify(signed(), PINNED, EXPIRES - 0.001)
    assert reason(signed(), now=EXPIRES) == "expired"
    assert reason(signed(), now=EXPIRES + 1, held=verify(signed(), PINNED, NOW)) == "expired"


def test_mix_and_match_attack() -> None:
    """A file of another set, or under another name, is refused, so that two sets cannot be mixed."""
    document = verify(signed(), PINNED, NOW)
    verify_file(document, "disk.lua", b"return 1")
    wrong = [("disk.lua", b"return 2"), ("disk.lua", b""), ("lib/text.lua", b"return 1"), ("new.lua", b"x")]
    for name, content in wrong:
        with pytest.raises(ManifestRefused) as refused:
            verify_file(document, name, content)
        assert refused.value.reason == "wrong-file"


def test_endless_data_attack() -> None:
    """The sizes of the envelope and of each file, and the numbers of files and signatures, are bounded."""
    assert reason(signed().ljust(MAX_MANIFEST + 1)) == "malformed"
    assert verify(signed().ljust(MAX_MANIFEST), PINNED, NOW)
    assert reason(forged(size=MAX_FILE + 1)) == "malformed"
    assert verify(forged(size=MAX_FILE), PINNED, NOW).files["a.lua"].size == MAX_FILE
    many = json.loads(signed())
    many["signatures"] *= MAX_SIGNATURES
    assert verify(json.dumps(many).encode(), PINNED, NOW).version == 7
    many["signatures"] *= 2
    assert reason(json.dumps(many).encode()) == "malformed"
    files = {f"check-{number}.lua": FileEntry("a" * 64, 1) for number in range(MAX_FILES)}
    assert len(verify(sign(build(files, 1, CREATED, EXPIRES), [ANNA]), PINNED, NOW).files) == MAX_FILES
    with pytest.raises(ValueError, match="at most 5000 names"):
        build(files | {"one-more.lua": FileEntry("a" * 64, 1)}, 1, CREATED, EXPIRES)
    with pytest.raises(ValueError, match="is the most: leave files out"):
        sign(made().ljust(MAX_MANIFEST), [ANNA])


def test_replayed_type_attack() -> None:
    """A document of another type that the same key has signed is no manifest."""
    other = made().replace(b'"equus-manifest"', b'"equus-freshness"')
    assert reason(sign(other, [ANNA])) == "malformed"
    assert reason(sign(b'{"version":7}', [ANNA])) == "malformed"


def test_threshold() -> None:
    """A threshold of two needs two keys: one that signs twice counts once, also if it is pinned under two names."""
    assert verify(signed(7, ANNA, BERT), PINNED, NOW, threshold=2).signers == frozenset(PINNED)
    assert reason(signed(7, ANNA), threshold=2) == "bad-signature"
    assert reason(signed(7, ANNA, ANNA), threshold=2) == "bad-signature"
    assert reason(signed(7, ANNA, MALLORY), threshold=2) == "bad-signature"
    twice = {"one": ANNA.public_key(), "two": ANNA.public_key().public_bytes_raw()}
    assert reason(signed(7, ANNA, ANNA), threshold=2, pinned=twice) == "bad-signature"
    document = json.loads(signed(7, ANNA, ANNA))
    for place, name in enumerate(twice):
        document["signatures"][place]["key"] = name
    assert reason(json.dumps(document).encode(), threshold=2, pinned=twice) == "bad-signature"
    with pytest.raises(ValueError, match="without a signature"):
        verify(signed(), PINNED, NOW, threshold=0)


def test_a_bad_signature_among_good_ones_does_no_harm() -> None:
    """A signature of an unknown key beside a good one does no harm, so that keys can be exchanged."""
    assert verify(signed(7, MALLORY, ANNA), PINNED, NOW).signers == {key_id(ANNA.public_key())}


def accepts_anything(*_: object) -> list[str]:
    return list(PINNED)


DEFENCES: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], Callable[[], object]]] = {
    "signatures": (lambda patch: patch.setattr(manifest, "good_signers", accepts_anything),
                   test_arbitrary_software_attack),
    "pinned keys": (lambda patch: patch.setattr(manifest, "good_signers", accepts_anything), test_wrong_key_attack),
    "one key once": (lambda patch: patch.setattr(manifest, "frozenset", tuple, raising=False), test_threshold),
    "the type": (lambda patch: patch.setattr(manifest, "TYPE", "equus-freshness"), test_replayed_type_attack),
    "sizes": (lambda patch: patch.setattr(manifest, "MAX_MANIFEST", 2**40), test_endless_data_attack),
    "sizes of files": (lambda patch: patch.setattr(manifest, "MAX_FILE", 2**40), test_endless_data_attack),
    "versions": (lambda patch: patch.setattr(manifest, "verify", without(held=None)), test_rollback_attack),
    "expiry": (lambda patch: patch.setattr(manifest, "verify", without(now=0.0)), test_freeze_attack),
    "hashes": (lambda patch: patch.setattr(manifest, "entry", lambda content: FileEntry("a" * 64, 8)),
               test_mix_and_match_attack),
}  # fmt: skip


def without(**fixed: Any) -> Callable[..., ManifestDocument]:
    """Return a `verify` that ignores one of its arguments."""
    honest = manifest.verify

    def careless(envelope: bytes, pinned: Any, now: float, **more: Any) -> ManifestDocument:
        return honest(envelope, pinned, **({"now": now} | more | fixed))

    return careless


@pytest.mark.adversary(29)
@pytest.mark.parametrize(("take_out", "attack"), DEFENCES.values(), ids=DEFENCES)
def test_each_attack_succeeds_without_its_defence(
    monkeypatch: pytest.MonkeyPatch, take_out: Callable[[pytest.MonkeyPatch], None], attack: Callable[[], object]
) -> None:
    """The test of an attack fails if its defence is taken out."""
    with monkeypatch.context() as patch:
        take_out(patch)
        patch.setitem(globals(), "verify", manifest.verify)
        with pytest.raises((AssertionError, pytest.fail.Exception)):
            attack()
    attack()


# ------------------------------------------------------------------------------------------------ form


def forged(size: Any = 1, name: str = "a.lua", sha256: Any = "a" * 64, **changes: Any) -> bytes:
    """Return a manifest that is well signed, with a field that `build` would not write."""
    document = {"type": "equus-manifest", "version": 7, "created": CREATED, "expires": EXPIRES,
                "files": {name: {"sha256": sha256, "size": size}}}  # fmt: skip
    return sign(json.dumps(document | changes).encode(), [ANNA])


@pytest.mark.parametrize("name", [
    "disk.lua", "a.lua", "A_b-c.1.lua", "lib/text.lua", "_x.lua", "9.lua", "x" * 63 + ".lua",
])  # fmt: skip
def test_file_names(name: str) -> None:
    """A file is named NAME.lua, or lib/NAME.lua for libraries that `require` finds."""
    assert set(verify(forged(name=name), PINNED, NOW).files) == {name}


@pytest.mark.adversary(15)
@pytest.mark.parametrize("name", [
    "", ".lua", "disk", "disk.py", "../disk.lua", "lib/../disk.lua", "/disk.lua", "lib//a.lua", "a/b.lua",
    "lib/lib/a.lua", ".hidden.lua", "a..lua", "a b.lua", "a\n.lua", "a.lua\n", "a\x00.lua", "a\u202e.lua", "-a.lua",
    "\\a.lua", "C:a.lua", "x" * 64 + ".lua", "LIB/a.lua", "\ud800.lua",
])  # fmt: skip
def test_no_file_names(name: str) -> None:
    """A name that leaves its folder, is hidden, or resembles another is no file name."""
    assert reason(forged(name=name)) == "malformed"
    with pytest.raises(ValueError, match="is no file name"):
        build({name: b""}, 1, CREATED, EXPIRES)


@pytest.mark.parametrize("changes", [
    {"version": 0}, {"version": -1}, {"version": 1.0}, {"version": True}, {"version": "7"}, {"version": None},
    {"version": 2**53}, {"created": -1}, {"created": "x"}, {"created": True}, {"created": float("nan")},
    {"expires": float("inf")}, {"expires": 2**40}, {"expires": None}, {"expires": CREATED}, {"files": []},
    {"files": {"a.lua": 1}}, {"files": {"a.lua": {}}}, {"files": None}, {"rings": {}}, {"rings": [0] * (MAX_RINGS + 1)},
    {"agent": []}, {"agent": {}}, {"agent": {"version": "1", "files": []}}, {"agent": {"version": 1, "files": {}}},
    {"agent": {"version": "1 2", "files": {}}}, {"agent": {"version": "1", "files": {"../x": {}}}},
    {"agent": {"version": "1", "files": {"x": {"sha256": "a" * 64, "size": MAX_FILE + 1}}}}, {"type": None},
    {"size": -1}, {"size": 1.5}, {"size": "1"}, {"size": True}, {"sha256": "A" * 64}, {"sha256": "a" * 63},
    {"sha256": "a" * 64 + "\n"}, {"sha256": None},
], ids=repr)  # fmt: skip
def test_what_is_no_manifest(changes: dict[str, Any]) -> None:
    """A well signed document with a wrong file name, number or type is refused as malformed."""
    assert reason(forged(**changes)) == "malformed"


ENVELOPES = [
    b"", b"{}", b"[]", b"null", b"x", b'{"signed":1,"signatures":[]}', b'{"signed":"x","signatures":{}}',
    b"[" * 100_000, b'{"signed":"x"}', b"\xff",
    b'{"signed":"\\ud800","signatures":[]}', b"1" * 5_000, "{}".encode("utf-16"),
    b'{"signed":"{}","signatures":[1,null,{},{"key":1},{"key":[]},{"key":"a","signature":1}]}',
]  # fmt: skip


@pytest.mark.parametrize("envelope", ENVELOPES, ids=lambda envelope: repr(envelope[:40]))
def test_what_is_no_envelope(envelope: bytes) -> None:
    """Bytes that are no envelope are refused, and nothing else is raised."""
    assert reason(envelope) in ("malformed", "bad-signature")
    with pytest.raises(ManifestRefused):
        read_unverified(envelope)


def test_an_envelope_is_utf_8() -> None:
    """An envelope in UTF-16 or UTF-32 is refused, although Python's JSON reader would accept it."""
    for encoding in ("utf-16", "utf-32"):
        assert reason(signed().decode().encode(encoding)) == "malformed"


def test_hostile_documents_raise_nothing_else() -> None:
    """Changes of an envelope, or of a document that is signed, give a ManifestDocument or ManifestRefused."""
    rng = random.Random(4166)
    odd = [None, True, 0, -1, 10**4000, 1e308, "", "x", "\ud800", [], {}, [[]], {"a.lua": []}, float("nan"), 2**70]
    good = json.loads(made())
    for _ in range(500):
        envelope = bytearray(signed())
        envelope[rng.randrange(len(envelope))] = rng.randrange(256)
        document = {**good, rng.choice([*good, "rings", "agent"]): rng.choice(odd)}
        file = {"sha256": rng.choice(["a" * 64, *odd]), "size": rng.choice([1, *odd])}
        if rng.random() < 0.5:
            document["files"] = {"a.lua": file}
        for candidate in (bytes(envelope), sign(json.dumps(document).encode(), [ANNA])):
            try:
                assert isinstance(verify(candidate, PINNED, NOW), ManifestDocument)
            except ManifestRefused as refused:
                assert refused.reason in ("malformed", "bad-signature", "expired", "rollback")


@pytest.mark.parametrize("signature", [
    "", "x", "====", base64.b64encode(b"x" * 63).decode(), "é" * 64, "A" * 86 + "==", "A" * 10_000,
])  # fmt: skip
def test_signatures_that_are_none(signature: str) -> None:
    """A signature that is no base64, or of another length, is a bad signature."""
    envelope = json.dumps({"signed": made().decode(),
                           "signatures": [{"key": key_id(ANNA.public_key()), "signature": signature}]})  # fmt: skip
    assert reason(envelope.encode()) == "bad-signature"


@pytest.mark.parametrize("others", [(), (BERT,), (BERT, MALLORY)])
def test_the_refusal_names_the_pinned_keys(others: tuple[Ed25519PrivateKey, ...]) -> None:
    """A refusal names the pinned keys by their ids in order, so that a reader sees which key is missing."""
    pinned = {f"key {at}": key.public_key() for at, key in enumerate(others)}
    with pytest.raises(ManifestRefused) as refused:
        verify(signed(7, ANNA), pinned, NOW)
    ids = ", ".join(sorted(key_id(each) for each in pinned.values())) or "none"
    assert f"0 good signature(s) of pinned keys, 1 needed (pinned: {ids})" in str(refused.value)
