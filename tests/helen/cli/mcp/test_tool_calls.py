"""Tests the tools of `helen mcp` with a played Helen: arguments, scopes, and plans that are confirmed once."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from attrs import define, field
from click import ClickException

from helen.cli.base.client import Client
from helen.cli.base.failures import Failed, Missing
from helen.cli.mcp.command import calls_for
from helen.cli.mcp.plans import LASTS, MOST_PLANS, NOT_KNOWN, REFUSED_LATER, Plans
from helen.cli.mcp.tool_calls import PATIENCE, ToolCalls
from helen.cli.mcp.writes import Write, is_refusal

DATA = re.compile(r"<(data-\w+)>\n(.*)\n</\1>", re.S)
EIGHT = ["status", "problems", "agents", "explain", "history", "query", "plan", "confirm"]


@define
class Played:
    """Answer as Helen does, and note the requests; an error in `answers` is raised."""

    answers: dict[str, Any] = field(factory=dict)
    scopes: list[str] = field(factory=lambda: ["operate", "read"])
    asked: list[tuple[Any, ...]] = field(factory=list)
    most_bytes: int | None = None
    is_away: bool = False

    def get(self, path: str, patience: float = 0) -> Any:
        if self.is_away:
            raise Failed("nothing answers")
        return {"scopes": self.scopes} if path == "/api/v1/me" else self._answer("GET", path)

    def post(self, path: str, body: Any, patience: float = 0, more: Any = None) -> Any:
        return self._answer("POST", path, body, more)

    def put(self, path: str, body: Any, tag: str, patience: float) -> Any:
        assert patience == PATIENCE
        return self._answer("PUT", path, body, tag)

    def get_tagged(self, path: str) -> tuple[Any, str]:
        return self._answer("GET", path), "tag-1"

    def _answer(self, *asked: Any) -> Any:
        self.asked.append(asked)
        found = self.answers.get(asked[1].partition("?")[0], {})
        found = found.pop(0) if isinstance(found, list) else found
        if isinstance(found, Exception):
            raise found
        return found


def calls_to(helen: Played, read_only: bool = False) -> ToolCalls:
    calls = calls_for(helen, read_only)  # type: ignore[arg-type]
    calls.look()
    return calls


def called(calls: ToolCalls, name: str, **given: Any) -> Any:
    """Return the document of a tool's answer, which must not be a failure."""
    answer = calls.call(name, given)
    assert not answer.is_error, answer.text
    return json.loads(DATA.search(answer.text)[2])  # type: ignore[index]


def refused(calls: ToolCalls, name: str, **given: Any) -> str:
    answer = calls.call(name, given)
    assert answer.is_error, answer.text
    said: str = json.loads(DATA.search(answer.text)[2])["error"]  # type: ignore[index]
    return said


@pytest.mark.parametrize(("scopes", "read_only", "names"), [
    (["read"], False, EIGHT[:6]), (["metrics", "push"], False, EIGHT[:6]), (["operate"], False, EIGHT),
    (["admin"], False, EIGHT), (["admin"], True, EIGHT[:6]),
])  # fmt: skip
def test_tools_are_those_of_the_token(scopes: list[str], read_only: bool, names: list[str]) -> None:
    """A token that only reads, or --read-only, lists the six reading tools, and a plan is refused without a request
    to Helen."""
    helen = Played(scopes=scopes)
    calls = calls_to(helen, read_only)
    assert [tool.name for tool in calls.listed()] == names
    if "plan" not in names:
        why = refused(calls, "plan", change="ack", agent="web-1", check="disk")
        assert ("--read-only" if read_only else "scope operate") in why
        assert refused(calls, "confirm", confirmation="x") == why
        assert helen.asked == []


def test_a_token_that_got_more_gets_more() -> None:
    """The list of tools follows the token's scopes at each call, and stays as it is while Helen is away."""
    helen = Played(scopes=["read"])
    calls = calls_to(helen)
    helen.scopes = ["operate"]
    assert [tool.name for tool in calls.listed()] == EIGHT
    helen.is_away = True
    assert [tool.name for tool in calls.listed()] == EIGHT


@pytest.mark.parametrize(("name", "given", "said"), [
    ("rows", {}, "there is no tool of this name"),
    ("explain", {}, "agent is missing; check is missing. It takes agent, check, at"),
    ("explain", {"agent": "web-1", "check": 5}, "check is no string"),
    ("explain", {"agent": "", "check": "x"}, "agent has 1 to 2000 characters"),
    ("explain", {"agent": "web-1", "check": "x", "at": "soon"}, "at 'soon' is no time"),
    ("status", {"\x1b[2J": 1}, "there is no argument '\\\\x1b[2J'. It takes no argument"),
    ("problems", {"rows": 0}, "rows is 1 to 200"), ("problems", {"rows": True}, "rows is no integer"),
    ("problems", {"rows": 10**30}, "rows is 1 to 200"), ("problems", {"all": "yes"}, "all is no boolean"),
    ("agents", {"on": ["x"] * 101}, "on is a list of 1 to 100 texts"), ("agents", {"on": [""]}, "on is a list"),
    ("plan", {"change": "silence", "on": [], "lasts": "1h"}, "on is a list of 1 to 100 texts"),
    ("plan", {"change": "silence", "on": ["role=a", "x", "role=b"], "lasts": "1h"}, "two labels of one key, role"),
    ("plan", {"change": "assign", "check": "disk", "on": ["role=a", "role=a"]}, "two labels of one key, role"),
    ("plan", {"change": "assign", "check": "disk", "on": ["a"], "args": {"x": "y" * 20_000}}, "16000 can be shown"),
    ("agents", {"on": [1]}, "on is a list"),
    ("history", {"agent": "a", "check": "c", "ago": "long"}, "ago: 'long' is not a duration"),
    ("query", {"query": "x" * 2_001}, "query has 1 to 2000 characters"),
    ("query", {"query": "up", "ago": "1h", "step": "-5"}, "step: '-5' is not a duration"),
    ("plan", {"change": "revoke"}, "change is one of ack, ack-clear, downtime"),
    ("plan", {"change": "ack", "agent": "web-1"}, "change ack needs check"),
    ("plan", {"change": "silence", "lasts": "1h"}, "change silence needs on"),
    ("plan", {"change": "downtime", "on": ["*"], "lasts": "for ever"}, "lasts: 'for ever' is not a duration"),
    ("plan", {"change": "window-cancel"}, "change window-cancel needs id"),
    ("plan", {"change": "assign", "check": "disk"}, "change assign needs on"),
    ("confirm", {}, "confirmation is missing"), ("confirm", {"confirmation": "a" * 32}, "nothing waits for this"),
])  # fmt: skip
def test_wrong_arguments(name: str, given: dict[str, Any], said: str) -> None:
    """A call with wrong arguments is refused by a sentence before anything is written."""
    helen = Played({"/api/v1/assignments": {"text": ""}})
    assert said in refused(calls_to(helen), name, **given)
    assert [each for each in helen.asked if each[0] != "GET"] == []


def test_rows_of_a_board_become_objects() -> None:
    """Rows of the API become objects, without the fields that join them to their stream."""
    board = {"fields": ["agent", "status"], "rows": [["web-1", 2]], "counts": {"critical": 1}, "next": "c2",
             "look": "7", "at": "1.2", "groups": []}  # fmt: skip
    helen = Played({"/api/v1/rows": board})
    shown = called(calls_to(helen), "problems", filter="state:crit", rows=5)
    assert shown == {"counts": {"critical": 1}, "next": "c2", "rows": [{"agent": "web-1", "status": 2}]}
    assert helen.asked == [("GET", "/api/v1/rows?filter=state%3Acrit&limit=5")]


def test_a_question_over_time() -> None:
    """A query over time asks for a hundred points of the range, or for the step that is given."""
    helen = Played({"/api/v1/query_range": {"status": "success"}})
    assert called(calls_to(helen), "query", query="load1", ago="6h") == {"status": "success"}
    asked = dict(part.split("=") for part in helen.asked[0][1].partition("?")[2].split("&"))
    assert (asked["query"], asked["step"], int(asked["end"]) - int(asked["start"])) == ("load1", "216", 21_600)
    called(calls_to(helen), "query", query="load1", ago="3000d", step="1234567")
    assert helen.asked[1][1].endswith("step=1234567")


def test_what_is_no_helen_is_said() -> None:
    """An answer of an unknown form, or none, is a failure in words and no traceback."""
    calls = calls_to(Played({"/api/v1/rows": {"rows": 5}, "/api/v1/agents": Missing("no such page")}))
    assert refused(calls, "problems") == "KeyError: 'fields'"
    assert refused(calls, "agents") == "no such page"


# ---------------------------------------------------------------------------------------------- plan and confirm

ACK = {"change": "ack", "agent": "web-1", "check": "disk", "comment": "on it"}


def test_a_plan_changes_nothing_and_its_confirmation_is_that_request() -> None:
    """A plan sends a dry run alone; its confirmation sends the same body with a key, once."""
    helen = Played({"/api/v1/acks": {"action": "set"}})
    calls = calls_to(helen)
    plan = called(calls, "plan", **ACK)
    [(_, path, body, more)] = helen.asked
    assert (path, body.pop("dry_run"), more) == ("/api/v1/acks", True, None)
    assert plan["request"] == {"method": "POST", "path": "/api/v1/acks", "body": body}
    assert (body["agent"], body["check"], body["comment"], body["until"]) == ("web-1", "disk", "on it", None)
    assert called(calls, "confirm", confirmation=plan["confirmation"]) == {"action": "set"}
    assert helen.asked[1:] == [("POST", "/api/v1/acks", body, {"idempotency-key": plan["confirmation"]})]
    assert "nothing waits" in refused(calls, "confirm", confirmation=plan["confirmation"])
    assert len(helen.asked) == 2


def test_nothing_but_the_id_can_be_confirmed() -> None:
    """A confirmation with other arguments is refused, and the plan stays as it was."""
    helen = Played({"/api/v1/acks": {}})
    calls = calls_to(helen)
    name = called(calls, "plan", **ACK)["confirmation"]
    assert "no argument 'agent'" in refused(calls, "confirm", confirmation=name, agent="db-1")
    called(calls, "confirm", confirmation=name)
    assert helen.asked[-1][2]["agent"] == "web-1"


def test_a_plan_that_is_refused_has_no_id() -> None:
    """A plan whose dry run Helen refuses is a failure with Helen's words, and has no id."""
    helen = Played({"/api/v1/acks": [Failed("web-1/disk is not known to be broken")]})
    assert refused(calls_to(helen), "plan", **ACK) == "web-1/disk is not known to be broken"


def failed(status: int | None = None, title: str = "") -> Failed:
    error = Failed(f"{status} {title}")
    error.status, error.title = status, title
    return error


def confirmed(calls: ToolCalls, name: str) -> str:
    """Return the sentence of a confirmation that stands outside the marks."""
    text = calls.call("confirm", {"confirmation": name}).text
    return text.partition(" What stands between")[0]


@pytest.mark.parametrize("lost", [
    failed(), failed(502), failed(503, "the disk doesn't take it"), failed(200), failed(403), failed(408, "x"),
    failed(425, "x"), failed(409, "in progress"), failed(409, "outcome unknown"),
])  # fmt: skip
def test_a_plan_stays_until_it_is_known_what_became_of_it(lost: Failed) -> None:
    """A plan whose outcome is unknown stays, and is confirmed again with the same key, by which Helen does it once."""
    helen = Played({"/api/v1/acks": [{}, lost, lost, {"action": "set"}]})
    calls = calls_to(helen)
    name = called(calls, "plan", **ACK)["confirmation"]
    assert [confirmed(calls, name) for _ in range(2)] == [NOT_KNOWN] * 2
    assert called(calls, "confirm", confirmation=name) == {"action": "set"}
    assert "nothing waits" in refused(calls, "confirm", confirmation=name)
    assert [more for *_, more in helen.asked] == [None, *[{"idempotency-key": name}] * 3]


@pytest.mark.parametrize("refusal", [failed(409, "refused"), failed(401, "x"), failed(429, "x"), Missing("no check")])
def test_a_clear_refusal_ends_a_plan(refusal: Failed | Missing) -> None:
    """A clear refusal ends a plan; after a try whose answer was lost, the sentence says that its outcome is unknown."""
    helen = Played({"/api/v1/acks": [{}, refusal, {}, failed(), refusal]})
    calls = calls_to(helen)
    name = called(calls, "plan", **ACK)["confirmation"]
    assert confirmed(calls, name) == "Nothing was done, for the reason in the data."
    assert "nothing waits" in refused(calls, "confirm", confirmation=name)
    name = called(calls, "plan", **ACK)["confirmation"]
    assert [confirmed(calls, name) for _ in range(2)] == [NOT_KNOWN, REFUSED_LATER]
    assert "nothing waits" in refused(calls, "confirm", confirmation=name)


def test_what_is_done_and_has_no_answer_is_done() -> None:
    """A plan that Helen has done already, without its answer kept, is done."""
    helen = Played({"/api/v1/acks": [{}, failed(), failed(409, "done already")]})
    calls = calls_to(helen)
    name = called(calls, "plan", **ACK)["confirmation"]
    assert confirmed(calls, name) == NOT_KNOWN
    assert called(calls, "confirm", confirmation=name) == {"note": "409 done already"}


def assignments(text: str, *answers: Any) -> Played:
    """Return a Helen with one agent, one check, a file of assignments, and `answers` to a PUT."""
    agent = {"name": "web-1", "labels": {}, "kind": "agent"}
    check = {"name": "disk", "every": None, "timeout": 10.0, "args": {}}
    return Played({
        "/api/v1/assignments": [{"text": text}, {}, *answers], "/api/v1/checks": {"checks": [check]},
        "/api/v1/agents": {"agents": [agent]},
    })  # fmt: skip


ASSIGN = {"change": "assign", "check": "disk", "on": ["web-*"]}
ADDED = '[[assign]]\ncheck = "disk"\nagents = ["web-*"]\n'


@pytest.mark.parametrize("lost", [failed(), failed(502), failed(412, "changed meanwhile")])
def test_an_assignment_that_stands_in_the_file_is_done(lost: Failed) -> None:
    """After a failed PUT the file of assignments is read, and an assignment that it has is done."""
    helen = assignments("", lost, {"text": ADDED})
    calls = calls_to(helen)
    name = called(calls, "plan", **ASSIGN)["confirmation"]
    assert "has this text" in called(calls, "confirm", confirmation=name)["note"]
    assert [each[0] for each in helen.asked if each[1] == "/api/v1/assignments"] == ["GET", "PUT", "PUT", "GET"]


def test_an_assignment_that_does_not_stand_in_the_file() -> None:
    """An assignment that is not in the file stays after a lost answer, and ends once the file has changed."""
    changed = failed(412, "changed meanwhile")
    helen = assignments("", failed(), failed(), failed(504), {"text": "# other\n"}, changed, {"text": "# other\n"})
    calls = calls_to(helen)
    name = called(calls, "plan", **ASSIGN)["confirmation"]
    assert [confirmed(calls, name) for _ in range(3)] == [NOT_KNOWN, NOT_KNOWN, REFUSED_LATER]


def test_what_is_added_or_removed_is_shown_in_full() -> None:
    """A plan shows the added or removed entries in full, beside the text of a long file that is cut."""
    file = "".join(f'[[assign]]\ncheck = "other-{number}"\nid = "n{number}"\n\n' for number in range(200))
    on = ["web-*", *(f"{number}-{'x' * 90}" for number in range(60))]
    plan = called(calls_to(assignments(file)), "plan", **ASSIGN | {"on": on})
    assert plan["adds"] == ADDED.replace('["web-*"]', json.dumps(on))
    assert "disk" not in plan["request"]["body"]["text"]
    plan = called(calls_to(assignments(file + ADDED)), "plan", change="unassign", check="disk")
    assert plan["removes"].strip() == ADDED.strip()
    plan = called(calls_to(assignments(file)), "plan", change="unassign", check="other-7", id="n7")
    assert plan["removes"].strip() == '[[assign]]\ncheck = "other-7"\nid = "n7"'


def test_a_request_that_can_not_be_shown_is_no_plan() -> None:
    """A plan whose request cannot be shown in full is refused without a request to Helen."""
    helen = Played({"/api/v1/windows": {}})
    on = [f"{number}-{'x' * 1_000}" for number in range(20)]
    assert "can be shown in full" in refused(calls_to(helen), "plan", change="silence", on=on, lasts="1h")
    assert helen.asked == []
    plan = called(calls_to(helen), "plan", change="silence", on=on[:9], lasts="1h")
    assert plan["request"]["body"]["agents"] == on[:9]


def test_an_assignment_is_bound_to_the_file_that_was_read() -> None:
    """A planned assignment names the agents that would change, and is sent with the ETag of the file that was read."""
    agent = {"name": "web-1", "labels": {}, "kind": "agent"}
    check = {"name": "disk", "every": None, "timeout": 10.0, "args": {}}
    helen = Played({
        "/api/v1/assignments": {"text": '[[assign]]\ncheck = "cpu"\nagents = ["db-*"]\n'},
        "/api/v1/checks": {"checks": [check]}, "/api/v1/agents": {"agents": [agent]},
    })  # fmt: skip
    calls = calls_to(helen)
    plan = called(calls, "plan", change="assign", check="disk", on=["web-*"], every="5m")
    text = (
        '[[assign]]\ncheck = "cpu"\nagents = ["db-*"]\n\n[[assign]]\ncheck = "disk"\nagents = ["web-*"]\nevery = "5m"\n'
    )
    assert plan["request"]["body"] == {"text": text}
    assert (plan["would_change"], plan["agents"]) == ("1 agent", [{"agent": "web-1", "gains": ["disk"], "loses": []}])
    called(calls, "confirm", confirmation=plan["confirmation"])
    assert helen.asked[-2:] == [
        ("PUT", "/api/v1/assignments", {"text": text, "dry_run": True}, "tag-1"),
        ("PUT", "/api/v1/assignments", {"text": text}, "tag-1"),
    ]


def test_a_window_keeps_its_id_and_its_times() -> None:
    """A planned window has names and labels apart, a later begin, and the same id and times when confirmed."""
    helen = Played({"/api/v1/windows": {}})
    calls = calls_to(helen)
    plan = called(
        calls, "plan", change="downtime", on=["web-*", "role=db"], checks=["disk"], lasts="2h", begins_in="1h"
    )
    body = plan["request"]["body"]
    assert (body["kind"], body["agents"], body["labels"], body["checks"]) == (
        "downtime",
        ["web-*"],
        {"role": "db"},
        ["disk"],
    )
    assert body["until"] - body["begin"] == 7_200.0
    called(calls, "confirm", confirmation=plan["confirmation"])
    assert helen.asked[1][2] == body
    assert helen.asked[0][2] == body | {"dry_run": True}


def test_plans_end_and_are_few() -> None:
    """A plan is forgotten after ten minutes, and the oldest one when there are more than twenty."""
    now = [0.0]
    plans = Plans(lambda: now[0])
    write = Write.post("/x", {})
    names = [plans.keep(write) for _ in range(MOST_PLANS + 1)]
    assert len(set(names)) == MOST_PLANS + 1
    with pytest.raises(Exception, match="nothing waits"):
        plans.find(names[0])
    now[0] = LASTS
    assert plans.find(names[1]) is write
    now[0] = LASTS + 1
    with pytest.raises(Exception, match="nothing waits"):
        plans.find(names[1])


def test_a_plan_that_was_tried_and_is_too_old() -> None:
    """A plan that was tried and is too old says that it may have been done, and cannot be confirmed."""
    now = [0.0]
    plans, helen = Plans(lambda: now[0]), Played({"/api/v1/acks": [failed()]})
    name, calls = plans.keep(Write.post("/api/v1/acks", {})), calls_to(helen)
    for said in (NOT_KNOWN, REFUSED_LATER):
        with pytest.raises(Failed) as caught:
            plans.confirm(calls, {"confirmation": name})
        assert caught.value.said == said  # type: ignore[attr-defined]
        now[0] = LASTS + 1


# ---------------------------------------------------------------------------------------------- answers without end


@pytest.fixture
def endless() -> Iterator[Callable[[], str]]:
    """Provide the address of a server that answers a GET with a megabyte of JSON, and a POST with the status and
    body it got."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"scopes": ["' + b"x" * 1_000_000 + b'"]}')

        def do_POST(self) -> None:
            status, body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: Any) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield lambda: f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_answer_without_end_is_refused(endless: Callable[[], str]) -> None:
    """A client with a limit refuses a longer answer, and one without a limit reads all of it."""
    client = Client(None, endless())
    assert len(client.get("/")["scopes"][0]) == 1_000_000
    client.most_bytes = 10_000
    with pytest.raises(Failed, match="more than 10000 bytes: ask for less"):
        client.get("/")


@pytest.mark.parametrize(("status", "body", "refuses"), [
    (502, "<html>", False), (200, "<html>", False), (403, "<html>", False), (503, '{"title": "x"}', False),
    (403, '{"title": "forbidden"}', True), (401, '{"title": "unauthorized"}', True), (403, "[]", False),
    (409, '{"title": "in progress"}', False), (409, '{"title": "refused"}', True), (404, '{"title": "x"}', True),
    (400, '{"title": "bad request"}', True), (408, '{"title": "x"}', False),
])  # fmt: skip
def test_refusals_as_they_come(endless: Callable[[], str], status: int, body: str, refuses: bool) -> None:
    """An answer is a refusal only as a problem of Helen's that says nothing was done, and no page of a proxy is."""
    with pytest.raises(ClickException) as caught:
        Client(None, endless()).post("/", [status, body])
    assert is_refusal(caught.value) == refuses
