"""Tests real receivers on loopback, each as bad as they come: what is said of it, in time, without secrets."""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import stat
import time
from pathlib import Path
from typing import Any

import pytest
import telling
from attrs import evolve
from authorities import an_authority
from remotes import Receiver, Sink
from telling import PATIENCE, WALL, Pump, alert, an_api, webhook
from twisted.logger import formatEvent, globalLogPublisher

from helen.files.toml_table import Secret
from helen.notify.attempt import MAX_ANSWER
from helen.notify.channels.channel import Channel
from helen.notify.channels.command import Command
from helen.notify.channels.smtp import Smtp
from helen.notify.message_text import lines
from helen.notify.messages import Message
from helen.notify.secrets import MASK
from helen.notify.sending import send
from helen.states.alert_decisions import AS_SAID

TOKEN = "s3cr3t-t0ken"


@pytest.fixture(autouse=True)
def _surroundings(monkeypatch: pytest.MonkeyPatch, at_once: None) -> None:
    monkeypatch.setenv("NOTIFY_TEST_TOKEN", TOKEN)


def message() -> Message:
    alerts = (alert("a/c"), alert("b/c", "recovery", "ok", 5.0))
    return Message("id1", "g", "x", "route", {"site": "y"}, WALL, alerts, frozenset(("a/c",)))


def told(pump: Pump, via: Any, timeout: float = PATIENCE) -> str:
    """Return `ok ...` or `failed ...`, in the remote's words."""
    return telling.told(pump, via, message(), timeout, "http://helen")


# ---------------------------------------------------------------------------------------------- HTTP


def test_http_answers(pump: Pump, receiver: Receiver) -> None:
    """An answer gives status and words; a redirect isn't followed; nothing of ours comes back unmasked
    or unprintable.
    """
    receiver.answers = [
        (200, {}, b"taken"), (204, {}, b""), (500, {}, b"no\x1b[2J " + TOKEN.encode()),
        (302, {"location": "http://elsewhere/"}, b""), (404, {}, b"x" * 100_000), (200, {}, b"\xff\xfe"),
    ]  # fmt: skip
    via = webhook(f"{receiver.url}/p?q=1", bearer=Secret("env", "NOTIFY_TEST_TOKEN"), headers={"X-Team": "ops"})
    said = [told(pump, via) for _ in range(6)]
    assert said[:4] == [
        "ok 200 OK: taken", "ok 204 No Content", f"failed 500 Internal Server Error: no [2J {MASK}",
        "failed 302 Found; it redirects to http://elsewhere/, which is not followed: write the final URL",
    ]  # fmt: skip
    assert (len(said[4]) - len("failed "), said[5]) == (MAX_ANSWER, "ok 200 OK: \ufffd\ufffd")
    path, headers, document = receiver.got[0]
    assert (path, headers["authorization"], headers["x-team"]) == ("/p?q=1", f"Bearer {TOKEN}", "ops")
    assert (headers["content-type"], headers["idempotency-key"]) == ("application/json", "id1")
    assert (document["id"], document["kind"], document["status"]) == ("id1", "change", "firing")
    assert [(each["new"], each["firing"]) for each in document["alerts"]] == [(True, True), (False, False)]


def test_http_retry_after(pump: Pump, receiver: Receiver) -> None:
    """Retry-After is read in seconds, with a bound; a date is passed over."""
    receiver.answers = [(429, {"retry-after": each}, b"") for each in ("7", "999999", "Fri, 01 Jan 2100 00:00:00 GMT")]
    receiver.answers.append((200, {}, b""))
    channel = Channel("x", webhook(receiver.url))
    found = [pump.run(send(pump.reactor, channel, message(), "")).value.retry_after for _ in range(3)]
    assert found == [7.0, 3600.0, None]


def test_http_that_is_slow_or_garbage_or_not_there(pump: Pump, receiver: Receiver) -> None:
    """A slow, senseless or missing receiver ends in time, with a sentence."""
    via = webhook(receiver.url)
    receiver.slow = 30.0
    began = time.monotonic()
    assert told(pump, via, 0.3) == "failed no whole answer within 0.3 s"
    assert time.monotonic() - began < 20.0
    receiver.slow = 0.0
    for raw in (b"garbage\r\n\r\n", b"", b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf"):
        receiver.raw = raw
        assert told(pump, via).startswith("failed the answer broke off"), raw
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}/"
        assert told(pump, webhook(nobody)).startswith("failed no connection: ")
    assert told(pump, webhook(receiver.url.replace("http:", "https:"))).startswith("failed ")


def test_http_secrets_that_are_missing_or_no_url(pump: Pump, monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret that is missing or no URL is told with a sentence that has none of it."""
    assert told(pump, webhook(Secret("env", "NOTIFY_TEST_TOKEN"))) == (
        "failed the URL that the secret holds is none: http://HOST[:PORT]/PATH or https://..."
    )
    monkeypatch.delenv("NOTIFY_TEST_TOKEN")
    via = webhook(Secret("env", "NOTIFY_TEST_TOKEN"))
    assert told(pump, via) == "failed the environment variable NOTIFY_TEST_TOKEN is not set where Helen runs"


def test_alertmanager_shapes(pump: Pump, receiver: Receiver) -> None:
    """A webhook gets version 4, and the API a list whose firing alerts end if they aren't sent again."""
    told(pump, webhook(receiver.url, "alertmanager-v4"))
    told(pump, an_api(receiver.url))
    (_, _, hook), (path, _, api) = receiver.got
    assert set(hook) == {
        "receiver", "status", "alerts", "groupLabels", "commonLabels", "commonAnnotations", "externalURL", "version",
        "groupKey", "truncatedAlerts",
    }  # fmt: skip
    assert (hook["version"], hook["status"], hook["groupKey"]) == ("4", "firing", '{}/{route}:{site="y"}')
    assert (hook["commonLabels"], hook["groupLabels"]) == ({"alertname": "HelenCheck", "check": "c"}, {"site": "y"})
    first, second = hook["alerts"]
    assert re.fullmatch("[0-9a-f]{16}", first.pop("fingerprint"))
    assert first == {
        "status": "firing",
        "labels": {"agent": "a", "alertname": "HelenCheck", "check": "c", "severity": "critical"},
        "annotations": {"summary": "words", "what": "problem", "why": "so it is"},
        "startsAt": "2027-01-15T08:00:00.000Z", "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": "http://helen/api/v1/explain/a/c",
    }  # fmt: skip
    assert (second["status"], second["endsAt"]) == ("resolved", "2027-01-15T08:00:05.000Z")
    assert path == "/api/v2/alerts"
    assert [sorted(each) for each in api] == [["annotations", "endsAt", "generatorURL", "labels", "startsAt"]] * 2
    assert api[1]["endsAt"] == "2027-01-15T08:00:05.000Z"
    assert api[0]["endsAt"] > time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() + 200))


def test_https_trusts_whom_it_is_told_to(
    pump: Pump, receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without `ca` Helen trusts the system's authorities, which don't know this one."""
    monkeypatch.setattr(
        "twisted.protocols.tls._get_default_clock", lambda: pump.reactor
    )  # it knows just the global one
    ca, server = an_authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server)
    receiver._server.socket = context.wrap_socket(receiver._server.socket, server_side=True)
    url = receiver.url.replace("http:", "https:")
    assert told(pump, webhook(url, ca=str(ca))) == "ok 200 OK: taken"
    assert "certificate verify failed" in told(pump, webhook(url))
    assert told(pump, webhook(url, ca="/nowhere")).startswith("failed the authority /nowhere can't be read")


def test_a_post_writes_nothing_into_the_log(pump: Pump, receiver: Receiver) -> None:
    """A post logs nothing, however it ends: the outbox tells what came of it, once (J12)."""
    receiver.answers = [(200, {}, b"taken"), (503, {}, b""), (200, {}, b"x" * 100_000)]
    said: list[str] = []
    observe = lambda event: said.append(formatEvent(event))  # noqa: E731
    globalLogPublisher.addObserver(observe)
    try:
        for _ in range(3):
            told(pump, webhook(receiver.url))
        told(pump, webhook("http://127.0.0.1:9/"), 1.0)
    finally:
        globalLogPublisher.removeObserver(observe)
    assert said == []


# ---------------------------------------------------------------------------------------------- mail


def mail(sink: Sink, to: tuple[str, ...] = ("ops@example.org",), **more: Any) -> Smtp:
    return Smtp("127.0.0.1", sink.port, "none", "helen@example.org", to, **more)


def test_a_mail(pump: Pump, sink: Sink) -> None:
    """A mail is answered by the server's last words; its header has what filters and threads need."""
    assert told(pump, mail(sink, ("ops@example.org", "b@example.org"))) == "ok 250 kept as number 7"
    [(sender, to, content)] = sink.mails
    assert (sender, to) == ("helen@example.org", ["ops@example.org", "b@example.org"])
    head, _, body = content.partition("\r\n\r\n")
    assert "Subject: [FIRING 1] a/c CRITICAL, b/c OK" in head
    assert "Message-ID: <id1@example.org>" in head
    assert "Auto-Submitted: auto-generated" in head
    assert body.splitlines()[:2] == ["CRITICAL  a/c", "    words"]


def test_mail_servers_that_refuse(pump: Pump, sink: Sink) -> None:
    """A server that refuses is quoted; one recipient that is refused keeps no other from the mail."""
    sink.says = {"RCPT TO:<gone@example.org>": "550 no such box"}
    assert told(pump, mail(sink, ("gone@example.org", "ops@example.org"))) == (
        "ok 250 kept as number 7 (but not gone@example.org: 550 no such box)"
    )
    assert told(pump, mail(sink, ("gone@example.org",))) == (
        "failed nobody takes it: gone@example.org: 550 no such box"
    )
    sink.says = {"MAIL": "451 come back later"}
    assert told(pump, mail(sink)) == "failed 451 come back later"
    sink.says = {"END": "554 spam"}
    assert told(pump, mail(sink)) == "failed 554 spam"
    sink.says = {}
    assert told(pump, Smtp("127.0.0.1", sink.port, "starttls", "a@b", ("c@d",))).startswith("failed no mail could be")
    login = mail(sink, user="u", password=Secret("env", "NOTIFY_TEST_TOKEN"))
    assert told(pump, login).startswith("failed no mail could be handed over: SMTP AUTH")


def test_mail_servers_that_hang_or_are_not_there(pump: Pump, sink: Sink) -> None:
    """A mail server that hangs or is not there ends the try in time."""
    sink.says = {"MAIL": ""}
    assert told(pump, mail(sink), 0.3) == "failed the mail server was not done within 0.3 s"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nobody = Smtp("127.0.0.1", taken.getsockname()[1], "none", "a@b", ("c@d",))
        assert told(pump, nobody).startswith("failed no mail could be handed over: ")


@pytest.mark.parametrize(("is_test", "why", "shown"), [(False, "so", "problem: so"), (False, AS_SAID, "problem"),
                                                      (True, "somebody tried", "problem: somebody tried")])  # fmt: skip
def test_a_mail_says_what_helps(is_test: bool, why: str, shown: str) -> None:
    """A reason to tell it is none of the problem, and a test leads to no explanation that is not there (J11)."""
    given = Message(
        "id1", "g", "x", "route", {}, WALL, (evolve(alert("a/c"), why=why),), frozenset(("a/c",)), test=is_test
    )
    text = "\n".join(lines(given, ""))
    assert f"\n    {shown}\n" in text
    assert ("helen explain" in text) is not is_test


def test_a_summary_cannot_write_headers(pump: Pump, sink: Sink) -> None:
    """A summary is one line of the mail, so that no check can write headers."""
    hostile = alert("a/c\r\nBcc: x@y")
    bad = Message("id2", "g", "x", "r", {"l": "v\r\n.\r\nQUIT"}, WALL, (hostile,), frozenset())
    pump.run(send(pump.reactor, Channel("x", mail(sink)), bad, ""))
    [(_, to, content)] = sink.mails
    assert to == ["ops@example.org"]
    assert not [line for line in content.splitlines() if line.startswith("Bcc")]


# ---------------------------------------------------------------------------------------------- commands


def program(folder: Path, text: str) -> tuple[str, ...]:
    path = folder / "program"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(stat.S_IRWXU)
    return (str(path), "one; two", "$HOME")


def test_a_command(pump: Pump, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command gets its arguments unchanged, JSON on standard input, only the given environment, and no shell."""
    monkeypatch.setenv("HELEN_PRIVATE", "x")
    argv = program(tmp_path, f'cat > {tmp_path}/given; echo "$1|$2|$KEY|$HELEN_PRIVATE"; echo oops >&2')
    via = Command(argv, {"KEY": Secret("env", "NOTIFY_TEST_TOKEN")})
    assert told(pump, via) == f"ok exit status 0: one; two|$HOME|{MASK}| oops"
    assert json.loads((tmp_path / "given").read_text())["id"] == "id1"


def test_commands_that_fail(pump: Pump, tmp_path: Path) -> None:
    """A command that fails is told by its status, its signal, or why it could not be run."""
    assert told(pump, Command(program(tmp_path, "echo bad; exit 3"))) == "failed exit status 3: bad"
    assert told(pump, Command(program(tmp_path, "kill -9 $$"))) == "failed ended by signal 9"
    assert told(pump, Command(("/nowhere/x",))) == "failed /nowhere/x can't be run: No such file or directory"
    assert told(pump, Command(program(tmp_path, "yes | head -c 300000"))).startswith("ok exit status 0: y y y")


def test_a_command_that_hangs_is_killed_with_its_children(pump: Pump, tmp_path: Path) -> None:
    """A command that hangs is killed with its children, and nothing of it is left."""
    argv = program(tmp_path, f"sleep 300 & echo $! > {tmp_path}/child; echo begun; wait")
    for seconds in (0.5, 5.0, 50.0):  # a busy machine may not have started the shell within the first
        said = told(pump, Command(argv), seconds)
        if "begun" in said:
            break
    assert said == f"failed not done within {seconds:g} s, killed: begun"
    child = int((tmp_path / "child").read_text())
    until = time.monotonic() + PATIENCE
    while os.path.exists(f"/proc/{child}") and "Z" not in Path(f"/proc/{child}/stat").read_text():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_command_whose_children_keep_its_output(pump: Pump, tmp_path: Path) -> None:
    """A command has ended although its child still holds its output."""
    began = time.monotonic()
    assert told(pump, Command(program(tmp_path, "sleep 300 & echo done"))) == "ok exit status 0: done"
    assert time.monotonic() - began < 30.0
