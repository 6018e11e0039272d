"""Tests the keys that sign check sets, over time: roots on disk, statements for agents, keys that change here or
elsewhere."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from twisted.internet.defer import Deferred, maybeDeferred

from equus_protocol import delivery, freshness, manifest, roots
from equus_protocol.freshness import LIFE
from equus_protocol.manifest import ManifestRefused, key_id, read_unverified
from equus_protocol.roots import Root
from helen.files.state_dir import StateError
from helen.keys import signing_keys
from helen.library import keyring
from helen.library.keyring import FRESH_SECONDS, KEPT_DELIVERIES, KeyRing
from helen.library.published import Published, PushRefused

NOW = 1_800_000_000.0
ANNA, BERT, MALLORY = (Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32) for n in range(3))


class Clock:
    now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(autouse=True)
def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("helen.library.keyring.deferToThread", maybeDeferred)


def done(coroutine: Any) -> Any:
    """Return the outcome; nothing here waits."""
    results: list[Any] = []
    Deferred.fromCoroutine(coroutine).addBoth(results.append)
    if isinstance(results[0], BaseException) or hasattr(results[0], "raiseException"):
        results[0].raiseException()
    return results[0]


def published(version: int, *signers: Ed25519PrivateKey) -> Published:
    envelope = manifest.sign(manifest.build({"a.lua": b"x"}, version, NOW - 1, NOW + 30 * LIFE), signers)
    return Published(envelope, read_unverified(envelope), {})


def versions(blob: bytes) -> list[int]:
    return [roots.read(each).version for each in delivery.read_attached(blob)[1]]


def public(tmp_path: Path, *keys: Ed25519PrivateKey) -> Path:
    (tmp_path / "state").mkdir(exist_ok=True)
    path = tmp_path / "release.pem"
    path.write_text("".join(signing_keys.public_pem(key.public_key()) for key in keys))
    return path


def following(
    ring: KeyRing, keys: list[Ed25519PrivateKey], signers: list[Ed25519PrivateKey], threshold: int = 1
) -> bytes:
    text = roots.build(ring.root.version + 1, [k.public_key() for k in keys], threshold, ring.online.public_key())
    return roots.sign(text, signers)


def test_the_first_start_makes_a_root(tmp_path: Path, clock: Clock) -> None:
    """The first start makes a root of the key beside Helen and two keys that only Helen can read; the next start
    reads them."""
    ring = keyring.load(tmp_path, None, clock)
    [own] = ring.private
    assert (ring.root.version, list(ring.root.keys), ring.root.threshold) == (1, [key_id(own.public_key())], 1)
    assert {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {
        "signing.key": 0o600, "online.key": 0o600, "roots.json": 0o644,
    }  # fmt: skip
    again = keyring.load(tmp_path, None, clock)
    assert (again.chain, key_id(again.online.public_key())) == (ring.chain, key_id(ring.online.public_key()))


def test_what_agents_are_given(tmp_path: Path, clock: Clock) -> None:
    """Agents are given the manifest, a statement that it is fresh, made anew each hour, and the newer roots."""
    ring = keyring.load(tmp_path, None, clock)
    one = published(1, *ring.private)
    blob = ring.add_statements(one)
    assert manifest.verify(blob, ring.root.keys, NOW) == manifest.verify(one.envelope, ring.root.keys, NOW)
    assert versions(blob) == [1]
    assert freshness.verify(delivery.read_attached(blob)[0], ring.root.online, one.document, NOW).created == NOW
    clock.now += FRESH_SECONDS - 1
    assert ring.add_statements(one) is blob
    clock.now += 1
    assert freshness.verify(
        delivery.read_attached(ring.add_statements(one))[0], ring.root.online, one.document, clock.now
    )
    assert ring.add_statements(one) != blob
    for version in range(2, 20):
        ring.add_statements(published(version, *ring.private))
    assert len(ring._deliveries) == KEPT_DELIVERIES


@pytest.mark.parametrize("back", [5.0, 7_200.0, 80_000.0, 90_000.0, 40 * 86_400.0])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_clock_that_was_ahead_freezes_no_agent(tmp_path: Path, clock: Clock, back: float, restarts: bool) -> None:
    """Statements stay usable by agents after a clock that was ahead is set back. An agent takes no statement that is
    older than the one that it has seen, and none of more than tomorrow (F3)."""
    ring = keyring.load(tmp_path, None, clock)
    right, newest = clock.now, 0.0
    clock.now += back
    statement = delivery.read_attached(ring.add_statements(published(1, *ring.private)))[0]
    with contextlib.suppress(ManifestRefused):
        document = published(1, *ring.private).document
        newest = freshness.verify(statement, ring.root.online, document, right, newest).created
    clock.now = right
    if restarts:
        ring = keyring.load(tmp_path, None, clock)
        ring.date_from(right + back)  # the newest time in the state directory
    for version in (2, 3):
        clock.now += 10.0
        new = published(version, *ring.private)
        statement = delivery.read_attached(ring.add_statements(new))[0]
        newest = freshness.verify(statement, ring.root.online, new.document, clock.now, newest).created


def test_helens_own_key_is_renewed(tmp_path: Path, clock: Clock) -> None:
    """A renewal replaces Helen's own key; agents get the new root with the first set that the new key has signed."""
    ring = keyring.load(tmp_path, None, clock)
    [old] = ring.private
    before = published(1, old)
    first = ring.root
    done(ring.renew_own())
    [new] = ring.private
    assert key_id(new.public_key()) != key_id(old.public_key())
    assert versions(ring.add_statements(before)) == [1]
    assert roots.read(ring.for_enrolment(before)[1].encode()).version == 1
    after = published(2, new)
    assert versions(ring.add_statements(after)) == [1, 2]
    assert roots.follow_all(delivery.read_attached(ring.add_statements(after))[1], Root(first.keys))[0] == ring.root
    pem, text = ring.for_enrolment(after)
    assert (pem, roots.read(text.encode())) == (signing_keys.public_pem(new.public_key()), ring.root)
    again = keyring.load(tmp_path, None, clock)
    assert again.private[0].private_bytes_raw() == new.private_bytes_raw()


def no_space() -> None:
    raise OSError(28, "No space left")


def cut_off() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("stop", ["before the root", "before the name"])
def test_a_crash_during_a_renewal(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, stop: str) -> None:
    """A crash during a renewal leaves either the old root or, at the next start, the new one with its key."""
    ring = keyring.load(tmp_path, None, clock)
    if stop == "before the root":
        monkeypatch.setattr(keyring, "write_roots", lambda *_: no_space())
        with pytest.raises(PushRefused, match="the new root can't be kept: No space left"):
            done(ring.renew_own())
        assert ring.root.version == 1
    else:
        with monkeypatch.context() as patch:
            rename = Path.rename
            patch.setattr(Path, "rename", lambda path, to: cut_off() if path.suffix == ".next" else rename(path, to))
            with pytest.raises(KeyboardInterrupt):
                done(ring.renew_own())
    assert (tmp_path / "signing.key.next").exists()
    again = keyring.load(tmp_path, None, clock)
    assert again.root.version == (1 if stop == "before the root" else 2)
    assert [key_id(key.public_key()) for key in again.private] == list(again.root.keys)
    assert not (tmp_path / "signing.key.next").exists()


def test_from_helens_key_to_two_elsewhere(tmp_path: Path, clock: Clock) -> None:
    """A root of two other keys takes the place of Helen's own, whose signature it has; Helen can sign nothing
    afterwards."""
    ring = keyring.load(tmp_path, None, clock)
    done(ring.follow(following(ring, [ANNA, BERT], [ANNA, BERT], 2)))
    assert (ring.root.version, ring.root.threshold, ring.private) == (2, 2, ())
    assert keyring.load(tmp_path, None, clock).private == ()
    both = published(2, ANNA, BERT)
    assert versions(ring.add_statements(both)) == [1, 2]
    assert versions(ring.add_statements(published(3, ANNA))) == []  # no root's keys: nobody will take it
    with pytest.raises(PushRefused, match="not enough of the signing keys lie here"):
        done(ring.renew_own())


def test_keys_that_were_elsewhere_from_the_start(tmp_path: Path, clock: Clock) -> None:
    """Without a root the keys of --signing-keys count, until the first root is signed by them."""
    path = public(tmp_path, ANNA)
    ring = keyring.load(tmp_path / "state", path, clock)
    assert (ring.root, ring.private, ring.chain) == (Root({key_id(ANNA.public_key()): ANNA.public_key()}), (), ())
    before = published(1, ANNA)
    assert (versions(ring.add_statements(before)), ring.for_enrolment(before)) == ([], (path.read_text(), ""))
    done(ring.follow(following(ring, [ANNA], [ANNA])))
    assert versions(ring.add_statements(published(2, ANNA))) == [1]
    assert keyring.load(tmp_path / "state", path, clock).root == ring.root


@pytest.mark.parametrize(
    ("keys", "signers", "why"),
    [
        ([MALLORY], [MALLORY], "not signed by the keys that are held"),
        ([BERT], [ANNA], "not signed by its own keys"),
        ([], [], "malformed|1 to 16 keys"),
    ],
)
def test_a_root_that_is_refused(
    tmp_path: Path, clock: Clock, keys: list[Ed25519PrivateKey], signers: list[Ed25519PrivateKey], why: str
) -> None:
    """A root that the known keys have not signed, or that cannot be used, is refused, and nothing changes."""
    ring = keyring.load(tmp_path / "state", public(tmp_path, ANNA), clock)
    with pytest.raises((PushRefused, ValueError), match=why):
        done(ring.follow(following(ring, keys, signers)))
    assert ring.chain == ()


def test_a_root_with_another_online_key(tmp_path: Path, clock: Clock) -> None:
    """A root that names another online key is refused, since agents would call each set of this Helen frozen."""
    ring = keyring.load(tmp_path / "state", public(tmp_path, ANNA), clock)
    for online in (MALLORY.public_key(), None):
        envelope = roots.sign(roots.build(1, [ANNA.public_key()], 1, online), [ANNA])
        with pytest.raises(PushRefused, match="another online key"):
            done(ring.follow(envelope))


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'["x"]', b"[1]"])
def test_roots_that_cannot_be_read(tmp_path: Path, clock: Clock, text: bytes) -> None:
    """Helen refuses to start with a roots.json that cannot be read: new roots would shut every agent out."""
    (tmp_path / "roots.json").write_bytes(text)
    with pytest.raises(StateError, match=r"roots\.json can't be used: .*backup"):
        keyring.load(tmp_path, None, clock)


def test_the_file_of_public_keys_is_read_again(tmp_path: Path, clock: Clock) -> None:
    """A changed file of public keys counts as long as there is no root. A bad file changes nothing."""
    path = public(tmp_path, ANNA)
    ring = keyring.load(tmp_path, path, clock)
    assert done(ring.reread(path)) is False
    public(tmp_path, ANNA, BERT)
    assert done(ring.reread(path)) is True
    assert set(ring.root.keys) == {key_id(key.public_key()) for key in (ANNA, BERT)}
    path.write_text("nothing")
    with pytest.raises(StateError):
        done(ring.reread(path))
    assert len(ring.root.keys) == 2
    text = roots.build(1, [ANNA.public_key()], 1, ring.online.public_key())
    done(ring.follow(roots.sign(text, [ANNA])))
    public(tmp_path, BERT)
    assert done(ring.reread(path)) is False
    assert set(ring.root.keys) == {key_id(ANNA.public_key())}
