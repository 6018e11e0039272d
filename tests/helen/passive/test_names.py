"""Tests an agent that asks for the name of a host that reports from outside, over a real connection."""

from __future__ import annotations

import pytest
from helen_running import EQUUS, Program, wait_until
from outside_stage import Stage

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(("name", "why"), [("bk", "a name that reports from outside"), ("pings", "reserved")])
def test_a_token_without_a_name_gives_no_name_of_others(stage: Stage, name: str, why: str) -> None:
    """The agent is told `not-enrolled` and no more, the audit has the reason, and the host stays a host (F39)."""
    stage.command("passive", "add", f"{name}/smart")
    wait_until(lambda: name in stage.command("passive", "list"), "declaration")
    token = stage.helen.client.post("/api/v1/tokens", {})["token"]
    words = ["--server", stage.helen.run["agents"], "--state", str(stage.folder / f"thief-{name}"), "--join", token]
    thief = Program([*EQUUS, *words, "--name", name], stage.folder / f"thief-{name}.log")
    try:
        wait_until(lambda: "not-enrolled" in thief.said or thief.process.poll() is not None, "refusal")
    finally:
        thief.end()
    (refused, *_) = stage.helen.client.get(f"/api/v1/audit?subject={name}")["audit"]
    assert refused["action"] == "enrol-refused"
    assert refused["detail"] == f"{name} is {why}: make a token for it (helen token --agent {name})"
    assert stage.helen.client.get(f"/api/v1/agents/{name}")["kind"] == "host"
