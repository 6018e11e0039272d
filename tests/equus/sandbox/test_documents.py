"""Test text, values, endings and result documents, each by itself."""

import json
import math
import signal
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equus.sandbox.document import ADDED_LIMIT, body, failure, finish
from equus.sandbox.exit_reasons import exit_reason
from equus.sandbox.job import BLOB_LIMIT
from equus.sandbox.text import clean, drop_partial, shorten
from equus.sandbox.value_codec import NotPlain, decode, encode
from equus_protocol.results import REASONS, parse

# A deadline would make these depend on what else the machine does.
CALM = settings(deadline=None, max_examples=60)

# ------------------------------------------------------------------------------------------------ text


@pytest.mark.adversary(35)
@CALM
@given(st.binary(max_size=200))
def test_clean_text_can_be_shown(data: bytes) -> None:
    """Any bytes become UTF-8 without control characters, and clean text stays as it is."""
    text = clean(data)
    text.encode()
    assert not any((ord(char) < 32 and char not in "\t\n") or 0x7F <= ord(char) < 0xA0 for char in text)
    assert clean(text) == text
    assert clean(data.decode("utf-8", "surrogateescape")) == text


@CALM
@given(st.text(max_size=50), st.integers(0, 60))
def test_shorten(text: str, most: int) -> None:
    """A shortened text is the longest prefix that fits the limit."""
    text = text.encode("utf-8", "replace").decode()
    short = shorten(text, most)
    assert text.startswith(short)
    assert len(short.encode()) <= most
    assert short == text or len(text[: len(short) + 1].encode()) > most


@CALM
@given(st.text(max_size=20), st.integers(0, 80))
def test_drop_partial(text: str, at: int) -> None:
    """Bytes that are cut anywhere lose at most the character that was cut."""
    data = text.encode("utf-8", "replace")[:at]
    assert drop_partial(data.decode("utf-8", "surrogateescape")).encode() == data.decode("utf-8", "ignore").encode()


# ------------------------------------------------------------------------------------------------ values

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=15,
)


@CALM
@given(PLAIN)
def test_values_come_back(value: Any) -> None:
    """Plain data is the same after it is encoded and decoded, except half a surrogate pair."""
    expected = json.loads(json.dumps(value), parse_constant=float)
    if "\\ud" not in json.dumps(value):
        assert decode(encode(value)) == expected


@CALM
@given(st.binary(max_size=60))
def test_no_bytes_do_harm(data: bytes) -> None:
    """Any bytes give a value or NotPlain, since a worker may have been taken over."""
    with suppress(NotPlain):
        decode(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x",
        b"s\xff\xff\xff\xffx",
        b"a\xff\xff\xff\xff",
        b"o\x01\x00\x00\x00n",
        b"nn",
        b"i123",
        b"a\x01\x00\x00\x00" * 40 + b"n",
    ],
    ids=repr,
)
def test_bad_values(data: bytes) -> None:
    """A value that is cut short, too long, too deep or left over raises NotPlain."""
    with pytest.raises(NotPlain):
        decode(data)


def test_great_numbers_and_odd_text() -> None:
    """Integers beyond 64 bits become doubles, escaped bytes become bytes, and objects are refused."""
    assert decode(encode(2**64)) == 2.0**64
    assert decode(encode(10**400)) == math.inf
    assert encode("a\udcff")[5:] == b"a\xff"
    assert encode("a\ud800")[5:] == b"a?"
    with pytest.raises(NotPlain):
        encode({1, 2})


# ------------------------------------------------------------------------------------------------ documents


def test_the_agents_words_are_last() -> None:
    """The agent's fields come last and count, so that a worker cannot claim to be another check."""
    lie = b'{"status":"ok","check":"other","code":"00","took_ms":-5}'
    assert json.loads(finish(lie, "mine", "ab", 5.0, 1.25)) == {
        "status": "ok",
        "check": "mine",
        "code": "ab",
        "started": 5.0,
        "took_ms": 1.2,
    }


@pytest.mark.parametrize(
    "part", [b"", b"[]", b"null", b'{"x"', b'{"a":"' + b"x" * BLOB_LIMIT + b'"}'], ids=lambda part: part[:9]
)
def test_what_is_no_body(part: bytes) -> None:
    """A body that is no document becomes a failure with reason `crashed`."""
    document = json.loads(finish(part, "c", "", 5.0, 1.0))
    assert (document["status"], document["reason"]) == ("unknown", "crashed")


@settings(CALM, max_examples=30)  # each makes up to a mebibyte
@given(
    st.text(max_size=300),
    st.text(max_size=300),
    st.integers(1, 400),
    st.integers(0, 1200),
    st.text(alphabet='"\\\x01é☃😀', max_size=64),
)
def test_no_document_is_too_long(summary: str, output: str, times: int, metrics: int, name: str) -> None:
    """A document has at most a mebibyte, whatever its parts are, and Helen's reader reads it."""
    odd = [json.dumps({"name": "m", "value": 1, "labels": {"l": "☃" * 300}}).encode()] * metrics
    part = body("ok", clean(summary * times), metrics=odd, output=clean(output * times))
    blob = finish(part, name[:255], "c" * 64, 1.7e9, 12345.6)
    assert len(blob) <= BLOB_LIMIT
    assert parse(blob).status == 0
    document = json.loads(blob)
    kept = len(document.get("metrics", []))
    assert document.get("truncated", {}).get("metrics", kept) == metrics


def test_room_for_what_the_agent_adds() -> None:
    """The fields that the agent adds fit into the room for them, even with the longest name, fully escaped."""
    added = len(finish(b'{"status":"ok"}', '"' * 255, "c" * 64, 1.7e9, 1e9)) - len(b'{"status":"ok"}')
    assert added <= ADDED_LIMIT


def test_reasons_are_known_to_helen() -> None:
    """Each reason that the sandbox gives is in the protocol's list."""
    given_here = {"timeout", "memory", "cpu", "output", "killed", "denied", "load-error", "crashed", "bad-arguments"}
    assert given_here | {"cancelled", "unknown-check"} <= REASONS
    assert parse(failure("timeout", "late")).reason == "timeout"


@pytest.mark.parametrize(
    ("status", "peak", "reason"),
    [
        (0, 0, "crashed"),
        (256, 0, "crashed"),
        (signal.SIGKILL, 0, "killed"),
        (signal.SIGXCPU, 0, "cpu"),
        (signal.SIGSYS, 0, "denied"),
        (signal.SIGSEGV, 0, "crashed"),
        (signal.SIGABRT, 60 * 1024, "memory"),
        (signal.SIGSEGV, 51 * 1024, "crashed"),
        (signal.SIGSEGV, 52 * 1024, "memory"),
        (signal.SIGTERM, 60 * 1024, "crashed"),
    ],
)
def test_endings(status: int, peak: int, reason: str) -> None:
    """A wait status without a result has a reason."""
    assert exit_reason(status, peak, 64)[0] == reason
