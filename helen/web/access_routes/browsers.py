"""Routes of browsers' sessions: links that begin one, which there are, and how they end. docs/api.rst lists them."""

from __future__ import annotations

import time
from typing import TypedDict

from groundwork.authority import decide
from helen.actions import ALL_SESSIONS
from helen.storage.web_session_rows import WebSession
from helen.web.access import MASTER, Caller
from helen.web.answers import write_json
from helen.web.bodies import Body
from helen.web.body_fields import Flag, OptionalDuration, OptionalPatterns, OptionalText, Strings
from helen.web.json_types import Scope
from helen.web.login.links import Link, checked, expiring
from helen.web.problems import Problem
from helen.web.request import ApiRequest
from helen.web.route import V1, Routes
from helen.web.web_parts import WebParts

routes = Routes()
USUAL_NAME = "browser"


class SessionJson(TypedDict):
    """Describes a session of a browser; `id` opens nothing. Times are unix seconds, `expires` at the latest."""

    id: str
    name: str
    parent: str
    scopes: list[Scope]
    created: float
    expires: float
    used_at: float
    address: str
    kiosk: bool
    on: list[str] | None


class SessionsJson(TypedDict):
    """Lists the sessions that the caller may end, the oldest first."""

    sessions: list[SessionJson]


class LinkJson(TypedDict):
    """Holds a link that begins a session once; `expires` is in unix seconds. `url` is null in a dry run."""

    url: str | None
    expires: float
    scopes: list[Scope]
    on: list[str] | None


class OwnSessionJson(TypedDict):
    """Describes the session of the caller. Times are unix seconds."""

    id: str
    created: float
    expires: float


class MeJson(TypedDict):
    """Describes the caller; `session` is null for a token. `zone` is the name of Helen's own time zone.

    `on` has the patterns of agents that the caller is limited to, null for none.
    """

    actor: str
    scopes: list[Scope]
    on: list[str] | None
    session: OwnSessionJson | None
    zone: str


class MakeLink(Body, frozen=True, kw_only=True, rename={"seconds": "for"}):
    """Asks for a link to a session with these scopes (`operate`), which lasts `for` a duration at most (7d).

    `on` limits it to agents: patterns of names, or KEY=PATTERN; a caller with a limit gives some of its own.
    """

    scopes: Strings = []
    name: OptionalText = None
    seconds: OptionalDuration = None
    kiosk: Flag = False
    on: OptionalPatterns = None


@routes.get(f"{V1}/me", "session-look", "The caller: name, scopes, session", answer=MeJson)
def me(parts: WebParts, request: ApiRequest) -> bytes:
    """Answer with the caller: its name in the audit, its scopes and its session."""
    caller = request.caller
    session = caller.session
    own = None if session is None else {"id": session.id, "created": session.created, "expires": session.expires}
    zone = time.tzname[time.localtime().tm_isdst > 0]
    shown = {"actor": caller.actor, "scopes": sorted(caller.scopes), "session": own, "zone": zone}
    return write_json(request, shown | {"on": show_limit(caller.on)})


@routes.get(f"{V1}/sessions", "session-look", "Sessions of browsers that the caller may end", answer=SessionsJson)
def list_sessions(parts: WebParts, request: ApiRequest) -> bytes:
    """Answer with the sessions that the caller may end."""
    found = [each for each in parts.browsers.listed(time.time()) if may_end(request.caller, each)]
    return write_json(request, {"sessions": [show_session(each) for each in found]})


@routes.post(
    f"{V1}/sessions/links", "session-link", "Make a link that begins a session once",
    body=MakeLink, answer=LinkJson, status=201, secret=True, action="session-link",
    errors={403: "scope missing", 409: "refused: there is no --web", 429: "too many links"},
)  # fmt: skip
async def make_link(parts: WebParts, request: ApiRequest, body: MakeLink) -> bytes:
    """Make a link, and answer with its URL, whose secret stands behind `#`, so that no log and no proxy has it."""
    caller, now = request.caller, time.time()
    if caller.session is not None:
        raise Problem(403, "refused", "a session makes no other one: `helen open`, or a token, makes a link")
    name = body.name or USUAL_NAME
    link = checked(caller, parent_of(parts, caller), name, body.scopes, body.seconds, body.kiosk, body.on or ())
    page = login_page(parts)
    request.subject = f"{link.name}: {', '.join(link.scopes)}"
    if body.dry_run:
        return write_json(request, show_link(None, expiring(link, now)))
    key, kept = parts.links.add(link, now)
    return write_json(request, show_link(f"{page}#{key}", kept), 201)


@routes.post(
    f"{V1}/sessions/<session_id>/end", "session-end", "End a session and its streams", body=Body,
    answer=SessionJson, errors={404: "no such session"},
)  # fmt: skip
async def end_session(parts: WebParts, request: ApiRequest, body: Body, session_id: str) -> bytes:
    """End a session and its streams, and answer with what it was."""
    now = time.time()
    found = [each for each in parts.browsers.listed(now) if each.id == session_id and may_end(request.caller, each)]
    if not found:
        raise Problem(404, "no such session", f"you have no session {session_id[:80]!r}: GET {V1}/sessions lists them")
    if not body.dry_run:
        await parts.browsers.end(found[0], now, request.caller.actor)
    return write_json(request, show_session(found[0]))


def may_end(caller: Caller, session: WebSession) -> bool:
    """Return True if a caller may end a session: it is its own, a child of its token, or the caller is an admin."""
    if decide(caller, ALL_SESSIONS) is None:
        return True
    if caller.session is not None:
        return caller.session.id == session.id
    return session.parent_digest is not None and session.parent_digest.hex() == caller.identity


def parent_of(parts: WebParts, caller: Caller) -> bytes | None:
    """Return the hash of the caller's token, None for the operator at the control socket."""
    if caller is MASTER:
        return parts.tokens.master_digest
    return bytes.fromhex(caller.identity) if caller.token is not None else None


def login_page(parts: WebParts) -> str:
    """Return the URL of the login. Raises Problem 409 if this Helen has no --web."""
    web = parts.live.web
    if web is None:
        raise Problem(409, "refused", "this Helen has no pages: it was started with --web off")
    host, _, port = web.rpartition(":")
    is_secure = parts.live.settings.web_tls is not None
    if is_secure or host in ("0.0.0.0", "[::]"):  # a certificate is for names
        host = next(iter(parts.live.settings.names), host if is_secure else "localhost")
    return f"{'https' if is_secure else 'http'}://{host}:{port}/login"


def show_link(url: str | None, link: Link) -> LinkJson:
    """Return a link as its caller gets it."""
    return {"url": url, "expires": link.expires, "scopes": list(link.scopes), "on": show_limit(link.on)}


def show_session(session: WebSession) -> SessionJson:
    """Return a session without its secrets."""
    return {
        "id": session.id, "name": session.name, "parent": session.parent, "scopes": list(session.scopes),
        "created": session.created, "expires": session.expires, "used_at": session.used_at,
        "address": session.address, "kiosk": session.kiosk, "on": show_limit(session.on),
    }  # fmt: skip


def show_limit(on: tuple[str, ...] | None) -> list[str] | None:
    """Return the patterns of a limit as the API answers them, None for no limit."""
    return None if on is None else list(on)
