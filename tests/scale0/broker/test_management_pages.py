"""Tests the pages of a broker without a socket: who may ask for what, what is remembered, and how answers are shown."""

from __future__ import annotations

import base64
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock

from scale0.broker import management_pages as module
from scale0.broker.management_pages import FrontEnd
from scale0.wire.options import ManagementReq
from scale0.wire.zap import Origin

OK = {"code": 200, "reason": "ok", "message": "", "data": {}}
STATUS = {"identity": "b<1>", "state": "active", "alarms": ["it <burns>"], "counts": {"b": 2, "a": 1}, "peers": ["x"]}
SHOWN = {
    "status": STATUS, "services": {"services": {"tea": [2, 1, 0]}, "LRU": [{"identity": "w", "services": ["a", "b"]}]},
    "clients": {"clients": []}, "peers": {"b2": {"state": "active"}}, "errors": {"10.0.0.1": {"failures": 3}},
}  # fmt: skip


class Request:
    """Stands for a request: by the operator of this machine unless told otherwise."""

    def __init__(self, method: str = "GET", auth: str | None = "op:pw", **headers: str) -> None:
        self.method = method.encode()
        self.headers = {"host": "127.0.0.1:80"} | {name.replace("_", "-"): value for name, value in headers.items()}
        if auth is not None:
            self.headers["authorization"] = "Basic " + base64.b64encode(auth.encode()).decode()
        self.args: dict[bytes, list[bytes]] = {}
        self.code, self.sent, self.redirected = 0, {}, b""  # type: ignore[var-annotated]

    def getHeader(self, name: bytes) -> bytes | None:
        value = self.headers.get(name.decode())
        return None if value is None else value.encode("latin-1")

    def getClientAddress(self) -> Any:
        return SimpleNamespace(host="::ffff:127.0.0.1")

    def setResponseCode(self, code: int) -> None:
        self.code = code

    def setHeader(self, name: bytes, value: bytes) -> None:
        self.sent[name] = value

    def redirect(self, url: bytes) -> None:
        self.redirected = url


class Stage:
    """Serves the pages over a broker that answers what a case says."""

    def __init__(self) -> None:
        self.clock, self.asked = Clock(), []  # type: ignore[var-annotated]
        self.answers: dict[str, dict[str, Any]] = {}
        self.record = "record"
        self.pages = FrontEnd(self.clock, self)  # type: ignore[arg-type]
        self.pages._names = {"127.0.0.1:80"}

    @property
    def broker(self) -> Any:
        return SimpleNamespace(
            config=SimpleNamespace(management=[SimpleNamespace(auth_id="op", auth_password=self.record)])
        )

    def manage(self, wanted: ManagementReq, origin: Origin, proven: bool) -> Deferred[dict[str, Any]]:
        self.asked.append((wanted, origin, proven))
        return succeed(self.answers.get(wanted.command, OK | {"data": SHOWN.get(wanted.command, {})}))

    def api(self, command: str, request: Request | None = None) -> tuple[int, dict[str, Any]]:
        request = request or Request()
        body: list[bytes] = []
        self.pages._api(request, command).addCallback(body.append)
        return request.code, msgspec.json.decode(body[0]) if body[0] else {}

    def page(self, request: Request | None = None) -> tuple[Request, str]:
        request, body = request or Request(), []  # type: ignore[var-annotated]
        self.pages._page(request).addCallback(body.append)
        return request, body[0].decode()

    def proven(self) -> list[bool]:
        found = [proven for _, _, proven in self.asked]
        self.asked.clear()
        return found


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_a_command_is_asked_with_the_credentials_and_the_address(stage: Stage) -> None:
    assert stage.api("peers") == (200, OK | {"data": SHOWN["peers"]})
    assert stage.asked == [(ManagementReq("op", "pw", "peers", ""), Origin("127.0.0.1", ""), False)]
    request = Request("POST")
    request.args = {b"key": [b"10.0.0.1" + b"x" * 300, b"other"]}
    stage.api("clear_errors", request)
    assert stage.asked[1][0].key == "10.0.0.1" + "x" * 247
    assert request.sent[b"Content-Type"] == b"application/json" and request.sent[b"Cache-Control"] == b"no-store"
    assert b"WWW-Authenticate" not in request.sent


@pytest.mark.parametrize("method, command, code", [
    ("GET", "status", 200), ("POST", "status", 404), ("GET", "disable", 404), ("POST", "disable", 200),
    ("GET", "dance", 404), ("POST", "clear_errors", 200),
])  # fmt: skip
def test_what_is_read_and_what_is_changed(stage: Stage, method: str, command: str, code: int) -> None:
    found, _ = stage.api(command, Request(method))
    assert (found, len(stage.asked)) == (code, int(code == 200))


@pytest.mark.parametrize("method, headers, code", [
    ("GET", {"host": "evil.example"}, 403), ("GET", {"origin": "http://evil.example"}, 200),
    ("POST", {"origin": "http://127.0.0.1:80"}, 200), ("POST", {"origin": "https://127.0.0.1:80"}, 403),
    ("POST", {"sec_fetch_site": "cross-site"}, 403), ("POST", {"sec_fetch_site": "same-site"}, 403),
    ("POST", {"sec_fetch_site": "same-origin"}, 200), ("POST", {"sec_fetch_site": "none"}, 200),
    ("GET", {"sec_fetch_site": "cross-site"}, 200),
])  # fmt: skip
def test_pages_of_others_change_nothing(stage: Stage, method: str, headers: dict[str, str], code: int) -> None:
    found, answer = stage.api("status" if method == "GET" else "enable", Request(method, **headers))
    assert (found, answer["code"], len(stage.asked)) == (code, code, int(code == 200))


@pytest.mark.parametrize("auth", [
    None, "op", "", "o" * 256 + ":pw", "op:" + "p" * 1_025,
])  # fmt: skip
def test_credentials_that_are_none_are_not_even_compared(stage: Stage, auth: str | None) -> None:
    request = Request(auth=auth)
    found, answer = stage.api("status", request)
    assert (found, answer["reason"], stage.asked) == (401, "bad_credentials", [])
    assert request.sent[b"WWW-Authenticate"] == b'Basic realm="Scale0", charset="UTF-8"'


@pytest.mark.parametrize("header", ["Bearer b3A6cHc=", "Basic !!!", "Basic /w==", "basic b3A6cHc="])
def test_only_basic_is_read(stage: Stage, header: str) -> None:
    code, _ = stage.api("status", Request(auth=None, authorization=header))
    assert code == (200 if header.startswith("basic") else 401)


def test_credentials_may_be_as_long_as_the_limits(stage: Stage) -> None:
    assert stage.api("status", Request(auth="o" * 255 + ":" + "p" * 1_024))[0] == 200


# ------------------------------------------------------------------------------------ what is remembered


def test_credentials_that_were_right_are_right_for_five_minutes(stage: Stage) -> None:
    for _ in range(2):
        stage.api("status")
    stage.clock.advance(299.9)
    stage.api("status")
    stage.clock.advance(0.1)
    stage.api("status")
    assert stage.proven() == [False, True, True, False]


@pytest.mark.parametrize(
    "code, is_remembered", [(200, True), (400, True), (401, False), (403, False), (429, False), (503, False)]
)
def test_a_refusal_proves_nothing(stage: Stage, code: int, is_remembered: bool) -> None:
    stage.answers["status"] = OK | {"code": code}
    for _ in range(2):
        stage.api("status")
    assert stage.proven() == [False, is_remembered]


def test_a_changed_password_and_another_name_are_compared_anew(stage: Stage) -> None:
    stage.api("status")
    stage.record = "another"
    stage.api("status")
    stage.api("status", Request(auth="op:pw2"))
    for _ in range(2):
        stage.api("status", Request(auth="nobody:pw"))
    assert stage.proven() == [False] * 5


def test_the_oldest_pair_is_forgotten_first(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAIRS", 2)
    for password in ("1", "2", "3", "2", "1"):
        stage.api("status", Request(auth=f"op:{password}"))
    assert stage.proven() == [False, False, False, True, False]


# ------------------------------------------------------------------------------------------ the page


def test_the_page_shows_all_sections(stage: Stage) -> None:
    request, text = stage.page()
    assert (request.code, request.sent[b"Content-Type"]) == (200, b"text/html; charset=utf-8")
    assert [wanted.command for wanted, _, _ in stage.asked] == list(module.SECTIONS)
    assert stage.proven() == [False, *[True] * (len(module.SECTIONS) - 1)]
    for part in (
        '<h1>b&lt;1&gt; <span class="active">active</span></h1>', "<p><strong>it &lt;burns&gt;</strong></p>",
        "<title>b&lt;1&gt;</title>", "<tr><td>tea</td><td>2</td><td>1</td><td>0</td></tr>",
        "<h2>Clients</h2><p>none</p>", "<tr><th>identity</th><th>state</th></tr><tr><td>b2</td><td>active</td></tr>",
        "<tr><td>10.0.0.1</td><td>3</td></tr>", "<tr><td>w</td><td>a, b</td></tr>",
        "<tr><td>a</td><td>1</td></tr><tr><td>b</td><td>2</td></tr>", "<tr><td>peers</td><td>x</td></tr>",
        '<form method="post" action="/api/disable?back=1"><button>disable</button></form>',
    ):  # fmt: skip
        assert part in text, part
    assert "<td>identity</td>" not in text and "<td>alarms</td>" not in text and "<td>counts</td>" not in text


@pytest.mark.parametrize("reason, has_button", [("disabled", True), ("busy", False)])
def test_a_refusal_is_shown_with_the_way_out(stage: Stage, reason: str, has_button: bool) -> None:
    stage.answers["status"] = {"code": 503, "reason": reason, "message": "not <now>", "data": {}}
    request, text = stage.page()
    assert (request.code, len(stage.asked)) == (503, 1)
    assert f"<h1>503 {reason}</h1><p>not &lt;now&gt;</p>" in text and ("/api/enable" in text) is has_button


def test_a_page_that_may_not_be_seen_asks_nothing(stage: Stage) -> None:
    request, text = stage.page(Request(host="evil.example"))
    assert request.code == 403 and "this Host is not served here" in text and stage.asked == []


@pytest.mark.parametrize("method, code, back", [("POST", 200, True), ("POST", 401, False), ("GET", 200, False)])
def test_a_button_leads_back_to_the_page(stage: Stage, method: str, code: int, back: bool) -> None:
    command = "enable" if method == "POST" else "status"
    stage.answers[command] = OK | {"code": code}
    request = Request(method)
    request.args = {b"back": [b"1"]}
    stage.api(command, request)
    assert request.redirected == (b"/" if back else b"")


def test_the_style_is_served_with_the_same_headers(stage: Stage) -> None:
    request = Request()
    assert stage.pages._style(request).decode() == module.STYLE and request.code == 200
    assert request.sent == {b"Content-Type": b"text/css"} | module.HEADERS


@pytest.mark.parametrize("value, shown", [
    ([1, "b"], "1, b"), (list(range(20)), ", ".join(map(str, range(20)))),
    (list(range(22)), ", ".join(map(str, range(20))) + " and 2 more"), (None, "None"), ("x", "x"),
])  # fmt: skip
def test_long_lists_are_cut(value: Any, shown: str) -> None:
    assert module._spell(value) == shown


def test_a_service_that_never_listened_stops(stage: Stage) -> None:
    assert stage.pages.stopService() is None
