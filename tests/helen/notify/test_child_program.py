"""Tests programs that channels run: how their end is told, what they get, and what Apprise's program says it did."""

from __future__ import annotations

import io
import json
import logging
import os
import stat
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from remotes import wait_for
from telling import WALL, alert
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from helen.files.toml_table import Secret
from helen.notify.attempt import MAX_READ, Attempt, SendFailed
from helen.notify.channels import apprise_child
from helen.notify.channels.apprise import CHILD, Apprise
from helen.notify.channels.command import Command
from helen.notify.child_program import Call, _kill, _Run
from helen.notify.messages import Message
from helen.notify.payloads import own_document
from helen.notify.secrets import OpenedSecrets

LONG = 60.0  # seconds: much more than any program here takes


class Reactor:
    """Runs at once what a thread hands over."""

    def callFromThread(self, work: Callable[..., Any], *args: Any) -> None:
        work(*args)


def program(folder: Path, text: str) -> tuple[str, ...]:
    path = folder / "program"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(stat.S_IRWXU)
    return (str(path),)


def ran(call: Call, timeout: float = LONG) -> str:
    """Run a program in this thread, and return what people are told."""
    run, got = _Run(Reactor(), call, timeout), list[Any]()
    run._done.addBoth(got.append)
    run._run()
    (found,) = got
    if isinstance(found, Failure):
        assert isinstance(found.value, SendFailed)
        return f"failed {found.value.text}"
    return f"ok {found}"


@pytest.mark.parametrize(("text", "said"), [
    ("exit 0", "ok exit status 0"), ("echo ' done '", "ok exit status 0: done"),
    ("echo a; echo b >&2", "ok exit status 0: a\nb"), ("exit 1", "failed exit status 1"),
    ("echo why; exit 255", "failed exit status 255: why"),
    ("kill -15 $$", "failed ended by signal 15"), ("echo so; kill -9 $$", "failed ended by signal 9: so"),
    ("printf '\\377'", "ok exit status 0: \ufffd"), ("pwd", "ok exit status 0: /"),
    ("exec >&- 2>&-; exit 4", "failed exit status 4"),
])  # fmt: skip
def test_the_end_of_a_program(text: str, said: str, tmp_path: Path) -> None:
    """The end of a program is told by its status or signal, with what it printed."""
    assert ran(Call(program(tmp_path, text), {}, b"")) == said


def test_what_it_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program is given standard input, a few of our variables, and those of its channel, which win."""
    monkeypatch.setenv("HELEN_PRIVATE", "x")
    for name in ("LANG", "LC_ALL", "TZ", "HOME"):
        monkeypatch.setenv(name, f"our-{name}")
    argv = program(tmp_path, 'cat; echo "|$HELEN_PRIVATE|$LANG|$LC_ALL|$TZ|$HOME|$KEY"; test -n "$PATH"')
    said = ran(Call(argv, {"KEY": "k", "TZ": "UTC"}, b"given"))
    assert said == "ok exit status 0: given||our-LANG|our-LC_ALL|UTC|our-HOME|k"


def test_it_need_not_read_and_may_print_much(tmp_path: Path) -> None:
    """A program that does not read, or prints much, blocks nobody; 64 KiB of its output are kept."""
    said = ran(Call(program(tmp_path, "head -c 200000 /dev/zero | tr '\\0' y"), {}, b"x" * 1_000_000))
    assert said == "ok exit status 0: " + "y" * MAX_READ


def test_it_has_so_long(tmp_path: Path) -> None:
    """A program is killed when its time is over, though it holds nothing open by which it could be waited for."""
    silent = Call(program(tmp_path, "exec >&- 2>&-; sleep 300"), {}, b"")
    assert ran(silent, 0.25) == "failed not done within 0.25 s, killed"


@pytest.mark.parametrize(("argv", "said"), [
    (("/nowhere/x",), "failed /nowhere/x can't be run: No such file or directory"),
    (("/etc/passwd",), "failed /etc/passwd can't be run: Permission denied"),
    (("/bin/true", "a\0b"), "failed /bin/true can't be run: embedded null byte"),
])  # fmt: skip
def test_it_cannot_be_run(argv: tuple[str, ...], said: str) -> None:
    """A program that cannot be run is told by its path and the reason."""
    assert ran(Call(argv, {}, b"")) == said


def test_a_fault_of_our_own_is_an_outcome_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of our own ends the attempt, which would never end otherwise."""
    monkeypatch.setattr(_Run, "_execute", lambda self: dict[str, str]()["x"])
    assert ran(Call(("/bin/true",), {}, b"")) == "failed KeyError: 'x'"


def test_a_run_that_is_given_up(tmp_path: Path) -> None:
    """A run that is given up is killed, whatever time it has left, and tells nobody."""
    run = _Run(Reactor(), Call(program(tmp_path, "sleep 300"), {}, b""), 300.0)
    run._done.addErrback(lambda failure: None)
    run._done.cancel()
    assert run._given_up.is_set()
    run._run()
    other, got = _Run(Reactor(), Call(("/bin/true",), {}, b""), 1.0), list[Any]()
    other._done.addCallback(got.append)
    other._fire("first")
    other._fire("second")
    assert got == ["first"]


def is_alive(process: int) -> bool:
    """Say whether a process lives; a zombie, which nobody has waited for yet, does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_nothing_of_it_is_left(tmp_path: Path) -> None:
    """A child in its group is killed as well; one that has ended already is no error."""
    argv = program(tmp_path, f"sleep 300 & echo $! > {tmp_path}/child")
    assert ran(Call(argv, {}, b"")) == "ok exit status 0"
    child = int((tmp_path / "child").read_text())
    wait_for(lambda: not is_alive(child), "end of its child")
    ended = subprocess.Popen(["/bin/true"], stdout=subprocess.PIPE, start_new_session=True)
    ended.wait()
    _kill(ended)
    assert ended.stdout is not None and ended.stdout.closed


# ------------------------------------------------------------------------------------------------ channels


def attempt() -> Attempt:
    message = Message("id1", "g", "hook", "r", {}, WALL, (alert(),), frozenset(("a/c",)))
    return Attempt(Clock(), message, "http://helen", 1.0, OpenedSecrets())


def test_the_call_of_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call has the arguments as they are, variables with their secrets looked up, and our document."""
    monkeypatch.setenv("NOTIFY_T", "token")
    given = attempt()
    call = Command(("/x", "$HOME"), {"A": "b", "C": Secret("env", "NOTIFY_T")}).call(given)
    assert (call.argv, call.environment) == (("/x", "$HOME"), {"A": "b", "C": "token"})
    assert json.loads(call.given) == json.loads(json.dumps(own_document(given.message, "http://helen")))
    assert given.secrets.used == ["token"] and "token" not in repr(call)


def test_the_call_of_apprise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Apprise is called by path, without our modules; its URLs come on standard input alone, and each
    part is a secret.
    """
    monkeypatch.setenv("NOTIFY_U", "json://host.example/from-file")
    given = attempt()
    call = Apprise(("slack://token-a/token-b", Secret("env", "NOTIFY_U"))).call(given)
    assert (call.argv, call.environment) == ((sys.executable, "-I", CHILD), {})
    assert os.path.basename(CHILD) == "apprise_child.py"
    document = json.loads(call.given)
    assert document["urls"] == ["slack://token-a/token-b", "json://host.example/from-file"]
    assert (document["title"], document["type"], sorted(document)) == (
        "[FIRING 1] a/c CRITICAL", "failure", ["body", "title", "type", "urls"],
    )  # fmt: skip
    assert given.secrets.used[1:] == ["token-a", "token-b", "host.example", "from-file"]


# ------------------------------------------------------------------------------------------------ Apprise's program


class FakeApprise(types.ModuleType):
    """Knows URLs of `good`, which take a message, and of `bad`, which warn and refuse it."""

    def __init__(self) -> None:
        super().__init__("apprise")
        self.told: list[dict[str, Any]] = []
        self.assets: list[dict[str, Any]] = []
        outer = self

        class Target:
            def __init__(self, asset: Any) -> None:
                self.url = ""

            def add(self, url: str) -> bool:
                self.url = url
                if not url.startswith(("good", "bad")):
                    outer.warn("unknown scheme")
                return url.startswith(("good", "bad"))

            def notify(self, **given: Any) -> bool:
                outer.told.append(given | {"url": self.url})
                if self.url.startswith("bad"):
                    outer.warn("403 %s", "y" * 400)
                    outer.log.info("not a warning")
                return self.url.startswith("good")

            def __getitem__(self, number: int) -> Any:
                return types.SimpleNamespace(service_name=f"Service{number}")

        self.Apprise = Target
        self.AppriseAsset = lambda **given: self.assets.append(given)
        self.log = logging.getLogger("apprise")

    def warn(self, *words: Any) -> None:
        self.log.warning(*words)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeApprise:
    made = FakeApprise()
    monkeypatch.setattr(apprise_child, "apprise", made)
    return made


def told(urls: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    given = {"urls": urls, "title": "t", "body": "b", "type": "failure"}
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(given)))
    return apprise_child.main(), capsys.readouterr().out.strip()


@pytest.mark.parametrize(("urls", "status", "said"), [
    (["good://a"], 0, "1 of 1 told"), (["good://a", "good://b"], 0, "2 of 2 told"), ([], 0, "0 of 0 told"),
    (["good://a", "ugly://b"], 1, "1 of 2 told; URL 2 is none that Apprise knows: unknown scheme"),
    (["bad://a"], 1, f"0 of 1 told; URL 1 (Service0) did not take it: 403 {'y' * 296}"),
])  # fmt: skip
def test_apprise_says_what_it_did(
    fake: FakeApprise, urls: list[str], status: int, said: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Apprise's program tells how many took it, and of each failure its number, service and 300
    characters of warnings.
    """
    assert told(urls, monkeypatch, capsys) == (status, said)
    assert [each["url"] for each in fake.told] == [url for url in urls if not url.startswith("ugly")]
    assert all((each["title"], each["body"], each["notify_type"]) == ("t", "b", "failure") for each in fake.told)
    assert fake.assets == [{"app_id": "Helen", "app_desc": "Helen", "secure_logging": True, "async_mode": False}]
    assert not [each for each in fake.log.handlers if isinstance(each, apprise_child.Warnings)]


def test_warnings_of_one_url_are_not_those_of_another(
    fake: FakeApprise, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each URL has its own warnings."""
    _, said = told(["ugly://a", "uglier://b"], monkeypatch, capsys)
    each = "is none that Apprise knows: unknown scheme"
    assert said == f"0 of 2 told; URL 1 {each}; URL 2 {each}"
    assert apprise_child.Warnings().text == ""


def test_without_apprise(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The sentence about a missing Apprise tells how to get it."""
    monkeypatch.setattr(apprise_child, "apprise", None)
    assert told(["good://a"], monkeypatch, capsys) == (1, apprise_child.MISSING)
