"""Test an agent as a process that answers check_nrpe with the results of its schedule."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from helen_running import EQUUS, Program, Running, pulse, wait_until

from equus.nrpe.newest import NewestResults
from equus.nrpe.packets import Question
from equus_protocol import messages as m

LOAD = b'[{"id": "load-1", "check": "load", "every": 5, "offset": 0}]'


def test_results_of_the_schedule(memory_agent: Any, folder: Path, clock: Any) -> None:
    newest = NewestResults("0.1", clock.seconds)
    agent = memory_agent(newest=newest, checks=folder)
    agent.meet().say(m.Schedule(1, LOAD))
    assert newest.answer(Question(4, "check_load-1")) == (3, "UNKNOWN: load-1 has not run since this agent started")
    agent.clock.advance(5)
    [run] = agent.runner.running
    run.finish(status="critical", summary="too much")
    assert newest.answer(Question(4, "check_load-1")) == (2, "CRITICAL: too much")


@pytest.mark.integration
def test_a_process_answers(tmp_path: Path) -> None:
    """An agent of a real Helen answers check_nrpe with its check's result, and a bad port ends its start."""
    helen = Running(tmp_path / "helen")
    (helen.checks / "pulse.lua").write_text(pulse())
    agent = None
    try:
        helen.up()
        token = helen.client.post("/api/v1/tokens", {"agent": "web-1"})["token"]
        words = [*EQUUS, "--server", helen.run["agents"], "--state", str(tmp_path / "web-1"), "--name", "web-1"]
        agent = Program([*words, "--join", token, "--nrpe", "127.0.0.1:0"], tmp_path / "web-1.log")
        found = wait_until(
            lambda: re.search(r"answered at 127.0.0.1 port ([0-9]+)", agent.said), "line of the log", 30.0
        )
        ask = ["/usr/lib/nagios/plugins/check_nrpe", "-n", "-H", "127.0.0.1", "-p", found[1], "-c", "check_pulse"]

        def said() -> str:
            return subprocess.run(ask, capture_output=True, text=True, timeout=30).stdout

        assert wait_until(lambda: "OK: hello" in said(), "answer with a result")
        other = Program([*words, "--state", str(tmp_path / "other"), "--nrpe", "0.0.0.0:0"], tmp_path / "other.log")
        assert other.wait() == 2
        assert "other machines get answers by TLS" in other.said
    finally:
        if agent is not None:
            agent.end()
        helen.end()
