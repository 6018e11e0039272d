"""Tests our channels against what they are for: Debian's Alertmanager and amtool, a mail server of Debian, Apprise."""

from __future__ import annotations

import email
import email.policy
import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from authorities import an_authority
from real_peers import (
    MAIL_PASSWORD,
    MAIL_USER,
    Peer,
    a_log_server,
    a_mail_server,
    an_alertmanager,
    mails,
    program,
)
from remotes import Receiver, wait_for
from telling import Pump, alert, an_api, told

from helen.files.toml_table import Secret
from helen.notify.channels.apprise import Apprise, show_service
from helen.notify.channels.smtp import Smtp
from helen.notify.channels.syslog import Syslog
from helen.notify.config import read
from helen.notify.messages import Message

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("at_once")]


def message(*alerts: Any, at: float | None = None) -> Message:
    return Message(
        "id1", "g", "x", "route", {"agent": "a"}, at or time.time(), alerts, frozenset(a.key for a in alerts)
    )


# ------------------------------------------------------------------------------------------------ Alertmanager


@pytest.fixture(scope="module")
def alertmanager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    peer = an_alertmanager(tmp_path_factory.mktemp("alertmanager"))
    yield peer
    peer.end()


def test_alertmanager_takes_re_sends_and_ends(pump: Pump, alertmanager: Peer) -> None:
    """Alertmanager shows the alert with our labels by amtool; sent again it lasts longer; resolved it is gone."""
    url = f"http://127.0.0.1:{alertmanager.port}"
    via, fires = an_api(url), evolve(alert("a/disk", role="db"), at=time.time(), began=time.time())

    def query(*words: str) -> list[Any]:
        amtool = [
            program("amtool", "prometheus-alertmanager"),
            f"--alertmanager.url={url}",
            "alert",
            "query",
            "-o",
            "json",
        ]
        done = subprocess.run([*amtool, *words], capture_output=True, text=True, check=True, timeout=30)
        found: list[Any] = json.loads(done.stdout)
        return found

    wait_for(lambda: told(pump, via, message(fires)) == "ok 200 OK", "Alertmanager that is ready")
    (shown,) = query("agent=a", "check=disk", "severity=critical", "role=db")
    assert shown["annotations"] == {"summary": "words", "what": "problem", "why": "so it is"}
    assert shown["generatorURL"] == "http://helen.example/api/v1/explain/a/disk"
    assert told(pump, via, message(fires)) == "ok 200 OK"
    (again,) = query("agent=a")
    assert (again["startsAt"], again["endsAt"] > shown["endsAt"]) == (shown["startsAt"], True)
    over = evolve(fires, firing=False, status="ok", what="recovery", at=time.time())
    assert told(pump, via, message(over)) == "ok 200 OK"
    wait_for(lambda: query("agent=a") == [], "end of the alert")
    bad = evolve(fires, labels={"": "x"})
    assert told(pump, via, message(bad)).startswith("failed 400 Bad Request")


# ------------------------------------------------------------------------------------------------ rsyslog


def test_rsyslog_reads_each_part(pump: Pump, tmp_path: Path) -> None:
    """rsyslog reads priority, names, event, text, and the fields by their names without our escapes."""
    peer = a_log_server(tmp_path)
    try:
        fires = evolve(alert("a/disk"), owner='the "storage" team]', why="1 \\ 2")
        over = evolve(alert("b/load", "recovery", "ok"), summary="fine")
        via = Syslog("tcp", "127.0.0.1", peer.port, "local3")
        assert told(pump, via, message(fires, over)) == "ok 2 sent over tcp"
        out = tmp_path / "out"
        wait_for(lambda: out.exists() and out.read_text().count("\n") == 2, "two messages")
        first, last = map(json.loads, out.read_text().splitlines())
        assert (first["priority"], first["program"], first["event"]) == ("154", "helen", "PROBLEM")
        assert first["text"].strip() == "a/disk CRITICAL: words"
        assert (first["process"], first["host"]) == (str(os.getpid()), socket.gethostname())
        given = first["fields"] if isinstance(first["fields"], dict) else json.loads(first["fields"])
        assert (given["owner"], given["why"], given["agent"]) == ('the "storage" team]', "1 \\ 2", "a")
        assert (last["priority"], last["event"], last["text"].strip()) == ("157", "RECOVERY", "b/load OK: fine")
    finally:
        peer.end()


# ------------------------------------------------------------------------------------------------ mail


@pytest.fixture(scope="module")
def mailing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Peer]]:
    folder = tmp_path_factory.mktemp("mail")
    certificate, both = an_authority(folder)
    peer = a_mail_server(folder, certificate.read_bytes(), both.read_bytes())
    yield folder, peer
    peer.end()


def test_a_mail_arrives(pump: Pump, mailing: tuple[Path, Peer], monkeypatch: pytest.MonkeyPatch) -> None:
    """A mail arrives over TLS and with a password, as one thread, in words for people; the server's words come back."""
    folder, peer = mailing
    monkeypatch.setenv("NOTIFY_TEST_MAIL", MAIL_PASSWORD)
    password = Secret("env", "NOTIFY_TEST_MAIL")
    ca = str(folder / "ca.pem")
    via = Smtp("127.0.0.1", peer.port, "starttls", MAIL_USER, (MAIL_USER,), MAIL_USER, password, ca)
    fires = alert("a/disk")
    assert told(pump, via, message(fires)).startswith("ok 250 2.0.0")
    over = evolve(fires, firing=False, status="ok", what="recovery")
    assert told(pump, via, evolve(message(over), id="id2")).startswith("ok 250 2.0.0")
    arrived = [email.message_from_bytes(path.read_bytes(), policy=email.policy.default) for path in mails(folder, 2)]
    by_subject = {mail["subject"]: mail for mail in arrived}
    assert sorted(by_subject) == ["[FIRING 1] a/disk CRITICAL", "[RESOLVED] a/disk OK"]
    first, last = (by_subject[subject] for subject in sorted(by_subject))
    assert (first["from"], first["to"], first["references"]) == (MAIL_USER, MAIL_USER, last["references"])
    assert first["message-id"] != last["message-id"]
    assert "CRITICAL  a/disk\n    words\n    problem: so it is" in first.get_content().replace("\r\n", "\n")


def test_a_mail_that_is_refused(pump: Pump, mailing: tuple[Path, Peer], monkeypatch: pytest.MonkeyPatch) -> None:
    """A mail is refused by a wrong password, a missing recipient or an unknown certificate; the password
    is not shown.
    """
    folder, peer = mailing
    monkeypatch.setenv("NOTIFY_TEST_MAIL", "wrong-horse")
    ca, password = str(folder / "ca.pem"), Secret("env", "NOTIFY_TEST_MAIL")
    via = Smtp("127.0.0.1", peer.port, "starttls", MAIL_USER, (MAIL_USER,), MAIL_USER, password, ca)
    said = told(pump, via, message(alert()))
    assert said.startswith("failed 535") and "wrong-horse" not in said
    monkeypatch.setenv("NOTIFY_TEST_MAIL", MAIL_PASSWORD)
    said = told(pump, evolve(via, to=("nobody@example.org",)), message(alert()))
    assert said.startswith("failed nobody takes it: nobody@example.org: 550")
    assert "certificate verify failed" in told(pump, evolve(via, ca=None), message(alert())).lower().replace("_", " ")


# ------------------------------------------------------------------------------------------------ Apprise


def test_apprise_tells(pump: Pump, receiver: Receiver, tmp_path: Path) -> None:
    """A service gets a title, a text, how bad it is. The URL is read when it is needed."""
    secret = tmp_path / "url"
    secret.write_text(receiver.url.replace("http://", "json://") + "/s3cr3t-path\n")
    via = Apprise((Secret("file", str(secret)),))
    assert told(pump, via, message(alert("a/disk"))) == "ok exit status 0: 1 of 1 told"
    ((path, _, document),) = receiver.got
    assert (path, document["type"], document["title"]) == ("/s3cr3t-path", "failure", "[FIRING 1] a/disk CRITICAL")
    assert document["message"].startswith("CRITICAL  a/disk\n    words\n    problem: so it is\n")


def test_apprise_fails_without_showing_secrets(pump: Pump, receiver: Receiver) -> None:
    """A URL that is none, or that is refused, fails for itself, and nothing of it is seen."""
    receiver.answers = [(403, {}, b"no s3cr3t-path here")]
    via = Apprise((receiver.url.replace("http://", "json://user:hunter2@") + "/s3cr3t-path", "nothing://s3cr3t-token"))
    said = told(pump, via, message(alert()))
    assert said.startswith("failed exit status 1: 0 of 2 told; URL 1 (JSON) did not take it")
    assert "URL 2 is none that Apprise knows" in said
    assert not [word for word in ("s3cr3t", "hunter2") if word in said]


def test_apprise_has_a_deadline(pump: Pump, receiver: Receiver) -> None:
    """Apprise is killed at its deadline whatever it does, and nothing of it is left."""
    receiver.slow = 60.0
    via = Apprise((receiver.url.replace("http://", "json://") + "/?rto=50",))
    before = time.monotonic()
    assert told(pump, via, message(alert()), 2.0).startswith("failed not done within 2 s, killed")
    assert time.monotonic() - before < receiver.slow
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()  # others may run the same program
    assert not [pid for pid in children if b"apprise_child" in _command(pid)]


def _command(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_apprise_in_the_file() -> None:
    """The file has one URL or several, as texts or by reference; of a text only the service is shown."""
    text = '[channels.a]\ntype="apprise"\nurls=[{env="X"}, "slack://a/b/c"]\n[channels.b]\ntype="apprise"\nurls="json://x"\n'
    found = read(text).channels
    assert (found["a"].settings, found["a"].timeout) == (Apprise((Secret("env", "X"), "slack://a/b/c")), 30.0)
    assert "slack" not in repr(found["a"])
    assert [show_service(url) for url in found["a"].settings.urls] == ["(env X)", "slack://****"]  # type: ignore[union-attr]
