"""Test section 6 of docs/protocol.rst: changes of signing keys, signs of a frozen manifest, and each attack on both by
name.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from equus_protocol import delivery, freshness, roots
from equus_protocol.freshness import LIFE, SKEW, Freshness
from equus_protocol.manifest import (
    MAX_MANIFEST,
    MAX_SIGNATURES,
    ROOM,
    ManifestRefused,
    build,
    key_id,
    read_unverified,
    sign,
    verify,
)
from equus_protocol.roots import MAX_ROOT, MAX_ROOTS, Root

ANNA, BERT, CARA, MALLORY, ONLINE = (Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32) for n in range(5))
NOW = 1_800_000_000.0
Key = Ed25519PrivateKey


def keys_of(*keys: Key) -> dict[str, Any]:
    return {key_id(key.public_key()): key.public_key() for key in keys}


def root(version: int, keys: list[Key], signers: list[Key], threshold: int = 1, online: Key | None = ONLINE) -> bytes:
    public = online.public_key() if online is not None else None
    return roots.sign(roots.build(version, [key.public_key() for key in keys], threshold, public), signers)


def held(version: int, *keys: Key, threshold: int = 1) -> Root:
    return Root(keys_of(*keys), threshold, version, ONLINE.public_key(), typed=True)


def reason(call: Callable[..., object], *arguments: Any) -> str:
    with pytest.raises(ManifestRefused) as refused:
        call(*arguments)
    assert str(refused.value)
    return refused.value.reason


# ------------------------------------------------------------------------------------------------ keys change


def test_keys_follow_each_other() -> None:
    """Roots follow each other from bare keys or any root that is held, and older ones are passed over."""
    chain = [root(1, [ANNA], [ANNA]), root(2, [BERT, CARA], [ANNA, BERT, CARA], 2), root(3, [CARA], [BERT, CARA])]
    expected = held(3, CARA)
    for begin in (Root(keys_of(ANNA)), held(1, ANNA), held(2, BERT, CARA, threshold=2)):
        assert roots.follow_all(chain, begin) == (expected, chain[2])
    assert roots.follow_all(chain, expected) == (expected, None)
    assert roots.follow_all([], expected) == (expected, None)


def test_bare_keys_begin_where_they_signed() -> None:
    """Bare keys begin at the root that they signed, because an agent that enrolled then cannot judge the roots
    before.
    """
    chain = [root(1, [ANNA], [ANNA]), root(2, [BERT], [ANNA, BERT]), root(3, [CARA], [BERT, CARA])]
    assert roots.follow_all(chain, Root(keys_of(CARA)))[0].version == 3
    assert roots.follow_all(chain, Root(keys_of(MALLORY))) == (Root(keys_of(MALLORY)), None)


@pytest.mark.adversary(30)
def test_root_with_only_the_new_keys_signature() -> None:
    """A root with a signature of its own new key alone is refused, since a captured Helen can make such a key."""
    assert reason(roots.follow_all, [root(2, [MALLORY], [MALLORY])], held(1, ANNA)) == "bad-signature"
    assert reason(roots.follow, root(2, [MALLORY], [MALLORY]), held(1, ANNA)) == "bad-signature"


def test_root_that_its_own_keys_did_not_sign() -> None:
    """A root that its own keys did not sign is refused, because a key that nobody has would end all updates."""
    assert reason(roots.follow_all, [root(2, [BERT], [ANNA])], held(1, ANNA)) == "bad-signature"
    assert reason(roots.follow_all, [root(2, [BERT, CARA], [ANNA, BERT], 2)], held(1, ANNA)) == "bad-signature"


def test_root_threshold() -> None:
    """A threshold of two needs two of the old keys, and one that signs twice counts once."""
    two = held(1, ANNA, BERT, threshold=2)
    assert roots.follow_all([root(2, [CARA], [ANNA, BERT, CARA])], two)[0] == held(2, CARA)
    assert reason(roots.follow_all, [root(2, [CARA], [ANNA, ANNA, CARA])], two) == "bad-signature"


def test_root_rollback_attack() -> None:
    """An older root changes nothing, because its keys were given up."""
    chain = [root(1, [ANNA], [ANNA]), root(2, [BERT], [ANNA, BERT])]
    now, _ = roots.follow_all(chain, Root(keys_of(ANNA)))
    assert roots.follow_all(chain[:1], now) == (now, None)
    assert reason(roots.follow, chain[0], now) == "rollback"
    assert roots.follow_all([root(2, [ANNA], [ANNA, BERT])], now) == (now, None)  # another one of the same version


def test_root_that_was_passed_over() -> None:
    """A root that skips a version is refused, because the one in between may have given a key up."""
    assert reason(roots.follow_all, [root(3, [CARA], [ANNA, CARA])], held(1, ANNA)) == "bad-signature"


@pytest.mark.parametrize("changes", [
    {"type": "equus-manifest"}, {"type": None}, {"version": 0}, {"version": True}, {"version": "1"}, {"keys": {}},
    {"keys": []}, {"keys": {"0" * 16: "00" * 32}}, {"keys": {"a": 1}}, {"threshold": 0}, {"threshold": 2},
    {"threshold": True}, {"threshold": None}, {"online": "xy"}, {"online": 5}, {"online": "00"},
], ids=repr)  # fmt: skip
def test_what_is_no_root(changes: dict[str, Any]) -> None:
    """A root with a wrong field is refused as malformed, although it is well signed."""
    document = json.loads(roots.build(1, [ANNA.public_key()], 1, None)) | changes
    assert reason(roots.read, sign(json.dumps(document).encode(), [ANNA])) == "malformed"


def test_limits_of_a_root() -> None:
    """A root has at most 16 keys and 8 KiB, and a threshold that the keys can reach."""
    many = [Ed25519PrivateKey.generate() for _ in range(MAX_SIGNATURES)]
    full = root(2, many, [ANNA, *many[: MAX_SIGNATURES - 1]], MAX_SIGNATURES - 1)
    assert len(full) <= MAX_ROOT
    assert roots.follow_all([full], held(1, ANNA))[0].threshold == MAX_SIGNATURES - 1
    assert reason(roots.read, full.ljust(MAX_ROOT + 1)) == "malformed"
    with pytest.raises(ValueError, match="1 to 16 keys"):
        roots.build(1, [key.public_key() for key in (*many, ANNA)], 1, None)
    with pytest.raises(ValueError, match="threshold 3"):
        roots.build(1, [ANNA.public_key(), BERT.public_key()], 3, None)


# ------------------------------------------------------------------------------------------------ freshness

MANIFEST = sign(build({"disk.lua": b"return 1"}, 7, NOW - 100, NOW + 30 * LIFE), [ANNA])
OTHER = sign(build({"disk.lua": b"return 2"}, 6, NOW - 100, NOW + 30 * LIFE), [ANNA])
DOCUMENT = read_unverified(MANIFEST)


def said(at: float = NOW, of: bytes = MANIFEST, key: Key = ONLINE, **changes: Any) -> bytes:
    statement = json.loads(freshness.build(read_unverified(of), at)) | changes
    return freshness.sign(json.dumps(statement).encode(), key)


def judged(statement: bytes | None, now: float = NOW, newest: float = 0.0) -> Freshness:
    return freshness.verify(statement, ONLINE.public_key(), DOCUMENT, now, newest)


def test_a_fresh_manifest() -> None:
    """A manifest is fresh with a statement about it by the online key, from SKEW before its making until a day has
    passed.
    """
    assert judged(said()) == Freshness(7, DOCUMENT.digest, NOW)
    assert judged(said(), NOW + LIFE - 1).expires == NOW + LIFE
    assert reason(judged, said(), NOW + LIFE) == "frozen"
    assert judged(said(NOW + SKEW)).created == NOW + SKEW
    assert reason(judged, said(NOW + SKEW + 1)) == "frozen"


def test_freeze_within_the_life_of_a_manifest() -> None:
    """A manifest that is good for a month is frozen without a statement of this day."""
    assert verify(MANIFEST, keys_of(ANNA), NOW + LIFE)
    assert reason(judged, said(), NOW + LIFE) == "frozen"
    assert reason(judged, None) == "frozen"
    assert reason(judged, said(), NOW, NOW + 1) == "frozen"


SEEN = [
    # the newest statement that was seen: about which manifest, and how much newer; the reason, if it is refused
    (MANIFEST, 1.0, None), (MANIFEST, 3_600.0, None), (MANIFEST, LIFE, None),
    (OTHER, 1.0, "frozen"), (OTHER, -1.0, None),
]  # fmt: skip


@pytest.mark.parametrize(("of", "newer", "refused"), SEEN)
def test_an_older_statement(of: bytes, newer: float, refused: str | None) -> None:
    """An older statement about the same manifest counts, since another Helen made it; one before another manifest's
    does not (J7).
    """
    seen = Freshness(read_unverified(of).version, read_unverified(of).digest, NOW + newer)

    def verified() -> Freshness:
        return freshness.verify(said(), ONLINE.public_key(), DOCUMENT, NOW + 10, seen=seen)

    if refused is None:
        assert verified() == Freshness(7, DOCUMENT.digest, NOW)
    else:
        assert reason(verified) == refused
    assert reason(lambda: freshness.verify(said(), ONLINE.public_key(), DOCUMENT, NOW + LIFE, seen=seen)) == "frozen"


def test_freshness_of_another_manifest() -> None:
    """A statement about another set is refused, also under the same version or digest."""
    assert reason(judged, said(of=OTHER)) == "frozen"
    assert reason(judged, said(version=8)) == "frozen"
    assert reason(judged, said(digest="0" * 64)) == "frozen"


def test_freshness_by_a_wrong_key() -> None:
    """Freshness by another key is refused, even by the key that signs check sets, which is kept elsewhere."""
    for key in (ANNA, MALLORY):
        assert reason(judged, said(key=key)) == "frozen"


def test_freshness_introduces_no_files() -> None:
    """A statement is neither a manifest nor a root, whatever fields it has."""
    files = {"evil.lua": {"sha256": "a" * 64, "size": 1}}
    statement = said(files=files, expires=NOW + LIFE, threshold=1)
    assert reason(verify, statement, keys_of(ANNA), NOW) == "bad-signature"
    assert reason(verify, statement, keys_of(ONLINE), NOW) == "malformed"
    assert reason(roots.read, statement) == "malformed"
    assert judged(statement) == Freshness(7, DOCUMENT.digest, NOW)


@pytest.mark.parametrize("changes", [
    {"type": "equus-manifest"}, {"created": None}, {"created": True}, {"created": float("nan")},
    {"created": float("inf")}, {"created": -1}, {"created": 2**40}, {"version": "7"}, {"digest": 7},
], ids=repr)  # fmt: skip
def test_what_is_no_freshness(changes: dict[str, Any]) -> None:
    """A statement with a wrong type or time is refused, because NaN would keep a manifest fresh without an end."""
    assert reason(judged, said(**changes)) == "frozen"


# ------------------------------------------------------------------------------------------------ together


def test_a_delivery_is_the_same_manifest() -> None:
    """A delivery verifies as the same manifest, also for an agent that knows nothing of statements and roots."""
    chain = [root(1, [ANNA], [ANNA]), root(2, [BERT], [ANNA, BERT])]
    blob = delivery.attach(MANIFEST + b"\n", said(), chain)
    assert verify(blob, keys_of(ANNA), NOW) == verify(MANIFEST, keys_of(ANNA), NOW)
    statement, found = delivery.read_attached(blob)
    assert (judged(statement).created, [roots.read(each) for each in found]) == (NOW, [roots.read(x) for x in chain])
    assert roots.follow_all(found, Root(keys_of(ANNA))) == (held(2, BERT), found[1])
    assert delivery.read_attached(MANIFEST) == (None, [])


def test_a_delivery_fits_into_a_blob() -> None:
    """A delivery fits into a blob with as many of the newest roots as fit, so that their holders can go on."""
    great = MANIFEST[:-1].ljust(MAX_MANIFEST - ROOM - 1) + b"}"
    many = [Ed25519PrivateKey.generate() for _ in range(MAX_SIGNATURES)]
    chain = [root(number, many, many) for number in range(1, MAX_ROOTS + 2)]
    blob = delivery.attach(great, said(), chain)
    assert MAX_MANIFEST - MAX_ROOT < len(blob) <= MAX_MANIFEST
    found = [roots.read(each).version for each in delivery.read_attached(blob)[1]]
    assert found == list(range(MAX_ROOTS + 2 - len(found), MAX_ROOTS + 2))
    small = [root(number, [ANNA], [ANNA]) for number in range(1, MAX_ROOTS + 2)]
    assert len(delivery.read_attached(delivery.attach(MANIFEST, said(), small))[1]) == MAX_ROOTS


@pytest.mark.parametrize("member", ['"roots":{}', '"roots":[' + "0," * MAX_ROOTS + "0]", '"roots":null'])
def test_what_is_no_delivery(member: str) -> None:
    """A delivery with a wrong list of roots is refused as malformed."""
    assert reason(delivery.read_attached, MANIFEST[:-1] + b"," + member.encode() + b"}") == "malformed"


def test_a_root_that_is_none_refuses_the_delivery() -> None:
    """A member of the list that is no root refuses the delivery."""
    for member in (b"1", b"{}", b'"x"', b"null", b'{"signed":"{}","signatures":[]}'):
        found = delivery.read_attached(MANIFEST[:-1] + b',"roots":[' + member + b"]}")[1]
        assert reason(roots.follow_all, found, held(1, ANNA)) == "malformed"


# ------------------------------------------------------------------------------------------------ the tests can fail


def without_old_keys(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(roots, "is_signed", lambda *_: True)


def never_old(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(freshness, "LIFE", 2.0**40)


DEFENCES: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], Callable[[], object]]] = {
    "the old keys": (without_old_keys, test_root_with_only_the_new_keys_signature),
    "the new keys": (lambda patch: patch.setattr(roots, "is_self_signed", lambda envelope, root: True),
                     test_root_that_its_own_keys_did_not_sign),
    "how many": (without_old_keys, test_root_threshold),
    "no root left out": (lambda patch: patch.setattr(roots, "follow", lambda envelope, held: roots.read(envelope)),
                         test_root_that_was_passed_over),
    "no root back": (lambda patch: patch.setattr(roots, "follow", lambda envelope, held: roots.read(envelope)),
                     test_root_rollback_attack),
    "a day": (never_old, test_freeze_within_the_life_of_a_manifest),
    "the online key": (lambda patch: patch.setattr(freshness, "is_signed", lambda *_: True),
                       test_freshness_by_a_wrong_key),
}  # fmt: skip


@pytest.mark.adversary(30)
@pytest.mark.parametrize(("take_out", "attack"), DEFENCES.values(), ids=DEFENCES)
def test_each_attack_succeeds_without_its_defence(
    monkeypatch: pytest.MonkeyPatch, take_out: Callable[[pytest.MonkeyPatch], None], attack: Callable[[], object]
) -> None:
    """The test of an attack fails if its defence is taken out."""
    with monkeypatch.context() as patch:
        take_out(patch)
        with pytest.raises((AssertionError, pytest.fail.Exception)):
            attack()
    attack()
