"""Tests sessions of browsers against a real Helen: link, cookie, CSRF, and all that ends one."""

from __future__ import annotations

import hmac
import http.client
import json
import socket
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from helen_running import Running, wait_until
from web_client import Web, ask

pytestmark = pytest.mark.integration
FORM = "application/x-www-form-urlencoded"


@pytest.fixture(scope="module")
def web(fleet: Running) -> Iterator[Web]:
    yield Web(fleet)
    for each in ask(fleet, "GET", "/api/v1/sessions").json["sessions"]:
        ask(fleet, "POST", f"/api/v1/sessions/{each['id']}/end", {})


class Answer:
    """Hold a browser's answer."""

    def __init__(self, raw: http.client.HTTPResponse) -> None:
        self.status, self.headers, self.body = raw.status, raw.headers, raw.read()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Browser:
    """Send the requests of a user's browser: its cookie, and on writes Origin and the page's token."""

    def __init__(self, web: Web) -> None:
        self.web, self.cookie = web, ""
        self.origin = f"http://{web.host}:{web.port}"

    def ask(self, method: str, path: str, body: bytes | None = None, **more: str | None) -> Answer:
        headers = {"cookie": self.cookie or None, "origin": None if method == "GET" else self.origin}
        named = {name: value for name, value in (headers | more).items() if value is not None}
        connection = http.client.HTTPConnection(self.web.host, int(self.web.port), timeout=60)
        try:
            connection.request(method, path, body, {name.replace("_", "-"): value for name, value in named.items()})
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def log_in(self, key: str, to: str = "", **more: str | None) -> Answer:
        form = urlencode({"key": key, "to": to}).encode()
        answer = self.ask("POST", "/login", form, **{"content_type": FORM, **more})
        if "set-cookie" in answer.headers:
            self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return answer

    @property
    def csrf(self) -> str:
        return hmac.digest(self.cookie.partition("=")[2].encode(), b"helen csrf", "sha256").hex()


def link(fleet: Running, **body: Any) -> str:
    answer = ask(fleet, "POST", "/api/v1/sessions/links", body)
    assert answer.status == 201, answer.raw
    base, _, key = answer.json["url"].partition("#")
    assert base == f"http://{fleet.run['web']}/login"
    return str(key)


def logged_in(fleet: Running, web: Web, **body: Any) -> Browser:
    browser = Browser(web)
    assert browser.log_in(link(fleet, **body)).status == 303
    return browser


def test_from_a_link_to_a_session(fleet: Running, web: Web) -> None:
    """A link begins a session with a marked cookie, its name and scopes, and an entry of the audit."""
    browser = Browser(web)
    answer = browser.log_in(link(fleet, name="anna", scopes=["operate", "push"]), "/checks/a/b?at=7")
    assert (answer.status, answer.headers["location"]) == (303, "/checks/a/b?at=7")
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"helen_{web.port}=")
    assert cookie.partition("; ")[2] == "Path=/; HttpOnly; SameSite=Strict; Max-Age=604800"
    me = browser.ask("GET", "/api/v1/me").json
    assert (me["actor"], me["scopes"]) == ("operator/anna", ["metrics", "operate", "push", "read"])
    assert me["session"]["expires"] - me["session"]["created"] == 604_800.0
    listed = {each["id"]: each for each in ask(fleet, "GET", "/api/v1/sessions").json["sessions"]}
    mine = listed[me["session"]["id"]]
    assert (mine["name"], mine["parent"], mine["scopes"]) == ("anna", "operator", ["operate", "push"])
    assert (mine["address"], mine["kiosk"]) == ("127.0.0.1", False)
    entries = ask(fleet, "GET", f"/api/v1/audit?subject={mine['id']}").json["audit"]
    assert [(each["actor"], each["action"], each["address"]) for each in entries] == [
        ("operator/anna", "session", "127.0.0.1")
    ]


def test_the_key_is_kept_nowhere(fleet: Running, web: Web) -> None:
    """Neither the link's key nor the cookie's value is in a file of the database."""
    key = link(fleet)
    browser = Browser(web)
    browser.log_in(key)
    value = browser.cookie.partition("=")[2]
    for path in fleet.state.rglob("helen.db*"):
        assert key.encode() not in path.read_bytes()
        assert value.encode() not in path.read_bytes()


@pytest.mark.parametrize(
    "where", ["//evil.example/", "https://evil.example/", "/\\evil", "evil", "///evil", "/a\nb", ""]
)
def test_only_to_a_path_of_our_own(fleet: Running, web: Web, where: str) -> None:
    """A login leads only to a path of Helen, and any other target becomes `/`."""
    assert Browser(web).log_in(link(fleet), where).headers["location"] == "/"


def test_a_key_that_opens_nothing(fleet: Running, web: Web) -> None:
    """A used or wrong key is refused: a form returns to the login, JSON gets 401, and many tries get 429."""
    key = link(fleet)
    first = Browser(web)
    assert first.log_in(key).status == 303
    again = Browser(web).log_in(key, "/agents")
    assert (again.status, again.headers["location"]) == (303, "/login?said=wrong&to=%2Fagents")
    assert "set-cookie" not in again.headers
    said = {Browser(web).ask("POST", "/login", b'{"key": "x"}').status for _ in range(12)}
    assert said == {401, 429}
    answer = Browser(web).ask("POST", "/login", b'{"key": "x"}')
    assert answer.status == 429 and int(answer.headers["retry-after"]) in range(1, 8)
    assert Browser(web).log_in(link(fleet)).headers["location"] == "/"  # a good one is taken all the same
    assert first.ask("GET", "/api/v1/me").status == 200


def test_a_token_logs_in(fleet: Running, web: Web) -> None:
    """A token logs in by JSON with its own scopes, and its session ends with it."""
    made = ask(fleet, "POST", "/api/v1/web-tokens", {"name": "wall", "scopes": ["read"]}).json
    browser = Browser(web)
    answer = browser.ask("POST", "/login", json.dumps({"key": made["token"], "to": "/agents"}).encode())
    assert (answer.status, answer.json["to"]) == (200, "/agents")
    browser.cookie = answer.headers["set-cookie"].partition(";")[0]
    me = browser.ask("GET", "/api/v1/me").json
    assert (me["actor"], me["scopes"]) == ("token:wall/browser", ["metrics", "read"])
    assert browser.ask("POST", "/api/v1/acks", b"{}", x_helen_csrf=browser.csrf).json["detail"] == (
        "this session lacks the scope `operate`: `helen open --scope operate` begins one that has it"
    )
    assert [each["id"] for each in browser.ask("GET", "/api/v1/sessions").json["sessions"]] == [me["session"]["id"]]
    ask(fleet, "POST", "/api/v1/web-tokens/wall/revoke", {})
    assert browser.ask("GET", "/api/v1/me").status == 401


def test_a_revoked_token_ends_its_sessions_and_streams(fleet: Running, web: Web) -> None:
    """A revoked token ends its sessions and streams at once, and a new token of its name brings none back."""
    made = ask(fleet, "POST", "/api/v1/web-tokens", {"name": "brief", "scopes": ["operate"]}).json
    browser = Browser(web)
    browser.log_in(made["token"])
    streams = [stream_of(web, "GET /api/v1/events", browser.cookie)]
    assert browser.ask("GET", "/api/v1/me").status == 200
    ask(fleet, "POST", "/api/v1/web-tokens/brief/revoke", {})
    for stream in streams:
        assert reads_to_its_end(stream)
    ask(fleet, "POST", "/api/v1/web-tokens", {"name": "brief", "scopes": ["operate"]})
    assert browser.ask("GET", "/api/v1/me").status == 401
    assert "brief" not in [each["parent"] for each in ask(fleet, "GET", "/api/v1/sessions").json["sessions"]]
    ask(fleet, "POST", "/api/v1/web-tokens/brief/revoke", {})


def stream_of(web: Web, line: str, cookie: str) -> socket.socket:
    """Open a stream, and return its connection once the first bytes have come."""
    connection = socket.create_connection((web.host, int(web.port)), timeout=60)
    connection.sendall(f"{line} HTTP/1.1\r\nhost: {web.host}:{web.port}\r\ncookie: {cookie}\r\n\r\n".encode())
    assert connection.recv(65_536).startswith(b"HTTP/1.1 200")
    return connection


def reads_to_its_end(connection: socket.socket) -> bool:
    with connection:
        try:
            while connection.recv(65_536):
                pass
        except ConnectionResetError:
            pass
        return True


@pytest.mark.parametrize("way", ["logout", "end", "admin"])
def test_three_ways_to_end_a_session(fleet: Running, web: Web, way: str) -> None:
    """A logout, an end by the session and one by an operator each end the stream, leave the list, and are in the
    audit."""
    browser = logged_in(fleet, web, name="bert")
    id_ = browser.ask("GET", "/api/v1/me").json["session"]["id"]
    stream = stream_of(web, "GET /api/v1/events", browser.cookie)
    if way == "logout":
        answer = browser.ask("POST", "/logout", urlencode({"csrf": browser.csrf}).encode(), content_type=FORM)
        assert (answer.status, answer.headers["location"]) == (303, "/login?said=out")
        assert "Max-Age=0" in answer.headers["set-cookie"]
        by = "operator/bert"
    elif way == "end":
        answer = browser.ask("POST", f"/api/v1/sessions/{id_}/end", b"{}", x_helen_csrf=browser.csrf)
        assert (answer.status, answer.json["id"]) == (200, id_)
        by = "operator/bert"
    else:
        assert ask(fleet, "POST", f"/api/v1/sessions/{id_}/end", {}).json["name"] == "bert"
        by = "operator"
    assert reads_to_its_end(stream)
    assert browser.ask("GET", "/api/v1/me").status == 401
    assert id_ not in [each["id"] for each in ask(fleet, "GET", "/api/v1/sessions").json["sessions"]]
    newest = ask(fleet, "GET", f"/api/v1/audit?subject={id_}").json["audit"][0]
    assert (newest["actor"], newest["action"]) == (by, "session-end")
    assert ask(fleet, "POST", f"/api/v1/sessions/{id_}/end", {}).problem[:2] == (404, "no such session")


def test_a_session_ends_no_other_one(fleet: Running, web: Web) -> None:
    """A session without admin ends no other session, and makes no links."""
    anna, bert = logged_in(fleet, web, name="anna"), logged_in(fleet, web, name="bert", scopes=["admin"])
    ids = [each.ask("GET", "/api/v1/me").json["session"]["id"] for each in (anna, bert)]
    assert [each["id"] for each in anna.ask("GET", "/api/v1/sessions").json["sessions"]] == ids[:1]
    refused = anna.ask("POST", f"/api/v1/sessions/{ids[1]}/end", b"{}", x_helen_csrf=anna.csrf)
    assert refused.status == 404
    assert anna.ask("POST", "/api/v1/sessions/links", b"{}", x_helen_csrf=anna.csrf).status == 403
    assert bert.ask("POST", f"/api/v1/sessions/{ids[0]}/end", b"{}", x_helen_csrf=bert.csrf).status == 200
    assert anna.ask("GET", "/api/v1/me").status == 401


def test_a_login_takes_the_place_of_the_one_before(fleet: Running, web: Web) -> None:
    """A login ends the browser's former session, and an old cookie hinders no login."""
    browser = logged_in(fleet, web)
    before = browser.cookie
    assert browser.log_in(link(fleet)).headers["location"] == "/"
    assert browser.cookie != before
    assert browser.ask("GET", "/api/v1/me", cookie=before).status == 401
    assert browser.log_in(link(fleet), cookie=before).headers["location"] == "/"


OWN = "OWN"  # stands for the origin of the Helen that is asked


@pytest.mark.adversary(66)
@pytest.mark.parametrize(
    ("more", "title"),
    [
        ({}, None),
        ({"origin": None}, "foreign origin"),
        ({"origin": "null"}, "foreign origin"),
        ({"origin": "http://evil.example"}, "foreign origin"),
        ({"origin": "http://127.0.0.1:9"}, "foreign origin"),  # another port of this host is the same site
        ({"origin": "https://OWN"}, "foreign origin"),
        ({"origin": "http://OWN/"}, "foreign origin"),
        ({"origin": "http://localhost:PORT"}, "foreign origin"),
        ({"x_helen_csrf": None}, "no token of this page"),
        ({"x_helen_csrf": "0" * 64}, "no token of this page"),
        ({"x_helen_csrf": "\xff"}, "no token of this page"),
    ],
)
def test_a_write_by_cookie(fleet: Running, web: Web, more: dict[str, str | None], title: str | None) -> None:
    """A write by cookie needs Helen's own Origin and the CSRF token of the session."""
    browser = logged_in(fleet, web)
    filled = {name: value and value.replace("OWN", f"{web.host}:{web.port}").replace("PORT", str(web.port))
              for name, value in more.items()}  # fmt: skip
    answer = browser.ask("POST", "/api/v1/acks", b"{}", **({"x_helen_csrf": browser.csrf} | filled))
    if title is None:
        assert (answer.status, answer.json["title"]) == (400, "bad request")  # past all walls: an agent is missing
    else:
        assert (answer.status, answer.json["title"]) == (403, title)


@pytest.mark.parametrize("site", ["cross-site", "same-site", "x", None, "same-origin", "none"])
@pytest.mark.parametrize("path", ["/api/v1/events", "/api/v1/states", "/metrics"])
def test_a_read_by_cookie_from_a_foreign_page(fleet: Running, web: Web, path: str, site: str | None) -> None:
    """A read by cookie is refused if the browser says that a foreign page asks; with a token the header means
    nothing."""
    browser = logged_in(fleet, web)
    method = "HEAD" if path.endswith("events") else "GET"
    answer = browser.ask(method, path, sec_fetch_site=site)
    assert answer.status == (200 if site in (None, "same-origin", "none") else 403)
    token = web.ask(method, path, sec_fetch_site=site or "none")
    assert token.status == 200


@pytest.mark.adversary(66)
def test_a_login_from_a_foreign_page(fleet: Running, web: Web) -> None:
    """A login from a foreign page is refused without a cookie, and does not use up the key."""
    key = link(fleet)
    for origin in (None, "http://evil.example", "http://127.0.0.1:9"):
        answer = Browser(web).log_in(key, origin=origin)
        assert answer.headers["location"] == "/login?said=refused"
        assert "set-cookie" not in answer.headers
    assert Browser(web).log_in(key).headers["location"] == "/"


def test_cookie_and_token(fleet: Running, web: Web) -> None:
    """A request with cookie and token, or with two cookies of one name, is refused; a cookie of another port means
    nothing."""
    browser = logged_in(fleet, web)
    both = browser.ask("GET", "/api/v1/me", authorization=f"Bearer {web.token}")
    assert (both.status, both.json["title"]) == (400, "bad request")
    two = browser.ask("GET", "/api/v1/me", cookie=f"{browser.cookie}; {browser.cookie}")
    assert two.status == 400 and "2 cookies" in two.json["detail"]
    value = browser.cookie.partition("=")[2]
    for other in (f"helen_1={value}", f"__Host-helen={value}", f"helen={value}", f"xhelen_{web.port}={value}"):
        assert browser.ask("GET", "/api/v1/me", cookie=other).status == 401
    among = browser.ask("GET", "/api/v1/me", cookie=f"a=b; {browser.cookie} ;c")
    assert among.status == 200


@pytest.mark.parametrize(
    "hosts", [["OWN", "OWN"], ["OWN", "evil"], ["evil@OWN"], ["OWN/x"], ["a b"], ["[::1"], ["a:b"]]
)
def test_host_headers_that_are_none(web: Web, hosts: list[str]) -> None:
    """A request with a bad or repeated Host header is refused with 400, on open pages as well (F75)."""
    lines = "".join(f"host: {each.replace('OWN', f'{web.host}:{web.port}')}\r\n" for each in hosts)
    for path in ("/api/v1/status", "/healthz"):
        with socket.create_connection((web.host, int(web.port)), timeout=60) as connection:
            head = f"GET {path} HTTP/1.1\r\n{lines}authorization: Bearer {web.token}\r\nconnection: close\r\n\r\n"
            connection.sendall(head.encode())
            assert connection.recv(65_536).startswith(b"HTTP/1.1 400"), path


def test_links_by_a_token(fleet: Running, web: Web) -> None:
    """A link made by a token has at most its scopes, and is its child: revoking the token ends both."""
    made = ask(fleet, "POST", "/api/v1/web-tokens", {"name": "ops", "scopes": ["operate"]}).json["token"]
    ask_ops = {"authorization": f"Bearer {made}"}
    assert web.ask("POST", "/api/v1/sessions/links", b'{"scopes": ["push"]}', **ask_ops).problem[:2] == (
        403, "scope missing"
    )  # fmt: skip
    answer = web.ask("POST", "/api/v1/sessions/links", b'{"name": "eve"}', **ask_ops)
    browser = Browser(web)
    browser.log_in(answer.json["url"].partition("#")[2])
    assert browser.ask("GET", "/api/v1/me").json["actor"] == "token:ops/eve"
    own = web.ask("GET", "/api/v1/sessions", **ask_ops).json["sessions"]
    assert [each["parent"] for each in own] == ["token:ops"]
    left = web.ask("POST", "/api/v1/sessions/links", b"{}", **ask_ops).json["url"].partition("#")[2]
    ask(fleet, "POST", "/api/v1/web-tokens/ops/revoke", {})
    assert Browser(web).log_in(left).headers["location"] == "/login?said=wrong"
    assert browser.ask("GET", "/api/v1/me").status == 401


def test_me_of_others(fleet: Running, web: Web) -> None:
    """`/me` of a token and of the control socket has no session."""
    assert ask(fleet, "GET", "/api/v1/me").json["actor"] == "operator"
    mine = web.ask("GET", "/api/v1/me").json
    assert (mine["actor"], mine["session"], mine["zone"] != "") == ("token:web.token", None, True)


def test_sessions_outlive_a_restart(tmp_path: Path) -> None:
    """Sessions stay over a restart, except one whose token was revoked meanwhile."""
    helen = Running(tmp_path).up()
    try:
        web = Web(helen)
        kept = logged_in(helen, web, name="anna", kiosk=True, **{"for": "30d"})
        token = ask(helen, "POST", "/api/v1/web-tokens", {"name": "t", "scopes": ["read"]}).json["token"]
        lost = Browser(web)
        lost.log_in(token)
    finally:
        helen.end()
    with sqlite3.connect(helen.state / "helen.db") as db:
        db.execute("DELETE FROM web_tokens")
    db.close()
    helen = Running(tmp_path).up()
    try:
        for browser, status in ((kept, 200), (lost, 401)):
            name, _, value = browser.cookie.partition("=")
            browser.web = Web(helen)
            browser.cookie = f"helen_{browser.web.port}={value}"
            assert browser.ask("GET", "/api/v1/me").status == status, name
        wait_until(lambda: len(ask(helen, "GET", "/api/v1/sessions").json["sessions"]) == 1, "one session")
    finally:
        helen.end()


def test_many_at_once(fleet: Running, web: Web) -> None:
    """Only one of twenty browsers with one link at once gets in."""
    key, got = link(fleet), []

    def try_it() -> None:
        got.append(Browser(web).log_in(key).headers["location"])

    threads = [threading.Thread(target=try_it) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got.count("/") == 1
    assert len(got) == 20
