"""Tests a real Helen, agent and receivers: from a check's word to what people get, over a kill and by commands."""

from __future__ import annotations

import json
import signal
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from helen_running import Running, wait_until
from remotes import Receiver, Sink

from helen.cli.main import main

pytestmark = pytest.mark.integration

WORD = """local check = { summary = "Says what it is told", needs = {}, every = "1s",
  args = { state = { type = "string", default = "ok", help = "its status" } } }
function check.run(args, host)
  return args.state, "it is " .. args.state
end
return check
"""
ASSIGN = '[judge]\nattempts = 1\nflap = false\n[[assign]]\ncheck = "word"\nargs = {{ state = "{state}" }}\n'
SECRET = "correct-horse-battery"
FILE = """
external_url = "http://helen.example:4167"
[channels.hook]
type = "webhook"
url = "{url}/hook"
bearer = {{ file = "{folder}/token" }}
[channels.mail]
type = "smtp"
host = "127.0.0.1"
port = {port}
tls = "none"
from = "helen@example.org"
to = "ops@example.org"
[channels.page]
type = "command"
argv = ["{folder}/page"]
environment = {{ OUT = "{folder}/paged", TOKEN = {{ file = "{folder}/token" }} }}
[route]
group_by = ["agent"]
group_wait = "0s"
group_interval = "1s"
channels = ["hook"]
[[route.routes]]
name = "critical"
match = ["severity=critical", "role=w*"]
channels = ["hook", "mail", "page"]
"""
PAGE = """#!/bin/sh
cat >> "$OUT"
echo >> "$OUT"
echo "paged with $TOKEN"
"""


class Stage:
    def __init__(self, folder: Path, receiver: Receiver, sink: Sink) -> None:
        self.folder, self.receiver, self.sink = folder, receiver, sink
        self.helen = Running(folder).up()
        self.agent = self.helen.agent("web-1", "role=web")

    def knows_word(self) -> bool:
        states = self.helen.client.get("/api/v1/states?agent=web-1")["states"]
        return any(each["check_id"] == "word" for each in states)

    def set_up(self) -> None:
        (self.folder / "token").write_text(SECRET + "\n")
        (self.folder / "page").write_text(PAGE)
        (self.folder / "page").chmod(stat.S_IRWXU)
        text = FILE.format(url=self.receiver.url, folder=self.folder, port=self.sink.port)
        (self.helen.state / "notifications.toml").write_text(text)

    def assign(self, state: str) -> None:
        self.helen.client.put("/api/v1/assignments", {"text": ASSIGN.format(state=state)})

    def command(self, *words: str, fails: int = 0) -> str:
        done = CliRunner().invoke(main, [*words, "--state", str(self.helen.state)])
        assert done.exit_code == fails, done.output
        return str(done.output)

    def hooked(self) -> list[tuple[str, str, str]]:
        """Return (status, what, id) of each message about `word`."""
        return [
            (document["status"], alert["what"], document["id"])
            for document in self.receiver.documents()
            for alert in document["alerts"]
            if alert["check"] == "word"
        ]

    def explained(self) -> list[str]:
        found = json.loads(self.command("explain", "web-1/word", "--output", "json"))
        return [line["text"] for line in found["why_no_alert"]]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder: Path = tmp_path_factory.mktemp("told")
    (folder / "checks").mkdir()
    (folder / "checks" / "word.lua").write_text(WORD)
    with Receiver() as receiver, Sink() as sink:
        stage = Stage(folder, receiver, sink)
        try:
            wait_until(stage.knows_word, "first result")
            yield stage
        finally:
            stage.agent.end()
            stage.helen.end()


def test_without_a_file_nobody_is_told_and_it_is_said(stage: Stage) -> None:
    """The status and each alert tell that nobody is told without a file."""
    stage.assign("critical")
    wait_until(lambda: any("nobody was told" in text for text in stage.explained()), "word about it")
    assert "nobody was told: there is no notifications.toml" in " ".join(stage.explained())
    assert "notifications: none are sent" in stage.command("status")
    stage.assign("ok")
    wait_until(lambda: "recovery" in " ".join(stage.explained()), "recovery")


def test_a_file_that_is_saved_counts(stage: Stage) -> None:
    """A saved file counts within seconds, without a signal; each channel tells the remote's words, and no secret."""
    stage.set_up()
    listed = wait_until(lambda: stage.helen.client.get("/api/v1/notifications")["settings"], "channels")
    assert [each["name"] for each in listed] == ["hook", "mail", "page"]
    said = [stage.command("notify", "test", name) for name in ("hook", "mail", "page")]
    assert [text.splitlines()[1] for text in said] == [
        "ok: 200 OK: taken", "ok: 250 kept as number 7", "ok: exit status 0: paged with ****",
    ]  # fmt: skip
    assert stage.receiver.got[-1][1]["authorization"] == f"Bearer {SECRET}"
    shown = stage.command("notify", "list", "--output", "json") + "".join(said)
    assert SECRET not in shown + stage.helen.program.said


def test_a_test_that_fails_shows_the_words_of_the_remote(stage: Stage) -> None:
    """A failed test shows the words of the remote, and masks our secret in them."""
    stage.receiver.answers = [(403, {}, f"no {SECRET}\x1b[2J here".encode()), (200, {}, b"taken")]
    assert stage.command("notify", "test", "hook", fails=1).endswith("FAILED: 403 Forbidden: no **** [2J here\n")
    assert "no channel is called 'x': hook, mail, page" in stage.command("notify", "test", "x", fails=3)


def test_a_route_is_shown_rule_by_rule(stage: Stage) -> None:
    """The answer has what each rule decided, and where it ends."""
    words = ("route", "test", "--label", "severity=warning", "--label", "agent=web-1")
    assert stage.command(*words).splitlines() == [
        "route: matches, it has no matchers -> hook",
        "  critical: no, severity=critical does not hold: severity is 'warning'",
        "",
        "hook: rule route, grouped by agent=web-1; after 0 s, then every 1 s, again after 4 h",
    ]


def test_a_problem_and_its_end_reach_every_channel(stage: Stage) -> None:
    """A problem and its end come as JSON, as a mail, and on standard input; and explain knows."""
    stage.receiver.got.clear()
    stage.sink.mails.clear()
    (stage.folder / "paged").write_text("")
    stage.assign("critical")
    wait_until(lambda: stage.hooked() and stage.sink.mails and (stage.folder / "paged").read_text(), "messages")
    stage.assign("ok")
    wait_until(lambda: len(stage.hooked()) == 2 and len(stage.sink.mails) == 2, "recovery")
    assert [each[:2] for each in stage.hooked()] == [("firing", "problem"), ("resolved", "recovery")]
    first = stage.receiver.documents()[0]["alerts"][0]
    labels = {"alertname": "HelenCheck", "agent": "web-1", "check": "word", "severity": "critical", "role": "web"}
    assert (first["summary"], first["labels"]) == ("it is critical", labels)
    subjects = [
        line for _, _, content in stage.sink.mails for line in content.splitlines() if line.startswith("Subject")
    ]
    assert subjects == ["Subject: [FIRING 1] web-1/word CRITICAL", "Subject: [RESOLVED] web-1/word OK"]
    paged: Any = wait_until(lambda: (stage.folder / "paged").read_text().strip().splitlines()[1:], "second page")
    assert json.loads(paged[0])["status"] == "resolved"
    wait_until(lambda: "page (rule critical): recovery sent" in " ".join(stage.explained()), "notices")
    assert "hook (rule critical): recovery sent: 200 OK: taken" in " ".join(stage.explained())


def test_a_kill_loses_nothing_and_a_receiver_that_is_down_gets_it_later(stage: Stage) -> None:
    """A message that could not be delivered is in the outbox of the next Helen, under the same id."""
    stage.receiver.got.clear()
    stage.receiver.answers = [(500, {}, b"not today")]
    stage.assign("critical")
    wait_until(stage.hooked, "first try")
    first = stage.hooked()[0]
    wait_until(lambda: "failed, it is tried again: 500" in " ".join(stage.explained()), "notice of the failure")
    stage.helen.signal(signal.SIGKILL)
    stage.helen.program.wait()
    stage.receiver.answers = [(200, {}, b"at last")]
    words = stage.helen.program.process.args
    assert isinstance(words, list)
    listen = words.index("--listen") + 1
    words[listen] = stage.helen.run["agents"]
    stage.helen.program = type(stage.helen.program)(words, stage.folder / "again.log")
    stage.helen.up()
    wait_until(lambda: len(stage.hooked()) > 1, "second try")
    assert stage.hooked()[1] == first
    wait_until(lambda: "sent, try 2: 200 OK: at last" in " ".join(stage.explained()), "notice")


def test_a_file_with_a_fault_changes_nothing(stage: Stage) -> None:
    """The fault is told; what was true is true."""
    (stage.helen.state / "notifications.toml").write_text('[channels.x]\ntype = "pigeon"\n')
    stage.helen.signal(signal.SIGHUP)
    wait_until(lambda: "is not used: channels.x: type is 'pigeon'" in stage.command("status"), "fault")
    assert stage.command("notify", "test", "hook").splitlines()[1] == "ok: 200 OK: at last"
