"""Test properties of every stream of bytes: any split gives the same, messages come back, and only declared errors are
raised.

EQUUS_PROTOCOL_CASES sets the number of random streams (20,000 by default); by hand:

    EQUUS_PROTOCOL_CASES=1000000 python -m pytest tests/equus_protocol/test_properties.py -k random
"""

from __future__ import annotations

import os
import random
import tracemalloc
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equus_protocol import messages as m
from equus_protocol.codec import FORMS, ID, INT, INT_MAX, INT_MIN, MAX_BLOB, SEQUENCE, STRING, Form, Kind, Role, encode
from equus_protocol.conversation import VERSIONS, Conversation
from equus_protocol.errors import SLUGS, RemoteProtocolError
from equus_protocol.tunnels import MAX_WINDOW, Account
from equus_protocol.unread_bytes import UnreadBytes

CASES = int(os.environ.get("EQUUS_PROTOCOL_CASES", "20000"))
SEED = int(os.environ.get("EQUUS_PROTOCOL_SEED", "4166"))

Outcome = tuple[list[m.Message], str | None]


def agreed(role: Role) -> Conversation:
    """Return a conversation in version 2 in which everything has been asked for, so that as many messages as possible
    are legal.
    """
    ours = Conversation(role)
    ours.tunnels.open.update({7: Account(8, 8), 8: Account(0, 0)})
    if role is Role.HELEN:
        ours.feed(b"hello 2 kit\n")
        ours.next_message()
        ours.outstanding.update(dict.fromkeys(range(4), "load"))
    else:
        ours.send(m.Hello(2, "kit"))
        ours.speaks_v2 = True
        ours.requests.update({0: m.AskManifest(0), 1: m.Fetch(1, "f"), 2: m.Enrol(2, "web-1", b"{}")})
    return ours


def outcome(ours: Conversation, chunks: Iterable[bytes]) -> Outcome:
    """Return all messages, and the slug of the fault at the end, and check that the held bytes never exceed one
    blob.
    """
    heard: list[m.Message] = []
    try:
        for chunk in chunks:
            ours.feed(chunk)
            while (message := ours.next_message()) is not None:
                heard.append(message)
            assert ours.unread <= MAX_BLOB
    except RemoteProtocolError as failure:
        assert failure.slug in SLUGS
        assert ours.unread == 0
        return heard, failure.slug
    return heard, None


HELENS = (
    b"hello 2 kit\nping 1\r\nreport s 1 load 5\na\nb\r\n\nmanifest 7\nfetch 8 f\nreport s 2 load 0\n\n"
    b"enrol 9 web-1 2\n{}\nloaded d 3\nxyz\npong 4\nfrobnicate\nping 1\n"
)
EQUUS = (
    b"schedule 1 2\n[]\ncheck load 1 3\n{}\n\nreload\r\nack s 1\nmanifest 0 4\nabcd\nfile 1 f 0\n\ncancel 1\n"
    b"servers 5 2\n[]\nping 3\nerror the quick  brown\r\nreload\n"
)


def starting(role: Role) -> Conversation:
    if role is Role.HELEN:
        return Conversation(role)
    ours = Conversation(role)
    ours.send(m.Hello(2, "kit"))
    ours.feed(b"ping 0\n")
    ours.next_message()
    ours.send(m.AskManifest(0))
    ours.send(m.Fetch(1, "f"))
    return ours


@pytest.mark.adversary(2)
@pytest.mark.parametrize(("role", "stream", "last"), [
    (Role.HELEN, HELENS, "unknown-command"), (Role.EQUUS, EQUUS, None),
])  # fmt: skip
def test_every_split_gives_the_same(role: Role, stream: bytes, last: str | None) -> None:
    """Every split of a stream gives the same: byte by byte, in two at each place, in three, and with a tail behind."""
    whole = outcome(starting(role), [stream])
    assert (len(whole[0]), whole[1]) == (9 if last else 10, last)
    assert outcome(starting(role), [stream[i : i + 1] for i in range(len(stream))]) == whole
    assert outcome(starting(role), [stream + b"tail \xff"]) == whole
    for cut in range(len(stream) + 1):
        assert outcome(starting(role), [stream[:cut], stream[cut:]]) == whole
        assert outcome(starting(role), [stream[:cut], b"", stream[cut : cut + 3], stream[cut + 3 :]]) == whole


def test_feeding_without_reading_gives_the_same() -> None:
    """Bytes may be fed in many pieces before any message is read, also in the middle of a blob."""
    whole = outcome(starting(Role.HELEN), [HELENS])
    for cut in range(len(HELENS)):
        ours = starting(Role.HELEN)
        heard = outcome(ours, [HELENS[:cut]])[0]
        for i in range(cut, len(HELENS)):
            ours.feed(HELENS[i : i + 1])
        rest, slug = outcome(ours, [b""])
        assert (heard + rest, slug) == whole


# ------------------------------------------------------------------------------------------------ round trip

_STRINGS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=[*map(chr, range(0x21)), "\x7f"]),
                   min_size=1, max_size=63)  # fmt: skip
_KINDS: dict[Kind, st.SearchStrategy[object]] = {
    INT: st.integers(INT_MIN, INT_MAX), ID: st.integers(0, INT_MAX), SEQUENCE: st.integers(1, INT_MAX),
    STRING: _STRINGS
}  # fmt: skip


def messages_of(form: Form) -> st.SearchStrategy[m.Message]:
    values = [_KINDS[kind] for kind in form.kinds]
    if form.message in (m.Tunnel, m.Window):
        values[-1] = st.integers(1, MAX_WINDOW)
    return st.builds(form.message, *values, *([st.binary(min_size=1, max_size=300)] if form.has_blob else []))


@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form.sender.value}-{form.command.decode()}")
@settings(max_examples=40, deadline=None, database=None)
@given(data=st.data())
def test_every_message_comes_back(form: Form, data: st.DataObject) -> None:
    """A message is decoded to the same value, whatever its fields are, and takes one line and one blob."""
    message = data.draw(messages_of(form))
    is_hello = form.message is m.Hello
    ours = Conversation(form.sender.peer, (2, message.version) if is_hello else VERSIONS)
    if form.sender is Role.EQUUS and not is_hello:
        ours.feed(b"hello 2 kit\n")
        ours.next_message()
    elif not is_hello:
        ours.send(m.Hello(2, "kit"))
    if isinstance(message, m.Result):
        ours.outstanding[message.message_id] = message.name
    elif isinstance(message, m.Manifest):
        ours.requests[message.message_id] = m.AskManifest(message.message_id)
    elif isinstance(message, m.File):
        ours.requests[message.message_id] = m.Fetch(message.message_id, message.sha256)
    elif isinstance(message, m.Enrolled):
        ours.requests[message.message_id] = m.Enrol(message.message_id, "web-1", b"")
    elif isinstance(message, m.Bytes | m.Window | m.Close):
        ours.tunnels.open[message.message_id] = Account(granted=300)
    assert outcome(ours, [encode(message, form.sender)]) == ([message], None)


# ------------------------------------------------------------------------------------------------ random streams

FORMS_OF = {role: [form for form in FORMS if form.sender is role] for role in Role}
WORDS = [form.command for form in FORMS] + [b"error", b"frobnicate", b"HELLO", b"\xff", b""]
FIELDS = [b"0", b"1", b"2", b"3", b"9", b"-1", b"01", b"+1", b"2147483647", b"2147483648", b"1048577", b"s", b"load",
          b"f", b"\xc3\xa9", b"\xff", b"", b"\t", b"x" * 255, b"x" * 256, b"x" * 1_100]  # fmt: skip


def random_line(rng: random.Random, role: Role) -> bytes:
    """Return a line that is sometimes right, and mostly nearly right."""
    luck = rng.random()
    if luck < 0.1:
        return rng.randbytes(rng.randrange(40)) + rng.choice([b"", b"\n"])
    form = rng.choice(FORMS_OF[role.peer])
    blob = rng.randbytes(rng.choice([0, 1, 5, 90]))
    numbers = [b"0", b"1", b"2", b"3", b"7"]
    values = [rng.choice([b"load", b"f", b"s"] if kind is STRING else numbers) for kind in form.kinds]
    parts = [form.command, *values] + ([b"%d" % len(blob)] if form.has_blob else [])
    if luck < 0.25:
        parts[rng.randrange(len(parts))] = rng.choice(WORDS + FIELDS)
    elif luck < 0.3:
        parts.insert(rng.randrange(len(parts) + 1), rng.choice(FIELDS))
    line = b" ".join(parts) + rng.choice([b"\n", b"\n", b"\n", b"\r\n"])
    return line + (blob + b"\n" if form.has_blob else b"")


def random_stream(rng: random.Random, role: Role) -> bytes:
    stream = bytearray(b"".join(random_line(rng, role) for _ in range(rng.randrange(1, 5))))
    for _ in range(rng.choice([0, 0, 0, 1, 3])):
        if stream:
            stream[rng.randrange(len(stream))] = rng.choice(b"\n\r \x00\xff09ax")
    return bytes(stream)


def random_chunks(rng: random.Random, stream: bytes) -> list[bytes]:
    chunks = []
    while stream:
        size = rng.choice([1, 2, 3, 10, 50, 400])
        chunks.append(stream[:size])
        stream = stream[size:]
    return chunks


@pytest.mark.adversary(1)
def test_random_streams_give_messages_or_a_remote_error() -> None:
    """Random streams in random pieces give messages or RemoteProtocolError, and nothing else (cases 1 and 2 of the
    security page).
    """
    slugs: set[str | None] = set()
    for number in range(CASES):
        rng = random.Random(SEED * 10_000_000 + number)
        role = rng.choice([Role.HELEN, Role.EQUUS])
        stream = random_stream(rng, role)
        make = agreed if rng.random() < 0.9 else Conversation
        whole = outcome(make(role), [stream])
        assert outcome(make(role), random_chunks(rng, stream)) == whole, f"EQUUS_PROTOCOL_SEED={SEED}, case {number}"
        slugs.add(whole[1])
    if CASES >= 10_000:
        assert slugs >= {None, "unknown-command", "bad-line", "line-too-long", "bad-int", "bad-string",
                         "blob-too-large", "bad-blob-end", "hello-expected", "unknown-message-id",
                         "window-exceeded"}  # fmt: skip


# ------------------------------------------------------------------------------------------------ memory


def traced_peak(chunks: Iterable[bytes]) -> int:
    """Return the most bytes that Helen's side holds while these chunks are fed to it and its messages are
    thrown away.
    """
    ours = agreed(Role.HELEN)
    tracemalloc.start()
    try:
        for chunk in chunks:
            ours.feed(chunk)
            while ours.next_message() is not None:
                pass
    except RemoteProtocolError:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak


CHUNK = b"x" * 16_384


@pytest.mark.adversary(1, 5)
@pytest.mark.parametrize(("chunks", "most"), [
    ([b"report s 1 a 1048576\n", *[CHUNK] * 63, b"x"], 2**21),  # a blob that is never whole
    ([b"report s 1 a 1048576\n", b"x"], 2**15),  # nothing is set aside for what may never come
    ([CHUNK] * 1_280, 2**17),  # 20 MiB without LF
    ([b"ping 1\n" * 9_000 + b"pi", b"ng 1\n"] * 2, 2**18),
    ([b"report s 1 a 0\n\n" * 4_000] * 2, 2**18),
], ids=["great blob", "announced", "no LF", "half lines", "reports"])  # fmt: skip
def test_what_a_peer_makes_us_hold(chunks: list[bytes], most: int) -> None:
    """The held bytes are bounded by one blob and one chunk, whatever a peer sends."""
    assert traced_peak(chunks) < most


def test_a_chunk_is_not_kept_for_the_half_line_at_its_end() -> None:
    """A chunk is not kept for the half line at its end: ten thousand agents in the middle of a line hold half lines
    alone.
    """
    ours = agreed(Role.HELEN)
    outcome(ours, [b"ping 1\n" * 9_000 + b"pi"])
    assert ours.unread == 2
    held = [getattr(ours._unread, name) for name in UnreadBytes.__slots__] + list(vars(ours).values())
    assert [value for value in held if isinstance(value, bytes | bytearray) and value] == [b"pi"]


def test_a_failure_keeps_nothing_alive() -> None:
    """A conversation that has failed holds no buffers, not even in the frames of its exception."""
    ours = agreed(Role.HELEN)
    ours.feed(b"frobnicate\n" + b"x" * 100_000)
    for _ in range(3):
        with pytest.raises(RemoteProtocolError):
            ours.next_message()
    assert ours.unread == 0
    assert not [v for v in vars(ours).values() if isinstance(v, BaseException)]
