"""Test orders for one-off code (section 6 of docs/protocol.rst), and each way to misuse one."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from equus_protocol import one_off
from equus_protocol.manifest import ManifestRefused, build, key_id, sign

ANNA, BERT, MALLORY = (Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32) for n in range(3))
KEYS = {key_id(key.public_key()): key.public_key() for key in (ANNA, BERT)}
ID, NOW = "0123456789abcdef" * 2, 1_000.0
FILES = {"disk.lua": b"return 1", "lib/text.lua": b"return 2"}


def made(**other: Any) -> bytes:
    given: dict[str, Any] = {
        "order_id": ID, "check": "disk", "files": FILES, "args": {"path": "/"}, "on": ["web-1"], "created": NOW,
        "expires": NOW + one_off.LIFE,
    }  # fmt: skip
    return one_off.build(**given | other)


def packed(*keys: Ed25519PrivateKey, files: dict[str, bytes] = FILES, **other: Any) -> bytes:
    return one_off.pack(one_off.sign(made(files=files, **other), keys or [ANNA]), files)


def reason(blob: bytes, now: float = NOW + 1, threshold: int = 1) -> str:
    with pytest.raises(ManifestRefused) as refused:
        one_off.read(blob, KEYS, threshold, now)
    assert str(refused.value)
    return refused.value.reason


def test_an_order_is_read_whole() -> None:
    """The order that is read is the one that was built, with its check, its libraries and its signers."""
    order = one_off.read(packed(ANNA, BERT), KEYS, 2, NOW + 1)
    assert (order.id, order.check, order.args, order.on) == (ID, "disk", {"path": "/"}, ("web-1",))
    assert (order.source, order.libraries) == (b"return 1", {"text": b"return 2"})
    assert (order.created, order.expires, order.signers) == (NOW, NOW + one_off.LIFE, frozenset(KEYS))


def test_files_are_bytes() -> None:
    """A file of an order may hold any bytes."""
    files = {"disk.lua": bytes(range(256))}
    assert one_off.read(packed(files=files), KEYS, 1, NOW).source == bytes(range(256))


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [
        ("web-1", True), ("web-*", True), ("web-2", False), ("WEB-1", False), ("*", True), ("role=web", True),
        ("role=w*", True), ("role=db", False), ("site=*", False), ("", False),
    ],
)  # fmt: skip
def test_patterns(pattern: str, fits: bool) -> None:
    """A pattern fits an agent by its name, or by a label that it has."""
    assert one_off.fits(pattern, "web-1", {"role": "web"}) is fits


def test_an_order_names_its_agents() -> None:
    """An order is for each agent that one of its patterns fits, and for no other."""
    order = one_off.read(packed(on=["db-1", "role=web"]), KEYS, 1, NOW)
    assert order.is_for("x", {"role": "web"})
    assert order.is_for("db-1", {})
    assert not order.is_for("web-1", {})


def test_nobody_has_signed_it() -> None:
    """An order is refused with a signature of another key, with none, with too few, and with one key twice."""
    assert reason(packed(MALLORY)) == "bad-signature"
    assert reason(one_off.pack(b'{"signed":"{}","signatures":[]}', FILES)) == "bad-signature"
    assert reason(packed(ANNA), threshold=2) == "bad-signature"
    assert reason(packed(ANNA, ANNA), threshold=2) == "bad-signature"


def test_what_was_signed_as_something_else() -> None:
    """A manifest is no order, although the same key has signed it."""
    assert reason(one_off.pack(sign(build(FILES, 1, NOW, NOW + 60), [ANNA]), FILES)) == "malformed"


@pytest.mark.parametrize(
    "files",
    [
        {**FILES, "disk.lua": b"os.exit()"},
        {"disk.lua": b"return 1"},
        {**FILES, "lib/more.lua": b"return 3"},
        {"disk.lua": b"return 2", "lib/text.lua": b"return 1"},
    ],
    ids=["changed", "missing", "one more", "swapped"],
)
def test_other_files_than_those_that_were_signed(files: dict[str, bytes]) -> None:
    """The files of an order are refused if one is changed, left out, added or under another name."""
    assert reason(one_off.pack(one_off.sign(made(), [ANNA]), files)) == "wrong-file"


def test_a_changed_order() -> None:
    """A single other byte in a signed order is refused."""
    blob = packed().replace(b"web-1", b"web-2")
    assert reason(blob) == "bad-signature"


def test_its_time() -> None:
    """An order is good from SKEW before its making, since clocks differ, until it expires, and never for longer than a
    day.
    """
    assert one_off.read(packed(), KEYS, 1, NOW + one_off.LIFE - 0.1).check == "disk"
    assert reason(packed(), NOW + one_off.LIFE) == "expired"
    far = packed(created=NOW + one_off.SKEW, expires=NOW + one_off.SKEW + 60)
    assert one_off.read(far, KEYS, 1, NOW).check == "disk"
    assert reason(far, NOW - 0.1) == "expired"
    assert one_off.read(packed(expires=NOW + one_off.MAX_LIFE), KEYS, 1, NOW).check == "disk"
    with pytest.raises(ValueError, match="expires within"):
        made(expires=NOW + one_off.MAX_LIFE + 1)


def test_how_large() -> None:
    """An order has at most 128 KiB and 64 files, and travels as one blob."""
    most = {"disk.lua": b"x" * one_off.MAX_FILES_BYTES}
    assert len(packed(files=most)) < 1_048_576
    assert one_off.read(packed(files=most), KEYS, 1, NOW).source == most["disk.lua"]
    with pytest.raises(ValueError, match="131072 bytes"):
        made(files={"disk.lua": most["disk.lua"], "lib/a.lua": b"y"})
    many = {f"lib/l{n}.lua": b"" for n in range(one_off.MAX_FILES - 1)} | {"disk.lua": b""}
    assert len(one_off.read(packed(files=many), KEYS, 1, NOW).files) == one_off.MAX_FILES
    with pytest.raises(ValueError, match="at most 64"):
        made(files=many | {"lib/more.lua": b""})


@pytest.mark.parametrize(
    "other",
    [
        {"order_id": "x"}, {"order_id": "A" * 32}, {"check": "net"}, {"check": "lib/text"}, {"on": []},
        {"on": [""]}, {"on": ["x"] * 65}, {"on": ["x" * 512]}, {"files": {"disk.lua": b"", "../x.lua": b""}},
        {"expires": NOW}, {"created": -1.0}, {"created": float("nan")},
    ],
    ids=lambda other: str(other)[:30],
)  # fmt: skip
def test_what_nobody_can_build(other: dict[str, Any]) -> None:
    """An order that its reader would refuse cannot be built."""
    with pytest.raises(ValueError, match=r"\w+ \w+"):
        made(**other)


@pytest.mark.parametrize(
    "blob",
    [
        b"", b"[]", b"{}", b'{"order": []}', b'{"order": {}}', b'{"order": {"signed": 1, "signatures": []}}',
        b'{"order": {"signed": "", "signatures": {}}}', b"\xff", b"[" * 100_000,
        b'{"order":' + b'{"a":' * 100_000,
    ],
    ids=lambda blob: str(blob[:30]),
)  # fmt: skip
def test_noise(blob: bytes) -> None:
    """Bytes that are no order are refused as malformed."""
    assert reason(blob) == "malformed"


@pytest.mark.parametrize("change", [{"args": []}, {"id": None}, {"on": "web-1"}, {"files": []}, {"expires": "soon"}])
def test_a_signed_document_is_judged_all_the_same(change: dict[str, Any]) -> None:
    """A well signed order with a wrong field is refused as malformed, because a signer can make mistakes."""
    document = json.loads(made()) | change
    envelope = sign(json.dumps(document).encode(), [ANNA])
    assert reason(one_off.pack(envelope, FILES)) == "malformed"


def test_no_base64() -> None:
    """An order with a file that cannot be decoded is refused as malformed."""
    blob = packed().replace(base64.b64encode(b"return 1"), b"return 1")
    assert reason(blob) == "malformed"


def test_unknown_fields_are_passed_over() -> None:
    """Unknown fields of an order are passed over, so that orders can grow."""
    document = json.loads(made()) | {"reason": "to see"}
    assert one_off.read(one_off.pack(sign(json.dumps(document).encode(), [ANNA]), FILES), KEYS, 1, NOW).check == "disk"


def test_the_longest_pattern() -> None:
    """The longest pattern is a label's key and value, each of the longest, with `=` between them."""
    longest = "k" * one_off.MAX_PATTERN + "=" + "v" * one_off.MAX_PATTERN
    assert one_off.read(packed(on=[longest]), KEYS, 1, NOW).on == (longest,)
    with pytest.raises(ValueError, match="holds what is no pattern of agents"):
        packed(on=[longest + "v"])
