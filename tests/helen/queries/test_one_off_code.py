"""Tests orders as Helen makes, takes and writes them down, without a reactor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from twisted.internet.defer import Deferred, fail, succeed

from equus_protocol import manifest, one_off
from helen.keys import signing_keys
from helen.library import keyring
from helen.queries import repl_source
from helen.queries.one_off_code import Code, NeedsSignature, OneOffCode, OrderRefused, Signed
from helen.storage.database import StoreFailed

NOW = 1_800_000_000.0
ANNA, MALLORY = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
FILES = {"disk.lua": b"return {}", "lib/text.lua": b"return 1"}
CODE = Code("disk", FILES, {"path": "/", "password": "s3cr3t"}, ("web-*",))


class FakeStore:
    def __init__(self) -> None:
        self.audited: list[Any] = []
        self.trouble: Exception | None = None

    def call(self, work: Any, entry: Any) -> Deferred[Any]:
        self.audited.append(entry)
        return succeed(1) if self.trouble is None else fail(self.trouble)


def done(coroutine: Any) -> Any:
    results: list[Any] = []
    Deferred.fromCoroutine(coroutine).addBoth(results.append)
    if hasattr(results[0], "raiseException"):
        results[0].raiseException()
    return results[0]


class Made:
    """Holds OneOffCode over keys that lie in a folder of the test."""

    def __init__(self, state: Path, public: Path | None = None) -> None:
        self.store = FakeStore()
        self.keys = keyring.load(state, public, lambda: NOW)
        self.shots = OneOffCode(self.keys, self.store, lambda: NOW)  # type: ignore[arg-type]

    def prepare(self, wanted: Code | Signed) -> Any:
        return done(self.shots.prepare(wanted, "anna"))


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Made:
    """Return a Helen that has Anna's public key and no private one."""
    path = tmp_path / "keys.pem"
    path.write_text(signing_keys.public_pem(ANNA.public_key()))
    return Made(tmp_path, path)


def signed(*keys: Ed25519PrivateKey, created: float = NOW, files: dict[str, bytes] = FILES) -> Signed:
    text = one_off.build("ab" * 16, "disk", FILES, {}, ["web-1"], created, created + one_off.LIFE)
    return Signed(one_off.sign(text, keys), files)


def test_helen_signs(made: Made) -> None:
    """Helen signs an order with its own key; agents can read it with the root's keys, for five minutes."""
    prepared = made.prepare(CODE)
    order = one_off.read(prepared.blob, made.keys.root.keys, 1, NOW)
    assert (order.check, order.files, order.args, order.on) == ("disk", FILES, CODE.args, ("web-*",))
    assert (order.created, order.expires) == (NOW, NOW + one_off.LIFE)
    assert (prepared.check, prepared.sha256, prepared.on) == (
        "disk", manifest.entry(FILES["disk.lua"]).sha256, ("web-*",),
    )  # fmt: skip
    assert made.prepare(CODE).blob != prepared.blob, "each order is good once, so each is another one"


def test_it_is_in_the_audit_before_anybody_is_asked(made: Made) -> None:
    """The entry has who, what, for whom, by whose key; never the values of arguments. An order that can't be written
    down is not carried out.
    """
    made.prepare(CODE)
    [entry] = made.store.audited
    detail = json.loads(entry.detail)
    assert (entry.actor, entry.action, entry.subject, entry.at) == ("anna", "one-shot", "disk", NOW)
    assert (detail["on"], detail["code"], detail["args"]) == (["web-*"], "return {}", ["password", "path"])
    assert detail["signers"] == list(made.keys.root.keys)
    assert "s3cr3t" not in entry.detail
    made.store.trouble = StoreFailed("full")
    with pytest.raises(StoreFailed):
        made.prepare(CODE)


def test_a_line_of_the_repl_in_the_audit(made: Made) -> None:
    """The audit has the line without the frame around it."""
    framed = repl_source.frame("host.load().one", repl_source.Memory(), True)
    made.prepare(Code("repl", {"repl.lua": framed.source.encode()}, {}, ("web-1",)))
    assert json.loads(made.store.audited[0].detail)["code"].endswith("return host.load().one")
    long = repl_source.frame(f'"{"x" * 3_000}", 42', repl_source.Memory(), True)
    made.prepare(Code("repl", {"repl.lua": long.source.encode()}, {}, ("web-1",)))
    code = json.loads(made.store.audited[1].detail)["code"]
    assert (len(code), code[-4:]) == (2_000, ", 42")


def test_signed_elsewhere(elsewhere: Made) -> None:
    """Helen passes on an order that the known keys have signed, byte for byte."""
    prepared = elsewhere.prepare(signed(ANNA))
    assert prepared.blob == one_off.pack(signed(ANNA).envelope, FILES)
    assert (prepared.on, len(elsewhere.store.audited)) == (("web-1",), 1)


def test_she_holds_no_key(elsewhere: Made) -> None:
    """The sentence says which option to give."""
    with pytest.raises(NeedsSignature, match="sign it with a key of yours, such as by `helen run --key FILE`"):
        elsewhere.prepare(CODE)


@pytest.mark.parametrize(
    ("order", "why"),
    [
        (signed(MALLORY), "0 good signature"),
        (signed(ANNA, created=NOW - one_off.LIFE), "expired"),
        (signed(ANNA, files={**FILES, "disk.lua": b"os.exit()"}), "not the file that was signed"),
        (Signed(b"{}", FILES), "no `signed` text"),
        (Signed(b'{"signed": "", "signatures": []}, "x": {}', FILES), "no JSON"),
    ],
    ids=["stranger", "late", "other file", "none", "broken"],
)
def test_orders_that_no_agent_would_follow(elsewhere: Made, order: Signed, why: str) -> None:
    """Helen refuses an order that no agent would follow, and asks nobody."""
    with pytest.raises(OrderRefused, match=why):
        elsewhere.prepare(order)
    assert elsewhere.store.audited == []


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (Code("net", FILES, {}, ("*",)), "none of its files"),
        (Code("disk", FILES, {}, ()), "1 to 64 patterns"),
        (Code("disk", {"disk.lua": b"x" * 131_073}, {}, ("*",)), "131072 bytes"),
        (Code("disk", FILES, {}, ("*",), life=86_401.0), "within 86400 s"),
    ],
)
def test_what_cannot_be_ordered(made: Made, code: Code, why: str) -> None:
    """An order that cannot be given ends with a sentence, and nothing is signed."""
    with pytest.raises(OrderRefused, match=why):
        made.prepare(code)
