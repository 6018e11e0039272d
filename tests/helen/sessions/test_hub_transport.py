"""Tests one connection of the hub: TLS records however they are cut, writes that the kernel refuses, and every end."""

from __future__ import annotations

import contextlib
import gc
import random
import ssl
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hub_stage import VERSIONS, Authority, Pair

from groundwork.tls_records import PART
from helen.sessions import openssl_calls as calls
from helen.sessions.hub_transport import RECORDS_AT_ONCE
from helen.sessions.openssl_calls import RECORD
from helen.sessions.unsent_bytes import UNSENT_MUCH, unsent


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture
def connect(authority: Authority) -> Iterator[Callable[..., Pair]]:
    """Make connections, which are closed after the test."""
    with contextlib.ExitStack() as left:

        def make(version: ssl.TLSVersion = VERSIONS[-1], shaken: bool = True) -> Pair:
            pair = Pair(authority, version, shaken)
            left.callback(pair.client.socket.close)
            left.callback(lambda: pair.transport and pair.transport.abortConnection())
            return pair

        yield make


def stream_of(pair: Pair, messages: list[bytes]) -> bytes:
    for message in messages:
        pair.client.say(message)
    return pair.client.records()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("seed", range(6))
def test_records_cut_anywhere(connect: Callable[..., Pair], version: ssl.TLSVersion, seed: int) -> None:
    """The records heard are those said: records alone, joined, and cut in their headers and bodies."""
    chance = random.Random(seed)
    pair = connect(version)
    messages = [bytes([65 + n]) * chance.choice([1, 3, 86, 500, 4_000, RECORD, 40_000]) for n in range(8)]
    stream, at = stream_of(pair, messages), 0
    while at < len(stream):
        size = chance.choice([1, 2, 4, 5, 6, 90, 600, 17_000])
        pair.client.put(stream[at : at + size])
        at += size
        pair.transport.read()
    assert pair.protocol.heard == b"".join(messages)
    assert (pair.transport._missing, pair.transport._cut_header, pair.protocol.events) == (0, b"", [])


@pytest.mark.parametrize("version", VERSIONS)
def test_every_place_of_a_cut(connect: Callable[..., Pair], version: ssl.TLSVersion) -> None:
    """Two records in two reads are heard, whatever byte the first read ends with; and a whole record after them."""
    pair = connect(version)
    messages = [b"first", b"second message"]
    for place in range(1, len(stream_of(pair, messages))):
        pair = connect(version)
        stream = stream_of(pair, messages)
        for part in (stream[:place], stream[place:], stream_of(pair, [b"third"])):
            pair.client.put(part)
            pair.transport.read()
        assert pair.protocol.heard == b"firstsecond messagethird"
        pair.close()


def test_the_handshake_byte_by_byte(connect: Callable[..., Pair]) -> None:
    """A handshake byte by byte succeeds, and the first message in one chunk with its end is heard."""
    pair = connect(shaken=False)
    pair.client.step()
    pair.transport.read()
    pair.client._receive()
    pair.client._tls.do_handshake()
    pair.client.say(b"hello 2 kit\n")
    for byte in pair.client.records():
        pair.client.put(bytes([byte]))
        pair.transport.read()
    assert (pair.protocol.events, pair.protocol.heard) == (["trusted"], b"hello 2 kit\n")


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, int]]:
    """Count calls of OpenSSL, by name."""
    counts = dict.fromkeys(("ssl_read", "ssl_write", "bio_read", "bio_write", "clear_errors", "ssl_get_error"), 0)

    def counting(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            counts[name] += 1
            return real(*given)

        return call

    for name in counts:
        monkeypatch.setattr(calls, name, counting(name, getattr(calls, name)))
    yield counts


class CountedSocket:
    """Wraps a socket, and counts system calls."""

    def __init__(self, real: Any, counts: dict[str, int]) -> None:
        self._real, self._counts = real, counts

    def __getattr__(self, name: str) -> Any:
        self._counts[name] = self._counts.get(name, 0) + 1
        return getattr(self._real, name)


def test_what_a_result_costs(
    connect: Callable[..., Pair], counted: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record in and one out cost one call of each kind, and no change of what the kernel waits for."""
    pair = connect()
    monkeypatch.setattr(pair.place, "watch", pytest.fail)
    pair.protocol.on_data = lambda protocol, data: protocol.transport.write(b"ack s 1\n")
    for name in counted:
        counted[name] = 0
    of_kernel: dict[str, int] = {}
    real, pair.transport._socket = pair.transport._socket, CountedSocket(pair.transport._socket, of_kernel)
    for _ in range(10):
        pair.client.put(stream_of(pair, [b"r" * 500]))
        pair.transport.read()
    assert counted == {
        "ssl_read": 10, "ssl_write": 10, "bio_read": 10, "bio_write": 10, "clear_errors": 0, "ssl_get_error": 0,
    }  # fmt: skip
    assert of_kernel == {"recv_into": 10, "send": 10}
    pair.transport._socket = real
    pair.client.step()
    assert pair.client.heard == b"ack s 1\n" * 10


def test_what_a_part_of_a_great_result_costs(connect: Callable[..., Pair], counted: dict[str, int]) -> None:
    """Each part of a few great records costs one call into TLS, and each call lets another thread run for a while."""
    pair = connect()
    stream = stream_of(pair, [b"x" * 16_000] * 4)
    for name in counted:
        counted[name] = 0
    pair.client.put(stream)
    while len(pair.protocol.heard) < 64_000:
        pair.transport.read()
    chunks = counted["bio_write"]
    assert pair.protocol.heard == b"x" * 64_000
    assert counted["ssl_read"] == 4 + chunks
    assert counted["ssl_get_error"] == counted["clear_errors"] == counted["bio_read"] == chunks < 16


def test_many_small_records_go_into_tls_in_parts(connect: Callable[..., Pair], counted: dict[str, int]) -> None:
    """Many small records go in parts, since each might be a change of keys, which TLS tells only when it
    has read it.
    """
    pair = connect()
    for count in (RECORDS_AT_ONCE, 10 * RECORDS_AT_ONCE):
        stream = stream_of(pair, [b"x" * 300] * count)
        before, counted["bio_write"] = len(pair.protocol.heard), 0
        pair.client.put(stream)
        while len(pair.protocol.heard) < before + 300 * count:
            pair.transport.read()
        assert counted["bio_write"] >= (1 if count == RECORDS_AT_ONCE else len(stream) // PART)


# ---------------------------------------------------------------------------------------------- slow peers


def test_a_peer_that_does_not_read(connect: Callable[..., Pair]) -> None:
    """The count of what waits is exact, the producer pauses once, and all arrives in order when there is room."""
    pair = connect()
    said = b""
    for number in range(200):
        data = bytes([number]) * 20_000
        said += data
        pair.transport.write(data)
    waiting = pair.transport.unsent
    assert (pair.protocol.events, pair.place.wanted) == (["pause"], (True, True))
    assert UNSENT_MUCH < waiting < len(said)
    assert unsent(pair.transport, 7) == waiting
    pair.step_until(lambda: pair.client.heard == said)
    assert (pair.protocol.events, pair.transport.unsent) == (["pause", "resume"], 0)
    assert pair.place.wanted == (True, False)


def test_the_last_words_leave_before_the_end(connect: Callable[..., Pair]) -> None:
    """A `loseConnection` with much unsent sends all of it, then the end of TLS, and then closes the socket."""
    pair = connect()
    said = b"x" * 3_000_000
    pair.transport.write(said)
    pair.transport.unregisterProducer()
    pair.transport.loseConnection()
    pair.transport.write(b"nothing is said after that")
    pair.step_until(lambda: pair.client.has_heard_end)
    assert pair.client.heard == said
    pair.client.end_tls()
    pair.step_until(lambda: not pair.transport.is_open)
    pair.place.turn()
    assert pair.protocol.events[-1] == "lost: ConnectionDone"


def test_what_is_written_before_the_handshake(connect: Callable[..., Pair]) -> None:
    """Early bytes wait for the handshake, without asking the kernel for room that is there all the time."""
    pair = connect(shaken=False)
    pair.transport.write(b"early")
    assert (pair.place.wanted, pair.transport.unsent) == ((True, False), 5)
    pair.step_until(lambda: pair.client.heard == b"early")
    assert pair.transport.unsent == 0


def test_a_pause_in_the_middle(connect: Callable[..., Pair]) -> None:
    """Bytes that TLS has decrypted are heard before the pause; those that the kernel holds are heard after it."""
    pair = connect()
    pair.protocol.on_data = lambda protocol, data: protocol.transport.pauseProducing()
    pair.client.put(stream_of(pair, [b"one", b"two"]))
    pair.transport.read()
    pair.client.put(stream_of(pair, [b"three"]))
    pair.transport.read()
    assert (pair.protocol.heard, pair.place.wanted) == (b"onetwo", (False, False))
    pair.transport.resumeProducing()
    pair.transport.read()
    assert pair.protocol.heard == b"onetwothree"


# ---------------------------------------------------------------------------------------------- ends


def garbage(pair: Pair) -> None:
    pair.client.put(b"no TLS at all, though it is long enough for a header")


def bad_record(pair: Pair) -> None:
    stream = bytearray(stream_of(pair, [b"a good message"]))
    stream[-1] ^= 1
    pair.client.put(bytes(stream))


def lose(pair: Pair) -> None:
    pair.transport.unregisterProducer()
    pair.transport.loseConnection()
    pair.client.step()
    pair.client.end_tls()


def abort_in_data(pair: Pair) -> None:
    pair.protocol.on_data = lambda protocol, data: protocol.transport.abortConnection()
    pair.client.put(stream_of(pair, [b"one"]))


ENDS: list[tuple[str, Callable[[Pair], None], str]] = [
    ("the end of TLS", lambda pair: pair.client.end_tls(), "ConnectionDone"),
    ("the end of the socket", lambda pair: pair.client.socket.close(), "ConnectionLost"),
    ("garbage", garbage, "ConnectionDone"),
    ("a record that was changed", bad_record, "ConnectionDone"),
    ("Helen closes", lose, "ConnectionDone"),
    ("Helen aborts", lambda pair: pair.transport.abortConnection(), "ConnectionAborted"),
    ("Helen aborts while it hears", abort_in_data, "ConnectionAborted"),
]


@pytest.mark.parametrize("shaken", [True, False])
@pytest.mark.parametrize(("name", "end", "reason"), ENDS)
def test_every_end(
    connect: Callable[..., Pair], name: str, end: Callable[[Pair], None], reason: str, shaken: bool
) -> None:
    """The protocol is told an end once, in a later turn; the socket is forgotten while it is open; nothing is left."""
    if not shaken and name not in ("the end of the socket", "garbage", "Helen aborts"):
        return
    gc.collect()
    gc.disable()
    try:
        pair = connect(shaken=shaken)
        end(pair)
        pair.transport.read()
        assert not any(str(event).startswith("lost") for event in pair.protocol.events)
        pair.place.turn()
        pair.place.turn()
        assert (pair.protocol.events[-1:], pair.place.was_open) == ([f"lost: {reason}"], [True])
        assert [str(event).partition(":")[0] for event in pair.protocol.events].count("lost") == 1
        pair.transport.abortConnection()
        pair.transport.loseConnection()
        pair.transport.write(b"to nobody")
        pair.transport.pauseProducing()
        pair.transport.resumeProducing()
        pair.transport.write_on()
        assert (pair.place.calls, pair.transport.unsent) == ([], 0)
        left = weakref.ref(pair.transport)
        pair.transport = pair.protocol.transport = None
        assert left() is None
    finally:
        gc.enable()


def test_the_fault_of_one_is_no_other_ones(connect: Callable[..., Pair]) -> None:
    """The queue of errors is the thread's, and an error that a bad peer leaves in it ends nobody else."""
    bad, good = connect(), connect()
    bad_record(bad)
    bad.transport.read()
    good.client.put(stream_of(good, [b"one", b"two"]))
    good.transport.read()
    assert (bad.transport.is_open, good.transport.is_open, good.protocol.heard) == (False, True, b"onetwo")
    fresh = connect()
    assert fresh.transport.is_trusted


def test_a_fault_behind_a_message_that_ends_its_connection(connect: Callable[..., Pair]) -> None:
    """The error of such a fault does not stay in the thread's queue, where it would spoil the end of another's TLS."""
    bad, good = connect(), connect()
    bad.protocol.on_data = lambda protocol, data: protocol.transport.abortConnection()
    stream = bytearray(stream_of(bad, [b"one", b"two"]))
    stream[-1] ^= 1
    bad.client.put(bytes(stream))
    bad.transport.read()
    assert (bad.protocol.heard, bad.transport.is_open) == (b"one", False)
    assert calls._lib.ERR_peek_error() == 0
    good.client.step()
    good.client.end_tls()
    good.transport.read()
    assert good.client.socket.recv(100)[:3] == b"\x17\x03\x03"  # Helen's own end; a fault has none


def test_an_error_that_another_caller_left(connect: Callable[..., Pair], monkeypatch: pytest.MonkeyPatch) -> None:
    """A record without a message is judged with an empty queue, at which older OpenSSL looks."""
    pair, queued = connect(), list[int]()
    real = calls.ssl_get_error
    monkeypatch.setattr(
        calls, "ssl_get_error", lambda *given: queued.append(calls._lib.ERR_peek_error()) or real(*given)
    )
    assert calls._lib.SSL_CTX_use_certificate(calls._ffi.NULL, calls._ffi.NULL) == 0
    assert calls._lib.ERR_peek_error() != 0
    pair.client.end_tls()
    pair.transport.read()
    pair.place.turn()
    assert (queued, pair.protocol.events) == ([0], ["lost: ConnectionDone"])


@pytest.mark.parametrize("size", [100, 2_000])
def test_bytes_behind_the_end_of_tls_are_not_kept(
    connect: Callable[..., Pair], counted: dict[str, int], size: int
) -> None:
    """A peer that ends TLS, reads nothing and sends on: TLS would keep its bytes, and never read them."""
    pair = connect()
    while not pair.transport.is_writing:
        pair.transport.write(b"x" * 20_000)
    pair.client.end_tls()
    pair.transport.read()
    assert pair.transport.is_open and pair.transport.unsent > 0
    counted["bio_write"] = 0
    for _ in range(10):
        pair.client.put((b"\x17\x03\x03" + size.to_bytes(2, "big") + bytes(size)) * 20)
        pair.transport.read()
    assert (counted["bio_write"], pair.protocol.heard, pair.transport.is_open) == (0, b"", True)
    pair.client.socket.close()
    pair.transport.read()
    pair.place.turn()
    assert pair.protocol.events[-1] == "lost: ConnectionDone"


def test_what_was_said_before_the_end_is_heard(connect: Callable[..., Pair]) -> None:
    """A last message in one chunk with the end of TLS is heard."""
    pair = connect()
    pair.client.say(b"the last report")
    pair.client.end_tls()
    pair.transport.read()
    pair.place.turn()
    assert (pair.protocol.heard, pair.protocol.events) == (b"the last report", ["lost: ConnectionDone"])


def test_a_pyopenssl_without_these_names() -> None:
    """Each name that is gone is told; with all of them nothing is missing."""
    assert calls.MISSING == ()
    connection = type("Connection", (), {"_ssl": 1, "_into_ssl": 2, "_from_ssl": 3})()
    found = calls.missing(object(), object(), connection)
    assert {"SSL_read", "BIO_write", "ERR_clear_error", "from_buffer"} <= set(found)
    assert calls.missing(calls._lib, calls._ffi, object()) == ("_ssl", "_into_ssl", "_from_ssl")
