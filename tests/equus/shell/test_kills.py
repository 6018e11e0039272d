"""Test fifty kills, of the client and of the server by turns: they leave no process, no descriptor and no terminal."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path

import pytest
from openssh import PATIENCE
from ssh_stage import door, wait_until_gone

pytestmark = pytest.mark.integration
ROUNDS, AT_ONCE = 5, 10
STUBBORN = """#!/bin/bash
trap '' HUP
setsid sleep 1000 & echo $!
(nohup sleep 1000 >/dev/null 2>&1 & echo $!)
echo $$
sleep 1000
"""


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def descriptors() -> set[str]:
    """Return what this process has open, which is the agent's side of each connection."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # that of the folder itself
            found.add(os.readlink(f"/proc/self/fd/{name}"))
    return {link for link in found if link.startswith("socket:")}


def test_fifty_kills(tmp_path: Path) -> None:
    """Fifty kills of client and server leave no process, with ten sessions at once that hold a terminal, a detached
    child and a stubborn one.
    """
    (tmp_path / "stubborn").write_text(STUBBORN)
    before = descriptors()
    with door(tmp_path) as stage:
        for _ in range(ROUNDS):
            words = stage.ssh("-tt", f"bash {tmp_path}/stubborn")
            clients = [subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(AT_ONCE)]
            left: list[int] = []
            for number, client in enumerate(clients):
                assert client.stdout is not None
                pids = [int(client.stdout.readline()) for _ in range(3)]
                server = parent(pids[2])
                inner = parent(server)
                left += [*pids, server, inner, parent(inner)]
                os.kill(client.pid if number % 2 else server, signal.SIGKILL)
            wait_until_gone(left)
            for client in clients:
                client.communicate(timeout=PATIENCE)
        assert len(stage.processes) == ROUNDS * AT_ONCE
        assert [process.wait(PATIENCE) for process in stage.processes] == [0] * (ROUNDS * AT_ONCE)
    assert descriptors() <= before
