"""Writes pages: whole, or the one part that a script asks for again, with the headers that keep foreign code out.

A page is made in slices, a few milliseconds of the reactor each. Its head is sent before the rest is made, so that the
browser asks for styles and scripts meanwhile. The tag of a part is over its text, so that one that has not changed
comes as a 304; a page has the time in it, and so never comes twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from jinja2 import Template
from twisted.internet.defer import Deferred

from helen.web.access import Caller
from helen.web.connections.paced_answers import Write, write_pieces
from helen.web.login.browser import csrf_token, set_page_headers
from helen.web.pages.assets import assets
from helen.web.pages.environment import environment
from helen.web.pages.preferences import preferences_of
from helen.web.problems import Problem
from helen.web.query import first_text
from helen.web.request import ApiRequest
from helen.web.route import HTML
from helen.web.web_parts import WebParts

SLICE_SECONDS = 0.003  # of the reactor's time for a piece of a page
HEAD_END = "</head>"  # of a template's text: what comes from elsewhere is escaped
PIECE = 4_096  # characters that are joined before they are kept


def write_page(parts: WebParts, request: ApiRequest, name: str, **values: Any) -> Deferred[bytes]:
    """Answer with the page of a template, or with its block `part_NAME` if the query says `part=NAME`.

    Raises Problem 404 for a part that the page has not, and ValueError for a value of a name that all templates share.
    """
    set_page_headers(request)
    template = environment().get_template(f"{name}.html")
    part = first_text(request, "part")
    if part is not None and f"part_{part}" not in template.blocks:
        raise Problem(404, "no such part", f"the page {name} has no part {part[:40]!r}")
    shared = shared_values(parts, request)
    if taken := values.keys() & {*shared, "counts"}:
        raise ValueError(f"the page {name} has a value {min(taken)!r} of its own, a name that all templates share")
    return write_pieces(request, _pieces(template, part, shared | values, parts), part is not None, HTML)


def shared_values(parts: WebParts, request: ApiRequest) -> dict[str, Any]:
    """Return the values that every template may use: `now`, `caller`, `may`, `path`, `build`, `version`, `csrf`,
    `preferences`.

    `counts` are added when their turns are over.
    """
    caller: Caller = request.caller
    return {
        "now": time.time(),
        "caller": caller,
        "may": caller.may,
        "path": request.path.decode("utf-8", "replace"),
        "build": assets().build,
        "version": parts.version,
        "csrf": csrf_token(request),
        "preferences": preferences_of(request),
    }


def _pieces(
    template: Template, part: str | None, values: dict[str, Any], parts: WebParts
) -> Callable[[Write, Callable[[], bool]], Iterator[None]]:
    def pieces(write: Write, is_gone: Callable[[], bool]) -> Iterator[None]:
        sight = parts.visible(values["caller"])
        yield from parts.row_feed.count(sight)
        values["counts"] = parts.row_feed.counts_in(sight)
        context = template.new_context(values)
        source = template.root_render_func(context) if part is None else template.blocks[f"part_{part}"](context)
        begun, held, length = time.monotonic(), list[str](), 0
        is_head = part is None
        for text in source:
            held.append(text)
            length += len(text)
            is_head_made = is_head and HEAD_END in text
            if is_head_made or length >= PIECE or time.monotonic() - begun > SLICE_SECONDS:
                write("".join(held).encode("utf-8", "replace"))
                held, length = [], 0
                if is_gone():
                    return
            if is_head_made or time.monotonic() - begun > SLICE_SECONDS:
                is_head = is_head and not is_head_made
                yield
                begun = time.monotonic()
        write("".join(held).encode("utf-8", "replace"))
        yield

    return pieces
