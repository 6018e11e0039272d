"""Tests tokens of the HTTP API: the routes of each scope, stored traces, and their ends."""

from __future__ import annotations

import contextlib
import http.client
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from click.testing import CliRunner
from helen_running import Running, wait_until
from web_client import Web, ask

from helen.cli.access.web_token import SCOPES as CLI_SCOPES
from helen.cli.main import main
from helen.storage import schema, web_token_rows
from helen.storage.web_token_rows import TokenRefused, WebToken
from helen.web.access import INCLUDES, SCOPES, Caller, including
from helen.web.problems import Problem
from helen.web.routes.registry import BY_NAME, ROUTES
from helen.web.tokens import WebTokens


def test_what_includes_what() -> None:
    """Each scope includes itself, and `admin` all."""
    assert all(scope in INCLUDES[scope] for scope in SCOPES)
    assert INCLUDES["admin"] == set(SCOPES) == set(CLI_SCOPES)
    assert including(("push", "operate")) == {"push", "operate", "read", "metrics"}
    assert [Caller("x", (scope,)).may("read") for scope in ("metrics", "read", "operate")] == [False, True, True]


@pytest.mark.adversary(68)
def test_the_table_of_scopes() -> None:
    """Each route is in the table of scopes once; five are open to all, and only writes that read have the scope
    `read`."""
    assert len(BY_NAME) == len(ROUTES)
    wide = [route.path for route in ROUTES if route.scope is None and not route.checks_caller]
    assert sorted(wide) == ["/api/v1/openapi.json", "/healthz", "/livez", "/login", "/readyz"]
    assert {route.scope for route in ROUTES} == {None, *SCOPES}
    assert [route.name for route in ROUTES if route.is_write and route.scope == "read"] == [
        "POST /api/v1/notifications/route", "POST /api/v1/notifications/check",
        # Of Prometheus: a form that is too long for an address. They read alone.
        "POST /api/v1/query", "POST /api/v1/query_range", "POST /api/v1/series", "POST /api/v1/labels",
        "POST /api/v1/query_exemplars",
    ]  # fmt: skip


def test_one_token_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token above the limit is refused in memory and in the database, and an expired one makes room."""
    monkeypatch.setattr(web_token_rows, "MOST", 2)
    monkeypatch.setattr("helen.web.tokens.MOST", 2)
    db = schema.connect(tmp_path / "helen.db")
    brief = WebToken("a", b"1", ("read",), 100.0, "operator", expires=150.0)
    for token in (brief, WebToken("b", b"2", ("read",), 100.0, "operator")):
        web_token_rows.add(db, token)
    third = WebToken("c", b"3", ("read", "push"), 149.0, "operator")
    tokens = WebTokens(None, web_token_rows.tokens(db), "master", lambda name: None)  # type: ignore[arg-type]
    with pytest.raises(Problem, match="there are 2 tokens"):
        tokens.checked("c", ["read"], None, "operator", 149.0)
    with pytest.raises(TokenRefused, match="there are 2 tokens"):
        web_token_rows.add(db, third)
    assert tokens.checked("c", ["read"], 60.0, "operator", 150.0).expires == 210.0
    web_token_rows.add(db, evolve(third, created=150.0))
    assert [(each.name, each.scopes) for each in web_token_rows.tokens(db)] == [
        ("b", ("read",)),
        ("c", ("read", "push")),
    ]
    db.close()


# ---------------------------------------------------------------------------------------------- a real one

integration = pytest.mark.integration


@pytest.fixture(scope="module")
def web(fleet: Running) -> Web:
    return Web(fleet)


@pytest.fixture(scope="module")
def tokens(fleet: Running) -> Iterator[dict[str, str]]:
    """Provide a token of each scope by its name."""
    made = {scope: make(fleet, name=f"t-{scope}", scopes=[scope])["token"] for scope in SCOPES}
    yield made
    for scope in SCOPES:
        ask(fleet, "POST", f"/api/v1/web-tokens/t-{scope}/revoke", {})


def make(fleet: Running, **body: Any) -> Any:
    answer = ask(fleet, "POST", "/api/v1/web-tokens", body)
    assert answer.status == 201, answer.raw
    return answer.json


@pytest.mark.adversary(68)
@integration
@pytest.mark.parametrize(
    ("method", "path", "opened_by"),
    [
        ("GET", "/metrics", "metrics read operate push admin"),
        ("GET", "/api/v1/status", "read operate push admin"),
        ("GET", "/api/v1/windows", "read operate push admin"),
        ("POST", "/api/v1/acks", "operate admin"),
        ("POST", "/api/v1/runs", "operate admin"),
        ("POST", "/api/v1/push", "push admin"),
        ("POST", "/api/v1/push/undo", "push admin"),
        ("POST", "/api/v1/push/agent", "admin"),
        ("PUT", "/api/v1/assignments", "admin"),
        ("POST", "/api/v1/tokens", "admin"),
        ("GET", "/api/v1/web-tokens", "admin"),
        ("POST", "/api/v1/web-tokens", "admin"),
    ],
)
def test_what_each_scope_opens(web: Web, tokens: dict[str, str], method: str, path: str, opened_by: str) -> None:
    """A scope opens its routes, and others are refused with a 403 that names the missing scope."""
    needed = BY_NAME[f"{method} {path}"].scope
    body = None if method == "GET" else b"[]"
    for scope, token in tokens.items():
        answer = web.ask(method, path, body, authorization=f"Bearer {token}")
        if scope in opened_by.split():
            assert answer.status in (200, 400, 409), (scope, answer.raw)
        else:
            assert answer.problem[:2] == (403, "scope missing")
            assert f"lacks the scope `{needed}`" in answer.problem[2]
            assert f"'t-{scope}'" in answer.problem[2]


@integration
def test_only_a_hash_is_kept(fleet: Running, tokens: dict[str, str]) -> None:
    """No token is in the state directory or the list, since only a hash is kept."""
    shown = ask(fleet, "GET", "/api/v1/web-tokens")
    assert {each["name"]: each["scopes"] for each in shown.json["tokens"]} == {f"t-{s}": [s] for s in SCOPES}
    kept = []
    for path in fleet.state.rglob("*"):
        with contextlib.suppress(OSError):  # Helen goes on: a WAL becomes a segment meanwhile
            kept.append(path.read_bytes())
    assert len(kept) > 10
    for token in tokens.values():
        assert token.encode() not in shown.raw
        assert not any(token.encode() in content for content in kept)


@integration
@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"name": "x"}, (400, "`scopes` is a list")),
        ({"name": "x", "scopes": []}, (400, "`scopes` is empty")),
        ({"name": "x", "scopes": ["root"]}, (400, "'root' is no scope: metrics, read")),
        ({"name": "a b", "scopes": ["read"]}, (400, "'a b' is no name")),
        ({"name": "web.token", "scopes": ["read"]}, (400, "is no name")),
        ({"name": "x", "scopes": ["read"], "expires": "9000d"}, (400, "`expires` is a time to live")),
        ({"name": "x", "scopes": ["read"], "expires": 0}, (400, "`expires`")),
        ({"name": "t-read", "scopes": ["read"]}, (409, "already")),
    ],
)
def test_tokens_that_can_not_be_made(
    fleet: Running, tokens: dict[str, str], body: dict[str, Any], problem: tuple[int, str]
) -> None:
    """A token that cannot be made is refused with the right form."""
    answer = ask(fleet, "POST", "/api/v1/web-tokens", body)
    assert answer.problem[0] == problem[0]
    assert problem[1] in answer.problem[2]


@integration
def test_an_end(fleet: Running, web: Web) -> None:
    """An expired token opens nothing, says so, and makes room for its name."""
    token = make(fleet, name="brief", scopes=["read"], expires=0.5)["token"]
    wait_until(lambda: web.ask("GET", "/api/v1/status", authorization=f"Bearer {token}").status == 401, "end")
    answer = web.ask("GET", "/api/v1/status", authorization=f"Bearer {token}")
    assert "'brief' has expired" in answer.problem[2]
    make(fleet, name="brief", scopes=["read"], expires="1h")
    ask(fleet, "POST", "/api/v1/web-tokens/brief/revoke", {})


@integration
def test_a_revoked_token_takes_its_streams_with_it(fleet: Running, web: Web) -> None:
    """A revoked token's streams end at once, and it opens nothing."""
    token = make(fleet, name="follower", scopes=["read"])["token"]
    connection = http.client.HTTPConnection(web.host, int(web.port), timeout=60)
    connection.request("GET", "/api/v1/events", headers={"authorization": f"Bearer {token}"})
    stream = connection.getresponse()
    assert stream.readline() == b"retry: 2000\n"
    assert ask(fleet, "POST", "/api/v1/web-tokens/follower/revoke", {}).status == 200
    with contextlib.suppress(OSError, http.client.HTTPException):
        while stream.readline():
            pass
    connection.close()
    assert web.ask("GET", "/api/v1/status", authorization=f"Bearer {token}").status == 401
    assert ask(fleet, "POST", "/api/v1/web-tokens/follower/revoke", {}).status == 404


@integration
def test_the_audit_names_who_did_it(fleet: Running, web: Web, tokens: dict[str, str]) -> None:
    """The audit names the token, the action, its subject and address; dry runs and refusals are not in it."""
    window = {"kind": "silence", "id": "audited", "agents": ["nobody"], "until": 3e9}
    named = {"authorization": f"Bearer {tokens['operate']}"}
    for body in (window | {"dry_run": True}, window, window | {"until": 1}):
        web.ask("POST", "/api/v1/windows", json.dumps(body).encode(), **named)
    web.ask("POST", "/api/v1/windows/audited/cancel", b"{}", **named)
    web.ask("POST", "/api/v1/tokens", b'{"agent": "audited"}', authorization=f"Bearer {tokens['admin']}")
    ask(fleet, "POST", "/api/v1/tokens", {"agent": "audited"})

    def rows() -> list[tuple[str, ...]]:
        with contextlib.closing(sqlite3.connect(f"file:{fleet.state}/helen.db?mode=ro", uri=True)) as db:
            asked = "SELECT actor, action, subject, address FROM audit WHERE subject = 'audited' ORDER BY id"
            return db.execute(asked).fetchall()

    wait_until(lambda: len(rows()) == 4, "audit")
    assert rows() == [
        ("token:t-operate", "window", "audited", "127.0.0.1"),
        ("token:t-operate", "window-cancel", "audited", "127.0.0.1"),
        ("token:t-admin", "token", "audited", ""),
        ("operator", "token", "audited", ""),
    ]


@integration
def test_the_command(fleet: Running, web: Web, tmp_path: Path) -> None:
    """`helen web-token` makes, lists and revokes tokens, and a dry run makes none."""

    def helen(*words: str, status: int = 0) -> str:
        done = CliRunner().invoke(main, ["web-token", *words, "--state", str(fleet.state)])
        assert done.exit_code == status, done.output
        return done.output

    assert "cli could be made: read, never" in helen("add", "cli", "--scope", "read", "--dry-run")
    token = helen("add", "cli", "--scope", "read", "--expires", "1d").strip()
    assert web.ask("GET", "/api/v1/status", authorization=f"Bearer {token}").status == 200
    assert "cli" in helen("list")
    assert json.loads(helen("list", "--output", "json"))["tokens"]
    url = f"http://{fleet.run['web']}"
    denied = CliRunner().invoke(main, ["web-token", "list", "--url", url, "--token", token])
    audited = CliRunner().invoke(main, ["audit", "--subject", "cli", "--state", str(fleet.state)]).output
    assert [line.split()[3:5] for line in audited.splitlines()[1:]] == [["operator", "web-token"]]
    assert (denied.exit_code, "lacks the scope `admin`" in denied.output) == (1, True)
    helen("revoke", "cli")
    helen("revoke", "cli", status=3)
