r"""Reads long text in pieces, and counts the parts of a JSON document without reading it.

One call of the interpreter's own code holds every other thread until it returns: 10 ms and more for a megabyte. So each
function here makes many calls, for some 64 KiB each, and threads take turns between them.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import AnyStr

PIECE = 65_536  # characters, or bytes: under 1 ms of a regular expression
BYTES_DECODED = 16_384  # under 3 ms of `backslashreplace`, which takes 170 ns for each byte that is no UTF-8


def with_escapes(blob: bytes, was_cut: bool = False) -> str:
    r"""Return text with \xNN for each byte that is no UTF-8, as the error handler `backslashreplace` writes it.

    `was_cut`: half a character at the end is left out.
    """
    decode = codecs.getincrementaldecoder("utf-8")("backslashreplace").decode
    pieces = [decode(blob[start : start + BYTES_DECODED]) for start in range(0, len(blob), BYTES_DECODED)]
    return "".join(pieces) + decode(b"", final=not was_cut)


def lines_in_pieces(text: str) -> Iterator[tuple[int, int]]:
    """Yield begin and end of pieces that hold whole lines; of a line longer than PIECE, its first PIECE characters."""
    at = 0
    while at < len(text):
        end = len(text) if len(text) - at <= PIECE else text.rfind("\n", at, at + PIECE) + 1
        if end:
            yield at, end
            at = end
        else:
            yield at, at + PIECE
            at = text.find("\n", at) + 1 or len(text)


def end_of_run(run: re.Pattern[str], text: str, at: int) -> int:
    """Return where a run of characters ends. `run` matches any number of them, none included."""
    while True:
        end = run.match(text, at, at + PIECE).end()  # type: ignore[union-attr]  # it matches nothing, too
        if end < at + PIECE:
            return end
        at = end


def first_match(wanted: re.Pattern[str], text: str, longest: int) -> re.Match[str] | None:
    """Return the first match of an expression that matches at most `longest` characters, and looks at one beyond."""
    for at in range(0, len(text), PIECE):
        found = wanted.search(text, at, at + PIECE + longest + 1)
        if found is not None and found.start() < at + PIECE:
            return found
    return None


def count_in_pieces(text: AnyStr, mark: AnyStr) -> int:
    """Return how often one byte or character is in a text. In one call that takes 0.6 ms for a mebibyte.

    A piece of ASCII without it is passed over by a search, which takes a thirtieth of that. In wider characters a
    search stops at each that has the mark's byte in it, and takes seventy times as long as a count.
    """
    pieces = range(0, len(text), PIECE)
    if isinstance(text, str) and not text.isascii():
        return sum([text.count(mark, at, at + PIECE) for at in pieces])
    return sum([text.count(mark, at, at + PIECE) for at in pieces if text.find(mark, at, at + PIECE) >= 0])


def has_more_parts(document: bytes, most: int) -> bool:
    r"""Return True if a JSON document has more commas, `[` and `{` outside of its strings than `most`.

    Bytes that are no JSON have some number, too. Most documents have few of them with those in strings, and so need no
    look at strings. Else pairs of backslashes go first, then quotes that are escaped: each quote left is the begin or
    the end of a string.
    """
    if sum([count_in_pieces(document, mark) for mark in (b",", b"[", b"{")]) <= most:
        return False
    found, is_inside, rest = 0, False, b""
    for at in range(0, len(document), PIECE):
        piece = (rest + document[at : at + PIECE]).replace(rb"\\", b"")
        rest = b"\\" if piece.endswith(b"\\") else b""  # what it escapes is in the next piece
        spans = piece.removesuffix(b"\\").replace(rb"\"", b"").split(b'"')
        found += _parts(b"".join(spans[is_inside::2]))
        is_inside ^= len(spans) % 2 == 0
        if found > most:
            return True
    return False


def _parts(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{")
