"""Turn the bytes of an HTTP body into text: unpack gzip and deflate, decode the charset, and say what can't be read.

Pure. A check that looks for a text must know if it saw all of the body, so every loss has a sentence.
"""

import codecs
import re
import zlib
from collections.abc import Mapping

# Servers pack a body once; a proxy may pack it again.
MOST_ENCODINGS = 3
# zlib copies what lies behind the end of a member, and gzip may have fifty thousand of them in a body.
PIECE = 4096
_GZIP, _ZLIB, _RAW = 31, 15, -15  # zlib's `wbits` for each format
_CHARSET = re.compile(r"""charset\s*=\s*["']?([^\s"';>]{1,40})""", re.IGNORECASE)
# Documents name their charset within the first 1024 bytes, as HTML has it.
_DECLARED = re.compile(
    rb"""<(?:meta|\?xml)[^>]{0,200}?(?:charset|encoding)\s*=\s*["']?([A-Za-z0-9._:-]{1,40})""", re.IGNORECASE
)
_DECLARED_WITHIN = 1024
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
          (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))  # fmt: skip
# Python's own codecs that are no charsets of documents.
_NO_CHARSETS = ("idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7")


class _Unreadable(Exception):
    """Reports why a body can't be read whole; the text continues a sentence about the body."""


def read_body(headers: Mapping[str, str], data: bytes, truncated: bool, limit: int) -> tuple[str, str]:
    """Return a body as text, at most `limit` bytes of it, and why it can't be read whole ("" if it can).

    `headers` have their names in lower case. `truncated`: there was more than `data`.
    """
    fault = f"it is longer than {limit} bytes" if truncated else ""
    if not data:
        return "", fault
    try:
        data, cut = _unpacked(headers.get("content-encoding", ""), data, truncated, limit)
    except _Unreadable as unreadable:
        return data.decode("utf-8", "replace"), str(unreadable)
    if cut:
        fault = fault or f"it is longer than {limit} bytes when it is unpacked"
    charset = _charset(headers.get("content-type", ""), data)
    try:
        return _decoded(data, charset), fault
    except _Unreadable as unreadable:
        return data.decode("utf-8", "replace"), fault or str(unreadable)


def _unpacked(header: str, data: bytes, truncated: bool, limit: int) -> tuple[bytes, bool]:
    """Undo the encodings of a Content-Encoding header, the last first. Return the bytes, and True if there are more."""
    names = [name.strip().lower() for name in header.split(",")]
    names = [name for name in names if name not in ("", "identity")]
    if len(names) > MOST_ENCODINGS:
        raise _Unreadable(f"it has {len(names)} encodings")
    cut = False
    for name in reversed(names):
        if name not in ("gzip", "x-gzip", "deflate"):
            raise _Unreadable(f"its encoding is {name[:40]}")
        data, more = _inflated(name, data, truncated or cut, limit)
        cut = cut or more
    return data, cut


def _inflated(name: str, data: bytes, is_cut: bool, limit: int) -> tuple[bytes, bool]:
    """Unpack one encoding, up to `limit` bytes. Some servers send deflate without zlib's header, so both are read."""
    forms = (_ZLIB, _RAW) if name == "deflate" else (_GZIP,)
    for form in forms:
        try:
            return _inflated_as(form, data, is_cut, limit)
        except zlib.error:
            continue
    raise _Unreadable(f"it is no {name}, as its headers say")


def _inflated_as(form: int, data: bytes, is_cut: bool, limit: int) -> tuple[bytes, bool]:
    unpacked, at = bytearray(), 0
    while at < len(data):  # gzip may have several members
        unpacker = zlib.decompressobj(form)
        while not unpacker.eof and at < len(data):
            piece = data[at : at + PIECE]
            unpacked += unpacker.decompress(piece, limit + 1 - len(unpacked))
            if len(unpacked) > limit:
                return bytes(unpacked[:limit]), True
            at += len(piece) - len(unpacker.unused_data)
        if not unpacker.eof:
            if is_cut:
                return bytes(unpacked), True
            raise _Unreadable("its packed bytes end too early")
        if form != _GZIP:
            break
        at = _behind_padding(data, at)
    return bytes(unpacked), False


def _behind_padding(data: bytes, at: int) -> int:
    while at < len(data) and not data[at]:
        at += 1
    return at


def _charset(content_type: str, data: bytes) -> str:
    """Return the name of a body's charset: of a byte order mark, the header, or the document; "" if none names one."""
    for mark, name in _MARKS:
        if data.startswith(mark):
            return name
    found = _CHARSET.search(content_type)
    if found:
        return found[1]
    declared = _DECLARED.search(data[:_DECLARED_WITHIN])
    return declared[1].decode("ascii") if declared else ""


def _decoded(data: bytes, charset: str) -> str:
    """Return the text; wrong bytes become U+FFFD. Raises _Unreadable if the charset is unknown, or hides it all."""
    try:
        codec = codecs.lookup(charset or "utf-8")
        if not codec._is_text_encoding or codec.name in _NO_CHARSETS:
            raise LookupError
        text = data.decode(codec.name, "replace")
    except (LookupError, ValueError):
        raise _Unreadable(f"its charset {charset[:40]} is not known") from None
    if not charset and "\0" in text:  # UTF-16 without a mark, or a picture
        raise _Unreadable("it is no text in UTF-8, and names no charset")
    return text
