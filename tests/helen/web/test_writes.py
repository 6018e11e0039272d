"""Tests writes: dry runs change nothing, preconditions hold, and a request sent twice is done once."""

from __future__ import annotations

import base64
import hashlib
import json
import signal
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from helen_running import Running, pulse, wait_until
from web_client import Answer, Web, control

from helen.storage import idempotency_rows, schema
from helen.storage.idempotency_rows import MOST_BODY, Reply, TooManyKeys
from helen.web.routes.registry import ROUTES

ASSIGN = '[judge]\naway = "1s"\n\n[[assign]]\ncheck = "pulse"\n'
NOTIFY = """
[channels.hook]
type = "webhook"
url = "http://127.0.0.1:9/"

[[route.routes]]
match = ["agent=x"]
channels = ["hook"]
"""


def ask(helen: Running, method: str, path: str, body: Any = None, **headers: str) -> Answer:
    raw = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    with control(helen) as connection:
        connection.request(method, path, raw, {name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        answer = Answer(response)
        answer.headers = response.headers  # type: ignore[attr-defined]
        return answer


def tag(answer: Answer) -> str:
    return str(answer.headers["etag"])  # type: ignore[attr-defined]


class Stage:
    """Run a Helen with an agent that is away, a set over another one, a job, and a message given up."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "checks").mkdir(parents=True)
        (folder / "checks" / "pulse.lua").write_text(pulse())
        (folder / "state").mkdir(mode=0o700)
        (folder / "state" / "notifications.toml").write_text(NOTIFY)
        self.helen = Running(folder, "--embed-zerotask").up()

    def furnish(self) -> None:
        helen = self.helen
        assert ask(helen, "PUT", "/api/v1/assignments", {"text": ASSIGN}).status == 200
        agent = helen.agent("web-1")
        wait_until(lambda: helen.client.get("/api/v1/results")["results"], "result")
        agent.end()
        wait_until(lambda: self.state()["reason"] == "agent-away", "absence")
        ask(helen, "POST", "/api/v1/push", {"files": {"pulse.lua": pulse("other")}, "rings": "off"})
        ask(helen, "POST", "/api/v1/web-tokens", {"name": "held", "scopes": ["read"]})
        ask(helen, "POST", "/api/v1/windows", {"kind": "silence", "id": "held", "agents": ["x"], "until": 3e9})
        ask(helen, "POST", "/api/v1/tokens", {"agent": "web-3"})
        self.token = ask(helen, "GET", "/api/v1/tokens").json["tokens"][0]["id"]
        self.session = self.logged_in()
        asked = {"check": "pulse", "on": "web-1", "wait_for_offline": "1h"}
        self.job = ask(helen, "POST", "/api/v1/jobs", asked).json["id"]
        self.over = ask(helen, "POST", "/api/v1/jobs", asked | {"wait_for_offline": "2h"}).json["id"]
        ask(helen, "POST", f"/api/v1/jobs/{self.over}/cancel", {})
        with sqlite3.connect(helen.state / "helen.db", timeout=10) as db:
            db.execute(
                "INSERT INTO outbox (id, channel, group_key, state, created, due, document)"
                " VALUES ('gone', 'hook', 'g', 'dead', 1, 1, '{}')"
            )
        db.close()
        self.acked: dict[str, Any] = {"agent": "web-1", "check": "equus:link", "owner": "anna"}
        assert ask(helen, "POST", "/api/v1/acks", self.acked).status == 200
        wait_until(self.is_still, "stillness")

    def logged_in(self) -> str:
        """Begin a session of a browser, and return its id."""
        key = ask(self.helen, "POST", "/api/v1/sessions/links", {"name": "held"}).json["url"].partition("#")[2]
        web = self.helen.run["web"]
        body = json.dumps({"key": key}).encode()
        assert Web(self.helen).ask("POST", "/login", body, origin=f"http://{web}").status == 200
        return str(ask(self.helen, "GET", "/api/v1/sessions").json["sessions"][0]["id"])

    def is_still(self) -> bool:
        before = self.everything()
        time.sleep(0.5)
        return self.everything() == before

    def state(self) -> Any:
        answer = ask(self.helen, "GET", "/api/v1/states/web-1/equus:link")
        return answer.json if answer.status == 200 else {"reason": None}

    def everything(self) -> dict[str, Any]:
        """Return all that a write could change: the database, files, and the answers on states and sets."""
        found: dict[str, Any] = {}
        with sqlite3.connect(f"file:{self.helen.state}/helen.db?mode=ro", uri=True) as db:
            found["db"] = list(db.iterdump())
        db.close()
        for folder in (self.helen.state, self.helen.checks):
            for path in sorted(folder.rglob("*")):
                skipped = path.name.startswith("helen.db") or {"journal", "zerotask", "history"} & set(path.parts)
                if path.is_file() and not skipped:
                    found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
        shown = "states?agent=web-1 windows checks push keys web-tokens sessions assignments jobs tokens"
        for path in shown.split():
            found[path] = ask(self.helen, "GET", f"/api/v1/{path}").json
        return found


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    made = Stage(tmp_path_factory.mktemp("writes"))
    try:
        made.furnish()
        yield made
    finally:
        made.helen.end()


def a_request(name: str) -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    csr = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return csr.public_bytes(serialization.Encoding.PEM).decode()


def a_wheel() -> dict[str, str]:
    return {"x.whl": base64.b64encode(b"no wheel").decode()}


V1 = "/api/v1"
# Route -> what fills its path, a body that would do something, the status of the dry run, words of its answer.
WRITES: dict[tuple[str, str], tuple[dict[str, str], dict[str, Any], int, dict[str, Any]]] = {
    ("POST", f"{V1}/web-tokens"): ({}, {"name": "new", "scopes": ["read"]}, 200, {"token": None, "name": "new"}),
    ("POST", f"{V1}/web-tokens/<name>/revoke"): ({"name": "held"}, {}, 200, {"name": "held"}),
    ("POST", f"{V1}/sessions/links"): ({}, {"name": "anna"}, 200, {"url": None, "scopes": ["operate"]}),
    ("POST", f"{V1}/sessions/<session_id>/end"): ({"session_id": "SESSION"}, {}, 200, {"name": "held"}),
    ("POST", f"{V1}/tokens"): ({}, {"agent": "web-2"}, 200, {"token": None, "ttl": 3600.0}),
    ("POST", f"{V1}/tokens/<token_id>/revoke"): ({"token_id": "TOKEN"}, {}, 200, {"agent": "web-3", "used": 0}),
    ("POST", f"{V1}/renewals"): ({}, {"grace": "90d"}, 200, {"grace": 7_776_000.0}),
    ("POST", f"{V1}/renewals/tokens"): (
        {}, {"on": "web-1", "all": True}, 200, {"tokens": [{"agent": "web-1", "token": None}], "ttl": 3600.0},
    ),
    ("POST", f"{V1}/certificates"): ({}, {"name": "web-2", "csr": "CSR"}, 200, {"certificate": None}),
    ("POST", f"{V1}/agents/<name>/revoke"): ({"name": "web-1"}, {}, 200, {"agent": "web-1", "revoked": 1}),
    ("POST", f"{V1}/agents/<name>/forget"): ({"name": "web-1"}, {}, 200, {"agent": "web-1"}),
    ("POST", f"{V1}/agents/<name>/labels"): (
        {"name": "web-1"}, {"put": {"role": "web"}, "drop": ["site"]}, 200, {"given": {"role": "web"}, "before": {}},
    ),
    ("POST", f"{V1}/agents/<name>/tunnel"): ({"name": "web-1"}, {}, 200, {"agents": {"web-1": "offline"}}),
    ("POST", f"{V1}/rollouts/readmit"): (
        {}, {"agent": "web-1"}, 409, {"detail": "web-1 is not set aside: `helen rollout status` names those that are"},
    ),
    ("PUT", f"{V1}/targets"): ({}, {"text": '[[target]]\nname = "nas"\nvia = "web-1"\n'}, 200, {"fault": None}),
    ("PUT", f"{V1}/forwards/file"): ({}, {"text": None}, 200, {"version": "none", "fault": None}),
    ("PUT", f"{V1}/passive"): ({}, {"text": ""}, 200, {"fault": None}),
    ("POST", f"{V1}/once"): ({}, {"check": "x", "files": {"x.lua": pulse()}, "on": "*"}, 200, {"targets": 1}),
    ("PUT", f"{V1}/assignments"): ({}, {"text": '[[assign]]\ncheck = "nope"\n'}, 200, {"unknown_checks": ["nope"]}),
    ("POST", f"{V1}/runs"): ({}, {"check": "pulse", "on": "*"}, 200, {"targets": 1, "agents": {"web-1": "offline"}}),
    ("POST", f"{V1}/acks"): ({}, {"agent": "web-1", "check": "equus:link", "owner": "b"}, 200, {"owner": "b"}),
    ("POST", f"{V1}/acks/clear"): ({}, {"agent": "web-1", "check": "equus:link"}, 200, {"action": "clear"}),
    ("POST", f"{V1}/acks/many"): (
        {}, {"keys": [["web-1", "equus:link"], ["web-1", "x"]], "owner": "b"}, 200,
        {"set": 1, "refused": [{"agent": "web-1", "check": "x", "why": "nothing is known of it"}]},
    ),
    ("POST", f"{V1}/acks/clear/many"): ({}, {"keys": [["web-1", "equus:link"]]}, 200, {"set": 1, "refused": []}),
    ("POST", f"{V1}/windows"): ({}, {"kind": "silence", "agents": ["web-1"], "until": 3e9}, 200, {"active": True}),
    ("POST", f"{V1}/windows/<name>/cancel"): ({"name": "held"}, {}, 200, {"cancelled": True}),
    ("POST", f"{V1}/jobs"): ({}, {"check": "pulse", "on": "web-1"}, 200, {"id": None, "targets": ["web-1"]}),
    ("POST", f"{V1}/jobs/once"): (
        {}, {"check": "x", "files": {"x.lua": pulse()}, "on": "web-1"}, 200,
        {"id": None, "check": "x", "targets": ["web-1"]},
    ),
    ("POST", f"{V1}/jobs/<job_id>/cancel"): ({"job_id": "JOB"}, {}, 200, {"check": "pulse"}),
    ("POST", f"{V1}/jobs/<job_id>/retry"): ({"job_id": "OVER"}, {}, 200, {"id": None, "of": "OVER"}),
    ("POST", f"{V1}/notifications/test"): ({}, {"channel": "hook"}, 200, {"ok": None, "said": None}),
    ("POST", f"{V1}/notifications/<name>/retry"): ({"name": "gone"}, {}, 200, {"state": "waiting"}),
    ("POST", f"{V1}/notifications/<name>/drop"): ({"name": "gone"}, {}, 200, {"state": "dropped"}),
    ("POST", f"{V1}/push"): ({}, {"files": {"new.lua": pulse("new")}, "rings": "off"}, 200, {"warnings": []}),
    ("POST", f"{V1}/checks/lint"): ({}, {"files": {"new.lua": pulse("new")}}, 200, {"tests": []}),
    ("POST", f"{V1}/push/signed"): ({}, {"manifest": "x", "undo": "y"}, 409, {"title": "push refused"}),
    ("POST", f"{V1}/push/agent"): ({}, {"wheels": a_wheel()}, 400, {"title": "bad request"}),
    ("POST", f"{V1}/push/confirm"): ({}, {}, 200, {"restored": False, "held": 0}),
    ("POST", f"{V1}/push/undo"): ({}, {}, 200, {"version": 2}),
    ("POST", f"{V1}/rollouts/pause"): ({}, {}, 409, {"title": "push refused"}),
    ("POST", f"{V1}/rollouts/resume"): ({}, {}, 409, {"title": "push refused"}),
    ("POST", f"{V1}/rollouts/undo"): ({}, {}, 409, {"title": "push refused"}),
    ("POST", f"{V1}/drain"): ({}, {"force": True}, 200, {"over": 30.0}),
    ("POST", f"{V1}/drain/undo"): ({}, {}, 200, {"questions": 0}),
    ("POST", f"{V1}/keys"): ({}, {}, 200, {"version": 1}),
    ("PUT", f"{V1}/notifications/file"): ({}, {"text": None}, 200, {"version": "none"}),
}  # fmt: skip
PURE = {("POST", f"{V1}/notifications/route"), ("POST", f"{V1}/notifications/check")}  # they do nothing anyway


def test_every_write_has_its_case() -> None:
    """Every write with a dry run has its case here."""
    writes = {(route.method, route.path) for route in ROUTES if route.has_dry_run} - PURE
    assert writes - WRITES.keys() == set()
    assert WRITES.keys() - writes == set()


@pytest.mark.integration
@pytest.mark.parametrize("key", WRITES, ids=lambda key: " ".join(key))
def test_a_dry_run_changes_nothing(stage: Stage, key: tuple[str, str]) -> None:
    """A dry run, by body or query, says its effect and leaves all of Helen as it was."""
    method, path = key
    names, body, status, words = WRITES[key]
    for name, value in names.items():
        known = {"JOB": stage.job, "OVER": stage.over, "SESSION": stage.session, "TOKEN": stage.token}
        path = path.replace(f"<{name}>", known.get(value, value))
    body = body | ({"csr": a_request("web-2")} if "csr" in body else {})
    before = stage.everything()
    first = ask(stage.helen, method, path, body | {"dry_run": True})
    second = ask(stage.helen, method, f"{path}?dry_run=true", body)
    assert (first.status, second.status) == (status, status), first.raw
    if path.endswith("/push/undo"):
        words = {"version": stage.everything()["push"]["version"] + 1}
    wanted = {name: stage.over if value == "OVER" else value for name, value in words.items()}
    assert {name: first.json.get(name) for name in wanted} == wanted
    assert {name: second.json.get(name) for name in wanted} == wanted
    assert stage.everything() == before
    assert ask(stage.helen, method, path, body | {"dry_run": "yes"}).problem[:2] == (400, "bad request")


# ---------------------------------------------------------------------------------------------- preconditions


@pytest.mark.integration
def test_assignments_that_somebody_else_has_changed(stage: Stage) -> None:
    """Assignments that another writer changed are refused with 412; without a precondition the last writer wins."""
    path = f"{V1}/assignments"
    seen = ask(stage.helen, "GET", path)
    changed = ask(stage.helen, "PUT", path, {"text": ASSIGN + "# anna\n"}, if_match=tag(seen))
    assert changed.status == 200
    late = ask(stage.helen, "PUT", path, {"text": ASSIGN + "# bert\n"}, if_match=tag(seen))
    assert late.problem[:2] == (412, "precondition failed")
    now = ask(stage.helen, "GET", path)
    assert (now.json["text"], tag(now)) == (ASSIGN + "# anna\n", tag(changed))
    assert ask(stage.helen, "PUT", path, {"text": ASSIGN}, if_match=f'"x", {tag(now)}').status == 200
    assert ask(stage.helen, "PUT", path, {"text": ASSIGN}, if_match="*").status == 200
    assert ask(stage.helen, "PUT", path, {"text": ASSIGN}).status == 200


@pytest.mark.integration
def test_windows_that_somebody_else_has_changed(stage: Stage) -> None:
    """A window with a precondition is made only if it is new, and changed or cancelled only as it was seen."""
    window = {"kind": "silence", "id": "shared", "agents": ["x"], "until": 3e9}
    path = f"{V1}/windows"
    made = ask(stage.helen, "POST", path, window, if_none_match="*")
    assert made.status == 201
    assert tag(ask(stage.helen, "GET", f"{path}/shared")) == tag(made)
    assert ask(stage.helen, "POST", path, window, if_none_match="*").problem[0] == 412
    changed = ask(stage.helen, "POST", path, window | {"until": 2.9e9}, if_match=tag(made))
    assert changed.status == 201
    for late in (ask(stage.helen, "POST", path, window, if_match=tag(made)),
                 ask(stage.helen, "POST", f"{path}/shared/cancel", {}, if_match=tag(made)),
                 ask(stage.helen, "POST", path, window | {"id": "none"}, if_match="*")):  # fmt: skip
        assert late.problem[:2] == (412, "precondition failed")
    assert ask(stage.helen, "POST", f"{path}/shared/cancel", {}, if_match=tag(changed)).status == 200
    assert ask(stage.helen, "GET", f"{path}/shared").problem[:2] == (404, "no such window")


@pytest.mark.integration
@pytest.mark.parametrize("path", ["windows", "assignments", "keys", "checks", "windows?limit=1", "agents?limit=1"])
def test_what_a_reader_has_is_not_sent_again(stage: Stage, path: str) -> None:
    """A reader with the present tag gets 304 without a body, and with another one the whole."""
    first = ask(stage.helen, "GET", f"{V1}/{path}")
    again = ask(stage.helen, "GET", f"{V1}/{path}", if_none_match=f'W/"x", {tag(first)}')
    assert (again.status, again.raw, tag(again)) == (304, b"", tag(first))
    assert ask(stage.helen, "GET", f"{V1}/{path}", if_none_match='"x"').raw == first.raw


# ---------------------------------------------------------------------------------------------- once


def count(stage: Stage) -> int:
    return len(ask(stage.helen, "GET", f"{V1}/windows").json["windows"])


WINDOW = {"kind": "silence", "agents": ["x"], "until": 3e9}


@pytest.mark.integration
def test_sent_twice_and_done_once(stage: Stage) -> None:
    """A request sent twice with one key is done once, with the same answer over a kill; another body is refused."""
    before = count(stage)
    first = ask(stage.helen, "POST", f"{V1}/windows", WINDOW, idempotency_key="k-1")
    again = ask(stage.helen, "POST", f"{V1}/windows", WINDOW, idempotency_key='"k-1"')
    assert (first.status, again.status, again.raw) == (201, 201, first.raw)
    assert again.headers["idempotency-replayed"] == "true"  # type: ignore[attr-defined]
    other = ask(stage.helen, "POST", f"{V1}/windows", WINDOW | {"until": 2.9e9}, idempotency_key="k-1")
    assert other.problem[:2] == (422, "key used otherwise")
    elsewhere = ask(stage.helen, "POST", f"{V1}/tokens", WINDOW, idempotency_key="k-1")
    assert elsewhere.problem[:2] == (422, "key used otherwise")
    stage.helen.signal(signal.SIGKILL)
    stage.helen.program.wait()
    stage.helen = Running(stage.folder, "--embed-zerotask").up()
    later = ask(stage.helen, "POST", f"{V1}/windows", WINDOW, idempotency_key="k-1")
    assert (later.status, later.raw, count(stage)) == (201, first.raw, before + 1)


@pytest.mark.integration
def test_what_failed_may_be_tried_again(stage: Stage) -> None:
    """A key is free again after a failure and after a dry run."""
    headers = {"idempotency_key": "k-2"}
    refused = ask(stage.helen, "POST", f"{V1}/windows/later/cancel", {}, **headers)
    assert refused.status == 404
    ask(stage.helen, "POST", f"{V1}/windows", WINDOW | {"id": "later"})
    assert ask(stage.helen, "POST", f"{V1}/windows/later/cancel", {}, **headers).status == 200
    dry = WINDOW | {"id": "dry", "dry_run": True}
    assert ask(stage.helen, "POST", f"{V1}/windows", dry, idempotency_key="k-3").status == 200
    assert ask(stage.helen, "POST", f"{V1}/windows", WINDOW | {"id": "dry"}, idempotency_key="k-3").status == 201


@pytest.mark.integration
def test_secrets_are_not_kept(stage: Stage) -> None:
    """An answer with a secret is not kept: the second try is told that it is done, and the token is not on disk."""
    first = ask(stage.helen, "POST", f"{V1}/tokens", {}, idempotency_key="k-4")
    again = ask(stage.helen, "POST", f"{V1}/tokens", {}, idempotency_key="k-4")
    assert again.problem[:2] == (409, "done already")
    token = first.json["token"].encode()
    assert [path for path in stage.helen.state.glob("helen.db*") if token in path.read_bytes()] == []


@pytest.mark.integration
def test_a_key_belongs_to_one_token(stage: Stage) -> None:
    """A key belongs to one token and not to its name, so that a new token of the name begins afresh (F67)."""
    web, again = Web(stage.helen), {"idempotency_key": "monday"}
    body = json.dumps({"kind": "silence", "id": "mine", "agents": ["x"], "until": 3e9}).encode()
    seen = []
    for _ in range(2):
        token = ask(stage.helen, "POST", "/api/v1/web-tokens", {"name": "ops", "scopes": ["operate"]}).json["token"]
        seen += [web.ask("POST", f"{V1}/windows", body, authorization=f"Bearer {token}", **again) for _ in range(2)]
        assert web.ask("POST", f"{V1}/windows", body + b" ", authorization=f"Bearer {token}", **again).status == 422
        ask(stage.helen, "POST", "/api/v1/web-tokens/ops/revoke", {})
        ask(stage.helen, "POST", "/api/v1/windows/mine/cancel", {})
    assert [each.status for each in seen] == [201] * 4
    assert (seen[0].raw == seen[1].raw, seen[2].raw == seen[3].raw, seen[1].raw == seen[2].raw) == (True, True, False)


@pytest.mark.integration
def test_two_at_a_time(stage: Stage) -> None:
    """One of eight requests with one key at once is done; the others get its answer or are told to wait."""
    before, answers = count(stage), []

    def send() -> None:
        answers.append(ask(stage.helen, "POST", f"{V1}/windows", WINDOW, idempotency_key="k-5"))

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer.status for answer in answers} <= {201, 409}
    assert {answer.problem[1] for answer in answers if answer.status == 409} <= {"in progress"}
    assert len({answer.raw for answer in answers if answer.status == 201}) == 1
    assert count(stage) == before + 1


@pytest.mark.integration
def test_whoever_hangs_up_finds_it_done(stage: Stage) -> None:
    """A request whose client hangs up is done, and its key gives the answer."""
    before = count(stage)
    body = json.dumps(WINDOW | {"comment": "hung up"}).encode()
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(str(stage.helen.state / "control.sock"))
        head = f"POST {V1}/windows HTTP/1.1\r\nhost: x\r\nidempotency-key: k-6\r\ncontent-length: {len(body)}\r\n\r\n"
        line.sendall(head.encode() + body)
    wait_until(lambda: count(stage) == before + 1, "window")

    def again() -> Answer:
        return ask(stage.helen, "POST", f"{V1}/windows", body, idempotency_key="k-6")

    answer = wait_until(lambda: (found := again()).status == 201 and found, "answer")
    assert (answer.json["window"]["comment"], count(stage)) == ("hung up", before + 1)


@pytest.mark.integration
@pytest.mark.parametrize("key", ["", "a b", "x" * 201, "ü"])
def test_keys_that_can_not_be(stage: Stage, key: str) -> None:
    """A bad key is refused, and any key for an answer in lines."""
    assert ask(stage.helen, "POST", f"{V1}/windows", WINDOW, idempotency_key=key).problem[:2] == (400, "bad request")
    asked = {"check": "pulse", "on": "*"}
    assert ask(stage.helen, "POST", f"{V1}/runs", asked, idempotency_key="x").problem[:2] == (400, "bad request")


@pytest.fixture
def db(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    made = schema.connect(tmp_path / "helen.db")
    yield made
    made.close()


def test_rows_of_replies(db: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reply is kept for a day, up to a number and a length."""
    monkeypatch.setattr(idempotency_rows, "MOST", 2)
    assert idempotency_rows.begin(db, b"a", b"1", 100.0) is None
    assert idempotency_rows.begin(db, b"a", b"1", 101.0) == Reply(b"1", None, None, None)
    idempotency_rows.finish(db, b"a", 201, "application/json", b"{}")
    assert idempotency_rows.begin(db, b"a", b"1", 102.0) == Reply(b"1", 201, "application/json", b"{}")
    assert idempotency_rows.begin(db, b"b", b"2", 103.0) is None
    idempotency_rows.finish(db, b"b", 201, "text/plain", b"x" * (MOST_BODY + 1))
    assert idempotency_rows.begin(db, b"b", b"2", 104.0) == Reply(b"2", 201, "text/plain", None)
    with pytest.raises(TooManyKeys, match="there is room in 86395 s"):
        idempotency_rows.begin(db, b"c", b"3", 105.0)
    idempotency_rows.forget(db, b"b")
    assert idempotency_rows.begin(db, b"c", b"3", 106.0) is None
    assert idempotency_rows.begin(db, b"a", b"1", 100.0 + 86_400.0) is None


def test_no_caller_takes_the_keys_of_others(db: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each caller has its own keys; if all have too many, the one with most loses its oldest finished ones."""
    monkeypatch.setattr(idempotency_rows, "MOST", 4)
    monkeypatch.setattr(idempotency_rows, "MOST_OF_ALL", 6)
    monkeypatch.setattr(idempotency_rows, "DROPPED", 2)

    def begin(caller: str, number: int) -> bool:
        key = f"{caller} {number}".encode()
        answered = idempotency_rows.begin(db, key, b"1", 100.0 + number, caller)
        if answered is None:
            idempotency_rows.finish(db, key, 201, "application/json", b"{}")
        return answered is None

    assert all(begin("token:loud", number) for number in range(4))
    with pytest.raises(TooManyKeys, match="4 keys are kept"):
        begin("token:loud", 5)
    assert all(begin("operator", number) for number in range(3))  # the third makes two of the loud one's go
    assert [begin("token:loud", number) for number in (2, 3)] == [False, False]
    assert [begin("operator", number) for number in range(3)] == [False] * 3
    assert begin("token:loud", 0)
