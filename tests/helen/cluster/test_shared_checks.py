"""Tests which set of checks a Helen believes, and which it tells, while keys change and others come and go."""

from __future__ import annotations

import base64
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from twisted.internet.defer import succeed

from equus_protocol import manifest
from helen.cluster.shared_checks import GRACE, LOST, TURNS, ChecksPart
from helen.cluster.shared_part import NotYet
from helen.library.keys_in_force import KeysInForce

NOW = 1_800_000_000.0
OLD, NEW = (Ed25519PrivateKey.from_private_bytes(letter * 32) for letter in (b"o", b"n"))


def envelope(key: Ed25519PrivateKey, version: int, expires: float = NOW + 86_400, **files: bytes) -> bytes:
    named = {f"{name}.lua": content for name, content in files.items()}
    return manifest.sign(manifest.build(named, version, NOW - 86_400, expires), [key])


def said(signed: bytes, by: str) -> dict[str, Any]:
    return {"manifest": base64.b64encode(signed).decode(), "undo": None, "by": by}


class Library:
    """Publishes what it is told; `look` signs it anew if the key is here."""

    def __init__(self, signed: bytes, keys: tuple[Ed25519PrivateKey, ...] = ()) -> None:
        self.keys = KeysInForce(keys, {manifest.key_id(NEW.public_key()): NEW.public_key()})
        self.looks, self.adopted = 0, list[tuple[bytes, str]]()
        self.releases = SimpleNamespace(
            undo_envelope=None, files=SimpleNamespace(find=lambda sha256: _coroutine(b""))
        )  # fmt: skip
        self.publish(signed)

    def publish(self, signed: bytes) -> None:
        document = manifest.read_unverified(signed)
        self.published = SimpleNamespace(
            envelope=signed, document=document, digest=document.digest, files=document.files
        )  # fmt: skip

    def look(self) -> Any:
        self.looks += 1
        if self.keys.private:
            document = manifest.read_unverified(self.published.envelope)
            again = manifest.build(document.files, document.version + 1, NOW, NOW + 86_400)
            self.publish(manifest.sign(again, self.keys.private))
        return succeed(None)

    def adopt(self, signed: bytes, undo: Any, contents: Any, by: str) -> Any:
        self.adopted.append((signed, by))
        self.publish(signed)
        return succeed(None)


async def _coroutine(value: Any) -> Any:
    return value


class Helen:
    """Is h1 or another Helen, whose keys are those of the network from version 5 on."""

    def __init__(self, library: Library, identity: str = "h1") -> None:
        self.library, self.now, self.keys, self.again = library, 0.0, 5, list[float]()
        self.part = ChecksPart(
            library, identity, lambda: NOW, lambda identity, sha256: succeed(b""), lambda: [], lambda: self.keys,
            lambda: self.now, self.again.append,
        )  # type: ignore[arg-type]  # fmt: skip

    def adopt(self, value: dict[str, Any]) -> str:
        """Return what the network says afterwards: `ours`, `theirs`; or `refused`."""
        try:
            self.part.adopt("checks", value).send(None)
        except StopIteration:
            return "theirs" if self.part.wanted("checks", value) is None else "ours"
        except NotYet:
            return "refused"
        raise AssertionError("it waits for something")


def test_what_others_publish_is_taken_if_it_is_signed() -> None:
    helen = Helen(Library(envelope(NEW, 1)))
    theirs = envelope(NEW, 7)
    assert helen.adopt(said(theirs, "h2")) == "theirs"
    assert helen.library.adopted == [(theirs, "h2")]


@pytest.mark.parametrize("keys", [(), (NEW,)], ids=["key elsewhere", "key here"])
def test_whoever_published_the_set_that_counts_signs_it_anew(keys: tuple[Any, ...]) -> None:
    """The publisher signs the set anew at once, and tells nothing meanwhile that others can't verify."""
    helen = Helen(Library(mine := envelope(OLD, 3, a=b"a"), keys))
    assert (helen.part.wanted("checks", said(mine, "h1")), helen.library.looks) == (None, 1)
    again = helen.part.wanted("checks", said(mine, "h1"))
    assert (again is not None) == bool(keys)
    assert again is None or helen.library.keys.have_signed(base64.b64decode(again["manifest"]))


def test_those_who_hold_it_wait_for_her() -> None:
    """The others wait until the publisher's time is over; when asked meanwhile, they wait for what is left of it."""
    helen = Helen(Library(held := envelope(OLD, 3, a=b"a"), (NEW,)))
    assert (helen.part.wanted("checks", said(held, "h2")), helen.library.looks) == (None, 0)
    (turn,) = helen.again
    assert GRACE <= turn <= GRACE + TURNS < LOST
    helen.now = GRACE - 1
    assert (helen.part.wanted("checks", said(held, "h2")), helen.library.looks) == (None, 0)
    assert helen.again == [turn, turn - helen.now]
    helen.now = turn
    assert (helen.part.wanted("checks", said(held, "h2")), helen.library.looks) == (None, 1)
    assert helen.part.wanted("checks", said(held, "h2"))["by"] == "h1"


def test_one_of_those_who_hold_it_signs_it_and_the_others_follow() -> None:
    """Sets that all make at one moment have one version: none could follow another."""
    held = envelope(OLD, 3, a=b"a")
    helens = [Helen(Library(held, (NEW,)), f"h{number}") for number in range(1, 7)]
    for each in helens:
        assert each.part.wanted("checks", said(held, "gone")) is None
    helens.sort(key=lambda each: each.again[0])
    turns = [each.again[0] for each in helens]
    assert turns[1] - turns[0] > 1.0
    first, *others = helens
    for each in helens:
        each.now = turns[0]
        each.part.wanted("checks", said(held, "gone"))
    told = first.part.wanted("checks", said(held, "gone"))
    for each in others:
        assert each.adopt(told) == "theirs"
        each.now = LOST
        assert each.part.wanted("checks", told) is None
    assert [each.library.looks for each in helens] == [1, 0, 0, 0, 0, 0]
    assert {each.library.published.digest for each in helens} == {first.library.published.digest}


def test_a_set_that_nobody_can_verify_is_replaced_after_a_while() -> None:
    """A set that nobody can verify is replaced after a while, later if other keys come, and never by no
    checks at all.
    """
    theirs = said(envelope(OLD, 9, a=b"a"), "h2")
    helen, empty = Helen(Library(envelope(NEW, 1, b=b"b"))), Helen(Library(envelope(NEW, 1)))
    for each in (helen, empty):
        assert each.adopt(theirs) == "refused"
        each.now, each.keys = LOST - 1, 6
        assert each.adopt(theirs) == "refused"
        each.now = 2 * LOST - 2
        assert each.adopt(theirs) == "refused"
        each.now = 2 * LOST
    assert (helen.adopt(theirs), empty.adopt(theirs)) == ("ours", "refused")
    assert empty.adopt(said(envelope(OLD, 9), "h2")) == "refused"
    empty.now += LOST
    assert empty.adopt(said(envelope(OLD, 9), "h2")) == "ours"


def test_a_push_replaces_it_at_once() -> None:
    """A push replaces the set, unless the keys of the network aren't ours yet: then it may be us who can't verify."""
    theirs = said(envelope(OLD, 9, a=b"a"), "h2")
    helen = Helen(Library(envelope(NEW, 1)))
    assert helen.adopt(theirs) == "refused"
    helen.library.publish(envelope(NEW, 2, b=b"b"))
    helen.keys = None  # type: ignore[assignment]
    assert helen.adopt(theirs) == "refused"
    helen.keys = 5
    assert helen.adopt(theirs) == "ours"


def test_a_set_that_is_signed_anew_here_is_no_push() -> None:
    """The first look of a Helen may end after the keys have come: who has published the other set is still up."""
    theirs, agent = said(envelope(OLD, 9, a=b"a"), "h2"), {"version": "2.0", "files": {}}
    helen = Helen(Library(envelope(OLD, 1, b=b"b"), (NEW,)))
    assert helen.adopt(theirs) == "refused"
    helen.library.look()
    assert helen.library.keys.have_signed(helen.library.published.envelope)
    helen.now = LOST - 1
    assert helen.adopt(theirs) == "refused"
    document = helen.library.published.document
    again = manifest.build(document.files, document.version + 1, NOW, NOW + 86_400, agent=agent)
    helen.library.publish(manifest.sign(again, [NEW]))
    assert helen.adopt(theirs) == "ours"


def test_a_set_that_has_expired_is_replaced_too() -> None:
    """An expired set is replaced, but not by one that has expired as well, nor by no checks at all."""
    theirs = said(envelope(NEW, 9, NOW, a=b"a"), "h2")
    fresh, ageing = envelope(NEW, 1, b=b"b"), envelope(NEW, 1, NOW, b=b"b")
    libraries = [Library(fresh), Library(ageing, (NEW,)), Library(ageing), Library(envelope(NEW, 1))]
    helens = [Helen(each) for each in libraries]
    for now in (0.0, LOST - 1):
        for each in helens:
            each.now = now
        assert [each.adopt(theirs) for each in helens] == ["refused"] * 4
    for each in helens:
        each.now = LOST
    assert [each.adopt(theirs) for each in helens] == ["ours", "ours", "refused", "refused"]
    libraries[3].publish(envelope(NEW, 2, c=b"c"))
    assert helens[3].adopt(theirs) == "ours"


def test_a_signed_set_that_cannot_be_read_is_left_alone() -> None:
    """A newer Helen has published it, and others run it."""
    theirs = said(manifest.sign(b'{"type":"equus-manifest","version":9,"files":[]}', [NEW]), "h2")
    helen = Helen(Library(envelope(NEW, 1, b=b"b")))
    assert helen.adopt(theirs) == "refused"
    helen.library.publish(envelope(NEW, 2, c=b"c"))
    helen.now = 10 * LOST
    assert helen.adopt(theirs) == "refused"


@pytest.mark.parametrize(
    ("signed", "words"),
    [
        (envelope(OLD, 9), "0 good signature.* h2, which published it, signs it anew if it is up; `helen push` here"),
        (envelope(NEW, 9, NOW - 1), "manifest 9 expired 1 s ago. h2, which published it, signs it anew once it is back,"
         " or waits for `helen push --key` there; `helen push` here"),
    ],
    ids=["other keys", "expired"],
)  # fmt: skip
def test_what_is_refused_says_what_to_do(signed: bytes, words: str) -> None:
    helen = Helen(Library(envelope(NEW, 1)))
    with pytest.raises(NotYet, match=f"{words} replaces it$"):
        helen.part.adopt("checks", said(signed, "h2")).send(None)


def test_what_is_no_envelope_is_replaced_too() -> None:
    helen = Helen(Library(envelope(NEW, 1, b=b"b")))
    assert helen.adopt(said(b"{}", "h2")) == "refused"
    helen.now = LOST
    assert helen.adopt(said(b"{}", "h2")) == "ours"
