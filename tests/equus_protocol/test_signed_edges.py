"""Test signed documents at their edges: the last accepted value of each field, and the first that is refused."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from equus_protocol import delivery, freshness, manifest, one_off, roots
from equus_protocol.freshness import Freshness
from equus_protocol.manifest import FileEntry, ManifestDocument, ManifestRefused, entry, key_id
from equus_protocol.one_off import Order
from equus_protocol.roots import Root

KEYS = [Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32) for number in range(1, 20)]
PUBLIC = [key.public_key() for key in KEYS]
PINNED = {key_id(key): key for key in PUBLIC[:2]}
NOW = 1_800_000_000.0
DAY = 86_400.0


def refused(work: Any, *args: Any, **more: Any) -> str | None:
    """Return the reason of a refusal, or None if the document was accepted."""
    try:
        work(*args, **more)
    except ManifestRefused as error:
        return error.reason
    return None


# ------------------------------------------------------------------------------------------------ manifests


def a_manifest(**changes: Any) -> bytes:
    document: dict[str, Any] = {
        "type": manifest.TYPE,
        "version": 7,
        "created": NOW - 50,
        "expires": NOW + 50,
        "files": {},
    }
    whole = {name: value for name, value in (document | changes).items() if value is not ...}
    return manifest.sign(json.dumps(whole).encode(), KEYS[:1])


FILE = {"sha256": "0" * 64, "size": 5}
FIELDS = [  # (field, what is taken, what is refused)
    ("version", [1, 2**53 - 1], [0, -1, 2**53, 1.0, True, "1", None, ...]),
    ("created", [0, 0.5, NOW + 49], [-1, 2**40, "1", None, True, ..., NOW + 50, NOW + 51]),
    ("expires", [2**40 - 1, NOW + 0.5], [2**40, -1, None, "x", NOW - 50, NOW - 51]),
    ("rings", [[], [1] * 64, ...], [[1] * 65, {}, "x"]),
    ("agent", [None, ..., {"version": "1", "files": {}},
                {"version": "x" * 255, "files": {"equus/main.py": FILE}}],
     [{}, {"version": ""}, {"version": "a b", "files": {}}, {"version": "x" * 256, "files": {}}, [],
      {"version": 1, "files": {}},
      {"version": "1"}, {"version": "1", "files": {".hidden": FILE}}]),
    ("files", [{}, {"a.lua": FILE}, {"lib/a.lua": FILE}, {"a.lua": FILE | {"size": 0}},
               {"a.lua": FILE | {"size": 1_048_576}}],
     [..., None, [], {"a.lua": FILE | {"size": -1}}, {"a.lua": FILE | {"size": 1_048_577}},
      {"a.lua": FILE | {"size": True}},
      {"a.lua": FILE | {"sha256": "0" * 63}}, {"a.lua": FILE | {"sha256": "A" * 64}}, {"a.lua": None}, {"a.py": FILE},
      {"x/a.lua": FILE}, {"a.lua": {}}]),
    ("type", [], ["equus-root", None, ...]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "is_taken"), [
    *((name, value, True) for name, taken, _ in FIELDS for value in taken),
    *((name, value, False) for name, _, wrong in FIELDS for value in wrong),
])  # fmt: skip
def test_the_fields_of_a_manifest(name: str, value: Any, is_taken: bool) -> None:
    """Each field of a manifest is accepted or refused by itself, with and without a check of its signatures."""
    envelope = a_manifest(**{name: value})
    assert refused(manifest.verify, envelope, PINNED, NOW) == (None if is_taken else "malformed")
    assert refused(manifest.read_unverified, envelope) == (None if is_taken else "malformed")


def test_the_number_of_files() -> None:
    """A manifest has at most 5,000 files, and a caller may allow fewer."""
    listed = {f"a{number}.lua": FILE for number in range(5_001)}
    assert len(manifest.read_files(dict(list(listed.items())[:5_000]))) == 5_000
    assert refused(manifest.read_files, listed) == "malformed"
    assert refused(manifest.read_files, {"a.lua": FILE, "b.lua": FILE}, 1) == "malformed"
    assert manifest.read_files({"a.lua": FILE}, 1) == {"a.lua": FileEntry("0" * 64, 5)}


@pytest.mark.parametrize(
    ("now", "reason"), [(NOW + 49.9, None), (NOW + 50, "expired"), (NOW + 51, "expired"), (0.0, None)]
)
def test_when_a_manifest_expires(now: float, reason: str | None) -> None:
    """A manifest expires at its time, exactly."""
    assert refused(manifest.verify, a_manifest(), PINNED, now) == reason


def test_what_is_held_is_not_gone_back_from() -> None:
    """The held manifest or a newer one is accepted, and neither an older one nor another of the same version."""
    held = manifest.verify(a_manifest(), PINNED, NOW)
    for version, more, reason in ((7, {}, None), (8, {}, None), (6, {}, "rollback"), (7, {"rings": [1]}, "rollback")):
        assert refused(manifest.verify, a_manifest(version=version, **more), PINNED, NOW, held=held) == reason


@pytest.mark.parametrize(("signed", "threshold", "reason"), [
    (1, 1, None), (2, 1, None), (2, 2, None), (1, 2, "bad-signature"), (0, 1, "bad-signature"),
])  # fmt: skip
def test_how_many_must_sign(signed: int, threshold: int, reason: str | None) -> None:
    """As many different pinned keys must sign as the threshold says; another key counts for nothing, and one twice as
    one.
    """
    text = json.dumps({"type": manifest.TYPE, "version": 1, "created": 1, "expires": NOW + 1, "files": {}}).encode()
    envelope = manifest.sign(text, [*KEYS[:signed], *KEYS[:signed], KEYS[5]])
    for typed in (True, False):
        assert refused(manifest.verify, envelope, PINNED, NOW, threshold=threshold, typed=typed) == reason
    assert manifest.is_signed(envelope, PINNED, threshold) is (reason is None)
    if reason is None:
        assert manifest.verify(envelope, PINNED, NOW).signers == {key_id(key) for key in PUBLIC[:signed]}
    with pytest.raises(ValueError, match="a threshold of 0 would accept a manifest without a signature"):
        manifest.verify(envelope, PINNED, NOW, threshold=0)


@pytest.mark.parametrize(("signatures", "reason"), [(16, None), (17, "malformed")])
def test_how_many_signatures_an_envelope_has(signatures: int, reason: str | None) -> None:
    """An envelope has at most 16 signatures, because each costs a verification."""
    envelope = json.loads(a_manifest())
    envelope["signatures"] += [None, 7, {}, *[{"key": "x", "signature": "y"}] * 13][: signatures - 1]
    envelope["signatures"] += [{}] * (signatures - len(envelope["signatures"]))
    assert len(envelope["signatures"]) == signatures
    assert refused(manifest.verify, json.dumps(envelope).encode(), PINNED, NOW) == reason


def test_how_long_an_envelope_is() -> None:
    """An envelope of at most a mebibyte is read, and one is written with room for a statement and roots."""
    plain = a_manifest()
    assert refused(manifest.open_envelope, plain.ljust(1_048_576)) is None
    assert refused(manifest.open_envelope, plain.ljust(1_048_577)) == "malformed"
    room = 1_048_576 - 65_536 - len(manifest.seal(b"", []))
    assert len(manifest.seal(b"x" * room, [])) == 1_048_576 - 65_536
    with pytest.raises(ValueError, match="a manifest of 983041 bytes; 983040 is the most"):
        manifest.seal(b"x" * (room + 1), [])


def test_a_wrong_file() -> None:
    """A file of another name or with other bytes is refused."""
    document = manifest.verify(a_manifest(files={"a.lua": {"sha256": entry(b"x").sha256, "size": 1}}), PINNED, NOW)
    assert refused(manifest.verify_file, document, "a.lua", b"x") is None
    for name, content in (("a.lua", b"y"), ("b.lua", b"x")):
        assert refused(manifest.verify_file, document, name, content) == "wrong-file"
    assert (document.rings, document.agent, entry(b"abc").size) == ((), None, 3)
    assert ManifestDocument(1, 0.0, 1.0, {}, "d").signers == frozenset()


# ------------------------------------------------------------------------------------------------ roots


def a_root(count: int = 1, **changes: Any) -> bytes:
    named = {key_id(key): key.public_bytes_raw().hex() for key in PUBLIC[:count]}
    document: dict[str, Any] = {"type": roots.TYPE, "version": 1, "threshold": 1, "keys": named, "typed": True}
    whole = {name: value for name, value in (document | changes).items() if value is not ...}
    return manifest.sign(json.dumps(whole).encode(), KEYS[:count], roots.TYPE)


ONE = {key_id(PUBLIC[0]): PUBLIC[0].public_bytes_raw().hex()}
ROOT_FIELDS = [
    ("version", [1, 2, 2**53 - 1], [0, -1, 2**53, True, 1.0, None, ...]),
    ("threshold", [1], [0, 2, True, None, ..., 1.0]),
    ("keys", [ONE],
     [{}, None, [], ..., {"x": ONE[key_id(PUBLIC[0])]}, {key_id(PUBLIC[0]): "00"}, {key_id(PUBLIC[0]): 7}]),
    ("online", [None, ..., "00" * 31 + "01"], ["", "zz", 7, "00"]), ("type", [], ["x", ...]),
    ("typed", [True, False, ..., 1], []),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "is_taken"), [
    *((name, value, True) for name, taken, _ in ROOT_FIELDS for value in taken),
    *((name, value, False) for name, _, wrong in ROOT_FIELDS for value in wrong),
])  # fmt: skip
def test_the_fields_of_a_root(name: str, value: Any, is_taken: bool) -> None:
    """Each field of a root is accepted or refused by itself, and `typed` is a plain true."""
    envelope = a_root(**{name: value})
    assert refused(roots.read, envelope) == (None if is_taken else "malformed")
    if name == "typed":
        assert roots.read(envelope).typed is (value is True)


@pytest.mark.parametrize(
    ("keys", "threshold", "is_taken"), [(16, 16, True), (16, 17, False), (17, 1, False), (2, 2, True)]
)
def test_how_many_keys_a_root_has(keys: int, threshold: int, is_taken: bool) -> None:
    """A root has at most sixteen keys, and no threshold above their number."""
    envelope = json.loads(a_root(keys, threshold=threshold))
    envelope["signatures"] = envelope["signatures"][:16]
    assert refused(roots.read, json.dumps(envelope).encode()) == (None if is_taken else "malformed")
    if is_taken:
        assert roots.build(1, PUBLIC[:keys], threshold, None)
    else:
        with pytest.raises(ValueError, match=r"threshold|keys"):
            roots.build(1, PUBLIC[:keys], threshold, None)


def test_how_long_a_root_is() -> None:
    """A root has at most 8 KiB with its envelope."""
    assert refused(roots.read, a_root().ljust(8_192)) is None
    assert refused(roots.read, a_root().ljust(8_193)) == "malformed"


@pytest.mark.parametrize(("held", "version", "reason"), [
    (0, 1, None), (0, 5, None), (3, 4, None), (3, 3, "rollback"), (3, 2, "rollback"), (3, 5, "bad-signature"),
])  # fmt: skip
def test_the_next_root(held: int, version: int, reason: str | None) -> None:
    """Only the next version follows a root, and bare keys begin with any."""
    root = Root({key_id(PUBLIC[0]): PUBLIC[0]}, 1, held)
    assert refused(roots.follow, a_root(version=version), root) == reason
    found = None if reason else roots.follow(a_root(version=version), root)
    assert found is None or (found.version, found.typed, found.online) == (version, True, None)


def test_roots_in_a_row() -> None:
    """Roots up to the held one are passed over, and so are those that bare keys have not signed."""
    row = [a_root(version=version) for version in (1, 2, 3)]
    stranger = manifest.sign(roots.build(1, PUBLIC[3:4], 1, None), KEYS[3:4], roots.TYPE)
    bare = Root({key_id(PUBLIC[0]): PUBLIC[0]})
    assert roots.follow_all([], bare) == (bare, None)
    last, newest = roots.follow_all(row, bare)
    assert (last.version, newest) == (3, row[2])
    assert roots.follow_all(row, last) == (last, None)
    second, newest = roots.follow_all(row[1:2], bare)
    assert (second.version, newest) == (2, row[1])
    assert roots.follow_all([stranger], bare) == (bare, None)
    assert refused(roots.follow_all, [row[0], row[2]], bare) == "bad-signature"
    assert (bare.threshold, bare.version, bare.online, bare.typed, bare.kind("x")) == (1, 0, None, False, None)
    assert Root(typed=True).kind("x") == "x"


def test_a_root_needs_both_sides() -> None:
    """A root needs signatures by the keys of the one before, and by its own."""
    text = roots.build(4, PUBLIC[1:3], 2, PUBLIC[9])
    held = Root({key_id(PUBLIC[0]): PUBLIC[0]}, 1, 3)
    for signers, reason in (
        ((0, 1, 2), None),
        ((1, 2), "bad-signature"),
        ((0, 1), "bad-signature"),
        ((0,), "bad-signature"),
    ):
        envelope = manifest.sign(text, [KEYS[number] for number in signers], roots.TYPE)
        assert refused(roots.follow, envelope, held) == reason
        assert roots.is_self_signed(envelope, roots.read(envelope)) is ({1, 2} <= set(signers))


# ------------------------------------------------------------------------------------------------ freshness


DOCUMENT = ManifestDocument(7, NOW - 50, NOW + 50, {}, "d" * 64)


def a_statement(created: Any = NOW, **changes: Any) -> bytes:
    document = {"type": freshness.TYPE, "version": 7, "digest": "d" * 64, "created": created} | changes
    return freshness.sign(json.dumps({n: v for n, v in document.items() if v is not ...}).encode(), KEYS[0])


def stale(envelope: bytes | None, now: float = NOW, **more: Any) -> bool:
    return refused(freshness.verify, envelope, PUBLIC[0], DOCUMENT, now, **more) == "frozen"


@pytest.mark.parametrize(("now", "newest", "is_stale"), [
    (NOW, 0.0, False), (NOW + DAY - 0.5, 0.0, False), (NOW + DAY, 0.0, True), (NOW - DAY, 0.0, False),
    (NOW - DAY - 0.5, 0.0, True),
    (NOW, NOW, False), (NOW, NOW + 0.5, True),
])  # fmt: skip
def test_when_a_statement_counts(now: float, newest: float, is_stale: bool) -> None:
    """A statement counts from a day before its making to a day after it, unless a newer one is held."""
    assert stale(a_statement(), now, newest=newest) is is_stale
    assert Freshness(1, "d", 5.0).expires == 5.0 + DAY


@pytest.mark.parametrize(("seen", "newest", "is_stale"), [
    (Freshness(7, "d" * 64, NOW + 9), 0.0, False), (Freshness(6, "e" * 64, NOW + 9), 0.0, True),
    (Freshness(6, "e" * 64, NOW), 0.0, False), (Freshness(6, "e" * 64, NOW - 9), NOW + 1, True), (None, 0.0, False),
])  # fmt: skip
def test_a_statement_after_one_about_another_manifest(seen: Freshness | None, newest: float, is_stale: bool) -> None:
    """An older statement than one about another manifest is refused, and one about the same manifest is accepted."""
    assert stale(a_statement(), NOW, seen=seen, newest=newest) is is_stale


@pytest.mark.parametrize(("changes", "is_stale"), [
    ({}, False), ({"version": 8}, True), ({"digest": "e" * 64}, True), ({"version": True}, True),
    ({"digest": None}, True),
    ({"created": "x"}, True), ({"created": -1}, True), ({"created": 2**40}, True), ({"created": True}, True),
    ({"type": "x"}, True),
    ({"created": ...}, True), ({"created": int(NOW)}, False),
])  # fmt: skip
def test_the_fields_of_a_statement(changes: dict[str, Any], is_stale: bool) -> None:
    """A statement with any fault does not count."""
    assert stale(a_statement(**changes)) is is_stale
    assert stale(None) and stale(b"x") and stale(a_statement(), typed=True) is False
    assert refused(freshness.verify, a_statement(), PUBLIC[1], DOCUMENT, NOW) == "frozen"


@pytest.mark.parametrize("created", [0, 2**40 - 1])
def test_the_first_and_the_last_time_of_a_statement(created: int) -> None:
    """The first and the last time that a statement can have are accepted."""
    assert freshness.verify(a_statement(created), PUBLIC[0], DOCUMENT, float(created)).created == created


# ------------------------------------------------------------------------------------------------ delivery


def test_as_many_roots_as_fit() -> None:
    """As many of the newest roots are attached as fit, in their order, and the manifest stays the same."""
    envelope, statement = a_manifest(), b"x" * 1_000
    room = 65_536 - 1_000 - 64
    size = room // 4 - 1
    sizes = [b'"%b"' % (b"%d" % number * (size - 2)) for number in range(6)]
    blob = delivery.attach(envelope, b'"' + statement[2:] + b'"', sizes)
    fresh, found = delivery.read_attached(blob)
    assert (len(found), found) == (4, sizes[2:])
    assert fresh == b'"' + statement[2:] + b'"'
    longer = [each[:-1] + b'0"' for each in sizes[:3]] + sizes[3:]
    blob_of_three = delivery.attach(envelope, b'"' + statement[2:] + b'"', longer)
    assert delivery.read_attached(blob_of_three)[1] == sizes[3:], "the fourth is one byte too long"
    assert manifest.verify(blob, PINNED, NOW).version == 7
    many = [b"%d" % number for number in range(70)]
    assert delivery.read_attached(delivery.attach(envelope + b" \n", b"{}", many)) == (b"{}", many[-64:])


@pytest.mark.parametrize(("blob", "found"), [
    (b"{}", (None, [])), (b'{"freshness":{"a":1}}', (b'{"a":1}', [])), (b'{"roots":[1,{}]}', (None, [b"1", b"{}"])),
    (b'{"roots":[%b]}' % b",".join([b"1"] * 64), (None, [b"1"] * 64)),
    (b'{"roots":[%b]}' % b",".join([b"1"] * 65), None),
    (b'{"roots":{}}', None), (b"[]", None),
])  # fmt: skip
def test_what_is_attached(blob: bytes, found: Any) -> None:
    """A delivery with at most 64 roots is read with its statement and roots, and any other is refused."""
    if found is None:
        assert refused(delivery.read_attached, blob) == "malformed"
    else:
        assert delivery.read_attached(blob) == found


# ------------------------------------------------------------------------------------------------ orders


def an_order(files: dict[str, bytes] | None = None, **changes: Any) -> bytes:
    files = {"a.lua": b"x"} if files is None else files
    listed = {name: {"sha256": entry(content).sha256, "size": len(content)} for name, content in files.items()}
    document: dict[str, Any] = {"type": one_off.TYPE, "id": "0" * 32, "check": "a", "args": {}, "on": ["*"],
                                "created": NOW, "expires": NOW + 300.0, "files": listed}  # fmt: skip
    whole = {name: value for name, value in (document | changes).items() if value is not ...}
    return one_off.pack(one_off.sign(json.dumps(whole).encode(), KEYS[:1]), files)


ORDER_FIELDS = [
    ("id", ["f" * 32], ["f" * 31, "f" * 33, "F" * 32, None, ...]), ("args", [{}, {"a": [1]}], [[], None, ...]),
    ("on", [["*"] * 64, ["x" * 511]], [[], ["*"] * 65, "*", ["x" * 512], [""], [7], None, ...]),
    ("check", [], ["b", "lib/a", 7, None, ...]), ("type", [], ["x", ...]),
    ("created", [0, NOW + 0.5], ["x", -1, 2**40, True, NOW + 300.0, ...]),
    ("expires", [NOW + DAY, NOW + 0.5], [NOW + DAY + 1, NOW, NOW - 1, None, 2**40, ...]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "is_taken"), [
    *((name, value, True) for name, taken, _ in ORDER_FIELDS for value in taken),
    *((name, value, False) for name, _, wrong in ORDER_FIELDS for value in wrong),
])  # fmt: skip
def test_the_fields_of_an_order(name: str, value: Any, is_taken: bool) -> None:
    """Each field of an order is accepted or refused by itself."""
    changes = {name: value} | ({"expires": 300} if (name, value) == ("created", 0) else {})
    now = 1.0 if (name, value) == ("created", 0) else NOW
    assert refused(one_off.read, an_order(**changes), PINNED, 1, now) == (None if is_taken else "malformed")


@pytest.mark.parametrize(("now", "reason"), [
    (NOW + 299.5, None), (NOW + 300.0, "expired"), (NOW - DAY, None), (NOW - DAY - 0.5, "expired"),
])  # fmt: skip
def test_when_an_order_counts(now: float, reason: str | None) -> None:
    """An order counts until its time, and at most a day before its making."""
    assert refused(one_off.read, an_order(), PINNED, 1, now) == reason


@pytest.mark.parametrize(("files", "is_taken"), [
    ({"a.lua": b"x" * 131_072}, True), ({"a.lua": b"x" * 131_072, "lib/b.lua": b"y"}, False),
    ({"a.lua": b"", **{f"lib/b{number}.lua": b"" for number in range(63)}}, True),
    ({"a.lua": b"", **{f"lib/b{number}.lua": b"" for number in range(64)}}, False), ({}, False),
])  # fmt: skip
def test_the_files_of_an_order(files: dict[str, bytes], is_taken: bool) -> None:
    """An order has at most 128 KiB in 64 files, the check among them."""
    assert refused(one_off.read, an_order(files), PINNED, 1, NOW) == (None if is_taken else "malformed")


def test_files_that_were_not_signed() -> None:
    """Files that were not signed refuse an order: other bytes, one too many, or one too few."""
    good = json.loads(an_order({"a.lua": b"x", "lib/b.lua": b"y"}))
    for files in (
        {"a.lua": b"x"},
        {"a.lua": b"x", "lib/b.lua": b"z"},
        {"a.lua": b"x", "lib/b.lua": b"y", "c.lua": b""},
    ):
        coded = {name: base64.b64encode(content).decode() for name, content in files.items()}
        assert refused(one_off.read, json.dumps(good | {"files": coded}).encode(), PINNED, 1, NOW) == "wrong-file"
    for wrong in (None, [], {"a.lua": 7}, {"a.lua": "?"}):
        assert refused(one_off.read, json.dumps(good | {"files": wrong}).encode(), PINNED, 1, NOW) == "malformed"
    assert refused(one_off.read, json.dumps(good | {"order": "x"}).encode(), PINNED, 1, NOW) == "malformed"
    order = one_off.read(json.dumps(good).encode(), PINNED, 1, NOW)
    assert (order.source, order.libraries, order.args, order.on) == (b"x", {"b": b"y"}, {}, ("*",))
    assert order.signers == {key_id(PUBLIC[0])}
    assert refused(one_off.read, json.dumps(good).encode(), PINNED, 2, NOW) == "bad-signature"
    with pytest.raises(ValueError, match="a threshold of 0"):
        one_off.read(b"", PINNED, 0, NOW)


@pytest.mark.parametrize(("on", "name", "labels", "is_for"), [
    (("*",), "web-1", {}, True), (("web-*",), "web-1", {}, True), (("web-?",), "web-10", {}, False),
    (("db", "web-1"), "web-1", {}, True),
    (("role=w*",), "a", {"role": "web"}, True), (("role=w*",), "role=w", {}, False), (("role=*",), "a", {}, False),
    (("role=",), "a", {"role": ""}, True), ((), "a", {}, False),
])  # fmt: skip
def test_whom_an_order_is_for(on: tuple[str, ...], name: str, labels: dict[str, str], is_for: bool) -> None:
    """An order is for agents by name or by label."""
    assert Order("i", "a", {}, {}, on, 0.0, 1.0, "d").is_for(name, labels) is is_for


def test_an_order_that_is_built_is_one_that_is_read() -> None:
    """An order that can be built can be read, with the same limits on both sides."""
    given = ("0" * 32, "a", {"a.lua": b"x"}, {"n": 1}, ["*"], NOW)
    blob = one_off.pack(one_off.sign(one_off.build(*given, NOW + DAY), KEYS[:1]), {"a.lua": b"x"})
    assert one_off.read(blob, PINNED, 1, NOW, typed=True).expires == NOW + DAY
    with pytest.raises(ValueError, match="an order expires within 86400 s of its making"):
        one_off.build(*given, NOW + DAY + 1)
