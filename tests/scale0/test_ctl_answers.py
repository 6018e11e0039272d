"""Tests `scale0ctl` without sockets: what it asks, how it shows each answer, and its exit status."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock

from scale0 import ctl
from scale0.ctl import CommandFailed, ask, main
from scale0.wire import frames as wire
from scale0.wire import options as opt
from scale0.wire.frames import S0
from scale0.wire.reader import CurveClient, SocketError
from scale0.wire.zap import NO_ORIGIN

SETTINGS = {"broker": "tcp://h:1", "auth_id": "op", "password": "pw", "timeout": 4.0, "curve_key": None}
OK = {"code": 200, "reason": "ok", "message": ""}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Run a command; `answer` is what the broker says, and the run's `asked` is what it was asked."""
    (tmp_path / "password").write_text("pw\nmore\n")

    def invoke(*arguments: str, answer: Any = OK, stdin: str = "", broker: str = "tcp://h:1") -> Result:
        asked: list[Any] = []

        def ask(reactor: Any, settings: Any, command: str, key: str = "") -> Any:
            asked.append((settings["broker"], settings["auth_id"], settings["password"], command, key))
            return fail(answer) if isinstance(answer, Exception) else succeed(dict(answer))

        def react(begin: Any) -> None:
            outcome: list[Any] = []
            Deferred.fromCoroutine(begin(Clock())).addBoth(outcome.append)
            if outcome[0] is not None:
                outcome[0].raiseException()

        network = SimpleNamespace(close=lambda: succeed(None))
        monkeypatch.setattr(ctl, "ask", ask)
        monkeypatch.setattr(ctl, "react", react)
        monkeypatch.setattr(ctl, "use_monotonic_clock", lambda reactor: None)
        monkeypatch.setattr(ctl, "Network", SimpleNamespace(of=lambda reactor: network))
        given = ["--broker", broker] if broker else []
        given += ["--auth-id", "op", "--auth-password-file", str(tmp_path / "password")]
        result = CliRunner().invoke(main, [*given, *arguments], input=stdin)
        result.asked = asked  # type: ignore[attr-defined]
        return result

    return invoke


@pytest.mark.parametrize("arguments, command, key", [
    (("status",), "status", ""), (("errors",), "errors", ""), (("errors", "clear"), "clear_errors", ""),
    (("errors", "clear", "10.0.0.1"), "clear_errors", "10.0.0.1"), (("disable",), "disable", ""),
])  # fmt: skip
def test_each_command_is_one_question(run: Any, arguments: tuple[str, ...], command: str, key: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.asked) == (0, [("tcp://h:1", "op", "pw", command, key)])
    assert result.output == ("none\n" if command == "errors" else "ok\n")


def test_facts_are_shown_one_in_a_line(run: Any) -> None:
    data = {"state": "active", "peers": ["b", "a"], "none": [], "counts": {"b": 2, "a": 1}, "empty": {}, "n": 0}
    result = run("status", answer=OK | {"data": data})
    assert result.output.splitlines() == [
        "state: active", "peers: b, a", "none: -", "counts: a=1, b=2", "empty: -", "n: 0",
    ]  # fmt: skip


@pytest.mark.parametrize("command, data, lines", [
    ("services", {"services": {}, "LRU": []}, ["SERVICE  WORKERS  IDLE  QUEUED"]),
    ("clients", {"clients": [{"identity": "c", "n": 1}, {"identity": "dd", "key": "k"}]},
     ["IDENTITY  N  KEY", "c         1", "dd           k"]),
    ("peers", {"b2": {"state": "active"}, "b10": {"state": "\x1b[31m"}},
     ["IDENTITY  STATE", "b2        active", "b10       ?[31m"]),
    ("errors", {"10.0.0.1": {"failures": 3}}, ["IDENTITY  FAILURES", "10.0.0.1  3"]),
    ("config", {"identity": "b1", "LRU": [{"x": 1}]}, ['identity = "b1"']),
])  # fmt: skip
def test_lists_are_shown_as_tables(run: Any, command: str, data: dict[str, Any], lines: list[str]) -> None:
    shown = run(command, answer=OK | {"data": data}).output.splitlines()
    assert [line.replace("\\x1b", "?").replace("�", "?") for line in shown] == lines


def test_programs_get_json(run: Any) -> None:
    answer = OK | {"data": {"x": [1]}}
    result = run("--output", "json", "status", answer=answer)
    assert result.output.startswith('{\n  "')
    assert json.loads(result.output) == answer and result.exit_code == 0
    refused = run("--output", "json", "status", answer={"code": 403, "reason": "not_allowed", "message": "no"})
    assert refused.exit_code == 1 and '"code": 403' in refused.output


def test_a_refusal_and_silence_are_told_with_status_one(run: Any) -> None:
    for answer, text in (
        ({"code": 401, "reason": "bad_credentials", "message": "no"}, "scale0ctl: 401 bad_credentials: no"),
        ({"code": 500}, "scale0ctl: 500 : "), (CommandFailed("no answer"), "scale0ctl: no answer"),
    ):  # fmt: skip
        result = run("status", answer=answer)
        assert (result.exit_code, result.output.strip()) == (1, text.strip())


@pytest.mark.parametrize("arguments, text", [
    (("--curve-key", "FILE", "status"), "--curve-key and --server-key belong together"),
    (("--server-key", "k", "status"), "--curve-key and --server-key belong together"),
])  # fmt: skip
def test_options_that_belong_together(run: Any, tmp_path: Path, arguments: tuple[str, ...], text: str) -> None:
    (tmp_path / "pair").write_text("")
    result = run(*(str(tmp_path / "pair") if each == "FILE" else each for each in arguments))
    assert (result.exit_code, text in result.output, result.asked) == (2, True, [])


def test_a_broker_and_a_password_are_needed(run: Any) -> None:
    result = run("status", broker="")
    assert (
        result.exit_code,
        "the broker is missing: `scale0ctl --broker tcp://HOST:PORT status`" in result.output,
    ) == (2, True)
    result = CliRunner().invoke(main, ["--broker", "tcp://h:1", "status"])
    assert result.exit_code == 2 and "there is no terminal to ask for it: `scale0ctl --auth" in result.output


# ---------------------------------------------------------------------------------- a question


class Line:
    """Stands for a socket."""

    def __init__(self, received: Any, security: Any) -> None:
        self.received, self.security, self.sent = received, security, []  # type: ignore[var-annotated]

    def connect(self, endpoint: str) -> None:
        if endpoint == "bad":
            raise SocketError("bad: malformed")
        self.endpoint = endpoint

    def send(self, frames: Any) -> None:
        message = wire.parse(frames)
        self.sent.append((message.command, opt.decode_any(message.options)))

    def hear(self, command: str, *body: bytes, **options: Any) -> None:
        self.received(wire.scale0(S0, command, opt.encode(options), body), NO_ORIGIN)


@pytest.fixture
def question(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Ask a question, and return the clock, the line and the outcomes."""
    lines: list[Line] = []

    def socket(kind: Any, received: Any, security: Any) -> Line:
        lines.append(Line(received, security))
        return lines[-1]

    monkeypatch.setattr(ctl, "Network", SimpleNamespace(of=lambda reactor: SimpleNamespace(socket=socket)))
    clock, outcomes = Clock(), []  # type: ignore[var-annotated]
    asked = ask(clock, SETTINGS, "status", "k").addErrback(lambda failure: failure.value)
    asked.addCallback(outcomes.append)
    return SimpleNamespace(clock=clock, line=lines[0], outcomes=outcomes)


def test_a_question_and_its_first_answer(question: Any) -> None:
    asked = {"auth_id": "op", "auth_password": "pw", "command": "status", "key": "k"}
    assert question.line.sent == [("MANAGEMENTREQ", asked)] and question.line.endpoint == "tcp://h:1"
    assert question.line.security is None
    question.line.hear("HEARTBEAT", time=1.0)
    assert question.outcomes == []
    for code in (200, 500):
        question.line.hear("MANAGEMENTREP", code=code, data={"x": 1})
    assert question.outcomes == [{"code": 200, "data": {"x": 1}}] and question.clock.getDelayedCalls() == []


def test_a_long_answer_comes_as_body(question: Any) -> None:
    question.line.hear("MANAGEMENTREP", msgspec.json.encode({"y": 2}), code=200, data={}, data_in_body=True)
    assert question.outcomes == [{"code": 200, "data": {"y": 2}}]


@pytest.mark.parametrize("frames", [[b"noise"], wire.scale0(S0, "MANAGEMENTREP", b"[", ())])
def test_an_answer_that_cannot_be_read_is_malformed(question: Any, frames: list[bytes]) -> None:
    question.line.received(frames, NO_ORIGIN)
    [answer] = question.outcomes
    assert (answer["code"], answer["reason"]) == (400, "malformed") and answer["message"]


def test_an_end_of_the_session_is_an_answer(question: Any) -> None:
    question.line.hear("DISCONNECTERROR", code=426, reason="version", message="newer")
    assert question.outcomes == [{"code": 426, "reason": "version", "message": "newer"}]


def test_silence_ends_with_the_timeout(question: Any) -> None:
    question.clock.advance(3.9)
    assert question.outcomes == []
    question.clock.advance(0.1)
    assert str(question.outcomes[0]).startswith("no answer from tcp://h:1 within 4 s; is this the broker's frontend")


def test_an_endpoint_that_is_malformed_is_named(question: Any) -> None:
    with pytest.raises(CommandFailed, match="bad: malformed"):
        ask(question.clock, SETTINGS | {"broker": "bad"}, "status")


def test_the_own_key_goes_with_the_brokers(tmp_path: Path) -> None:
    CliRunner().invoke(main, ["keygen", "me", "--out", str(tmp_path)])
    security = ctl._security(SETTINGS | {"curve_key": str(tmp_path / "me.secret"), "server_key": "s" * 40})
    assert isinstance(security, CurveClient) and security.server == "s" * 40


# ---------------------------------------------------------------------------------- keys, passwords


def test_keygen_says_where_the_keys_are(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["keygen", "b1", "--role", "helen", "--out", str(tmp_path)])
    secret, public, key = result.output.splitlines()
    assert secret == f"{tmp_path}/b1.secret: keep it secret"
    assert public == f"{tmp_path}/b1.pub.key: copy it into the folders of authorized keys of b1's peers"
    assert (
        key.startswith("public key ") and len(key) == 51 and 'role = "helen"' in (tmp_path / "b1.pub.key").read_text()
    )
    again = CliRunner().invoke(main, ["keygen", "b1", "--out", str(tmp_path)])
    assert again.exit_code == 1 and f"scale0ctl: {tmp_path}/b1.secret: " in again.output


def test_a_record_is_of_the_password_that_was_given() -> None:
    result = CliRunner().invoke(main, ["password"], input="secret\n")
    kind, n, r, p, salt, key = result.output.strip().split("$")
    assert (kind, n, r, p, len(salt)) == ("scrypt", "16384", "8", "1", 32)
    assert hashlib.scrypt(b"secret", salt=bytes.fromhex(salt), n=1 << 14, r=8, p=1).hex() == key
    empty = CliRunner().invoke(main, ["password"], input="\n")
    assert empty.exit_code == 1 and "an empty password" in empty.output


@pytest.mark.parametrize(
    "command, confirms",
    [(("--broker", "tcp://h:1", "status"), {}), (("password",), {"confirmation_prompt": True})],
)
def test_a_terminal_is_asked_without_an_echo(
    monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], confirms: dict[str, bool]
) -> None:
    """The command asks on standard error, so that the record alone can be taken from the output."""
    asked: list[Any] = []
    given: list[Any] = []
    terminal = SimpleNamespace(isatty=lambda: True, readline=lambda: "")
    monkeypatch.setattr(ctl, "sys", SimpleNamespace(stdin=terminal))
    monkeypatch.setattr(ctl.click, "prompt", lambda text, **how: asked.append((text, how)) or "secret")
    monkeypatch.setattr(ctl, "_run", lambda settings, name, key="": given.append(settings["password"]))
    result = CliRunner().invoke(main, list(command))
    assert (result.exit_code, asked) == (0, [("Password", {"hide_input": True, "err": True} | confirms)])
    assert given == ([] if confirms else ["secret"]) and result.output.startswith("scrypt$") is bool(confirms)
