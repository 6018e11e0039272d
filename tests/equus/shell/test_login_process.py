"""Test the processes of sessions: groups, users, terminals and ends."""

from __future__ import annotations

import os
import subprocess
import sys
import termios
import tty
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import evolve
from openssh import PATIENCE
from ssh_stage import Door, door, terminal, wait_until_gone

from equus.shell.terminal_modes import set_modes

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    with door(tmp_path_factory.mktemp("process")) as made:
        yield made


def test_a_signal_to_its_own_group(stage: Door) -> None:
    """`kill 0`, as scripts do in a trap, ends what the script has started, and not the server."""
    done = stage.run("trap 'exit 5' TERM; sleep 1000 & kill 0; wait")
    assert (done.returncode, done.stderr) == (5, b"")
    done = stage.run("ps -o pid=,pgid=,sid= -p $$")
    assert len(set(done.stdout.split())) == 1, "it leads a group and a session"


def test_an_end_by_a_signal_without_a_name(stage: Door) -> None:
    """The end of a program by a signal without a name is reported as a shell does, so that no channel waits on."""
    assert stage.run("kill -40 $$").returncode == 128 + 40


def test_what_was_asked_for_is_handed_on_as_it_is(tmp_path: Path) -> None:
    """The one command that a policy allows gets the requested command as it came, also with bytes that are no UTF-8."""
    with door(tmp_path) as stage:
        stage.settings = evolve(stage.settings, command=("/bin/sh", "-c", 'printf %s "$SSH_ORIGINAL_COMMAND"'))
        words = [os.fsencode(word) for word in stage.ssh()] + [b"caf\xe9"]
        done = subprocess.run(words, capture_output=True, timeout=PATIENCE, check=False)  # type: ignore[arg-type]
        assert (done.returncode, done.stdout) == (0, b"caf\xe9")


GIVES_UP = """
import fcntl, os, signal, termios, time
signal.signal(signal.SIGHUP, signal.SIG_IGN)
fcntl.ioctl(0, termios.TIOCNOTTY)
print(f"id {os.getpid()}.", flush=True)
time.sleep(1000)
"""


def test_a_terminal_that_is_given_up(stage: Door, tmp_path: Path) -> None:
    """A terminal that its group has given up ends the program at a hang-up, and harms no process of the server."""
    (tmp_path / "gives_up.py").write_text(GIVES_UP)
    with terminal(stage, f"exec {sys.executable} {tmp_path}/gives_up.py") as seen:
        seen.wait_for(b".\r\n")
        pid = int(seen.said.split()[-1].rstrip(b"."))
    wait_until_gone([pid])
    assert stage.processes[-1].wait(PATIENCE) == 0, "the supervisor has come to its own end"


def test_nothing_of_the_server_is_open_on_a_terminal(stage: Door) -> None:
    """A program on a terminal has neither the connection nor the other end of the terminal open."""
    with terminal(stage, "ls /proc/self/fd | tr '\\n' ,; echo .") as seen:
        seen.wait_for(b".\r\n")
        assert seen.said.endswith(b"0,1,2,3,.\r\n"), "the last one is the folder that ls reads"


# ------------------------------------------------------------------------------------------------ the modes


def test_the_modes_of_the_clients_terminal(stage: Door) -> None:
    """The terminal has the modes that OpenSSH sends: the key that erases, and UTF-8."""
    with terminal(stage, "stty -a | tr '\\n' ' '; echo .", ("erase", "^H", "iutf8", "-ixany")) as seen:
        seen.wait_for(b" .\r\n")
        assert b"erase = ^H;" in seen.said
        assert b" iutf8" in seen.said
        assert b" -ixany" in seen.said


def test_modes_that_there_are_none_of() -> None:
    """Opcodes and values without a meaning change no mode of a terminal, and 255 disables a key."""
    master, slave = os.openpty()
    try:
        before = termios.tcgetattr(slave)
        set_modes(slave, [(200, 1), (3, 2**32 - 1), (17, 3), (128, 9_600), (0, 0), (255, 255)])
        assert termios.tcgetattr(slave) == before
        set_modes(slave, [(3, 8), (1, 255), (53, 0), (42, 1), (42, 0)])
        after = termios.tcgetattr(slave)
        assert (after[tty.CC][termios.VERASE], after[tty.CC][termios.VINTR]) == (b"\x08", b"\0")
        assert after[tty.LFLAG] == before[tty.LFLAG] & ~termios.ECHO
    finally:
        os.close(master)
        os.close(slave)


# ------------------------------------------------------------------------------------------------ the user

RUN = """
import sys
from twisted.internet import reactor
from twisted.internet.protocol import ProcessProtocol
from equus.shell.account import Account
from equus.shell.login_process import start

class Shown(ProcessProtocol):
    def childDataReceived(self, descriptor, data):
        sys.stdout.buffer.write(data)
    def processEnded(self, reason):
        print(reason.value.exitCode)
        reactor.stop()

account = Account("nobody", 65534, 65534, sys.argv[1], "/bin/sh", (65534, 12345))
words = [b"sh", b"-c", b"pwd; id -u; id -G; cat seen 2>&1"]
reactor.callWhenRunning(start, reactor, Shown(), account, sys.argv[2], words, {"LC_X": "\\udcff"}, None)
reactor.run()
"""


def ran(home: Path, program: str) -> list[str]:
    words = [sys.executable, "-c", RUN, str(home), program]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=True)
    return done.stdout.splitlines()


def test_a_home_behind_a_folder_that_is_shut(tmp_path: Path) -> None:
    """A program starts in `/` if its user may not reach the home, because the folder is entered with the user's
    rights.
    """
    home = tmp_path / "shut" / "home"
    home.mkdir(parents=True)
    (home / "seen").write_text("secret")
    (tmp_path / "shut").chmod(0o700)
    home.chmod(0o755)
    assert ran(home, "/bin/sh") == ["/", "65534", "65534 12345", "cat: seen: No such file or directory", "1"]


def test_a_program_that_can_not_be_started(tmp_path: Path) -> None:
    """A program that cannot be started gives a sentence and a status, and no detail of the server."""
    (tmp_path / "text").write_text("x")
    assert ran(tmp_path, "/none") == ["equus: /none can't be started: No such file or directory", "127"]
    refused = f"equus: {tmp_path}/text can't be started: Permission denied"
    assert ran(tmp_path, f"{tmp_path}/text") == [refused, "126"]
