"""Test that an unknown secret and a wrong or expired one cost the same work and get the same answer (14).

Clocks are no measure on a busy machine, so the comparisons are counted that compare in constant time, and answers are
compared byte for byte.
"""

from __future__ import annotations

import hmac
import http.client
import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helen_running import Running, wait_until
from twisted.internet.defer import succeed
from web_client import Web, ask

from helen.passive.declarations import Host, Passive
from helen.passive.submission_keys import SubmissionKeys
from helen.storage import schema, token_rows
from helen.storage.enrolled_keys import NotEnrolled
from helen.storage.token_rows import Terms
from helen.storage.web_token_rows import WebToken, digest_of
from helen.web import tokens as web_tokens
from helen.web.login import browser
from helen.web.problems import Problem
from helen.web.tokens import WebTokens

FILE = '[hosts.nas]\n\n[[check]]\nhost = "nas"\nid = "smart"\n\n[[ping]]\nid = "backup"\nevery = "1h"\n'


class Counted:
    """Stand in for the module hmac, and count the comparisons in constant time."""

    def __init__(self) -> None:
        self.compared = 0
        self.digest = hmac.digest

    def compare_digest(self, one: Any, other: Any) -> bool:
        self.compared += 1
        return hmac.compare_digest(one, other)

    def of(self, call: Callable[[], Any]) -> tuple[int, Any]:
        """Return how many comparisons a call makes, and what comes of it."""
        self.compared = 0
        try:
            outcome = call()
        except (Problem, NotEnrolled) as error:
            outcome = str(error)
        return self.compared, outcome


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    made = Counted()
    for module in ("helen.storage.token_rows", "helen.web.tokens", "helen.web.login.browser"):
        monkeypatch.setattr(f"{module}.hmac", made)
    monkeypatch.setattr("helen.passive.submission_keys.hmac", made)
    return made


# ---------------------------------------------------------------------------------------------- in memory


def test_a_join_token(counted: Counted, tmp_path: Path) -> None:
    """A wrong join token costs one statement and one comparison, whether its part for the list is known or not."""
    db = schema.connect(tmp_path / "helen.db")
    good = f"{'0' * 64}.{'a' * 54}"
    token_rows.add(db, good, Terms(), 0.0, 100.0, "operator")
    statements: list[str] = []
    db.set_trace_callback(statements.append)
    found = []
    for token in (f"{'0' * 64}.{'b' * 54}", good[:-1] + "b", good + "a", ""):
        statements.clear()
        found.append((*counted.of(lambda: token_rows.redeem(db, token, SimpleNamespace(now=1.0))), len(statements)))  # noqa: B023
    assert found == [(1, "nobody made this token", 1)] * 4
    db.close()


def test_a_token_of_the_api(counted: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each token of the API is compared with that of the operator's file, and then looked up by its hash."""
    hashes: list[str] = []
    monkeypatch.setattr(web_tokens, "digest_of", lambda text: hashes.append(text) or digest_of(text))
    store: Any = SimpleNamespace(call=lambda *given: succeed(None))
    known = [WebToken("t", digest_of("helen_" + "a" * 43), ("read",), 0.0, "operator", used_at=0.0)]
    tokens = WebTokens(store, known, "m" * 43, lambda name: None)
    tokens.revoke("t", 1.0, "operator")
    hashes.clear()
    shown = [b"helen_" + b"a" * 43, b"helen_" + b"b" * 43, b"m" * 42 + b"n", b"", b"\xff\xfe", b"x" * 10_000]
    found = [counted.of(lambda: tokens.caller(each, 2.0)) for each in shown]  # noqa: B023
    assert found == [(1, "that token is not known here: `helen web-token list` has those that are")] * len(shown)
    assert len(hashes) == len(shown)
    assert "helen_" not in repr(vars(tokens)["_by_digest"])


def test_the_token_of_a_page(counted: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing token of a page, a part of it and another session's are compared as a whole one is."""
    monkeypatch.setattr(browser, "demand_own_origin", lambda request: None)
    monkeypatch.setattr(browser, "read_form", lambda request: {})
    whole = browser._csrf_of("cookie")
    for shown in (b"", whole.encode()[:-1], browser._csrf_of("another").encode(), b"\xff" * 64):
        request: Any = SimpleNamespace(getHeader=lambda name: shown)  # noqa: B023
        said = "X-Helen-CSRF is missing or of another session: load the page anew"
        assert counted.of(lambda: browser.check_csrf(request, "cookie")) == (1, said)  # noqa: B023
    request = SimpleNamespace(getHeader=lambda name: whole.encode())
    assert counted.of(lambda: browser.check_csrf(request, "cookie")) == (1, None)


def test_the_key_of_a_host(counted: Counted) -> None:
    """The key of a host is compared twice, for hosts that are declared and for others."""
    keys, config = SubmissionKeys(b"k" * 64), Passive(hosts={"nas": Host("nas", serial=2)})
    good, of_all = keys.of_host(config, "nas"), keys.of_host(config, "*")
    for host in ("nas", "nobody", "*", "grüße"):
        for given in ("hs_wrong", "", "\ud800", good, of_all):
            wanted = given == of_all or (host, given) == ("nas", good)
            assert counted.of(lambda: keys.is_good(config, host, given)) == (2, wanted)  # noqa: B023


def test_the_key_of_a_host_that_is_declared_no_more(counted: Counted) -> None:
    """The key of a host that is no longer declared opens nothing."""
    keys = SubmissionKeys(b"k" * 64)
    before = keys.of_host(Passive(hosts={"nas": Host("nas")}), "nas")
    assert not keys.is_good(Passive(), "nas", before)


# ---------------------------------------------------------------------------------------------- over the network


@pytest.fixture(scope="module")
def helen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = Running(tmp_path_factory.mktemp("paths")).up()
    try:
        assert ask(running, "PUT", "/api/v1/passive", {"text": FILE}).status == 200
        wait_until(lambda: len(ask(running, "GET", "/api/v1/passive").json["checks"]) == 2, "declarations")
        yield running
    finally:
        running.end()


def heard(helen: Running, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[Any, ...]:
    """Return status, headers but for the time, and body of an answer to a stranger."""
    web = Web(helen)
    connection = http.client.HTTPConnection(web.host, web.port, timeout=60)
    try:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        shown = sorted((name, value) for name, value in answer.getheaders() if name.lower() != "date")
        return answer.status, shown, answer.read()
    finally:
        connection.close()


def bearer(text: str) -> str:
    return f"Bearer {text}"


def test_tokens_that_open_nothing(helen: Running) -> None:
    """A revoked token gets the same answer as one that was never made."""
    made = ask(helen, "POST", "/api/v1/web-tokens", {"name": "gone", "scopes": ["read"]}).json["token"]
    assert heard(helen, "GET", "/api/v1/me", authorization=bearer(made))[0] == 200
    ask(helen, "POST", "/api/v1/web-tokens/gone/revoke", {})
    unknown, revoked = (heard(helen, "GET", "/api/v1/me", authorization=bearer(each)) for each in (made[::-1], made))
    assert unknown == revoked
    assert unknown[0] == 401


def test_cookies_and_links_that_open_nothing(helen: Running) -> None:
    """A session that was ended and a key that was used get the same answers as others that never existed."""
    link = ask(helen, "POST", "/api/v1/sessions/links", {"name": "ann"}).json
    key = link["url"].rpartition("#")[2].rpartition("=")[2]
    web = Web(helen)
    origin = f"http://{web.host}:{web.port}"

    def log_in(shown: str) -> tuple[Any, ...]:
        return heard(helen, "POST", "/login", json.dumps({"key": shown}).encode(), origin=origin)

    status, headers, _ = log_in(key)
    assert status == 200
    cookie = dict(headers)["Set-Cookie"].partition(";")[0]
    session = ask(helen, "GET", "/api/v1/sessions").json["sessions"][0]["id"]
    assert heard(helen, "GET", "/api/v1/me", cookie=cookie)[0] == 200
    ask(helen, "POST", f"/api/v1/sessions/{session}/end", {})
    name, _, value = cookie.partition("=")
    ended, never = (heard(helen, "GET", "/api/v1/me", cookie=f"{name}={each}") for each in (value, value[::-1]))
    assert ended == never
    assert ended[0] == 401
    used, unknown = log_in(key), log_in(key[::-1])
    assert used == unknown
    assert used[0] == 401


def test_pings_that_are_not_there(helen: Running) -> None:
    """An unknown ping, a wrong key with the name of a ping and one with another name get the same answer."""
    paths = [f"/ping/{uuid.UUID(int=7)}", "/ping/x", f"/ping/{'k' * 32}/backup", f"/ping/{'k' * 32}/nothing",
             f"/ping/{'k' * 32}/backup/start", f"/ping/{uuid.UUID(int=7)}/start"]  # fmt: skip
    found = [heard(helen, "GET", path) for path in paths]
    assert found == [found[0]] * len(paths)
    assert found[0][0] == 404


def test_results_of_strangers(helen: Running) -> None:
    """Results with a wrong key get the same answer for a declared host and for another one, in each convention."""

    def icinga(host: str) -> tuple[Any, ...]:
        body = {"type": "Service", "service": f"{host}!smart", "exit_status": 0, "plugin_output": "fine"}
        return heard(helen, "POST", "/v1/actions/process-check-result", json.dumps(body).encode(),
                     authorization=bearer("hs_" + "x" * 32))  # fmt: skip

    def native(host: str) -> tuple[Any, ...]:
        body = {"host": host, "check": "smart", "status": "ok", "summary": "fine"}
        return heard(helen, "POST", "/api/v1/passive/results", json.dumps(body).encode(),
                     authorization=bearer("hs_" + "x" * 32))  # fmt: skip

    def nrdp(host: str) -> tuple[Any, ...]:
        said = {"checkresults": [{"checkresult": {"type": "service"}, "hostname": host, "servicename": "smart",
                                  "state": "0", "output": "fine"}]}  # fmt: skip
        return heard(helen, "POST", f"/nrdp?cmd=submitcheck&token=wrong&JSONDATA={json.dumps(said).replace(' ', '')}")

    for convention in (icinga, native, nrdp):
        known, unknown = convention("nas"), convention("sun")
        assert known == unknown, convention.__name__
        assert b"fine" not in known[2]


def test_agents_out_of_sight(helen: Running) -> None:
    """A limited token gets the same answer for a host that exists out of its sight and for an unknown name."""
    made = ask(helen, "POST", "/api/v1/web-tokens", {"name": "few", "scopes": ["operate"], "on": ["web-*"]}).json
    paths = ["agents/{}", "states/{}/smart", "explain/{}/smart", "history?agent={}&check=smart", "passive/keys/{}",
             "/agents/{}", "/checks/{}/smart", "agents?on={}", "results?on={}", "states?agent={}",
             "windows/{}", "rows?all=1&filter=agent:{}", "recent?agent={}&check=smart"]  # fmt: skip
    for path in paths:
        where = path if path.startswith("/") else f"/api/v1/{path}"
        token = bearer(made["token"])
        for _ in range(5):  # the answer of `rows` counts looks at the board, and the next one may be between the two
            known, unknown = (heard(helen, "GET", where.format(each), authorization=token) for each in ("nas", "sun"))
            if known[2].replace(b"nas", b"sun") == unknown[2]:
                break
        assert (known[0], known[2].replace(b"nas", b"sun")) == (unknown[0], unknown[2]), path
        assert [name for name, _ in known[1]] == [name for name, _ in unknown[1]]
        assert dict(known[1]).get("Content-Length") == dict(unknown[1]).get("Content-Length")
