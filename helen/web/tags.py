"""ETags: a tag is a hash of what was answered, or of the document that a write would replace. Pure."""

from __future__ import annotations

import json
import re
from hashlib import blake2b
from typing import Any

TAG = re.compile(r'(?:W/)?"([^"]*)"')
READS = (b"GET", b"HEAD")


def tag_of(body: bytes) -> str:
    """The tag of an answer, with its quotes."""
    return f'"{blake2b(body, digest_size=16).hexdigest()}"'


def tag_of_document(document: Any) -> str:
    """The same for a JSON document, however it is written."""
    return tag_of(json.dumps(document, sort_keys=True).encode())


def named(request: Any, header: bytes) -> set[str] | None:
    """The tags of If-Match or If-None-Match without their quotes, or `*`; None where there is no such header."""
    given = request.getHeader(header)
    if given is None:
        return None
    text = given.decode("latin-1")
    return {"*"} if text.strip() == "*" else set(TAG.findall(text))


def answer_known(request: Any, tag: str) -> bool:
    """Give the answer its tag. Whether the reader has it already: then this is a 304 without a body."""
    request.setHeader("etag", tag)
    known = named(request, b"if-none-match")
    if request.method not in READS or known is None or not ({"*", tag.strip('"')} & known):
        return False
    request.setResponseCode(304)
    request.responseHeaders.removeHeader("content-type")
    return True
