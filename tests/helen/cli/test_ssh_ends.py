"""Tests which events end a session: reload and drain of Helen, reload and end of an agent, and their number."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest
from helen_running import environment, wait_until
from openssh import PATIENCE
from ssh_fleet import HELEN, Fleet
from ssh_stage import wait_until_gone
from web_client import ask

pytestmark = pytest.mark.integration


@pytest.fixture
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    made = Fleet(tmp_path_factory.mktemp("ends"), "sessions = 2\n")
    try:
        yield made
    finally:
        made.end()


@contextlib.contextmanager
def session(fleet: Fleet) -> Iterator[subprocess.Popen[bytes]]:
    """Provide a session of `helen ssh` that echoes its input."""
    at = ["--state", str(fleet.helen.state), "--known-hosts", str(fleet.known)]
    words = [*HELEN, "ssh", *at, "root@web-1", *fleet.options(), "cat"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()) as process:
        try:
            answers(process)
            yield process
        finally:
            process.kill()


def answers(process: subprocess.Popen[bytes]) -> None:
    """Wait for the answer to a word that is typed; one that does not come is a failure, and no test without an end."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(b"word")
    process.stdin.flush()
    read, until = b"", time.monotonic() + PATIENCE
    while len(read) < 4:
        [ready] = select.select([process.stdout], [], [], max(0.0, until - time.monotonic()))[0] or [None]
        assert ready is not None, f"no answer within {PATIENCE} s, but {read!r}"
        piece = os.read(process.stdout.fileno(), 4 - len(read))
        assert piece, f"the session has ended behind {read!r}"
        read += piece
    assert read == b"word"


def reasons(fleet: Fleet) -> list[str]:
    """Return the reasons for which tunnels have ended by Helen's audit, the newest first."""
    rows: list[dict[str, Any]] = ask(fleet.helen, "GET", "/api/v1/audit?limit=100").json["audit"]
    return [row["subject"].rpartition(": ")[2] for row in rows if row["action"] == "tunnel-end"]


def test_reloads_end_nothing_and_an_agent_that_stops_says_so(fleet: Fleet) -> None:
    """A SIGHUP of Helen, or of an agent with the same [shell], ends no session; SIGTERM of the agent ends it as
    `stopping`."""
    with session(fleet) as process:
        fleet.helen.signal(signal.SIGHUP)
        fleet.policy.write_text(fleet.text + "[limits]\nparallel = 4\n")
        before = ask(fleet.helen, "GET", "/api/v1/agents/web-1").json["policy"]
        fleet.agent.process.send_signal(signal.SIGHUP)
        wait_until(lambda: ask(fleet.helen, "GET", "/api/v1/agents/web-1").json["policy"] != before, "new policy", 120)
        answers(process)
        fleet.agent.process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 255
    wait_until(lambda: reasons(fleet)[:1] == ["stopping"], "end in the audit")


@pytest.mark.parametrize("victim", ["helen", "agent"])
def test_a_side_that_is_killed(fleet: Fleet, victim: str) -> None:
    """A killed Helen or agent ends the caller's session, and no process of it goes on at the agent."""
    at = ["--state", str(fleet.helen.state), "--known-hosts", str(fleet.known)]
    command = "trap '' HUP; setsid sleep 1000 & echo $! $$; sleep 1000"
    words = [*HELEN, "ssh", *at, "root@web-1", *fleet.options(), command]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()) as process:
        try:
            assert process.stdout is not None
            pids = [int(word) for word in process.stdout.readline().split()]
            victims = {"helen": fleet.helen.program, "agent": fleet.agent}
            victims[victim].process.kill()
            assert process.wait(PATIENCE) == 255
            assert len(pids) == 2
            wait_until_gone(pids)
        finally:
            process.kill()


def test_a_drain_ends_sessions(fleet: Fleet) -> None:
    """A drain of Helen ends the session with the agent's connection."""
    with session(fleet) as process:
        assert ask(fleet.helen, "POST", "/api/v1/drain", {"over": 1, "force": True}).status < 300
        assert process.wait(PATIENCE) == 255
    wait_until(lambda: reasons(fleet)[:1] == ["connection-lost"], "end in the audit")


def test_no_more_sessions_than_the_policy_says(fleet: Fleet) -> None:
    """A session above the policy's limit is refused by a sentence, and there is room again once one has ended."""
    with session(fleet) as first, session(fleet):
        done = fleet.ssh("root@web-1", *fleet.options(), "true")
        assert done.returncode == 255
        assert b"web-1 has as many tunnels open as its policy allows" in done.stderr
        assert first.stdin is not None
        first.stdin.close()
        assert first.wait(PATIENCE) == 0
        wait_until(lambda: fleet.ssh("root@web-1", *fleet.options(), "true").returncode == 0, "room for another one")
