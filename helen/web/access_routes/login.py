"""Routes by which a browser gets a session and lets go of it. The page with the form is helen/web/pages'."""

from __future__ import annotations

import time
from ipaddress import ip_address
from urllib.parse import quote

from helen.storage.web_session_rows import WebSession
from helen.web.access_routes.browsers import USUAL_NAME, parent_of
from helen.web.answers import write_json
from helen.web.bodies import read_json
from helen.web.body_fields import read_optional_text
from helen.web.login.browser import cookie_of, demand_own_origin, local_path, read_form, set_cookie
from helen.web.login.links import SESSION_SECONDS, Link
from helen.web.problems import Problem, bad_request, unauthorized
from helen.web.request import ApiRequest, address_of
from helen.web.route import Routes
from helen.web.web_parts import WebParts

routes = Routes()
# Of a form that is refused: the word behind /login?said=, by which the page tells what to do.
SAID = {400: "unreadable", 401: "wrong", 403: "refused", 409: "full", 429: "wait"}
SAID_PLAIN = (
    "this Helen takes no login over plain HTTP from another machine: anyone between could read it. Start it with"
    " --web-tls CERT,KEY, or with --web-plain if you mean it, or go by `ssh -L`"
)


@routes.foreign("POST", "/login", None, "Begin a session, by the key of a link or a token")
async def log_in(parts: WebParts, request: ApiRequest) -> bytes:
    """Begin a session and give the browser its cookie. A form goes on to `to`; JSON gets where that is."""
    form = read_form(request)
    try:
        fields = form or await _read_fields(request)
        where = local_path(fields.get("to", ""))
        session, cookie = await _begin(parts, request, fields.get("key", "").strip())
    except Problem as problem:
        if not form:
            raise
        to = local_path(form.get("to", ""))
        return _go_on(request, f"/login?said={SAID.get(problem.status, 'refused')}" + _quoted(to))
    set_cookie(request, cookie, session.expires - session.created)
    return _go_on(request, where) if form else write_json(request, {"to": where, "expires": session.expires})


@routes.foreign("POST", "/logout", "session-end", "End the session that asks")
async def log_out(parts: WebParts, request: ApiRequest) -> bytes:
    """End the caller's own session, and take its cookie away."""
    session = request.caller.session
    if session is None:
        raise bad_request("only a session logs out: a token is revoked with `helen web-token revoke`")
    await parts.browsers.end(session, time.time(), request.caller.actor)
    set_cookie(request, "", 0.0)
    return _go_on(request, "/login?said=out") if read_form(request) else write_json(request, {"to": "/login"})


async def _begin(parts: WebParts, request: ApiRequest, key: str) -> tuple[WebSession, str]:
    """Begin the session that a key or a token opens, in place of the one that the browser had. Raises Problem."""
    demand_own_origin(request)
    demand_secrecy(parts, request)
    now, address = time.time(), address_of(request)
    before = cookie_of(request)
    began = await parts.browsers.begin(_link_of(parts, key, address, now), now, address)
    if before is not None:
        await parts.browsers.end_cookie(before, now, began[0].actor)
    return began


def _link_of(parts: WebParts, key: str, address: str, now: float) -> Link:
    link = parts.links.take(key, now)
    if link is not None:
        return link
    try:
        caller = parts.tokens.caller(key.encode(), now)
    except Problem as problem:
        parts.wrong_tries.count(address, parts.reactor.seconds())
        said = "that key opens nothing: it is good once, for two minutes. `helen open` makes another one"
        raise unauthorized(said) from problem
    scopes = tuple(sorted(caller.scopes))
    return Link(USUAL_NAME, caller.actor, parent_of(parts, caller), scopes, SESSION_SECONDS, False, on=caller.on)


def demand_secrecy(parts: WebParts, request: ApiRequest) -> None:
    """Raise Problem 403 for plain HTTP from another machine, unless the operator has said --web-plain."""
    if request.isSecure() or parts.live.settings.web_plain:
        return
    address = ip_address(address_of(request).partition("%")[0])
    if not (getattr(address, "ipv4_mapped", None) or address).is_loopback:
        raise Problem(403, "plain HTTP", SAID_PLAIN)


async def _read_fields(request: ApiRequest) -> dict[str, str]:
    body = await read_json(request)
    return {name: read_optional_text(body, name) or "" for name in ("key", "to")}


def _quoted(to: str) -> str:
    return "" if to == "/" else f"&to={quote(to, safe='')}"


def _go_on(request: ApiRequest, where: str) -> bytes:
    request.setResponseCode(303)
    request.setHeader("location", where)
    request.setHeader("cache-control", "no-store")
    return b""
