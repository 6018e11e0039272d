"""Serves the management of a broker by HTTP: a page for people, JSON for programs.

Off unless the configuration says `http = 127.0.0.1:PORT`. The commands are the rows of wire/management_commands.py:

    GET  /                      the page
    GET  /api/COMMAND           JSON: status, peers, clients, services, config, errors
    POST /api/COMMAND           JSON: enable, disable, reload_config, clear_errors, which takes ?key=

The credentials are those of `management`, by HTTP Basic, through the same rate limit and the same scrypt as a
MANAGEMENTREQ; a pair that was right is remembered for five minutes, so that the page can be looked at twice a minute.
Nothing changes by GET; a POST from a page of another origin is refused, and so is a Host that is not this broker's.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from collections import OrderedDict
from collections.abc import Iterable
from html import escape
from typing import Any

import msgspec
from klein import Klein
from twisted.application.service import Service
from twisted.internet.defer import inlineCallbacks, maybeDeferred
from twisted.internet.endpoints import TCP4ServerEndpoint, TCP6ServerEndpoint
from twisted.web.server import Site

from scale0.broker.service import BrokerService
from scale0.wire.management_commands import COMMANDS
from scale0.wire.options import ManagementReq
from scale0.wire.zap import Origin, plain_address

REMEMBERED = 300.0  # seconds that a pair of credentials need not be checked again
PAIRS = 1_000  # remembered at once
READS = tuple(command.name for command in COMMANDS if not command.changes)
WRITES = tuple(command.name for command in COMMANDS if command.changes)
SECTIONS = tuple(command.name for command in COMMANDS if command.on_page and not command.changes)
BUTTONS = tuple(command.name for command in COMMANDS if command.on_page and command.changes)
HEADERS = {
    b"Content-Security-Policy": b"default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'",
    b"X-Content-Type-Options": b"nosniff",
    b"Referrer-Policy": b"no-referrer",
    b"Cache-Control": b"no-store",
}
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: #222 }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin-top: 2rem }
table { border-collapse: collapse; width: 100% } th, td { text-align: left; padding: .2rem .8rem .2rem 0 }
th { border-bottom: 1px solid #999 } tr:nth-child(even) td { background: #f5f5f5 }
form { display: inline } button { font: inherit; padding: .2rem .8rem }
.active { color: #17692e } .disabled { color: #a11 }
@media (prefers-color-scheme: dark) {
  body { background: #181818; color: #ddd } tr:nth-child(even) td { background: #222 } .active { color: #6c6 }
}
"""


class Denied(Exception):
    """Ends a request with an answer before the broker is asked."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.answer: dict[str, Any] = {"code": code, "reason": reason, "message": message, "data": {}}


class FrontEnd(Service):
    """Serves one broker, on the address that its configuration names under `http`."""

    name = "scale0 http"

    def __init__(self, reactor: Any, broker: BrokerService) -> None:
        self._reactor, self._broker = reactor, broker
        self._secret = os.urandom(32)
        self._right: OrderedDict[bytes, float] = OrderedDict()
        self._port: Any = None
        self.port = 0  # known once it listens, as are the names that a request may have in Host
        self._names: set[str] = set()
        self.app = Klein()
        self.app.route("/", methods=["GET"])(self._page)
        self.app.route("/style.css", methods=["GET"])(self._style)
        self.app.route("/api/<command>", methods=["GET", "POST"])(self._api)

    @inlineCallbacks
    def startService(self) -> Any:
        """Listen, and note the URL at the broker; the Deferred fails if the port is taken."""
        super().startService()
        host, _, port = self._broker.broker.config.http.rpartition(":")
        kind = TCP6ServerEndpoint if host.startswith("[") else TCP4ServerEndpoint
        site = Site(self.app.resource())
        self._port = yield kind(self._reactor, int(port), interface=host.strip("[]")).listen(site)
        self.port = self._port.getHost().port
        self._names = {f"{name}:{self.port}" for name in (host, "localhost", "127.0.0.1", "[::1]")}
        self._broker.set_http(f"http://{host}:{self.port}/")

    def stopService(self) -> Any:
        """Stop to listen; the Deferred fires when the port is closed."""
        super().stopService()
        return maybeDeferred(self._port.stopListening) if self._port is not None else None

    # ------------------------------------------------------------------------------------- answers

    @inlineCallbacks
    def _api(self, request: Any, command: str) -> Any:
        try:
            self._guard(request)
            if command not in (WRITES if request.method == b"POST" else READS):
                raise Denied(404, "not_found", f"GET {', '.join(READS)}; POST {', '.join(WRITES)}")
            key = (request.args.get(b"key") or [b""])[0].decode("utf-8", "replace")[:255]
            answer = yield self._ask(request, command, key)
        except Denied as e:
            answer = e.answer
        if request.method == b"POST" and b"back" in request.args and answer["code"] == 200:
            request.redirect(b"/")
            return b""
        self._set_head(request, answer["code"], b"application/json")
        return msgspec.json.encode(answer)

    @inlineCallbacks
    def _page(self, request: Any) -> Any:
        """Answer with all sections on one page; the credentials are checked once."""
        shown: dict[str, Any] = {}
        try:
            self._guard(request)
            for command in SECTIONS:
                answer = yield self._ask(request, command, "")
                if answer["code"] != 200:
                    raise Denied(answer["code"], answer["reason"], answer["message"])
                shown[command] = answer["data"]
        except Denied as e:
            self._set_head(request, e.code, b"text/html; charset=utf-8")
            return _document("Scale0", _refusal(e.answer)).encode()
        self._set_head(request, 200, b"text/html; charset=utf-8")
        return _document(shown["status"]["identity"], _body(shown)).encode()

    def _style(self, request: Any) -> bytes:
        self._set_head(request, 200, b"text/css")
        return STYLE.encode()

    def _set_head(self, request: Any, code: int, kind: bytes) -> None:
        request.setResponseCode(code)
        request.setHeader(b"Content-Type", kind)
        for name, value in HEADERS.items():
            request.setHeader(name, value)
        if code == 401:
            request.setHeader(b"WWW-Authenticate", b'Basic realm="Scale0", charset="UTF-8"')

    # ---------------------------------------------------------------------------------- checks

    def _guard(self, request: Any) -> None:
        """Refuse requests that a page of another site makes a browser send."""
        host = (request.getHeader(b"host") or b"").decode("latin-1")
        if host not in self._names:
            raise Denied(403, "not_allowed", "this Host is not served here")
        origin = request.getHeader(b"origin")
        foreign = origin is not None and origin.decode("latin-1") != f"http://{host}"
        site = request.getHeader(b"sec-fetch-site") or b"same-origin"  # programs send neither of the two
        if request.method == b"POST" and (foreign or site not in (b"same-origin", b"none")):
            raise Denied(403, "not_allowed", "a request from a page of another origin")

    @inlineCallbacks
    def _ask(self, request: Any, command: str, key: str) -> Any:
        user, password = _credentials(request)
        records = [m.auth_password for m in self._broker.broker.config.management if m.auth_id == user]
        # With the record in it, a password that was changed is no longer right.
        pair = hmac.digest(self._secret, "\0".join([user, password, *records]).encode(), hashlib.sha256)
        proven = bool(records) and self._right.get(pair, 0.0) > self._reactor.seconds()
        origin = Origin(plain_address(request.getClientAddress().host), "")
        wanted = ManagementReq(user, password, command, key)
        answer = yield self._broker.manage(wanted, origin, proven)
        if answer["code"] not in (401, 403, 429, 503) and not proven:
            self._right[pair] = self._reactor.seconds() + REMEMBERED
            while len(self._right) > PAIRS:
                self._right.popitem(last=False)
        return answer


def _credentials(request: Any) -> tuple[str, str]:
    kind, _, coded = (request.getHeader(b"authorization") or b"").partition(b" ")
    try:
        user, sign, password = base64.b64decode(coded, validate=True).decode("utf-8").partition(":")
    except ValueError:
        kind, sign, user, password = b"", "", "", ""
    if kind.lower() != b"basic" or not sign or len(user) > 255 or len(password) > 1024:
        raise Denied(401, "bad_credentials", "auth_id and auth_password by HTTP Basic")
    return user, password


# ------------------------------------------------------------------------------------------ the page


def _document(title: str, body: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<title>{escape(title)}</title><link rel="stylesheet" href="/style.css"></head><body>{body}</body></html>'
    )


def _refusal(answer: dict[str, Any]) -> str:
    again = _button("enable") if answer["reason"] == "disabled" else ""
    return f"<h1>{answer['code']} {escape(answer['reason'])}</h1><p>{escape(answer['message'])}</p>{again}"


def _body(shown: dict[str, Any]) -> str:
    status, state = shown["status"], escape(shown["status"]["state"])
    facts = [(name, _spell(value)) for name, value in status.items() if name not in ("counts", "alarms", "identity")]
    parts = [
        f'<h1>{escape(status["identity"])} <span class="{state}">{state}</span></h1>',
        " ".join(map(_button, BUTTONS)),
        "".join(f"<p><strong>{escape(alarm)}</strong></p>" for alarm in status["alarms"]),
        _table("Status", ("", ""), facts),
        _table("Services", ("service", "workers", "idle", "queued"), _rows(shown["services"]["services"])),
        _dicts("Least recently used backends", shown["services"]["LRU"]),
        _dicts("Clients", shown["clients"]["clients"]),
        _dicts("Peers", [{"identity": name} | peer for name, peer in shown["peers"].items()]),
        _dicts("error_clients", [{"client": name} | record for name, record in shown["errors"].items()]),
        _table("Counts", ("", ""), sorted((name, str(n)) for name, n in status["counts"].items())),
    ]
    return "".join(parts)


def _rows(services: dict[str, list[int]]) -> Iterable[tuple[str, ...]]:
    return ((name, *map(str, counts)) for name, counts in services.items())


def _button(command: str) -> str:
    return f'<form method="post" action="/api/{command}?back=1"><button>{command}</button></form>'


def _dicts(title: str, records: list[dict[str, Any]]) -> str:
    names = tuple(dict.fromkeys(name for record in records for name in record))
    return _table(title, names, [tuple(_spell(record.get(name, "")) for name in names) for record in records])


def _table(title: str, head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    columns = "".join(f"<th>{escape(name)}</th>" for name in head)
    shown = f"<table><tr>{columns}</tr>{body}</table>" if body else "<p>none</p>"
    return f"<h2>{escape(title)}</h2>{shown}"


def _spell(value: Any) -> str:
    if isinstance(value, list):
        shown = ", ".join(map(str, value[:20]))
        return f"{shown} and {len(value) - 20} more" if len(value) > 20 else shown
    return str(value)
