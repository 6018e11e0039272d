"""Test OpenSSH's own programs against the server of one connection: what people do, and every way in which it ends."""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from openssh import PATIENCE, keygen
from ssh_stage import Door, children, door, resident, server_of, terminal, wait_until_gone

from equus.shell.permits import Access

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """Yield one server for all tests that leave it as it is."""
    with door(tmp_path_factory.mktemp("ssh"), forward=True) as made:
        yield made


# ------------------------------------------------------------------------------------------------ what people do


def test_a_command(stage: Door) -> None:
    """A command has output, errors and exit status apart, eight bits both ways, few variables, and no terminal."""
    every = bytes(range(256)) * 100
    done = stage.run("cat; echo err >&2; echo $LC_TEST $SECRET $USER $HOME; tty; exit 7", data=every)
    assert (done.returncode, done.stderr) == (7, b"err\n")
    assert done.stdout == every + "grüße root /root\nnot a tty\n".encode()
    assert stage.run("kill -TERM $$").returncode == 255, "a signal is no exit status"


def test_much_in_both_directions_at_once(stage: Door) -> None:
    """More data than every window holds goes both ways at once, and a program that reads nothing stops the client
    alone.
    """
    data = os.urandom(6_000_000)
    assert stage.run("cat", data=data).stdout == data
    assert stage.run("sleep 1; exit 5", data=data).returncode == 5
    done = stage.run("sleep 1; cat", data=data[:200_000])
    assert done.stdout == data[:200_000], "the input had ended before the program began to read"


def test_scp_and_sftp(stage: Door, tmp_path: Path) -> None:
    """A file is copied there and back with the same hash, and a folder is listed."""
    sent = tmp_path / "sent"
    sent.write_bytes(os.urandom(3_000_000))
    at = f"root@127.0.0.1:{tmp_path}"
    for words in ((str(sent), f"{at}/there"), (f"{at}/there", str(tmp_path / "back"))):
        subprocess.run(["scp", "-q", *stage.options(), "-P", str(stage.port), *words], check=True, timeout=PATIENCE)
    hashes = {hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() for name in ("sent", "there", "back")}
    assert len(hashes) == 1
    listed = subprocess.run(
        ["sftp", "-q", *stage.options(), "-P", str(stage.port), "-b", "-", f"root@127.0.0.1:{tmp_path}"],
        input=b"ls\n", capture_output=True, check=True, timeout=PATIENCE,
    )  # fmt: skip
    assert b"there" in listed.stdout


UP = b"sh -c 'echo u''p%d; exec sleep 1000'"  # says that it runs, by a word that is not what was typed


def test_a_terminal(stage: Door) -> None:
    """Keys reach the program of a terminal, ^C ends the one in front, ^Z and jobs work, and the size follows."""
    with terminal(stage, "bash --norc --noprofile -i") as seen:
        seen.type(UP % 1 + b"\n")
        seen.wait_for(b"up1\r\n")
        seen.type(b"\x03")
        seen.type(b"echo af''ter $?\n")
        seen.wait_for(b"after 130")
        seen.type(UP % 2 + b"\n")
        seen.wait_for(b"up2\r\n")
        seen.type(b"\x1a")
        seen.wait_for(b"Stopped")
        seen.type(b"kill %1; wait; tty\n")
        seen.wait_for(b"/dev/pts/")
        subprocess.run(["stty", "rows", "33", "cols", "77"], stdin=seen.ours, check=True, timeout=PATIENCE)
        os.kill(seen.process.pid, signal.SIGWINCH)
        seen.type(b"until [ \"$(stty size)\" = '33 77' ]; do sleep 0.1; done; echo wi''de\n")
        seen.wait_for(b"wide\r\n")
        seen.type(b"exit 9\n")
        assert seen.process.wait(PATIENCE) == 9


def test_forwarding(stage: Door, tmp_path: Path) -> None:
    """A connection is forwarded from the host where the policy allows it, and OpenSSH reports the refusal otherwise."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        words = ["-W", f"127.0.0.1:{port}"]
        ssh = ["ssh", *stage.options(), *words, "-p", str(stage.port), "root@127.0.0.1"]
        with subprocess.Popen(ssh, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            listener.settimeout(PATIENCE)
            client, _ = listener.accept()
            with client:
                client.sendall(b"through")
                assert process.stdout is not None and process.stdout.read(7) == b"through"
            process.communicate(timeout=PATIENCE)
        (tmp_path / "closed").mkdir()
        with door(tmp_path / "closed") as shut:
            ssh = ["ssh", *shut.options(), *words, "-p", str(shut.port), "root@127.0.0.1"]
            done = subprocess.run(ssh, input=b"", capture_output=True, timeout=PATIENCE, check=False)
            assert done.returncode != 0
            assert b"forwarding failed" in done.stderr


# ------------------------------------------------------------------------------------------------ who is let in


def test_who_is_not_let_in(stage: Door, tmp_path: Path) -> None:
    """A key outside of the file and a user outside of the policy are refused, and a wrong host key is noticed."""
    stranger = keygen(tmp_path / "stranger")
    for more in ({"key": stranger}, {"user": "daemon"}):
        done = stage.run("true", **more)
        assert (done.returncode, done.stdout) == (255, b"")
        assert b"Permission denied (publickey)" in done.stderr
    other = keygen(tmp_path / "host")
    known, kind = stage.known.read_text(), other.with_suffix(".pub").read_text()
    try:
        stage.known.write_text(f"web-1 {kind}")
        done = stage.run("true")
        assert done.returncode == 255
        assert b"Host key verification failed" in done.stderr
    finally:
        stage.known.write_text(known)


def test_a_certificate_and_another_user_with_one_command(tmp_path: Path) -> None:
    """The one command runs as the user of the certificate, with its groups and none of root's, and sees the requested
    command.
    """
    ca = keygen(tmp_path / "ca")
    access = Access(("nobody",), None, f"{ca}.pub")
    command = (
        "/bin/sh",
        "-c",
        f"id -u; id -g; id -Gn; echo $SSH_ORIGINAL_COMMAND; cat {tmp_path}/id 2>&1; ls /proc/self/fd",
    )
    with door(tmp_path, access=access, command=command) as stage:
        words = ["ssh-keygen", "-q", "-s", str(ca), "-I", "anna", "-n", "nobody", f"{stage.key}.pub"]
        subprocess.run(words, check=True, timeout=PATIENCE)
        done = stage.run("rm -rf /", user="nobody")
        lines = done.stdout.decode().split("\n")
        assert lines[:4] == ["65534", "65534", "nogroup", "rm -rf /"]
        assert "Permission denied" in lines[4]
        assert lines[5:] == ["0", "1", "2", "3", ""], "the last one is the folder that ls reads"


# ------------------------------------------------------------------------------------------------ how it ends


def test_a_key_that_is_removed_ends_its_session(tmp_path: Path) -> None:
    """A key that is removed ends its session within seconds with a sentence, and so do silence and the longest time."""
    for name, more in (("removed", {}), ("silent", {"idle": 1.0}), ("long", {"most": 1.0})):
        folder = tmp_path / name
        folder.mkdir()
        with (
            door(folder, **more) as stage,
            subprocess.Popen(
                stage.ssh("echo in; sleep 1000"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            ) as process,
        ):
            assert process.stdout is not None and process.stdout.read(3) == b"in\n"
            if name == "removed":
                stage.keys.write_text("")
            _, said = process.communicate(timeout=PATIENCE)
            assert process.returncode == 255
            words = {
                "removed": b"opens nothing any more",
                "silent": b"nothing has moved for 1 s",
                "long": b"longest time",
            }
            assert words[name] in said


STUBBORN = """#!/bin/bash
trap '' HUP
setsid sleep 1000 & echo $!
nohup sleep 1000 >/dev/null 2>&1 & echo $!
echo $$
sleep 1000
"""


@pytest.mark.parametrize("victim", ["ssh", "server", "agent", "inner supervisor", "outer supervisor", "told"])
def test_no_process_is_left(tmp_path: Path, victim: str) -> None:
    """No process is left whichever side is killed, neither one that ignores SIGHUP nor one that left its session."""
    (tmp_path / "stubborn").write_text(STUBBORN)
    with door(tmp_path) as stage:
        ssh = stage.ssh(f"bash {tmp_path}/stubborn")
        with subprocess.Popen(ssh, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            pids = [int(process.stdout.readline()) for _ in range(3)]
            [supervisor] = stage.processes
            [inner] = children(supervisor.pid)
            server = server_of(supervisor)
            killed = {"server": server, "inner supervisor": inner, "outer supervisor": supervisor.pid}
            if victim in killed:
                os.kill(killed[victim], signal.SIGKILL)
            elif victim == "ssh":
                process.kill()
            elif victim == "told":  # as all processes of a unit that stops
                supervisor.terminate()
            else:  # the agent's end of the pipe closes with it
                assert supervisor.stdin is not None
                supervisor.stdin.close()
            wait_until_gone([*pids, server, inner])
            assert supervisor.wait(PATIENCE) == (-signal.SIGKILL if victim == "outer supervisor" else 0)
            process.kill()


SAVES = """#!/bin/bash
(setsid bash -c "trap 'echo hung up >> $0.log' HUP; echo in; while :; do sleep 0.1; done" &)
exec sleep 1000
"""


def test_a_program_hears_of_the_end_once(tmp_path: Path) -> None:
    """A program gets one signal at the end of a connection, since it may be saving and a second one would
    interrupt it.
    """
    (tmp_path / "saves").write_text(SAVES)
    with door(tmp_path) as stage:
        with subprocess.Popen(stage.ssh(f"exec bash {tmp_path}/saves"), stdout=subprocess.PIPE) as process:
            assert process.stdout is not None and process.stdout.read(3) == b"in\n"
            process.kill()
        assert stage.processes[0].wait(PATIENCE) == 0
    assert (tmp_path / "saves.log").read_text() == "hung up\n"


def test_a_client_that_does_not_read_costs_no_memory(stage: Door) -> None:
    """A program that writes at full speed to a client that does not read is stopped, and the server's memory stays
    small.
    """
    with subprocess.Popen(stage.ssh("cat /dev/zero"), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and len(process.stdout.read(1_000_000)) == 1_000_000
        server = server_of(stage.processes[-1])
        before = resident(server)
        time.sleep(2)
        assert resident(server) < before + 16 * 1_048_576
        process.kill()
