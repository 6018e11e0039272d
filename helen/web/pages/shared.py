"""Answers with what all pages share: their styles and scripts."""

from __future__ import annotations

from helen.web.pages.assets import YEAR, assets
from helen.web.problems import Problem
from helen.web.request import ApiRequest
from helen.web.route import Routes
from helen.web.web_parts import WebParts

routes = Routes()


@routes.page("/s/<build>/<path:name>", None, "A style or a script of the pages")
def asset(parts: WebParts, request: ApiRequest, build: str, name: str) -> bytes:
    """Answer with an asset, packed where the browser takes that. Raises Problem 404 for one that is not there.

    The address of another build gets the asset as it is now, and is not kept: a page that was open during an upgrade
    goes on.
    """
    found = assets().files.get(name)
    if found is None:
        raise Problem(404, "no such file", f"no page uses {name[:80]!r}; load the page again")
    request.setHeader("content-type", found.kind)
    request.setHeader("x-content-type-options", "nosniff")
    request.setHeader("cache-control", YEAR if build == assets().build else "no-cache")
    request.setHeader("vary", "accept-encoding")
    if b"gzip" in (request.getHeader(b"accept-encoding") or b""):
        request.setHeader("content-encoding", "gzip")
        return found.packed
    return found.body
