"""Judges requests of browsers: the cookie of a session, where a request comes from, and the headers of pages.

    session = session_of(request)                 # None for a caller with a token, or without anything
    {{ csrf_token(request) }}                     # in a form's field `csrf`, or the header X-Helen-CSRF of a script
    set_page_headers(request)                     # on every page

The gate has judged each request before its route is called: a page needn't call `check_csrf` again.
"""

from __future__ import annotations

import hmac
from urllib.parse import parse_qs, quote, urlsplit

from helen.storage.web_session_rows import WebSession
from helen.web.access import Caller
from helen.web.forms import is_form
from helen.web.problems import Problem, bad_request
from helen.web.request import ApiRequest

CSRF_HEADER, CSRF_FIELD = b"x-helen-csrf", "csrf"
MOST_FIELDS, MOST_FORM = 1_000, 262_144  # of a form; a JSON body may be larger
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " worker-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
PAGE_HEADERS = {
    "content-type": "text/html; charset=utf-8",
    "content-security-policy": CSP,
    "referrer-policy": "same-origin",  # with `no-referrer` the Origin of a form is `null`, and no form could be taken
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
OURS = ("same-origin", "none")  # of Sec-Fetch-Site; `none`: the user typed the address


def set_page_headers(request: ApiRequest) -> None:
    """Give an answer the headers of a page: its type, and what it may load and who may frame it."""
    for name, value in PAGE_HEADERS.items():
        request.setHeader(name, value)


def session_of(request: ApiRequest) -> WebSession | None:
    """Return the session of a request that the gate has let in, None for another caller."""
    return request.caller.session


def caller_in(request: ApiRequest) -> Caller | None:
    """Return the caller of a page's request, None for a browser without a session."""
    return request.caller if request.caller.scopes else None


# ---------------------------------------------------------------------------------------------- the cookie


def cookie_name(request: ApiRequest) -> str:
    """Return the name of the cookie: cookies know no ports, so it has that of the address that the browser asks."""
    if request.isSecure():
        return "__Host-helen"
    return f"helen_{urlsplit(f'//{host_of(request)}').port or 80}"


def cookie_of(request: ApiRequest) -> str | None:
    """Return the value of our cookie, None if there is none. Raises Problem 400 for more than one of its name."""
    name = cookie_name(request)
    header = b"; ".join(request.requestHeaders.getRawHeaders(b"cookie", [])).decode("latin-1")
    pairs = (pair.strip().partition("=") for pair in header.split(";"))
    values = [value.strip() for key, _, value in pairs if key.strip() == name]
    if len(values) > 1:  # another program of this host has set one with a path of its own
        raise bad_request(f"there are {len(values)} cookies {name}: delete the cookies of this host")
    return values[0] if values and values[0] else None


def set_cookie(request: ApiRequest, value: str, seconds: float) -> None:
    """Give the browser the cookie of its session for so many seconds; 0 takes it away."""
    secure = "; Secure" if request.isSecure() else ""
    cookie = f"{cookie_name(request)}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds:.0f}{secure}"
    request.responseHeaders.addRawHeader(b"set-cookie", cookie.encode())


# ---------------------------------------------------------------------------------------------- where it comes from


def host_of(request: ApiRequest) -> str:
    """Return the Host header. Raises Problem 400 for more than one, and for what is no host and port."""
    given = request.requestHeaders.getRawHeaders(b"host", [])
    if len(given) > 1:
        raise bad_request("there is more than one Host header")
    host = given[0].decode("latin-1") if given else ""
    try:
        parts = urlsplit(f"//{host}")
        is_good = parts.netloc == host and not set(host) & set(" \t@\\,") and host.isascii() and parts.port != 0
    except ValueError:
        is_good = False
    if not is_good:
        raise bad_request("the Host header is no host and port")
    return host


def own_origin(request: ApiRequest) -> str:
    """Return the Origin that our own pages send: scheme, host and port as the browser asked for them."""
    return f"{'https' if request.isSecure() else 'http'}://{host_of(request).lower()}"


def demand_own_origin(request: ApiRequest) -> None:
    """Raise Problem 403 unless a page of our own sends the request: other ports of the host are others."""
    given = request.requestHeaders.getRawHeaders(b"origin", [])
    if len(given) != 1 or given[0].decode("latin-1").lower() != own_origin(request):
        said = f"a page of another address sends this: Origin is not {own_origin(request)}"
        raise Problem(403, "foreign origin", said)


def demand_own_page(request: ApiRequest) -> None:
    """Raise Problem 403 for a read of the API that the browser says a page of another address makes."""
    if any(each.decode("latin-1") not in OURS for each in request.requestHeaders.getRawHeaders(b"sec-fetch-site", [])):
        raise Problem(403, "foreign page", "a page of another address asks this, as the browser says")


# ---------------------------------------------------------------------------------------------- CSRF


def csrf_token(request: ApiRequest) -> str:
    """Return the token that a form or a script of this session's pages sends along; empty without a session."""
    cookie = cookie_of(request) if request.caller.session is not None else None
    return "" if cookie is None else _csrf_of(cookie)


def _csrf_of(cookie: str) -> str:
    return hmac.digest(cookie.encode(), b"helen csrf", "sha256").hex()


def check_csrf(request: ApiRequest, cookie: str) -> None:
    """Raise Problem 403 unless a write by cookie comes from our own page and shows the token of its session."""
    demand_own_origin(request)
    given = (request.getHeader(CSRF_HEADER) or b"").decode("latin-1")
    shown = given or read_form(request).get(CSRF_FIELD, "")
    if not hmac.compare_digest(shown.encode(), _csrf_of(cookie).encode()):
        raise Problem(403, "no token of this page", "X-Helen-CSRF is missing or of another session: load the page anew")


def read_form(request: ApiRequest) -> dict[str, str]:
    """Return the fields of a form, the first of each name; empty for another body. Raises Problem 400, 413."""
    if not is_form(request):
        return {}
    body = request.body()
    if len(body) > MOST_FORM:
        raise Problem(413, "too large", f"a form holds at most {MOST_FORM} bytes")
    try:
        fields = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except (ValueError, UnicodeDecodeError) as error:
        raise bad_request(f"the form can't be read: {error}") from error
    return {name: values[0] for name, values in fields.items()}


# ---------------------------------------------------------------------------------------------- to the login and back


def local_path(text: str) -> str:
    """Return a path of this Helen to go on to; `/` for anything that could lead elsewhere."""
    parts = urlsplit(text) if text.isascii() and text.isprintable() and not set(text) & set(' \\"<>') else None
    if parts is None or parts.scheme or parts.netloc or not text.startswith("/") or text.startswith("//"):
        return "/"
    return text


def go_to_login(request: ApiRequest) -> bytes:
    """Return a page that only goes on to the login and from there back, where a browser is without a session.

    A redirect would not do: a cookie that is Strict isn't sent where a link of another address was followed, but it is
    sent with what a page of ours asks.
    """
    where = f"/login?to={quote(request.uri.decode('latin-1'), safe='')}"
    set_page_headers(request)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Helen</title>'
        f'<meta http-equiv="refresh" content="0; url={where}"><p><a href="{where}">Log in</a></p></html>\n'
    ).encode()
