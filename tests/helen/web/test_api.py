"""Tests the HTTP API over a real Unix socket and real TCP: access, refusals, and answers."""

from __future__ import annotations

import contextlib
import http.client
import json
from typing import Any

import pytest
from helen_running import Running, pulse, wait_until
from web_client import Answer, Web, ask, control

from helen.web.bodies import MAX_BODY

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def web(fleet: Running) -> Web:
    return Web(fleet)


# ---------------------------------------------------------------------------------------------- who may


def test_the_unix_socket_is_for_its_owner(fleet: Running) -> None:
    """The Unix socket is for its owner by its mode, and needs no token."""
    assert (fleet.state / "control.sock").stat().st_mode & 0o777 == 0o600
    assert ask(fleet, "GET", "/api/v1/status").status == 200


def test_tcp_asks_for_the_token(web: Web, fleet: Running) -> None:
    """TCP needs the token of a file that only its owner reads, and any other credential gets the same 401."""
    assert (fleet.state / "web.token").stat().st_mode & 0o777 == 0o600
    assert web.ask("GET", "/api/v1/status").status == 200
    for wrong in ("", "Bearer", "Bearer x", web.token, f"Basic {web.token}", f"Bearer {web.token}x", "Bearer \xff"):
        answer = web.ask("GET", "/api/v1/status", authorization=wrong)
        assert answer.problem[:2] == (401, "refused")


def test_no_version_for_strangers(web: Web) -> None:
    """No answer names the program that serves it, neither to a probe nor to nonsense."""
    for method, path in (("GET", "/livez"), ("GET", "/nothing"), ("POST", "/login"), ("OPTIONS", "*"), ("GET", "*")):
        connection = http.client.HTTPConnection(web.host, int(web.port), timeout=60)
        connection.request(method, path)
        answer = connection.getresponse()
        said = str(answer.headers).lower() + answer.read().decode()
        connection.close()
        assert "twisted" not in said and "\nserver:" not in f"\n{said}" and "nosniff" in said, (method, path)


@pytest.mark.adversary(66)
@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost", 200), ("localhost:80", 200), ("127.0.0.1:9", 200), ("LOCALHOST", 200), ("[::1]:80", 200),
     ("evil.example", 421), ("localhost.evil.example", 421), ("", 421), ("x@evil.example", 400)],
)  # fmt: skip
def test_only_under_our_names(web: Web, host: str, status: int) -> None:
    """A request under a foreign Host is refused, since a foreign name may point at this machine."""
    assert web.ask("GET", "/api/v1/status", host=host).status == status


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/v1/status", 200), ("GET", "/metrics", 200), ("GET", "/healthz", 200), ("GET", "/nothing", 404),
        ("GET", "/api/v1//x", 404), ("POST", "/login", 403), ("DELETE", "/api/v1/status", 405),
        ("HEAD", "/api/v1/events", 200), ("GET", "/api/v1/history?agent=a", 400),
    ],
)  # fmt: skip
def test_no_answer_is_taken_for_another_type(web: Web, method: str, path: str, status: int) -> None:
    """Each answer forbids the browser to guess its type (F75)."""
    connection = http.client.HTTPConnection(web.host, int(web.port), timeout=60)
    connection.request(method, path, None, {"authorization": f"Bearer {web.token}"})
    answer = connection.getresponse()
    assert (answer.status, answer.headers["x-content-type-options"]) == (status, "nosniff")
    connection.close()


# ---------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("method", "path", "body", "problem"),
    [
        ("GET", "/nothing", None, (404, "not found", "")),
        ("GET", "/api/v1/nothing", None, (404, "not found", "")),
        ("GET", "/api/v1//status", None, (404, "not found", "perhaps /api/v1/status is meant")),
        ("GET", "//api/v1/status", None, (404, "not found", "perhaps /api/v1/status is meant")),
        ("GET", "/api///v1/states//", None, (404, "not found", "perhaps /api/v1/states/ is meant")),
        ("GET", "/nrdp//", None, (404, "not found", "perhaps /nrdp/ is meant")),
        ("GET", "/api/v1/%ff", None, (404, "not found", "the path is no UTF-8")),
        ("GET", "/api/v1/%C3", None, (404, "not found", "the path is no UTF-8")),
        ("POST", "//", None, (404, "not found", "perhaps / is meant")),
        ("DELETE", "/api/v1/status", None, (405, "method not allowed", "")),
        ("GET", "/api/v1/agents/nobody", None, (404, "no such agent", "no agent is called 'nobody'")),
        ("POST", "/api/v1/agents/nobody/revoke", None, (404, "no such agent", "nobody")),
        ("GET", "/api/v1/results?since=x", None, (400, "bad request", "`since` is a number")),
        ("POST", "/api/v1/tokens", b"{", (400, "bad request", "the body is no JSON")),
        ("POST", "/api/v1/tokens", b"[" * 20_000, (400, "bad request", "the body is no JSON")),
        ("POST", "/api/v1/tokens", b"[" * 60_000, (413, "too large", "the body has more than 40960 commas")),
        ("POST", "/api/v1/tokens", b"\xff\xfe\x00", (400, "bad request", "the body is no JSON")),
        ("POST", "/api/v1/tokens", [], (400, "bad request", "no JSON object")),
        ("POST", "/api/v1/tokens", {"agent": 5}, (400, "bad request", "`agent` is missing, or no text")),
        ("POST", "/api/v1/tokens", {"agent": "Web 1"}, (400, "bad request", "'Web 1' is no name for an agent")),
        ("POST", "/api/v1/tokens", {"ttl": "soon"}, (400, "bad request", "`ttl`: 'soon' is not a duration")),
        ("POST", "/api/v1/tokens", {"ttl": "60d"}, (400, "bad request", "a token may live for up to 30 days")),
        ("POST", "/api/v1/certificates", {"name": "x"}, (400, "bad request", "`csr` is missing")),
        ("POST", "/api/v1/certificates", {"name": "x", "csr": "y"}, (400, "bad request", "")),
        ("POST", "/api/v1/certificates", {"name": "x", "csr": "\ud800"}, (400, "bad request", "`csr` is no text")),
        ("PUT", "/api/v1/assignments", {"text": 5}, (400, "bad request", "`text` is the whole")),
        ("PUT", "/api/v1/assignments", {"text": "[["}, (400, "assignments refused", "no TOML")),
        ("POST", "/api/v1/runs", {"on": "*"}, (400, "bad request", "`check` is missing")),
        ("POST", "/api/v1/runs", {"check": "a b", "on": "*"}, (400, "bad request", "no check can be called 'a b'")),
        ("POST", "/api/v1/runs", {"check": "pulse"}, (400, "bad request", "`on` is a name")),
        ("POST", "/api/v1/runs", {"check": "pulse", "on": []}, (400, "bad request", "`on` is a name")),
        ("POST", "/api/v1/runs", {"check": "pulse", "on": "x*"}, (404, "no such agent", "no agent fits x*")),
        ("POST", "/api/v1/runs", {"check": "pulse", "on": "*", "args": 5}, (400, "bad request", "`args`")),
        ("POST", "/api/v1/runs", {"check": "pulse", "on": "*", "timeout": 0}, (400, "bad request", "`timeout`")),
        ("POST", "/api/v1/runs", {"check": "pulse", "on": "*", "timeout": "2h"}, (400, "bad request", "3600 s")),
        ("POST", "/api/v1/runs", {"check": "pulse", "on": "*", "args": {"a": "\ud800"}}, (400, "bad request", "text")),
        ("POST", "/api/v1/runs", {"check": "pulse", "on": "*", "args": {"a": "x" * 1_048_576}},
         (400, "bad request", "more than 1048576 bytes")),
        ("POST", "/api/v1/push", {"files": []}, (400, "bad request", "`files` is an object")),
        ("POST", "/api/v1/push", {"files": {"x.lua": 5}}, (400, "bad request", "`files` is an object")),
        ("POST", "/api/v1/push", {"files": {"x.lua": "\ud800"}}, (400, "bad request", "no text")),
        ("POST", "/api/v1/push", {"files": {"../x.lua": ""}}, (409, "push refused", "a check's file is called")),
        ("POST", "/api/v1/push", {"files": {}, "canary": "0%"}, (400, "bad request", "`canary`")),
        ("POST", "/api/v1/push", {"files": {}, "canary": "1%", "rings": "off"}, (400, "bad request", "at once")),
        ("POST", "/api/v1/push", {"files": {}, "rings": "5"}, (400, "bad request", "`rings`: '5' is no share")),
        ("POST", "/api/v1/push", {"files": {}, "gates": {"x": "1"}}, (400, "bad request", "`gates`: 'x' is no gate")),
        ("POST", "/api/v1/push", {"files": {}, "gates": {"errors": 1}}, (400, "bad request", "`gates` is an object")),
        ("POST", "/api/v1/rollouts/pause", {}, (409, "push refused", "no rollout is under way")),
        ("POST", "/api/v1/rollouts/undo", {"dry_run": True}, (409, "push refused", "no rollout is under way")),
        ("POST", "/api/v1/push", {"files": {"x.lua": "return {"}}, (409, "push refused", "x.lua:1: ")),
        ("POST", "/api/v1/push/signed", {"manifest": "x", "undo": "y"}, (409, "push refused", "nothing is staged")),
    ],
)  # fmt: skip
def test_problems(fleet: Running, method: str, path: str, body: Any, problem: tuple[int, str, str]) -> None:
    """Every error is a document of RFC 9457 with a sentence in it."""
    answer = ask(fleet, method, path, body)
    status, title, detail = answer.problem
    assert (status, title) == problem[:2]
    assert problem[2] in detail


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_is_too_large(fleet: Running, chunked: bool) -> None:
    """A body that is too large, announced or growing, is refused before all of it has arrived."""
    with control(fleet) as connection:
        head = "transfer-encoding: chunked" if chunked else f"content-length: {MAX_BODY + 1}"
        sent = f"POST /api/v1/push HTTP/1.1\r\nhost: localhost\r\n{head}\r\n\r\n".encode()
        connection.sock.sendall(sent)
        with contextlib.suppress(OSError):
            for _ in range(MAX_BODY // 65_536 + 2 if chunked else 0):
                connection.sock.sendall(b"10000\r\n" + b"x" * 65_536 + b"\r\n")
        response = http.client.HTTPResponse(connection.sock)
        response.begin()
        assert Answer(response).problem == (413, "too large", f"a request holds at most {MAX_BODY} bytes")


def test_a_body_of_just_the_size(fleet: Running) -> None:
    """A body of just the largest size is read in a thread and judged."""
    filler = MAX_BODY - len(json.dumps({"text": ""}))
    answer = ask(fleet, "PUT", "/api/v1/assignments", {"text": "x" * filler})
    assert answer.problem[:2] == (400, "assignments refused")


# ---------------------------------------------------------------------------------------------- what is answered


def test_agents(fleet: Running) -> None:
    """`/agents` lists the agents that fit the patterns, or none."""
    (agent,) = ask(fleet, "GET", "/api/v1/agents?on=web-1").json["agents"]
    assert (agent["name"], agent["connected"], agent["labels"], agent["protocol"]) == (
        "web-1", True, {"role": "web"}, 2
    )  # fmt: skip
    names = {
        pattern: [each["name"] for each in ask(fleet, "GET", f"/api/v1/agents?on={pattern}").json["agents"]]
        for pattern in ("web-1*", "role=w*", "nobody-*")
    }
    assert names == {"web-1*": ["web-1"], "role=w*": ["web-1"], "nobody-*": []}


def test_one_agent(fleet: Running) -> None:
    """`/agents/NAME` has the agent's files, results and schedule."""
    agent = wait_until(lambda: (found := ask(fleet, "GET", "/api/v1/agents/web-1").json)["results"] and found, "result")
    assert agent["files"]["pulse.lua"]["state"] == "active"
    assert "pulse" in {result["check_id"] for result in agent["results"]}
    assert "pulse" in {entry["id"] for entry in agent["schedule"]}


def test_results_since(fleet: Running) -> None:
    """`/results?since=` returns the results newer than that time."""
    seen = ask(fleet, "GET", "/api/v1/results").json["results"][-1]["received"]

    def newer() -> Any:
        return ask(fleet, "GET", f"/api/v1/results?since={seen}").json["results"]

    assert all(result["received"] > seen for result in wait_until(newer, "newer result"))


def test_status(fleet: Running) -> None:
    """`/status` counts the connected agents and has no trouble or fault."""
    status = ask(fleet, "GET", "/api/v1/status").json
    assert status["agents"]["connected"] == 1
    assert (status["journal"]["trouble"], status["store"]["trouble"], status["assignments"]["fault"]) == (None,) * 3


def test_the_history_needs_a_lake(fleet: Running) -> None:
    """Without a lake the history is refused with the next step, and the status has no pipeline."""
    status, title, detail = ask(fleet, "GET", "/api/v1/history?agent=web-1&check=pulse").problem
    assert (status, title) == (409, "no history")
    assert "pip install 'helen-equus[spark]'" in detail or "`helen pipeline run" in detail
    assert fleet.client.get("/api/v1/status")["pipeline"] is None


def test_a_question(fleet: Running) -> None:
    """A query answers with a line for the number of targets, and then one for each."""
    answer = ask(fleet, "POST", "/api/v1/runs", {"check": "pulse", "on": "web-1", "args": {"word": "ünd"}})
    first, target = (json.loads(line) for line in answer.raw.splitlines())
    assert (answer.kind, first) == ("application/x-ndjson", {"targets": 1})
    assert (target["agent"], target["outcome"], target["result"]["summary"]) == ("web-1", "answered", "ünd")


def test_whoever_asked_hangs_up(fleet: Running) -> None:
    """A query ends when its caller hangs up."""

    def open_questions() -> int:
        return ask(fleet, "GET", "/api/v1/status").json["questions"]

    with control(fleet) as connection:
        connection.request("POST", "/api/v1/runs", json.dumps({"check": "endless", "on": "web-1", "timeout": 3_000}))
        assert connection.getresponse().readline() == b'{"targets": 1}\n'
        assert open_questions() == 1
    wait_until(lambda: open_questions() == 0, "end of the question")


def test_a_dry_push_over_tcp(web: Web) -> None:
    """A dry push over TCP is judged with its plan of rings, and not published."""
    before = web.ask("GET", "/api/v1/push").json["version"]
    body = json.dumps({"files": {"new.lua": pulse("x")}, "dry_run": True}).encode()
    answer = web.ask("POST", "/api/v1/push", body)
    plan = [{"number": 1, "ring": "1%", "size": 1, "members": ["web-1"]}, {"number": 2, "ring": "10%", "size": 0}]
    plan = [plan[0], {**plan[1], "members": []}, {"number": 3, "ring": "100%", "size": 0, "members": []}]
    said = {"version": before, "warnings": [], "rings": "1%,10%,100%", "plan": plan}
    assert (answer.status, answer.json) == (200, said)
