"""Test every route at once: the limits of a GET, of a page of another site and of a token that only reads."""

from __future__ import annotations

import hmac
import http.client
import json
import re
from typing import Any
from urllib.parse import urlencode

import pytest
from helen_running import Running, wait_until
from web_client import Answer, Web, ask

from helen.web.routes.registry import ROUTES

pytestmark = pytest.mark.integration
WRITES = [route for route in ROUTES if route.is_write]
READS = [re.compile(re.sub("<[^>]+>", "[^/]+", route.path) + "$") for route in ROUTES if not route.is_write]
SITES = (
    {"origin": "https://evil.example"}, {"origin": "null"}, {"origin": None},
    {"sec-fetch-site": "cross-site", "origin": None},
)  # fmt: skip


@pytest.fixture(scope="module")
def web(fleet: Running) -> Web:
    return Web(fleet)


def filled(path: str) -> str:
    return re.sub(r"<[^>]+>", "x", path)


@pytest.mark.adversary(66)
def test_no_write_by_get(web: Web) -> None:
    """A path that only writes refuses GET and HEAD, so that a link or an image changes nothing."""
    paths = {filled(route.path) for route in WRITES} - {"/login"}  # which is a page as well
    only_writes = sorted(path for path in paths if not any(read.match(path) for read in READS))
    assert len(only_writes) > 20
    answers = {(method, path): web.ask(method, path).status for path in only_writes for method in ("GET", "HEAD")}
    assert {key: status for key, status in answers.items() if status not in (404, 405)} == {}


class Session:
    """Stand in for a browser that is signed in, and whose pages are also those of other sites."""

    def __init__(self, fleet: Running, web: Web) -> None:
        self.web, self.own = web, f"http://{web.host}:{web.port}"
        key = ask(fleet, "POST", "/api/v1/sessions/links", {}).json["url"].partition("#")[2]
        form = urlencode({"key": key, "to": ""}).encode()
        kind = {"content-type": "application/x-www-form-urlencoded", "origin": self.own}
        connection = http.client.HTTPConnection(web.host, int(web.port), timeout=60)
        connection.request("POST", "/login", form, kind)
        answer = connection.getresponse()
        self.cookie = answer.headers["set-cookie"].partition(";")[0]
        connection.close()

    def ask(self, method: str, path: str, headers: dict[str, str | None]) -> Answer:
        """Send a write with the session's cookie, its page's token and these headers."""
        csrf = hmac.digest(self.cookie.partition("=")[2].encode(), b"helen csrf", "sha256").hex()
        named = {"cookie": self.cookie, "x-helen-csrf": csrf, "origin": self.own} | headers
        connection = http.client.HTTPConnection(self.web.host, int(self.web.port), timeout=60)
        try:
            connection.request(method, path, b"{}", {name: value for name, value in named.items() if value is not None})
            return Answer(connection.getresponse())
        finally:
            connection.close()


@pytest.mark.adversary(66)
def test_no_write_of_another_site(fleet: Running, web: Web) -> None:
    """A write from another origin or from none is refused, even with the session's cookie and the token of the page."""
    session = Session(fleet, web)
    asked = [route for route in WRITES if route.scope is not None]
    assert len(asked) > 30
    answers = {
        (route.name, str(site)): session.ask(route.method, filled(route.path), site)
        for route in asked
        for site in SITES
    }
    assert {key: answer.status for key, answer in answers.items() if answer.status not in (401, 403)} == {}
    refused = [answer for answer in answers.values() if answer.status == 403]
    assert len(refused) > 3 * len(answers) // 4
    assert {answer.json["title"] for answer in refused} == {"foreign origin"}
    assert session.ask("POST", "/api/v1/acks", {}).status == 400  # past the walls: what is asked makes no sense


@pytest.mark.adversary(66)
def test_no_result_of_another_page(fleet: Running, web: Web) -> None:
    """A GET by a page of another site, which sends the session's cookie, reports no result; one with a token does."""
    file = '[hosts.nas]\n\n[[check]]\nhost = "nas"\nid = "smart"\n\n[[ping]]\nid = "nightly"\nevery = "1d"\n'
    assert ask(fleet, "PUT", "/api/v1/passive", {"text": file}).status == 200
    wait_until(lambda: len(ask(fleet, "GET", "/api/v1/passive").json["checks"]) == 2, "declarations")
    session, no_headers = Session(fleet, web), {"origin": None, "x-helen-csrf": None}
    result = {"checkresult": {"type": "service"}, "hostname": "nas", "servicename": "smart", "state": 0, "output": "x"}
    form = urlencode({"cmd": "submitcheck", "JSONDATA": json.dumps({"checkresults": [result]})})
    reporting = [route for route in ROUTES if route.checks_caller]
    assert {route.method for route in reporting} == {"GET", "POST"}
    assert session.ask("GET", f"/nrdp?{form}", no_headers).json["result"]["message"].startswith("NO TOKEN")
    assert session.ask("GET", "/ping/nightly", no_headers).status == 404
    token = {"cookie": None, "authorization": f"Bearer {web.token}"}
    assert session.ask("GET", f"/nrdp?{form}", no_headers | token).json["result"]["message"] == "OK"
    assert session.ask("GET", "/ping/nightly", no_headers | token).status == 200
    assert ask(fleet, "PUT", "/api/v1/passive", {"text": None}).status == 200


@pytest.mark.adversary(68)
def test_what_a_reader_can_not_read(fleet: Running, web: Web) -> None:
    """A reader gets 403 for each read that needs more than `read`, with none of the content."""
    made: Any = ask(fleet, "POST", "/api/v1/web-tokens", {"name": "reader", "scopes": ["read"]}).json
    wider = [route for route in ROUTES if not route.is_write and route.scope not in (None, "read", "metrics")]
    assert {route.path for route in wider} >= {"/api/v1/web-tokens", "/api/v1/audit"}
    for route in wider:
        answer = web.ask("GET", filled(route.path), authorization=f"Bearer {made['token']}")
        assert (answer.status, answer.json["title"]) == (403, "scope missing"), route.name
        assert answer.json.keys() == {"type", "title", "status", "detail"}
