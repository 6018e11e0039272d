"""Reads the fields of a form, of which nothing is decoded before it is wanted.

Decoding takes a second for megabytes of `%61`, so it is for values that somebody with a key has sent, and for short
ones. multipart/form-data is not read at all: no sender of results writes it.
"""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

from helen.web.request import ApiRequest

FORM = b"application/x-www-form-urlencoded"
MOST_FIELDS = 100  # of a form with results; more are no form


def is_form(request: ApiRequest) -> bool:
    """Return True if the body of a request says that it is a form."""
    return (request.getHeader(b"content-type") or b"").partition(b";")[0].strip().lower() == FORM


def read_raw_form(request: ApiRequest) -> dict[str, bytes]:
    """Return the fields of a form as they were sent, the first of each name; none for another body, or for too many."""
    body = request.body() if is_form(request) else b""
    if not body or body.count(b"&") >= MOST_FIELDS:
        return {}
    fields: dict[str, bytes] = {}
    for field in body.split(b"&"):
        name, _, value = field.partition(b"=")
        fields.setdefault(name[:100].decode("latin-1"), value)
    return fields


def decoded(value: bytes, most: int) -> str | None:
    """Return the text of a field; None if it is longer than `most` bytes. Bytes that are no UTF-8 are replaced."""
    if len(value) > 3 * most:  # as long as it can be written
        return None
    raw = unquote_to_bytes(value.replace(b"+", b" "))
    return None if len(raw) > most else raw.decode("utf-8", "replace")
