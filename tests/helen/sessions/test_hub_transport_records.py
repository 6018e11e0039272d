"""Tests peers whose TLS says nothing and costs something: changes of keys, empty records, very many small ones (14)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hub_stage import VERSIONS, Authority, Pair
from raw_records import ALERT, HANDSHAKE, OldRecords, RawRecords, recorded

from groundwork.tls_records import ANSWERS_MOST, OVERHEAD_MOST, PART
from helen.sessions import openssl_calls as calls

UPDATE = 27  # bytes of a change of keys, and of its answer


@pytest.fixture
def meet(tmp_path: Path) -> Iterator[Callable[[], tuple[Pair, RawRecords]]]:
    """Make connections with hands shaken, whose client goes on by hand."""
    with contextlib.ExitStack() as left:

        def make() -> tuple[Pair, RawRecords]:
            authority, log = Authority(tmp_path), tmp_path / "secrets"
            plain = authority.context
            authority.context = lambda *given, **more: recorded(plain(*given, **more), log)  # type: ignore[method-assign]
            pair = Pair(authority)
            left.callback(pair.close)
            return pair, RawRecords(log, pair.client._tls.cipher()[0])

        yield make


def fed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the list to which the size of each part is added that TLS is given."""
    sizes: list[int] = []
    real = calls.bio_write

    def counted(bio: Any, data: Any, size: int) -> Any:
        sizes.append(size)
        return real(bio, data, size)

    monkeypatch.setattr(calls, "bio_write", counted)
    return sizes


@pytest.mark.parametrize("asks", [True, False])
def test_many_changes_of_keys_in_one_chunk(
    meet: Callable[[], tuple[Pair, RawRecords]], monkeypatch: pytest.MonkeyPatch, asks: bool
) -> None:
    """TLS is given some changes of keys, 2 ms of work at once, and then the connection ends; nothing waits for the
    peer.
    """
    pair, records = meet()
    chunk = b"".join(records.key_update(asks) for _ in range(2_400))
    pair.client.socket.setblocking(True)
    pair.client.put(chunk)
    sizes = fed(monkeypatch)
    pair.transport.read()
    assert max(sizes) == PART
    assert sum(sizes) <= (PART if asks else OVERHEAD_MOST + PART)
    assert (pair.transport.is_open, pair.transport.unsent) == (False, 0)


def test_changes_of_keys_one_by_one(meet: Callable[[], tuple[Pair, RawRecords]]) -> None:
    """A peer that asks for them, says a word between and reads nothing is cut after some; it grows nothing here."""
    pair, records = meet()
    answered = 0
    while pair.transport.is_open:
        answered += UPDATE
        assert answered <= ANSWERS_MOST + 3 * UPDATE  # OpenSSL answers when it is called again
        pair.client.put(records.record(b"hello") + records.key_update())
        pair.transport.read()
        assert pair.transport.unsent <= ANSWERS_MOST + 3 * UPDATE
    assert answered > ANSWERS_MOST
    pair.place.turn()
    assert pair.protocol.events == ["lost: ConnectionAborted"]


def test_a_peer_that_changes_its_keys_now_and_then(meet: Callable[[], tuple[Pair, RawRecords]]) -> None:
    """Changes of keys are answered, and all words are heard, if they come now and then as libraries make them."""
    pair, records = meet()
    said = b""
    for number in range(ANSWERS_MOST // UPDATE):
        said += b"%d," % number
        pair.client.put(records.key_update() + records.record(b"%d," % number))
        pair.transport.read()
    for _ in range(100):
        pair.client.put(records.key_update(asks=False))
        pair.client.put(records.record(b"x" * 400) + records.record(b"x" * 400))
        pair.transport.read()
        pair.transport.read()
    pair.transport.write(b"an answer with the last of the keys")
    pair.client.step()
    assert pair.protocol.heard == said + b"x" * 80_000
    assert pair.client.heard == b"an answer with the last of the keys"
    assert pair.transport.is_open


def test_very_many_small_records(meet: Callable[[], tuple[Pair, RawRecords]]) -> None:
    """Records of one letter are slow and no fault; they are one chunk for the protocol."""
    pair, records = meet()
    chunks: list[bytes] = []
    pair.protocol.on_data = lambda protocol, data: chunks.append(data)
    pair.client.socket.setblocking(True)
    pair.client.put(b"".join(records.record(b"x") for _ in range(2_500)))
    pair.transport.read()
    assert chunks == [b"x" * 2_500]
    assert pair.transport.is_open


def test_empty_records(meet: Callable[[], tuple[Pair, RawRecords]]) -> None:
    """Some pass; a row of them ends the connection, and so do very many with a letter here and there."""
    pair, records = meet()
    pair.client.put(b"".join(records.record(b"") for _ in range(20)) + records.record(b"x"))
    pair.transport.read()
    assert (pair.protocol.heard, pair.transport.is_open) == (b"x", True)
    for number in range(2_000):
        if not pair.transport.is_open:
            break
        pair.client.put(records.record(b"") + (records.record(b"x") if number % 30 == 29 else b""))
        pair.transport.read()
    assert not pair.transport.is_open
    pair, records = meet()
    pair.client.put(b"".join(records.record(b"") for _ in range(100)))
    pair.transport.read()
    assert not pair.transport.is_open


class Heard:
    """Keeps a copy of what the client's TLS is given."""

    def __init__(self, real: Any) -> None:
        self._real, self.data = real, b""

    def write(self, data: bytes) -> None:
        self.data += data
        self._real.write(data)


def test_a_record_of_many_new_handshakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first new handshake of TLS 1.2 ends the connection; 4,096 that were refused one by one took 38 ms."""
    authority, log = Authority(tmp_path), tmp_path / "secrets"
    context = recorded(authority.context(VERSIONS[0]), log)
    authority.context = lambda *given, **more: context  # type: ignore[method-assign]
    pair = Pair(authority, shaken=False)
    pair.client._into = heard = Heard(pair.client._into)  # type: ignore[assignment]
    pair.step_until(lambda: pair.client.is_trusted and pair.transport.is_trusted)
    records = OldRecords(log, pair.client._tls.cipher()[0], heard.data)
    pair.client.put(records.record(b"hello"))
    pair.transport.read()
    assert (pair.protocol.heard, pair.transport.is_open) == (b"hello", True)
    answers: list[int] = []
    real = calls.bio_read
    monkeypatch.setattr(calls, "bio_read", lambda *given: answers.append(real(*given)) or answers[-1])
    pair.client.put(records.record(b"\x01\0\0\0" * 4_096, HANDSHAKE) + records.record(b"not heard"))
    pair.transport.read()
    assert 0 < sum(answers) < 100  # one alert for one of them, and the end
    assert (pair.protocol.heard, pair.transport.is_open) == (b"hello", False)
    pair.close()


STRAY: list[tuple[str, Callable[[RawRecords], bytes]]] = [
    ("a new handshake", lambda records: records.record(b"\x01\0\0\x04abcd", HANDSHAKE)),
    ("the end of early data", lambda records: records.record(b"\x05\0\0\0", HANDSHAKE)),
    ("a heartbeat", lambda records: records.record(b"\x01\xff\xff", 24)),
    ("a change of ciphers, sealed", lambda records: records.record(b"\x01", 20)),
    ("a change of ciphers, open", lambda records: b"\x14\x03\x03\0\x01\x01"),
    ("an alert that is fatal", lambda records: records.record(b"\x02\x28", ALERT)),
    ("an alert that nobody sealed", lambda records: b"\x15\x03\x03\0\x02\x01\x5a"),
    ("no kind at all", lambda records: records.record(b"", 99)),
    ("a record that is too long", lambda records: b"\x17\x03\x03\x7f\xff" + b"x" * 50),
    ("a record twice", lambda records: records.record(b"x") * 2),
]


@pytest.mark.parametrize(("name", "made"), STRAY)
def test_records_that_have_no_place_here(
    meet: Callable[[], tuple[Pair, RawRecords]], name: str, made: Callable[[RawRecords], bytes]
) -> None:
    """Each ends its connection, which the protocol hears once; nothing is raised and nobody else is touched."""
    pair, records = meet()
    other, _ = meet()
    pair.client.put(made(records))
    pair.transport.read()
    pair.place.turn()
    assert (pair.transport.is_open, pair.protocol.events) == (False, ["lost: ConnectionDone"])
    other.client.say(b"still here")
    other.client.put(other.client.records())
    other.transport.read()
    assert other.protocol.heard == b"still here"
