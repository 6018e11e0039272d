"""Tests the two checks that look at the monitoring itself, on a real agent of a real Helen."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helen_running import EQUUS, Program, Running, pulse, wait_until

import helen_checks

pytestmark = pytest.mark.integration
NEEDED = ("helen_self.lua", "certificate_self.lua", "lib")


@pytest.fixture
def helen(tmp_path: Path) -> Iterator[Running]:
    """Start Helen with the two checks, and web-1, which may use its socket and knows its token."""
    checks = tmp_path / "checks"
    checks.mkdir()
    for name in NEEDED:
        source = Path(helen_checks.FOLDER) / name
        copy: Any = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, checks / name)
    (checks / "pulse.lua").write_text(pulse())
    running = Running(tmp_path).up()
    agent: Program | None = None
    try:
        agent = start_agent(running, tmp_path)
        wait_until(lambda: running.client.get("/api/v1/results")["results"], "result of the agent")
        yield running
    finally:
        if agent is not None:
            agent.end()
        running.end()


def start_agent(helen: Running, folder: Path) -> Program:
    policy, secrets = folder / "policy.toml", folder / "secrets.toml"
    policy.write_text(f'[caps.unix]\npaths = ["{helen.state}/control.sock"]\n')
    secrets.write_text(f'helen = "{(helen.state / "web.token").read_text().strip()}"\nwrong = "nothing of its own"\n')
    for path in (policy, secrets):
        path.chmod(0o600)
    token = helen.client.post("/api/v1/tokens", {"agent": "web-1"})["token"]
    words = [*EQUUS, "--server", helen.run["agents"], "--state", str(folder / "web-1"), "--join", token]
    words += ["--name", "web-1", "--policy", str(policy), "--secrets", str(secrets)]
    return Program(words, folder / "web-1.log")


def ask(helen: Running, check: str, **args: Any) -> dict[str, Any]:
    """Run a check on web-1, and return its result document."""
    lines = list(helen.client.stream("/api/v1/runs", {"check": check, "on": "web-1", "args": args}, 60.0))
    (found,) = [line["result"] for line in lines if line.get("agent") == "web-1"]
    metrics = {metric["name"]: metric["value"] for metric in found.get("metrics", ())}
    return {"status": found["status"], "summary": found["summary"], "metrics": metrics, "whole": str(found)}


def test_the_monitoring_looks_at_itself(helen: Running, tmp_path: Path) -> None:
    """Helen is looked at by its API and by its socket, and the agent's own certificate: right figures; what is wrong is
    said.
    """
    url, secret = f"http://{helen.run['web']}", (helen.state / "web.token").read_text().strip()
    for way in ({"url": url, "token": {"secret": "helen"}}, {"socket": f"{helen.state}/control.sock"}):
        found = ask(helen, "helen_self", **way)
        assert (found["status"], found["summary"].endswith(", 1 of 1 agents connected")) == ("ok", True), found
        assert (found["metrics"]["agents"], found["metrics"]["away"]) == (1, 0)
        assert secret not in found["whole"]
    found = ask(helen, "helen_self", url=url, token={"secret": "wrong"})
    assert (found["status"], found["summary"]) == ("unknown", "Helen refuses access: the token is not valid there")

    found = ask(helen, "certificate_self")
    assert found["status"] == "ok" and found["summary"].startswith("the certificate of web-1 lasts "), found
    assert 6.9 < found["metrics"]["days_left"] <= 7
    assert 80 < found["metrics"]["life_left"] <= 100  # it is valid from a while before it was made
    assert secret not in (tmp_path / "web-1.log").read_text()

    (helen.state / "assignments.toml").write_text("[[assign")
    helen.signal(signal.SIGHUP)
    wait_until(lambda: helen.client.get("/api/v1/status")["assignments"]["fault"], "fault")
    found = ask(helen, "helen_self", url=url, token={"secret": "helen"})
    assert found["status"] == "warning" and found["summary"].startswith("the assignments are not in force: "), found
