"""Makes and compares ETags, and holds writes to If-Match and If-None-Match. Pure.

A tag is a hash of the answer, or of the document that a write would replace: so no write replaces what another client
has changed meanwhile.
"""

from __future__ import annotations

import json
import re
from hashlib import blake2b

from helen.web.problems import Problem
from helen.web.request import ApiRequest

TAG = re.compile(r'(?:W/)?"([^"]*)"')
READS = (b"GET", b"HEAD")


def tag_of(body: bytes) -> str:
    """Return the tag of an answer, with its quotes."""
    return f'"{blake2b(body, digest_size=16).hexdigest()}"'


def tag_of_document(document: object) -> str:
    """Return the tag of a JSON document, however it is written."""
    return tag_of(json.dumps(document, sort_keys=True).encode())


def named_tags(request: ApiRequest, header: bytes) -> set[str] | None:
    """Return the tags of If-Match or If-None-Match without their quotes, or `*`; None if there is no such header."""
    given: bytes | None = request.getHeader(header)
    if given is None:
        return None
    text = given.decode("latin-1")
    return {"*"} if text.strip() == "*" else set(TAG.findall(text))


def answer_known(request: ApiRequest, tag: str) -> bool:
    """Give the answer its tag. True if the client has it already: then the answer is a 304 without a body."""
    request.setHeader("etag", tag)
    known = named_tags(request, b"if-none-match")
    if request.method not in READS or known is None or not ({"*", tag.strip('"')} & known):
        return False
    request.setResponseCode(304)
    request.responseHeaders.removeHeader("content-type")
    return True


def demand(request: ApiRequest, tag: str | None, what: str) -> None:
    """Raises Problem 412 unless the request is about what is there now; `tag` None: there is nothing yet."""
    wanted, unwanted = named_tags(request, b"if-match"), named_tags(request, b"if-none-match")
    bare = None if tag is None else tag.strip('"')
    if wanted is not None and (bare is None or not ({"*", bare} & wanted)):
        is_there = "is not there" if bare is None else "has been changed since you read it"
        raise Problem(412, "precondition failed", f"{what} {is_there}: read it again, and send its ETag as If-Match")
    if unwanted is not None and bare is not None and {"*", bare} & unwanted:
        raise Problem(412, "precondition failed", f"{what} is there already: leave If-None-Match out to replace it")
