"""`equus` as a process: what it prints, how it ends, and that a kill loses nothing. Plaintext and loopback only."""

import json
import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from equus import state_lock
from equus_protocol import messages as m
from equus_protocol.conversation import Conversation, Role

EQUUS = [sys.executable, "-m", "equus.main"]
PATIENCE = 30.0  # seconds for anything on a busy machine
SCHEDULE = m.Schedule(1, b'[{"id": "l", "check": "load", "every": 0.2}]')
CHECK = 'return { summary = "s", run = function() return "ok", "all well" end }'


def environment():
    return {name: value for name, value in os.environ.items() if not name.startswith(("EQUUS_", "JOURNAL_STREAM"))}


def ended(*arguments):
    """Run to the end: exit status, stdout, stderr."""
    done = subprocess.run([*EQUUS, *arguments], env=environment(), capture_output=True, text=True, timeout=PATIENCE)
    return done.returncode, done.stdout, done.stderr


class Helen:
    """A Helen without TLS who waits."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(PATIENCE)
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.socket = None

    def accept(self):
        if self.socket:
            self.socket.close()
        self.socket, _ = self.listener.accept()
        self.socket.settimeout(PATIENCE)
        self.conversation = Conversation(Role.HELEN)
        return self.next()

    def say(self, message):
        self.socket.sendall(self.conversation.send(message))

    def next(self, kind=object):
        """The next message of a kind, None at the end."""
        while True:
            while (message := self.conversation.next_message()) is not None:
                if isinstance(message, kind):
                    return message
            data = self.socket.recv(65_536)
            if not data:
                return None
            self.conversation.feed(data)

    def close(self):
        self.listener.close()
        if self.socket:
            self.socket.close()


@pytest.fixture
def helen():
    helen = Helen()
    yield helen
    helen.close()


@pytest.fixture
def start(tmp_path, helen):
    """Starts agents with one state folder, and ends what is left of them."""
    checks = tmp_path / "checks"
    checks.mkdir()
    (checks / "load.lua").write_text(CHECK)
    processes = []

    def start(*more):
        flags = ["--server", helen.address, "--state", str(tmp_path / "state"), "--checks", str(checks)]
        command = [*EQUUS, *flags, "--insecure-plaintext", "--name", "web-1", *more]
        pipe = subprocess.PIPE
        processes.append(subprocess.Popen(command, env=environment(), stdout=pipe, stderr=pipe, text=True))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def test_help_is_quick_and_brings_in_nothing():
    """No Twisted, no cryptography, no Lua, and no attrs."""
    code = (
        "import sys; from click.testing import CliRunner; from equus.main import main;"
        "result = CliRunner().invoke(main, ['--help']); assert result.exit_code == 0, result.output;"
        "assert '--server HOST:PORT' in result.output and 'policy' in result.output;"
        "print([name for name in ('twisted', 'cryptography', 'lupa', 'attr') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


@pytest.mark.parametrize(
    ("flags", "status", "sentence"),
    [
        ([], 2, "Say where Helen listens: --server HOST:PORT"),
        (["--server", "h:1", "--join", "t", "--certificate", "c"], 2, "give one of the two"),
        (["--server", "h:1", "--policy", "/nowhere.toml"], 1, "/nowhere.toml"),
    ],
)
def test_a_mistake_ends_with_a_sentence(tmp_path, flags, status, sentence):
    """First thing on stderr, and nothing on stdout."""
    got, out, err = ended("--state", str(tmp_path / "state"), *flags)
    assert (got, out) == (status, "")
    assert err.startswith("equus: ") and sentence in err.splitlines()[0]


def test_a_key_that_others_can_read_stops_the_start(tmp_path, authority):
    """Before anything is dialled."""
    certificate, key = authority.agent("web-1")
    flags = []
    for name, content in (("certificate", certificate), ("key", key), ("ca", authority.pem)):
        (tmp_path / name).write_bytes(content)
        flags += [f"--{name}", str(tmp_path / name)]
    (tmp_path / "key").chmod(0o644)
    status, _, err = ended("--server", "127.0.0.1:1", "--state", str(tmp_path / "state"), *flags)
    assert (status, "chmod 600" in err) == (1, True)


def test_the_policy_can_be_looked_at(tmp_path):
    """show prints JSON; check says what is wrong."""
    status, out, _ = ended("policy", "show")
    assert (status, json.loads(out)["digest"]) == (0, json.loads(out)["digest"])
    (tmp_path / "policy.toml").write_text("nonsense = 1\n")
    status, _, err = ended("policy", "check", "--policy", str(tmp_path / "policy.toml"))
    assert (status, "nonsense" in err) == (1, True)


def test_stage0_starts_the_same_command_anew():
    """The same process, another image of it."""
    code = "import os, sys; print(os.getpid(), flush=True); from equus import stage0; stage0.restart(['--version'])"
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True)
    assert done.stdout.splitlines()[1:] == ["equus, version 0.1.0"]


@pytest.mark.integration
def test_once_says_whether_it_worked(start, helen):
    """Accepted: a line and 0. Nobody there: a sentence and 1."""
    agent = start("--once")
    assert helen.accept() == m.Hello(2, "0.1.0")
    helen.say(m.Schedule(1, b"[]"))
    out, err = agent.communicate(timeout=PATIENCE)
    assert (agent.returncode, out) == (0, f"Equus web-1 connected to {helen.address}\n"), err
    helen.close()
    agent = start("--once")
    out, err = agent.communicate(timeout=PATIENCE)
    assert (agent.returncode, out, "nothing listens there" in err) == (1, "", True)


@pytest.mark.integration
def test_kill_9_loses_no_report_and_sigterm_ends_it_cleanly(start, helen, tmp_path):
    """What was not acked is sent again, byte for byte, by the next process; two at a time are refused."""
    first = start()
    helen.accept()
    helen.say(SCHEDULE)
    helen.next(m.Loaded)
    reports = [helen.next(m.Report) for _ in range(4)]
    assert [report.sequence for report in reports] == [1, 2, 3, 4]
    assert json.loads(reports[0].blob)["summary"] == "all well"
    helen.say(m.Ack(reports[0].spool, 2))
    second = start()
    _, err = second.communicate(timeout=PATIENCE)
    assert (second.returncode, f"running already (process {first.pid})" in err) == (1, True)
    first.send_signal(signal.SIGKILL)
    first.wait()
    third = start()
    helen.accept()
    helen.say(SCHEDULE)
    again = [helen.next(m.Report) for _ in range(3)]
    known = {report.sequence: report for report in reports}
    assert again[0].sequence in (2, 3)  # the ack may not have been read before the kill
    assert all(known.get(report.sequence, report) == report for report in again)
    began = time.monotonic()
    third.terminate()
    while helen.next() is not None:
        pass
    assert third.wait(PATIENCE) == 0
    assert time.monotonic() - began < 5
    os.close(state_lock.take(tmp_path / "state"))


@pytest.mark.integration
def test_sighup_reads_policy_and_checks_again(start, helen, tmp_path):
    """The connection stays, and `loaded` tells the new digests."""
    policy = tmp_path / "policy.toml"
    policy.write_text("")
    agent = start("--policy", str(policy))
    helen.accept()
    helen.say(m.Schedule(1, b"[]"))
    before = json.loads(helen.next(m.Loaded).blob)
    policy.write_text("[limits]\ncalls = 7\n")
    (tmp_path / "checks" / "disk.lua").write_text(CHECK)
    agent.send_signal(signal.SIGHUP)
    while "disk.lua" not in (after := json.loads(helen.next(m.Loaded).blob))["files"]:
        pass
    assert before["policy"] != after["policy"]
    agent.terminate()
    assert agent.wait(PATIENCE) == 0
