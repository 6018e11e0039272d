"""Tests what systemd tells a service, and what it is told."""

import os
import socket
from pathlib import Path

import pytest

from helen import systemd


def test_notify(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A notification is one datagram with all lines."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        systemd.notify("READY=1", "STATUS=x")
        assert manager.recv(100) == b"READY=1\nSTATUS=x"


@pytest.mark.parametrize("address", ["", "/nowhere/notify", "@nobody-listens-here"])
def test_a_deaf_manager(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    """A manager that hears nothing does not stop Helen."""
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    systemd.notify("READY=1")


@pytest.mark.parametrize(
    ("microseconds", "pid", "expected"),
    [("30000000", None, 15.0), ("30000000", "1", None), ("0", None, None), ("x", None, None), ("", None, None)],
)
def test_the_watchdog(
    monkeypatch: pytest.MonkeyPatch, microseconds: str, pid: str | None, expected: float | None
) -> None:
    """The watchdog beats at half of what is allowed; zero is none, and never a loop without a pause."""
    monkeypatch.setenv("WATCHDOG_USEC", microseconds)
    monkeypatch.setenv("WATCHDOG_PID", pid or str(os.getpid()))
    assert systemd.watchdog_seconds() == expected


@pytest.mark.parametrize(
    ("pid", "count", "names", "expected"),
    [
        (None, "2", "web:agents", {"web": 0, "agents": 1}),
        (None, "1", "unknown", {"agents": 0}),
        (None, "1", "", {"agents": 0}),
        (None, "1", "web", {"web": 0}),
        (None, "2", "agents:other", {"agents": 0}),
        (None, "0", "", {}),
        (None, "x", "agents", {}),
        ("1", "1", "agents", {}),
    ],
)
def test_sockets(
    monkeypatch: pytest.MonkeyPatch, pid: str | None, count: str, names: str, expected: dict[str, int]
) -> None:
    """Sockets are found by their names; a single one without is for agents; another process's are not ours."""
    closed: list[tuple[int, bool]] = []
    monkeypatch.setattr(os, "set_inheritable", lambda *words: closed.append(words))
    environment = {"LISTEN_PID": pid or str(os.getpid()), "LISTEN_FDS": count, "LISTEN_FDNAMES": names}
    assert systemd.sockets(environment) == {name: 3 + at for name, at in expected.items()}
    assert closed == [(3 + at, False) for at in range(int(count) if count.isdigit() and pid is None else 0)]


def test_the_environment_that_we_were_started_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first environment still has what has been taken out of it since."""
    monkeypatch.delenv("PATH")
    assert systemd.first_environment()["PATH"]
