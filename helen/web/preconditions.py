"""If-Match and If-None-Match of writes: what somebody else has changed meanwhile is not overwritten."""

from __future__ import annotations

from typing import Any

from helen.web.problems import Problem
from helen.web.tags import named


def demand(request: Any, tag: str | None, what: str) -> None:
    """Raises Problem 412 unless the request is about what is there now; `tag` None: there is nothing yet."""
    wanted, unwanted = named(request, b"if-match"), named(request, b"if-none-match")
    bare = None if tag is None else tag.strip('"')
    if wanted is not None and (bare is None or not ({"*", bare} & wanted)):
        is_there = "is not there" if bare is None else "has been changed since you read it"
        raise Problem(412, "precondition failed", f"{what} {is_there}: read it again, and send its ETag as If-Match")
    if unwanted is not None and bare is not None and {"*", bare} & unwanted:
        raise Problem(412, "precondition failed", f"{what} is there already: leave If-None-Match out to replace it")
