"""Tests that a caller limited to some agents sees no name of the others and touches none, by any route."""

from __future__ import annotations

import http.client
import json
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from click.testing import CliRunner
from helen_running import wait_until
from limits_stage import HIDDEN, PASSIVE, SHOUT, Halves, two_halves
from web_client import Answer, Web

from groundwork.authority import FLEET, NOTHING, Caller, Target, decide
from helen.actions import ACTIONS
from helen.agents.roster import Agent
from helen.agents.sight import Sight
from helen.cli.main import main
from helen.states.downtimes import read_window
from helen.web.pages.registry import PAGES
from helen.web.problems import Problem
from helen.web.routes.registry import ROUTES
from helen.web.sight import limits
from helen.web.sight.limits import FILTERED, HOW, PLAIN, REFUSED
from helen.web.sight.window_sight import is_within, narrowed, seen_window

EVERY = (*ROUTES, *PAGES.routes)
ON = ("team=shop", "web-*")


# ---------------------------------------------------------------------------------------------- the table


def test_the_table_says_what_actions_touch() -> None:
    """The table refuses limited callers the actions on the fleet and no other; filtered routes touch agents or check
    callers."""
    for route in EVERY:
        assert HOW[route.name] in (FILTERED, PLAIN, REFUSED)
        assert (HOW[route.name] == REFUSED) is (route.does.touches == FLEET), route.name
        if HOW[route.name] == FILTERED and not route.checks_caller:
            assert route.does.touches != NOTHING, route.name


def test_a_route_without_a_row_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A route without a row in the table is refused to limited callers alone."""
    route = next(route for route in ROUTES if route.name == "GET /api/v1/rows")
    monkeypatch.delitem(HOW, route.name)
    with pytest.raises(Problem, match="t is limited to web-1, and GET /api/v1/rows is for callers without a limit"):
        limits.demand_review(Caller("t", ("read",), on=("web-1",)), route.does, route.name)
    limits.demand_review(Caller("t", ("read",)), route.does, route.name)


@pytest.mark.parametrize(
    ("own", "given", "made"),
    [
        (None, [], None), (None, ["web-*", "web-*", "team=db"], ("web-*", "team=db")), (ON, [], ON),
        (ON, ["web-*"], ("web-*",)), ((), [], ()),
        (None, [""], 400), (None, ["=x"], 400), (None, ["a\x1bb"], 400), (None, ["x" * 301], 400),
        (None, [str(n) for n in range(101)], 400), (ON, ["*"], 403), (ON, ["web-1"], 403), (ON, ["web-*", "x"], 403),
    ],
)  # fmt: skip
def test_a_limit_is_never_widened(own: tuple[str, ...] | None, given: list[str], made: Any) -> None:
    """A caller passes on its own limit or a part of it, and without a limit any valid patterns."""
    caller = Caller("t", ("admin",), on=own)
    if isinstance(made, int):
        with pytest.raises(Problem) as caught:
            limits.checked_limit(caller, given)
        assert caught.value.status == made
    else:
        assert limits.checked_limit(caller, given) == made


def test_sight_is_what_is_decided() -> None:
    """A sight fits exactly the targets that the decision on actions allows, for any patterns and labels."""
    dice = random.Random(2)
    words = ["web", "db", "*", "?", "team", "=", "-", "1", "[", "]", "|", "\n", ""]
    texts = ["", "web", "db", "web-1", "db1", "web\n", "|", "=", "team=db"]
    seen = set()
    for _ in range(4_000):
        on = tuple("".join(dice.choices(words, k=dice.randrange(5))) for _ in range(dice.randrange(3)))
        labels = {key: dice.choice(texts) for key in dice.sample(["team", "web", ""], 2)}
        name = dice.choice(texts)
        caller = Caller("x", ("admin",), on=on)
        fits = Sight(on, {}).fits(name, labels)
        assert fits is caller.touches(Target(name, labels)), (on, name, labels)
        assert not name or fits is (decide(caller, ACTIONS["revoke"], Target(name, labels)) is None)
        seen.add(fits)
    assert seen == {True, False}


# ---------------------------------------------------------------------------------------------- windows


NAMES, TEAMS = ("web-1", "web-2", "db-1", "db-2", "gw"), ("shop", "db", "")


def a_fleet(dice: random.Random) -> dict[str, Agent]:
    """Return some agents, some of them with a team; each fleet differs."""
    found = {}
    for name in dice.sample(NAMES, dice.randrange(1, len(NAMES))):
        found[name] = Agent(name)
        team = dice.choice(TEAMS)
        found[name].labels = {"team": team} if team else {}
    return found


def test_no_window_reaches_beyond_the_limit() -> None:
    """A window within or narrowed to a limit covers no agent out of sight, for any scope and later fleet."""
    dice = random.Random(15)
    patterns = ["web-*", "web-1", "db-*", "*", "team=shop", "team=*", "team=d*", "gw"]
    names = ["*", "web-*", "web-1", "db-1", "d*", "gw", "team=shop"]
    outcomes = set()
    for _ in range(4_000):
        sight = Sight(tuple(dice.sample(patterns, dice.randrange(1, 3))), a_fleet(dice))
        scope: dict[str, Any] = {"agents": dice.sample(names, dice.randrange(1, 3))}
        if dice.random() < 0.5:
            scope["labels"] = {"team": dice.choice(["shop", "db", "*", "d?"])}
        if dice.random() < 0.3:
            scope = {"keys": [[dice.choice(NAMES), "c"] for _ in range(2)]}
        window = read_window({"id": "w", "kind": "silence", "until": 3e9, **scope}, 1e9)
        made = narrowed(window, sight)
        outcomes.add(None if made is None else made is window)
        if made is None:
            continue
        assert is_within(made, sight)
        plain = {name for name in scope.get("agents", ()) if not set("*?[") & set(name)}
        for name, agent in (sight.agents | a_fleet(dice)).items():
            if name not in sight.agents and name in plain:
                continue  # a name that was written out stands for the agent that had it
            labels = sight.agents[name].labels if name in sight.agents else agent.labels
            if made.scope.covers(name, "c", labels) and not any(key == (name, "c") for key in made.scope.keys):
                assert sight.fits(name, labels) or (name in plain and sight(name)), (sight.on, scope, name, labels)
    assert outcomes == {None, True, False}


def test_a_window_is_shown_with_the_checks_that_are_seen() -> None:
    """A window is shown with the visible checks it covers, and not shown without any."""
    agents = {"web-1": Agent("web-1"), "zebra": Agent("zebra")}
    sight = Sight(("web-*",), agents)
    window = read_window({"id": "w", "kind": "silence", "until": 3e9, "agents": ["zebra", "web-*"]}, 1e9)

    def covers(given: Any, key: tuple[str, str]) -> bool:
        return bool(given.scope.covers(*key, {}))

    shown = seen_window(window, sight, [("web-1", "a")], covers)
    assert shown is not None and shown.to_json()["keys"] == [["web-1", "a"]] and shown.to_json()["agents"] == []
    hidden = read_window({"id": "w", "kind": "silence", "until": 3e9, "agents": ["zebra"]}, 1e9)
    assert seen_window(hidden, sight, [("web-1", "a")], covers) is None
    assert seen_window(hidden, None, [], covers) is hidden


# ---------------------------------------------------------------------------------------------- a real one


integration = pytest.mark.integration


@pytest.fixture(scope="module")
def halves(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Halves]:
    with two_halves(tmp_path_factory.mktemp("halves")) as stage:
        yield stage


@pytest.fixture(scope="module")
def tokens(halves: Halves) -> dict[str, str]:
    """Provide a limited token of each scope by label, and one by name."""
    made = {scope: halves.make_token(f"shop-{scope}", scope, "team=shop") for scope in ("metrics", "read", "admin")}
    return made | {"names": halves.make_token("web-admin", "admin", "web-*")}


def leaks(answer: Answer, said: str = "") -> list[str]:
    """Return the hidden words in an answer, body and headers, that the request has not said itself."""
    found = (answer.raw + str(getattr(answer, "headers", "")).encode()).decode("utf-8", "replace").lower()
    return [word for word in HIDDEN if word in found and word not in said.lower()]


FILL = {"name": "web-1", "agent": "web-1", "host": "web-nas", "check": "kettle", "code": "smart", "rest": "start",
        "signal": "start", "build": "x", "version": "2", "digest": "0" * 64}  # fmt: skip
QUERIES = ["", "?all=true", "?all=1&strips=1&group=agent", "?group=check&all=1", "?on=*", "?kept=1", "?limit=1",
           "?agent=web-1&check=kettle", "?filter=state:critical", "?from=1d&limit=500", "?verbose"]  # fmt: skip


def filled(halves: Halves, path: str) -> str:
    """Return a path of a route with names of the visible half."""
    known = FILL | {"job_id": halves.job}
    if "windows/<name>" in path or "silence/<name>" in path:
        known["name"] = "both"
    return re.sub(r"<(?:\w+:)?(\w+)>", lambda found: known.get(found[1], "x"), path)


@integration
@pytest.mark.parametrize("route", [each for each in EVERY if each.method == "GET"], ids=lambda route: route.name)
@pytest.mark.parametrize("who", ["admin", "names"])
def test_no_read_names_a_hidden_agent(halves: Halves, tokens: dict[str, str], route: Any, who: str) -> None:
    """No answer to a read names a hidden agent, and a route of the whole fleet refuses with a sentence."""
    path = filled(halves, route.path)
    for query in QUERIES:
        if route.streams:
            continue
        answer = halves.limited(tokens[who], "GET", path + query)
        assert leaks(answer) == [], (path + query, answer.raw[:2_000])
        if HOW[route.name] == REFUSED:
            assert answer.status == 403 and " is limited to " in answer.raw.decode()
        else:
            assert answer.status != 500


BODIES: dict[str, Any] = {
    "acks": {"agent": "web-1", "check": "kettle", "owner": "b"}, "acks/clear": {"agent": "web-1", "check": "kettle"},
    "acks/many": {"filter": "agent:*", "expected": 9, "owner": "b"},
    "acks/clear/many": {"filter": "agent:*", "expected": 9},
    "windows": {"kind": "silence", "agents": ["*"], "until": 3e9}, "runs": {"check": "shout", "on": "*"},
    "once": {"check": "x", "files": {}, "on": "*"}, "jobs": {"check": "shout", "on": "*"},
    "jobs/once": {"check": "x", "files": {}, "on": "*"}, "renewals/tokens": {"on": "*", "all": True},
    "tokens": {}, "certificates": {"name": "web-1", "csr": "x"}, "notifications/route": {"labels": {"team": "shop"}},
    "web-tokens": {"name": "new", "scopes": ["read"]}, "sessions/links": {"name": "b"},
    "passive": {"text": PASSIVE}, "assignments": {"text": ""}, "push": {"files": {"a.lua": SHOUT}},
    "passive/results": {"host": "web-nas", "check": "smart", "status": "critical"},
}  # fmt: skip


@integration
@pytest.mark.parametrize("route", [each for each in ROUTES if each.is_write], ids=lambda route: route.name)
def test_no_write_names_a_hidden_agent(halves: Halves, tokens: dict[str, str], route: Any) -> None:
    """No answer to a write names a hidden agent, and patterns that fit the whole fleet touch the visible half."""
    path = filled(halves, route.path)
    if route.name == "POST /logout":
        return
    body = BODIES.get(path.removeprefix("/api/v1/"), {})
    for who in ("admin", "names"):
        for given in (body | {"dry_run": True}, [], {"dry_run": True, "on": "*"}):
            if not route.has_dry_run and given is not body and route.name != "POST /api/v1/passive/results":
                given = []
            answer = halves.limited(tokens[who], route.method, path, given)
            assert leaks(answer) == [], (path, given, answer.raw[:2_000])
            assert answer.status != 500, answer.raw
            if HOW[route.name] == REFUSED:
                assert answer.problem[:2] == (403, "limited")


ONE_OF_A_NAME = [
    ("GET", "agents/AGENT", None), ("GET", "states/AGENT/ocelot", None), ("GET", "explain/AGENT/ocelot", None),
    ("GET", "states?agent=AGENT", None), ("GET", "recent?agent=AGENT&check=ocelot", None),
    ("GET", "history?agent=AGENT&check=ocelot", None), ("GET", "passive/keys/AGENT", None),
    ("GET", "passive/pings/AGENT/badger", None), ("GET", "/checks/AGENT/ocelot", None),
    ("GET", "results?on=AGENT", None),
    ("GET", "agents?on=AGENT", None), ("GET", "changes?on=AGENT", None), ("GET", "rows?filter=agent:AGENT&all=1", None),
    ("GET", "/metrics?on=AGENT", None), ("GET", "renewals?on=AGENT&all=1", None),
    ("POST", "agents/AGENT/revoke", {}), ("POST", "agents/AGENT/forget", {}),
    ("POST", "agents/AGENT/labels", {"put": {"a": "b"}}),
    ("POST", "acks", {"agent": "AGENT", "check": "ocelot", "owner": "b"}),
    ("POST", "acks/clear", {"agent": "AGENT", "check": "ocelot"}),
    ("POST", "acks/many", {"keys": [["AGENT", "ocelot"]], "owner": "b"}),
    ("POST", "acks/many", {"filter": "agent:AGENT", "expected": 1, "owner": "b"}),
    ("POST", "acks/clear/many", {"keys": [["AGENT", "ocelot"]]}),
    ("POST", "windows", {"kind": "silence", "agents": ["AGENT"], "until": 3e9}),
    ("POST", "windows", {"kind": "silence", "keys": [["AGENT", "ocelot"]], "until": 3e9}),
    ("POST", "runs", {"check": "shout", "on": "AGENT"}), ("POST", "jobs", {"check": "shout", "on": "AGENT"}),
    ("POST", "once", {"check": "x", "files": {}, "on": "AGENT"}), ("POST", "tokens", {"agent": "AGENT"}),
    ("POST", "certificates", {"name": "AGENT", "csr": "x"}), ("POST", "renewals/tokens", {"on": "AGENT", "all": True}),
    ("POST", "passive/results", {"host": "AGENT", "check": "lemur", "status": "ok"}),
    ("POST", "/v1/actions/process-check-result", {"type": "Service", "filter": "AGENT", "exit_status": 0}),
    ("POST", "/events", {"check": {"name": "lemur"}, "entity": {"name": "AGENT"}}),
]  # fmt: skip


@integration
@pytest.mark.parametrize(("method", "path", "body"), ONE_OF_A_NAME, ids=lambda given: str(given)[:40])
def test_a_hidden_agent_is_as_one_that_is_not_there(
    halves: Halves, tokens: dict[str, str], method: str, path: str, body: Any
) -> None:
    """A hidden agent gets the same status, headers and sentence as a missing one, so that names cannot be tried out."""
    for who in ("admin", "names"):
        answers = []
        for name in ("zebra-7", "nobody7", "heron-3", "nobody3"):
            given = None if body is None else json.loads(json.dumps(body).replace("AGENT", name))
            if given is not None and "passive/results" not in path and "/v1/" not in path and path != "/events":
                given["dry_run"] = True
            answer = halves.limited(tokens[who], method, path.replace("AGENT", quote(name)), given)
            text = answer.raw.decode().replace(name, "NAME")
            text = re.sub(r"[0-9]{9,}\.[0-9]+|[a-f0-9]{8}\.[0-9]+|seconds?_total.*|process_\S+ \S+", "", text)
            text = re.sub(r'"id": "[a-f0-9]{8}"|(helen|process)_\S+ [0-9.e+-]+', "", text)
            answers.append((answer.status, answer.kind, len(text), text))
        assert answers[0] == answers[1] and answers[2] == answers[3], path
        assert answers[0][0] < 500 or answers[0][0] == 503


@integration
def test_the_other_half_is_there_for_others(halves: Halves) -> None:
    """Each hidden word is in some answer without a limit, or the tests above would show nothing."""
    paths = ["states?all=true", "results", "agents", "rows?all=1", "windows", "explain/web-1/kettle", "passive", "push",
             "assignments", "notifications/file", "/metrics", "labels"]  # fmt: skip
    said = b"".join(halves.admin("GET", path).raw for path in paths).decode()
    assert [word for word in HIDDEN if word not in said] == []


# ---------------------------------------------------------------------------------------------- what is seen


@integration
def test_counts_are_of_what_is_seen(halves: Halves, tokens: dict[str, str]) -> None:
    """Counts of the overview, rows, labels, alerts, metrics and `expected` are of the visible half."""
    token = tokens["admin"]
    status = halves.limited(token, "GET", "status").json
    assert status["agents"] == {"known": 1, "connected": 1, "hosts": 1}
    assert [each["name"] for each in halves.limited(token, "GET", "agents").json["agents"]] == ["web-1", "web-nas"]
    rows = halves.limited(token, "GET", "rows?all=1&group=agent").json
    assert {row[0] for row in rows["rows"]} == {"web-1", "web-nas"}
    assert sum(rows["counts"].values()) == len(rows["rows"])
    assert {group["name"] for group in rows["groups"]} == {"web-1", "web-nas"}
    assert halves.limited(token, "GET", "labels").json == {"labels": {"team": {"shop": 2}}}
    states = halves.limited(token, "GET", "states?all=true").json["states"]
    assert {each["agent"] for each in states} == {"web-1", "web-nas"} and len(states) == len(rows["rows"])
    many = {"filter": "agent:*", "expected": len(rows["rows"]), "owner": "b", "dry_run": True}
    assert halves.limited(token, "POST", "acks/many", many).status == 200
    off = halves.limited(token, "POST", "acks/many", many | {"expected": 99})
    assert off.problem[2] == f"{len(rows['rows'])} checks fit 'agent:*' by now, not 99: look again"
    alerts = halves.limited(token, "GET", "/api/v2/alerts").json
    assert {each["labels"]["agent"] for each in alerts} == {"web-1", "web-nas"}
    metrics = halves.limited(tokens["metrics"], "GET", "/metrics").raw.decode()
    assert "helen_agents_known 1\n" in metrics and 'agent="web-1"' in metrics and "http_requests" not in metrics
    preview = {"kind": "silence", "agents": ["*"], "until": 3e9, "dry_run": True}
    shown = halves.limited(token, "POST", "windows", preview).json
    assert shown["window"]["labels"] == {"team": "shop"} and shown["fleet"]["checks"] == len(rows["rows"])
    asked = halves.limited(token, "POST", "runs", {"check": "shout", "on": "*", "dry_run": True}).json
    assert asked == {"targets": 1, "agents": {"web-1": "asked"}}


@integration
def test_a_hold_tells_that_there_is_a_parent(halves: Halves, tokens: dict[str, str]) -> None:
    """A hold by a hidden parent is told without its name, in states, lists and the explanation."""
    said = "a check that it depends on is not well, on an agent out of your sight"
    for path in (
        "states/web-1/kettle",
        "states?all=true",
        "explain/web-1/kettle",
        "agents/web-1",
        "/checks/web-1/kettle",
    ):
        answer = halves.limited(tokens["read"], "GET", path)
        assert said in answer.raw.decode(), path
    listed = halves.limited(tokens["read"], "GET", "windows").json["windows"]
    assert {each["id"] for each in listed} == {"both", "pairs", "ours"}
    assert next(each for each in listed if each["id"] == "pairs")["keys"] == [["web-1", "kettle"]]
    for name, status in (("both", 403), ("pairs", 403), ("marmot-only", 404), ("no-such", 404), ("ours", 200)):
        answer = halves.limited(tokens["admin"], "POST", f"windows/{name}/cancel", {"dry_run": True})
        assert answer.status == status, name
    held = {"kind": "downtime", "id": "marmot-only", "agents": ["web-1"], "until": 3e9}
    assert halves.limited(tokens["admin"], "POST", "windows", held).problem[:2] == (403, "limited")
    jobs = halves.limited(tokens["read"], "GET", "jobs").json["jobs"]
    assert [each["id"] for each in jobs] == [halves.job]
    hidden = halves.limited(tokens["read"], "GET", f"jobs/{halves.hidden_job}").problem
    unknown = halves.limited(tokens["read"], "GET", "jobs/nope").problem
    assert hidden[:2] == unknown[:2] == (404, "refused")


@integration
def test_a_stream_tells_of_the_half(halves: Halves, tokens: dict[str, str]) -> None:
    """A stream of a limited caller tells of the visible half alone, live and past, with rows and results."""
    first = halves.admin("GET", "changes?from=1d&limit=1").json["changes"][0]["id"]
    with_rows = "events?view=rows&all=1&result_of=zebra-7&result_of=web-1"
    with (
        opened(halves, tokens["read"], with_rows) as live,
        opened(halves, tokens["read"], f"events?since={first}") as past,
    ):
        for agent, check in (("zebra-7", "ocelot"), ("heron-3", "lemur"), ("web-nas", "smart")):
            halves.admin("POST", "acks/clear", {"agent": agent, "check": check})
            said = {"agent": agent, "check": check, "owner": "wombat" if agent[0] != "w" else "end"}
            assert halves.admin("POST", "acks", said).status == 200
        halves.admin("POST", "windows", {"kind": "silence", "id": "stoat", "agents": ["heron-3"], "until": 3e9})
        for stream in (live, past):
            read = read_until(stream, b'"owner": "end"')
            assert [word for word in HIDDEN if word in read.lower()] == []
            assert "web-nas" in read
    assert "event: rows" in read_rows(halves, tokens["read"])


@integration
def test_an_agent_that_gets_another_label_leaves(halves: Halves, tokens: dict[str, str]) -> None:
    """An agent that gets another label leaves a limited caller's stream and lists, and is back with the label."""
    with opened(halves, tokens["read"], "events?view=rows&all=1") as live:
        assert halves.admin("POST", "agents/web-1/labels", {"put": {"team": "attic"}}).status == 200
        try:
            read = read_until(live, b'"gone":[["web-1"')
            assert "attic" not in read
            assert halves.limited(tokens["read"], "GET", "agents/web-1").problem[0] == 403
            named = [each["name"] for each in halves.limited(tokens["read"], "GET", "agents").json["agents"]]
            assert named == ["web-nas"]
        finally:
            halves.admin("POST", "agents/web-1/labels", {"put": {"team": "shop"}})
        wait_until(lambda: halves.limited(tokens["read"], "GET", "states/web-1/kettle").status == 200, "its return")


class opened:
    """Open a stream of a limited caller, and close it at the end."""

    def __init__(self, halves: Halves, token: str, path: str) -> None:
        web = Web(halves.helen)
        self.connection = http.client.HTTPConnection(web.host, int(web.port), timeout=60)
        self.connection.request("GET", f"/api/v1/{path}", headers={"authorization": f"Bearer {token}"})

    def __enter__(self) -> http.client.HTTPResponse:
        response = self.connection.getresponse()
        assert response.status == 200
        return response

    def __exit__(self, *_: object) -> None:
        self.connection.close()


def read_until(response: http.client.HTTPResponse, mark: bytes) -> str:
    """Return all that came up to the line with a mark, and fail for a stream that goes on without it."""
    read, until = b"", time.monotonic() + 60.0
    while mark not in read:
        line = response.readline()
        assert line and time.monotonic() < until, read[-2_000:]
        read += line
    return read.decode()


def read_rows(halves: Halves, token: str) -> str:
    with opened(halves, token, "events?view=rows&all=1") as live:
        halves.admin("POST", "acks/clear", {"agent": "web-nas", "check": "smart"})
        return read_until(live, b"event: rows")


# ---------------------------------------------------------------------------------------------- who has a limit


@integration
def test_a_limit_is_kept_and_inherited(halves: Halves, tokens: dict[str, str]) -> None:
    """A limit is stored, listed, and inherited by links, sessions and tokens, never wider."""
    assert ("shop-read", '["team=shop"]') in halves.rows("SELECT name, limited_to FROM web_tokens")
    listed = {each["name"]: each["on"] for each in halves.admin("GET", "web-tokens").json["tokens"]}
    assert listed["shop-read"] == ["team=shop"] and listed["all-read"] is None
    seen = [each["name"] for each in halves.limited(tokens["admin"], "GET", "web-tokens").json["tokens"]]
    assert seen == ["shop-admin", "shop-metrics", "shop-read"]
    for name in ("all-read", "web-admin", "nope"):
        assert halves.limited(tokens["admin"], "POST", f"web-tokens/{name}/revoke", {}).problem[:2] == (
            404,
            "no such token",
        )
    assert halves.limited(tokens["read"], "GET", "me").json["on"] == ["team=shop"]
    assert halves.admin("GET", "me").json["on"] is None
    made = halves.limited(tokens["admin"], "POST", "web-tokens", {"name": "child", "scopes": ["admin"]}).json
    assert made["on"] == ["team=shop"]
    wider = {"name": "wider", "scopes": ["read"], "on": ["*"]}
    assert halves.limited(made["token"], "POST", "web-tokens", wider).problem[:2] == (403, "limited")
    for bad in ("", [], [""], ["=x"], 5):
        assert halves.admin("POST", "web-tokens", wider | {"on": bad}).problem[:2] == (400, "bad request")
    link = halves.limited(tokens["admin"], "POST", "sessions/links", {"name": "ann"}).json
    assert link["on"] == ["team=shop"]
    assert halves.limited(tokens["admin"], "POST", "sessions/links", {"on": ["*"]}).problem[:2] == (403, "limited")
    for key in (link["url"].partition("#")[2], tokens["read"]):
        cookie = logged_in(halves, key)
        me = Web(halves.helen).ask("GET", "/api/v1/me", authorization="", cookie=cookie).json
        assert me["on"] == ["team=shop"] and me["session"] is not None
        rows = Web(halves.helen).ask("GET", "/api/v1/rows?all=1", authorization="", cookie=cookie)
        assert leaks(rows) == [] and {row[0] for row in rows.json["rows"]} == {"web-1", "web-nas"}
    sessions = halves.admin("GET", "sessions").json["sessions"]
    assert [each["on"] for each in sessions] == [["team=shop"]] * 2
    own = halves.limited(tokens["admin"], "GET", "sessions").json["sessions"]
    assert [each["parent"] for each in own] == ["token:shop-admin"]


def logged_in(halves: Halves, key: str) -> str:
    """Return the cookie of a new session."""
    web = Web(halves.helen)
    connection = http.client.HTTPConnection(web.host, int(web.port), timeout=60)
    where = f"http://{web.host}:{web.port}"
    connection.request("POST", "/login", json.dumps({"key": key}), {"origin": where})
    response = connection.getresponse()
    cookie = str(response.headers["set-cookie"]).partition(";")[0]
    connection.close()
    return cookie


# ---------------------------------------------------------------------------------------------- commands


COMMANDS = [
    "status", "status web-1", "agents", "windows", "jobs list", "rollout status",
    "passive list", "ping list", "renewals", "checks", "web-token list", "explain web-1/kettle", "assign", "audit",
    "run shout --on *", "silence --on web-1 --for 1h --dry-run", "drain --dry-run", "notify list",
    "events --once", "label web-1",
]  # fmt: skip


def command(halves: Halves, token: str, *words: str) -> Any:
    """Run a command of `helen` with a token, and return click's result."""
    return CliRunner().invoke(main, [*words, "--url", f"http://{halves.helen.run['web']}", "--token", token])


@integration
@pytest.mark.parametrize("words", COMMANDS)
def test_commands_work_with_a_limited_token(halves: Halves, tokens: dict[str, str], words: str) -> None:
    """Commands with a limited token show the visible half, or end with the refusal."""
    done = command(halves, tokens["admin"], *words.split())
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert "Usage:" not in done.output, done.output
    assert [word for word in HIDDEN if word in done.output.lower()] == []


@integration
def test_limits_by_command(halves: Halves, tokens: dict[str, str], tmp_path: Path) -> None:
    """`--on` of web-token and open sets a limit, which an export keeps and apply makes again."""
    state = str(halves.helen.state)

    def run(*words: str) -> str:
        done = CliRunner().invoke(main, [*words, "--state", state])
        assert done.exit_code == 0, done.output
        return done.output

    checked = run("web-token", "add", "db", "--scope", "operate", "--on", "team=db", "--on", "db-*", "--dry-run")
    assert checked == "db could be made: operate, never, on team=db, db-*\n"
    run("web-token", "add", "db", "--scope", "operate", "--on", "team=db", "--on", "db-*")
    assert re.search(r"^db +operate +team=db,db-\* +never", run("web-token", "list"), re.MULTILINE)
    assert re.search(r"^all-read +read +all +never", run("web-token", "list"), re.MULTILINE)
    made = json.loads(run("open", "--print", "--on", "team=shop", "--output", "json"))
    assert made["on"] == ["team=shop"]
    run("export", str(tmp_path))
    written = (tmp_path / "web-tokens.toml").read_text()
    assert 'on = ["db-*", "team=db"]' in written
    run("web-token", "revoke", "db")
    again = run("apply", "-f", str(tmp_path), "--yes")
    assert "+ on: db-*, team=db" in again
    listed = {each["name"]: each["on"] for each in halves.admin("GET", "web-tokens").json["tokens"]}
    assert listed["db"] == ["db-*", "team=db"]
    (tmp_path / "web-tokens.toml").write_text(written.replace('"db-*", ', ""))
    refused = CliRunner().invoke(main, ["apply", "-f", str(tmp_path), "--yes", "--state", state])
    assert refused.exit_code != 0 and "has other scopes, another limit or another end" in refused.output
