"""Make a check's text safe to show: valid UTF-8, no control characters, no longer than its cap. Pure."""

from __future__ import annotations

import re

# Escape sequences drive terminals, and NUL ends strings in databases; tabs and line ends are text.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")

# Surrogates for bytes that were no UTF-8 (PEP 383), at the very end; a cut character leaves three at most.
_PARTIAL = re.compile(r"[\udc80-\udcff]{1,3}\Z")


def clean(text: bytes | str) -> str:
    """Return the text with invalid UTF-8 and control characters written as `\\x1b`."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "backslashreplace")
    return _CONTROL.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if 0xDC80 <= code <= 0xDCFF:  # a byte that was no UTF-8, as value_codec.decode keeps it
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def drop_partial(text: str) -> str:
    """Return a text that was cut without the bytes at its end that began a character."""
    return _PARTIAL.sub("", text)


def shorten(text: str, most: int) -> str:
    """Return the text cut to at most `most` bytes of UTF-8, never within a character."""
    if len(text) * 4 <= most:
        return text
    data = text.encode()
    return text if len(data) <= most else data[:most].decode("utf-8", "ignore")
