"""Tests bytes of a peer that are kept between two messages: cut lines, cut blobs, and nothing that was read."""

from __future__ import annotations

from typing import Any

import pytest

from equus_protocol.codec import BY_COMMAND, MAX_LINE, Form, Role
from equus_protocol.errors import RemoteProtocolError
from equus_protocol.unread_bytes import UnreadBytes

RESULT: Form = BY_COMMAND[Role.EQUUS][b"result"]


def holding(*chunks: bytes) -> UnreadBytes:
    """Return the bytes after these chunks were fed and joined, each by itself."""
    unread = UnreadBytes()
    for chunk in chunks:
        unread.fed.append(chunk)
        unread.join()
    return unread


def test_chunks_are_joined_behind_what_is_unread() -> None:
    """The size counts what is joined and what isn't yet."""
    unread = holding(b"ping 1\npi")
    assert (unread.size, unread.unfinished) == (9, "line")
    unread.at = 7
    unread.fed += [b"ng", b" 2"]
    assert unread.size == 6
    unread.join()
    assert (unread.buffer, unread.at, unread.fed, unread.size) == (b"ping 2", 0, [], 6)


def test_a_blob_in_pieces() -> None:
    """Only what has come is kept, and the line's values get the blob once its LF is there."""
    unread = holding(b"ab")
    values: list[Any] = [1, "disk"]
    assert not unread.finish(RESULT, values, 4)
    assert (unread.blob, unread.buffer, unread.unfinished) == (bytearray(b"ab"), b"", "blob")
    unread.fed += [b"cd"]
    unread.join()
    assert not unread.finish(RESULT, values, 4)
    assert (unread.size, unread.form) == (4, RESULT)
    unread.fed += [b"\nping"]
    unread.join()
    assert unread.finish(RESULT, values, 4)
    assert (values, unread.form, unread.buffer[unread.at :]) == ([1, "disk", b"abcd"], None, b"ping")


def test_something_else_than_the_end_of_a_blob() -> None:
    """The fault names the byte."""
    with pytest.raises(RemoteProtocolError) as failure:
        holding(b"abcd").finish(RESULT, [], 2)
    assert (failure.value.slug, failure.value.detail) == ("bad-blob-end", "b'c' after a blob, where LF belongs")


@pytest.mark.parametrize(("length", "is_refused"), [(MAX_LINE - 1, False), (MAX_LINE, True)])
def test_a_line_without_an_end(length: int, is_refused: bool) -> None:
    """One byte below the limit may still become a line."""
    unread = UnreadBytes()
    if is_refused:
        with pytest.raises(RemoteProtocolError, match="no end after 1024 bytes"):
            unread.keep_part(b"x" * length)
    else:
        unread.keep_part(b"x" * length)
        assert unread.size == length


def test_nothing_is_left() -> None:
    """After `clear` neither a chunk nor a half blob is held."""
    unread = holding(b"ab")
    unread.finish(RESULT, [1, "disk"], 9)
    unread.fed.append(b"cd")
    unread.clear()
    assert (unread.size, unread.unfinished, unread.blob, unread.values) == (0, None, None, [])
