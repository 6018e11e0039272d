"""Serves the page at which a browser logs in: the key of `helen open` follows the # of its address, or is typed."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from helen.web.login.browser import caller_in, local_path
from helen.web.pages.answer import write_page
from helen.web.query import first_text
from helen.web.request import ApiRequest
from helen.web.route import Query, Routes
from helen.web.web_parts import WebParts

routes = Routes()


# Sentences by the words that POST /login leads back with.
SAID = {
    "wrong": "That key opens nothing: it is good once, for two minutes. `helen open` makes another one.",
    "refused": "This Helen takes no login over plain HTTP from another machine: anyone between could read it. Start it"
    " with --web-tls CERT,KEY, or with --web-plain if you mean it, or go by `ssh -L`.",
    "full": "Too many browsers are signed in: end some sessions first.",
    "wait": "Too many wrong keys came from this address: wait a minute.",
    "unreadable": "The form could not be read: type the key again.",
    "out": "You are signed out.",
}


@routes.page(
    "/login", None, "Sign in", query=(Query("to", str, "the page to go on to"), Query("said", str, "a reason"))
)
def login(parts: WebParts, request: ApiRequest) -> Deferred[bytes] | bytes:
    """Answer with the form for a key; a script sends the one that stands behind the # of the address.

    A browser that has a session goes on at once: it came here only because a link from elsewhere brings no cookie.
    """
    to, said = local_path(first_text(request, "to") or "/"), first_text(request, "said") or ""
    if caller_in(request) is not None and said == "":
        request.setResponseCode(303)
        request.setHeader("location", to)
        return b""
    return write_page(parts, request, "login", to=to, fault=SAID.get(said, ""))
