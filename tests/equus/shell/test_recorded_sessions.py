"""Test sessions that are recorded, by OpenSSH's own programs: the file, its readers, and the end of a session."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from openssh import PATIENCE, keygen
from ssh_stage import Door, door, terminal
from twisted.conch.ssh.common import NS

from equus.shell import account, session_channel
from equus.shell.account import Account
from equus.shell.permits import Access, Permit
from equus.shell.recording import Recorder

pytestmark = pytest.mark.integration
MOST = 64 * 1_048_576  # bytes of all recordings; one connection may take 4 MiB


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """Yield a host that records, and lets the key `auditor` read."""
    folder = tmp_path_factory.mktemp("recorded")
    auditor = keygen(folder / "auditor")
    access = Access(("root",), str(folder / "authorized_keys"), None, f"{auditor}.pub")
    with door(folder, access=access, record_most=MOST, forward=True) as made:
        yield made


def asked(stage: Door, *words: str, key: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    return stage.run(*words, key=key or stage.folder / "auditor", user="recordings")


def newest(stage: Door, command: str | None) -> tuple[dict[str, Any], list[Any]]:
    """Return the row of the newest recording of a command and its lines, as the auditor gets them."""
    rows = [json.loads(line) for line in asked(stage, "list").stdout.splitlines()]
    row = next(row for row in rows if row["command"] == command)
    shown = asked(stage, "show", row["name"])
    assert shown.returncode == 0, shown.stderr
    return row, [json.loads(line) for line in shown.stdout.decode("utf-8").splitlines()]


def text(lines: list[Any], code: str) -> str:
    return "".join(event[2] for event in lines[1:] if event[1] == code)


def test_a_command(stage: Door) -> None:
    """The recording of a command has its input, both outputs, the key of the user, and the exit status."""
    done = stage.run("cat; echo err >&2; exit 7", data="grüße\n".encode())
    assert (done.returncode, done.stdout, done.stderr) == (7, "grüße\n".encode(), b"err\n")
    row, lines = newest(stage, "cat; echo err >&2; exit 7")
    assert (row["user"], row["caller"], row["kind"], row["end"]) == ("root", "test", "command", "exit status 7")
    assert row["who"].startswith("SHA256:")
    assert (text(lines, "i"), sorted(text(lines, "o").split())) == ("grüße\n", ["err", "grüße"])
    assert lines[0]["version"] == 2


def test_a_terminal(stage: Door) -> None:
    """The recording of a terminal has what it showed and its size, and none has text that was typed without an echo."""
    command = "stty -echo; stty size; read -r secret; stty echo; echo got ${#secret}"
    with terminal(stage, command) as seen:
        subprocess.run(["stty", "rows", "33", "cols", "77"], stdin=seen.ours, check=True, timeout=PATIENCE)
        seen.wait_for(b"\r\n")  # the size, so nothing is echoed from here on
        seen.type(b"swordfish\n")
        seen.wait_for(b"got 9\r\n")
        assert seen.process.wait(PATIENCE) == 0
    row, lines = newest(stage, command)
    assert (row["kind"], row["end"]) == ("terminal", "exit status 0")
    assert text(lines, "o").encode() in seen.said
    assert "swordfish" not in json.dumps(lines)


def test_sftp(stage: Door, tmp_path: Path) -> None:
    """The recording of SFTP has the server's log with the names of files and not their bytes, and the client gets no
    log.
    """
    (tmp_path / "sent").write_bytes(b"content of a file" * 100)
    done = subprocess.run(
        ["sftp", "-q", *stage.options(), "-P", str(stage.port), "-b", "-", "root@127.0.0.1"],
        input=f"put {tmp_path}/sent {tmp_path}/there\n".encode(), capture_output=True, timeout=PATIENCE, check=True,
    )  # fmt: skip
    assert done.stderr == b""
    assert (tmp_path / "there").read_bytes() == (tmp_path / "sent").read_bytes()
    row, lines = newest(stage, next(row for row in commands(stage) if row and "sftp-server" in row))
    assert row["kind"] == "files"
    assert f'open "{tmp_path}/there"' in text(lines, "o")
    assert "content of a file" not in json.dumps(lines)


def commands(stage: Door) -> list[str | None]:
    return [json.loads(line)["command"] for line in asked(stage, "list").stdout.splitlines()]


def test_who_may_read(stage: Door, tmp_path: Path) -> None:
    """Only the auditor's key reads recordings, and it opens nothing else."""
    stage.run("true")
    assert asked(stage, "list", key=stage.key).returncode == 255
    assert stage.run("true", key=stage.folder / "auditor").returncode == 255
    for words in (
        "show ../../etc/passwd",
        "show 20231114T221320Z-00000000",
        "show",
        "cat /etc/passwd",
    ):
        done = asked(stage, words)
        assert (done.returncode, done.stdout) == (3, b"")
        assert b"there is no recording" in done.stderr
    refused = subprocess.run(
        stage.ssh("-W", "127.0.0.1:1", key=stage.folder / "auditor", user="recordings"), input=b"",
        capture_output=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert refused.returncode != 0
    assert asked(stage, "-s", "sftp").returncode != 0


def test_a_session_without_room_ends(stage: Door) -> None:
    """A session whose recording has no more room ends, the client learns why, and the recording has all that it got."""
    command = "yes | head -c 8000000; echo more"
    done = stage.run(command)
    assert done.returncode == 255
    assert b"the recording of this session has no more room" in done.stderr
    assert len(done.stdout) < 5_000_000
    deadline = time.monotonic() + PATIENCE
    while not newest(stage, command)[0]["end"]:  # written by another process, once it has seen the client go
        assert time.monotonic() < deadline
    row, lines = newest(stage, command)
    assert row["end"] == "the connection has ended"
    assert text(lines, "o").encode().startswith(done.stdout)


def test_a_recording_as_large_as_may_be_comes_whole(stage: Door) -> None:
    """A recording of the largest size comes whole, although it is longer than every window on the way."""
    stage.run("head -c 3000000 /dev/zero | tr '\\0' x")
    row, lines = newest(stage, "head -c 3000000 /dev/zero | tr '\\0' x")
    assert text(lines, "o") == "x" * 3_000_000
    assert row["end"] == "exit status 0"


# ------------------------------------------------------------------------------------------------ restricted shells


@pytest.mark.parametrize(("shell", "is_full"), [
    ("/bin/bash", True), ("/opt/fish", True), ("/bin/rbash", False), ("/usr/bin/git-shell", False),
    ("/bin/true", False), ("/usr/sbin/nologin", False), ("/bin/sync", False), ("# /bin/sync", False),
])  # fmt: skip
def test_shells_that_let_an_account_do_less(
    shell: str, is_full: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restricted shell decides about SFTP itself with `-c`, and all bytes are recorded; a full shell gets the SFTP
    server alone.
    """
    (tmp_path / "shells").write_text("# /bin/sync\n/bin/bash\n/opt/fish \n/bin/rbash\n/usr/bin/git-shell\n/bin/true\n")
    monkeypatch.setattr(account, "SHELLS", tmp_path / "shells")
    monkeypatch.setattr(session_channel, "SFTP_SERVERS", (str(tmp_path / "shells"),))
    started: list[Any] = []
    monkeypatch.setattr(session_channel, "start", lambda *words: started.append(words))
    person = Account("web", 1_000, 1_000, "/", shell)
    avatar = SimpleNamespace(
        account=person, permit=Permit("key", b""), settings=SimpleNamespace(command=(), caller="test"),
        recorder=Recorder(tmp_path, 100_000, time.time, time.monotonic), note=lambda _: None, touched=lambda: None,
    )  # fmt: skip
    channel = session_channel.SessionChannel(avatar=avatar)
    channel.localClosed = True  # so nothing is sent
    assert channel.request_subsystem(NS(b"sftp"))
    server = str(tmp_path / "shells")
    words = [server, "-e", "-l", "INFO"] if is_full else [shell, "-c", f"exec {server}"]
    [(_, _, _, executable, argv, _, _)] = started
    assert (executable, [word.decode() for word in argv]) == (words[0], words)
    channel.program_ended(0, None, False)
    [recording] = tmp_path.glob("*.cast")
    head = json.loads(recording.read_text().splitlines()[0])
    assert head["equus"]["kind"] == ("files" if is_full else "command")


def test_a_link_to_a_restricted_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link to a restricted shell is restricted whatever its name is, and a host without a list of shells has no full
    shell.
    """
    (tmp_path / "git-shell").touch()
    (tmp_path / "shell").symlink_to(tmp_path / "git-shell")
    (tmp_path / "shells").write_text(f"{tmp_path}/shell\n/bin/bash\n")
    monkeypatch.setattr(account, "SHELLS", tmp_path / "shells")
    assert not Account("web", 1_000, 1_000, "/", f"{tmp_path}/shell").has_full_shell()
    assert Account("web", 1_000, 1_000, "/", "/bin/bash").has_full_shell()
    monkeypatch.setattr(account, "SHELLS", tmp_path / "none")
    assert not Account("web", 1_000, 1_000, "/", "/bin/bash").has_full_shell()
