"""Test which tunnels get a process: the policy's limits and the host's own rate count, whatever Helen asks for."""

from __future__ import annotations

import errno
import socket
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from equus.policy.policy import Policy, PolicyInForce
from equus.shell.program import OPENINGS, OPENINGS_SECONDS, TIDY_SECONDS, ShellProgram, Started, finish, read_caller
from equus.shell.recordings import NoRoom

POLICY = '[shell]\nallow = true\nusers = ["ops"]\nauthorized_keys = "/etc/equus/keys"\nsessions = 2\n'


class Stream:
    def __init__(self) -> None:
        self.reasons: list[str] = []

    def close(self, reason: str) -> None:
        self.reasons.append(reason)


class Stage:
    """Run the program of an agent, whose processes start when the test says so."""

    def __init__(self, state: Path, monkeypatch: pytest.MonkeyPatch, text: str = POLICY) -> None:
        monkeypatch.setattr("os.geteuid", lambda: 0)
        self.clock = Clock()
        self.policy = PolicyInForce(Policy.parse(text.encode(), "/etc/equus/policy.toml"))
        self.calls: list[tuple[Any, Deferred[Any]]] = []
        self.program = ShellProgram(self.policy, state, lambda: None, self.clock, self.defer)

    def defer(self, call: Any, *arguments: Any) -> Deferred[Any]:
        self.calls.append(((call, *arguments), Deferred()))
        return self.calls[-1][1]

    def open(self) -> list[str]:
        stream: Any = Stream()
        self.program.open(b'{"caller": "token ops", "address": "192.0.2.7"}', stream)
        return stream.reasons  # type: ignore[no-any-return]


def test_nobody_without_a_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without [shell] in the policy no process starts, and no host key is shown."""
    stage = Stage(tmp_path, monkeypatch, "")
    assert (stage.open(), stage.calls, stage.program.report()) == (["denied"], [], {})


def test_as_many_as_the_policy_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many sessions as the policy allows are open, and one that could not start is closed with the reason and makes
    room.
    """
    stage = Stage(tmp_path, monkeypatch)
    first, second = stage.open(), stage.open()
    assert (first, second, stage.open()) == ([], [], ["busy"])
    stage.calls[0][1].errback(OSError("no process"))
    stage.calls[1][1].errback(NoRoom("recordings take all"))
    assert (first, second, stage.open()) == (["failed"], ["full"], [])


def test_the_shares_of_those_that_are_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process is told how many others may still record, so that all of them keep within record_mib."""
    stage = Stage(tmp_path, monkeypatch, f"{POLICY}record = true\nrecord_mib = 64\n")
    for _ in range(2):
        stage.open()
    assert [call[2:] for call, _ in stage.calls] == [(64 * 1_048_576, 0), (64 * 1_048_576, 1)]


def test_a_process_that_can_not_be_joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process for which no descriptor is left is ended and its tunnel closed, and its place is free once it has
    ended.
    """
    stage = Stage(tmp_path, monkeypatch)

    def exhausted(*_: Any) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    stage.clock.adoptStreamConnection = exhausted  # type: ignore[attr-defined]
    reasons = [stage.open() for _ in range(2)]
    ours, theirs = socket.socketpair()
    with theirs:
        stage.calls[0][1].callback(Started("process", ours))  # type: ignore[arg-type]
        assert theirs.recv(1) == b""
    assert reasons == [["failed"], []]
    assert stage.open() == ["busy"], "its process has not ended yet"
    (call, done) = stage.calls[-1]
    assert call == (finish, "process")
    done.callback(None)
    assert stage.open() == []


def test_a_thousand_attempts_in_a_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Helen that was taken over costs this host OPENINGS processes in OPENINGS_SECONDS, and no more."""
    stage = Stage(tmp_path, monkeypatch)
    started = 0
    for _ in range(1_000):
        stage.open()
        if len(stage.calls) > started:
            stage.calls[started][1].errback(OSError("it ends at once"))
            started += 1
    assert started == OPENINGS
    assert stage.open() == ["busy"]
    stage.clock.pump([OPENINGS_SECONDS])
    started = len(stage.calls)
    assert (stage.open(), len(stage.calls)) == ([], started + 1)


@pytest.mark.parametrize(("text", "kept"), [
    ("", 30 * 86_400.0), (f'{POLICY}record = true\nkeep = "2d"\n', 172_800.0),
])  # fmt: skip
def test_old_recordings_are_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, kept: float) -> None:
    """Old recordings are removed at the start and each hour by the time that the policy keeps them, also after a fault
    of the disk.
    """
    stage = Stage(tmp_path, monkeypatch, text)
    assert stage.calls == []
    stage.clock.advance(0)
    [((_, folder, seconds, _), done)] = stage.calls
    assert (folder, seconds) == (tmp_path / "recordings", kept)
    done.errback(OSError("the disk fails"))
    stage.clock.advance(TIDY_SECONDS)
    assert len(stage.calls) == 2


def test_names_that_helen_says_are_one_safe_line() -> None:
    """A name from Helen is one safe line, whatever bytes it has."""
    assert read_caller(b'{"caller": "a\\u001b[2J\\nb", "address": "x"}') == "a?[2J?b at x"
    for blob in (b"", b"[]", b"{", b"[" * 100_000, b"1", b'{"other": 1}'):
        assert read_caller(blob) == ""
    assert len(read_caller(b'{"caller": "' + b"x" * 4_000 + b'"}')) == 200
