"""Reads a document with a great `output`: the text apart from the rest, in pieces.

A decoder of JSON holds all other threads until it has read a document: 1 to 2 ms for a mebibyte. The text between two
quotes needs no such decoder if no backslash is in the document, since it stands for itself.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable
from typing import NamedTuple

from equus_protocol.long_text import PIECE

LEAST = PIECE  # bytes of a document that is read so
_KEY = b'"output"'
_IN_PLACE = "(great text)"  # of the text, while the rest is read
_MARK = _IN_PLACE.encode()
_CONTROLS = bytes(range(0x20))  # that no text of JSON may have as they are
_BLANKS = b" \t\n\r"
_BLANKS_MOST = 16  # before a colon or a quote; each of a million would have to be looked at


class Parted(NamedTuple):
    """Holds the text of `output`, and the document with another text in its place."""

    text: str
    rest: bytes


def part(blob: bytes) -> Parted | None:
    """Return the great text and the rest of a document, None if its `output` is small or cannot be read apart."""
    place = _place(blob)
    if place is None:
        return None
    start, end = place
    rest = blob[:start] + _MARK + blob[end:]
    text = _text(blob, start, end)
    return None if text is None or rest.count(_MARK) > 1 else Parted(text, rest)


def is_in_place(output: str | None) -> bool:
    """Return True if an `output` is the mark that stands for the great text while the rest is read."""
    return output == _IN_PLACE


def _place(blob: bytes) -> tuple[int, int] | None:
    """Return where the text of `output` begins and ends, None if it is small. Without a backslash each quote begins
    or ends a string."""
    key = blob.find(_KEY)
    if key < 0 or b"\\" in blob or blob[:key].lstrip(_BLANKS)[:1] != b"{":
        return None
    start = _behind(blob, _behind(blob, key + len(_KEY), b":"), b'"')
    end = blob.find(b'"', start) if start else -1
    return (start, end) if end - start >= LEAST // 2 else None


def _behind(blob: bytes, at: int, mark: bytes) -> int:
    """Return the place behind a mark and the few blanks before it; 0 if another byte stands there, or `at` is 0."""
    near = blob[at : at + _BLANKS_MOST + 1]
    rest = near.lstrip(_BLANKS)
    return at + len(near) - len(rest) + 1 if at and rest[:1] == mark else 0


def _text(blob: bytes, start: int, end: int) -> str | None:
    decode: Callable[..., str] = codecs.getincrementaldecoder("utf-8")().decode
    pieces: list[str] = []
    for at in range(start, end, PIECE):
        piece = blob[at : min(end, at + PIECE)]
        if len(piece.translate(None, _CONTROLS)) < len(piece):
            return None
        try:
            pieces.append(decode(piece, at + PIECE >= end))
        except UnicodeDecodeError:
            return None
    return "".join(pieces)
