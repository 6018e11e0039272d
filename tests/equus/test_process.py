"""Test `equus` as a process: its output, its exit, and that a kill loses nothing; over plaintext and loopback alone."""

import errno
import json
import os
import signal
import socket
import subprocess
import sys

import pytest

from equus import state_lock
from equus.agent import SPOOL_STOPS_WITHIN
from equus.link.connection import CLOSE_WITHIN
from equus_protocol import messages as m
from equus_protocol.conversation import Conversation, Role

EQUUS = [sys.executable, "-m", "equus.main"]
PATIENCE = 60.0  # seconds for anything on a busy machine
SCHEDULE = m.Schedule(1, b'[{"id": "l", "check": "load", "every": 0.2}]')
CHECK = 'return { summary = "s", run = function() return "ok", "all well" end }'


def environment():
    return {name: value for name, value in os.environ.items() if not name.startswith(("EQUUS_", "JOURNAL_STREAM"))}


def ended(*arguments):
    """Run to the end: exit status, stdout, stderr."""
    done = subprocess.run([*EQUUS, *arguments], env=environment(), capture_output=True, text=True, timeout=PATIENCE)
    return done.returncode, done.stdout, done.stderr


class Helen:
    """Stand in for a Helen without TLS that waits for the agent."""

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
        """Return the next message of a kind, or None at the end of the connection."""
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
    """`equus --help` imports neither Twisted, cryptography, Lua nor attrs, so that it is quick."""
    code = (
        "import sys; from click.testing import CliRunner; from equus.main import main;"
        "result = CliRunner().invoke(main, ['--help']); assert result.exit_code == 0, result.output;"
        "assert '--server HOST:PORT' in result.output and 'policy' in result.output;"
        "print([name for name in ('twisted', 'cryptography', 'lupa', 'attr') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_lint_without_tests_brings_in_nothing_that_runs_checks(tmp_path):
    """`equus lint --no-tests` imports neither the sandbox nor Twisted, because Helen waits for it with each save."""
    (tmp_path / "a.lua").write_text('return { summary = "a", run = function(args, host) return "ok", "a" end }')
    code = (
        "import sys; from click.testing import CliRunner; from equus.main import main;"
        f"result = CliRunner().invoke(main, ['lint', '--no-tests', {str(tmp_path)!r}]);"
        "assert result.exit_code == 0, result.output;"
        "print([name for name in ('twisted', 'equus.sandbox.blocking') if name in sys.modules])"
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
    """A mistake ends with a sentence as the first line on stderr, and nothing on stdout."""
    got, out, err = ended("--state", str(tmp_path / "state"), *flags)
    assert (got, out) == (status, "")
    assert err.startswith("equus: ") and sentence in err.splitlines()[0]


@pytest.mark.adversary(31)
def test_a_key_that_others_can_read_stops_the_start(tmp_path, authority):
    """A key that others can read stops the start before the agent dials."""
    certificate, key = authority.agent("web-1")
    flags = []
    for name, content in (("certificate", certificate), ("key", key), ("ca", authority.pem)):
        (tmp_path / name).write_bytes(content)
        flags += [f"--{name}", str(tmp_path / name)]
    (tmp_path / "key").chmod(0o644)
    status, _, err = ended("--server", "127.0.0.1:1", "--state", str(tmp_path / "state"), *flags)
    assert (status, "chmod 600" in err) == (1, True)


def test_the_policy_can_be_looked_at(tmp_path):
    """`equus policy show` prints JSON with the digest that `equus policy check` says, or check says what is wrong."""
    status, out, _ = ended("policy", "show")
    assert (status, json.loads(out)["isolation"]) == (0, "strong")
    digest = json.loads(out)["digest"]
    assert ended("policy", "check") == (0, f"the built-in policy is good; digest {digest}\n", "")
    (tmp_path / "policy.toml").write_text("nonsense = 1\n")
    status, _, err = ended("policy", "check", "--policy", str(tmp_path / "policy.toml"))
    assert (status, "nonsense" in err) == (1, True)


def test_stage0_starts_the_same_command_anew():
    """`launcher.restart` replaces the running process by `equus` with the given arguments."""
    code = (
        "import os, sys; print(os.getpid(), flush=True);"
        " from equus.code import launcher; launcher.restart(['--version'])"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True)
    assert done.stdout.splitlines()[1:] == ["equus, version 0.1.0"]


@pytest.mark.integration
def test_once_says_whether_it_worked(start, helen):
    """`--once` prints a line and exits with 0 if Helen accepts, and exits with 1 and a sentence if nothing listens."""
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
    """A report without an ack is sent again byte for byte by the next process, and a second agent is refused."""
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
    third.terminate()
    while helen.next() is not None:
        pass
    assert third.wait(PATIENCE) == 0
    assert max(SPOOL_STOPS_WITHIN, CLOSE_WITHIN) <= 2.0  # both at once, and whoever sends SIGTERM waits five seconds
    state_lock.take(tmp_path / "state").release()


# Replaces the system calls that write below a folder once a file exists, as a kernel does after an error of the disk.
BROKEN_DISK = """
import os
state, flag, code = os.environ["BROKEN_DISK"].split("|")
def breaks(path):
    return os.path.exists(flag) and str(path).startswith(state)
def guard(name, path_of, writes=lambda *_: True):
    real = getattr(os, name)
    def call(*arguments, **options):
        if writes(*arguments) and breaks(path_of(*arguments)):
            raise OSError(int(code), os.strerror(int(code)), str(path_of(*arguments)))
        return real(*arguments, **options)
    setattr(os, name, call)
of_descriptor = lambda descriptor, *_: os.readlink(f"/proc/self/fd/{descriptor}")
for name in ("write", "pwrite", "fsync", "fdatasync", "ftruncate"):
    guard(name, of_descriptor)
for name in ("truncate", "mkdir", "unlink", "replace", "rename"):
    guard(name, lambda path, *_: path)
guard("open", lambda path, *_: path, lambda path, flags, *_: flags & (os.O_RDWR | os.O_WRONLY | os.O_CREAT))
"""


@pytest.mark.integration
@pytest.mark.parametrize("code", [errno.EROFS, errno.EIO])
def test_a_state_folder_that_turns_read_only_silences_nobody(start, helen, tmp_path, monkeypatch, code):
    """A running agent goes on with results in memory if its state folder turns read-only, and so does a new one
    (F33).
    """
    broken = tmp_path / "broken"
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(BROKEN_DISK)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    monkeypatch.setenv("BROKEN_DISK", f"{tmp_path / 'state'}|{broken}|{code}")
    spools = []
    for turn in ("running", "new start"):
        agent = start()
        helen.accept()
        helen.say(SCHEDULE)
        spools.append(json.loads(helen.next(m.Loaded).blob)["spool"]["id"])
        report = helen.next(m.Report)
        assert (turn, report.spool, report.sequence) == (turn, spools[-1], 1)
        broken.touch()
        helen.say(m.Ack(spools[-1], 1))
        reports = [helen.next(m.Report) for _ in range(12)]
        assert all(json.loads(report.blob)["status"] == "ok" for report in reports)
        assert reports[-1].spool != spools[0]
        agent.terminate()
        _, err = agent.communicate(timeout=PATIENCE)
        assert (turn, agent.returncode) == (turn, 0), err
        assert f"can't be written ({os.strerror(code)}): results are kept in memory" in err
    assert spools[0] != spools[1]


@pytest.mark.integration
def test_an_agent_starts_on_a_read_only_filesystem(start, helen, tmp_path):
    """An agent starts on a filesystem that is mounted read-only, and sends its results at once (F33)."""
    if os.geteuid():  # the same once more, as root of a user namespace: only root may mount
        test = f"{__file__}::test_an_agent_starts_on_a_read_only_filesystem"
        words = ["unshare", "--user", "--map-root-user", "--mount", sys.executable, "-m", "pytest", "-q", test]
        again = subprocess.run(words, capture_output=True, text=True, check=False)
        assert again.returncode == 0, again.stdout + again.stderr
        return
    state = tmp_path / "state"
    state.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", state], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,ro", state], check=True)
        agent = start()
        helen.accept()
        helen.say(SCHEDULE)
        helen.next(m.Loaded)
        assert [helen.next(m.Report).sequence for _ in range(3)] == [1, 2, 3]
        second = start()
        _, err = second.communicate(timeout=PATIENCE)
        assert (second.returncode, "running already" in err) == (1, True)
        agent.terminate()
        agent.communicate(timeout=PATIENCE)
        assert agent.returncode == 0
    finally:
        subprocess.run(["umount", "-l", state], check=True)


@pytest.mark.integration
def test_sighup_reads_policy_and_checks_again(start, helen, tmp_path):
    """SIGHUP reads policy and checks again, the connection stays, and `loaded` has the new digests."""
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
