"""Tests `helen discover` with a real Helen and a real agent: found services are proposed, and checked once accepted."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from helen_running import Running, pulse, wait_until

from helen.assignments.assignments_text import read as read_assignments
from helen.assignments.schedule import CheckTable
from helen.cli.discovery.command import look_at, print_found
from helen.cli.main import main

# Of all that listens on this machine, the agent connects to nothing but the ports of these tests: what another program
# is, or whether it hangs, does not matter here.
POLICY = "".join(
    f'[caps.{name}]\nnetworks = [{{ cidr = "127.0.0.0/8", ports = ["20000-31999"] }}]\n'
    for name in ("tcp", "tls", "http")
)
SHIPPED = Path(__file__).parents[3] / "checks"


class Shell:
    """Run `helen discover ...` with HELEN_STATE set to that Helen."""

    def __init__(self, fleet: Running) -> None:
        self.fleet = fleet
        self.runner = CliRunner(env={"HELEN_STATE": str(fleet.state), "HELEN_URL": None, "HELEN_TOKEN": None})

    def __call__(self, *words: str, status: int = 0) -> Result:
        result = self.runner.invoke(main, ["discover", *words], prog_name="helen")
        assert result.exit_code == status, (result.output, result.stderr, result.exception)
        return result

    def text(self) -> str:
        return str(self.fleet.client.get("/api/v1/assignments")["text"])


@pytest.fixture
def helen(tmp_path: Path) -> Iterator[Shell]:
    """Provide Helen with some of the shipped checks, and the agent web-1, which runs its default set."""
    folder = tmp_path / "checks"
    folder.mkdir()
    for name in ("tcp", "process", "certificate_self"):
        shutil.copy(SHIPPED / f"{name}.lua", folder)
    shutil.copytree(SHIPPED / "lib", folder / "lib")
    (folder / "pulse.lua").write_text(pulse())
    running = Running(tmp_path).up()
    agent = None
    try:
        (tmp_path / "policy.toml").write_text(POLICY)
        (tmp_path / "policy.toml").chmod(0o600)
        agent = running.agent("web-1", "role=web", policy=tmp_path / "policy.toml")
        wait_until(lambda: running.client.get("/api/v1/results")["results"], "result of the agent")
        yield Shell(running)
    finally:
        if agent is not None:
            agent.end()
        running.end()


@pytest.fixture
def port() -> Iterator[int]:
    """Provide a port of this machine on which something listens, below those that the kernel gives out."""
    for number in range(20_000, 32_000):
        try:
            listener = socket.create_server(("127.0.0.1", number))
        except OSError:
            continue
        with listener:
            yield number
        return
    pytest.fail("no port is free")


def test_from_finding_to_result(helen: Shell, port: int) -> None:
    """A found service is proposed, assigned only with consent, gives results beside the default set, and is not
    proposed again."""
    shown = helen(status=2).stdout
    assert f"    a program listens on port {port}: tcp\n" in shown
    assert f'id = "tcp-{port}"' in shown and "1 to add, 0 to change, 0 to remove" in shown
    helen("--accept", status=1)  # no terminal to ask at
    assert helen.text() == ""
    first = json.loads(helen("--on", "role=web", "--output", "json", status=2).stdout)
    (web,) = first["agents"]
    assert (web["agent"], web["outcome"], web["unwatched"]) == ("web-1", "answered", first["unwatched"])
    args = {"port": port}
    assert {"check": "tcp", "id": f"tcp-{port}", "args": args, "what": f"a program listens on port {port}"} in web[
        "proposals"
    ]
    assert {each["check"] for each in web["proposals"]} >= {"tcp", "certificate_self"}
    assert helen.text() == ""
    assert "assignments.toml: done" in helen("--accept", "--yes", "--check", "tcp").stdout
    assert '[[assign]]\ncheck = "*"\nagents = ["web-1"]' in helen.text()

    def result_of(check: str) -> dict[str, Any] | None:
        listed = helen.fleet.client.get("/api/v1/agents/web-1")["results"]
        return next((each for each in listed if each["check_id"] == check), None)

    found = wait_until(lambda: result_of(f"tcp-{port}"), "result of the accepted check")
    assert found["status"] == "ok" and result_of("pulse") is not None
    # Other programs of this machine may have begun to listen meanwhile; what was accepted is found no more.
    again = helen.runner.invoke(main, ["discover", "--check", "tcp", "--output", "json"])
    document = json.loads(again.stdout)
    assert f"tcp-{port}" not in [each["id"] for each in document["agents"][0]["proposals"]]
    assert again.exit_code == (2 if document["unwatched"] else 0)
    helen("--on", "nobody", status=3)
    _report(helen)
    assert "--yes answers the question of --accept" in helen("--yes", status=2).stderr


def _report(helen: Shell) -> None:
    """Give the number of findings to a passive check, which has to be declared."""
    invoked = helen.runner.invoke(main, ["discover", "--report", "fleet/unwatched"])
    assert (invoked.exit_code, "nothing from outside is expected of" in invoked.output) == (3, True), invoked.output
    declared = helen.runner.invoke(main, ["passive", "add", "fleet/unwatched", "--stale", "26h"])
    assert declared.exit_code == 0, declared.output
    invoked = helen.runner.invoke(main, ["discover", "--report", "fleet/unwatched"])
    assert invoked.exit_code in (0, 2), invoked.output

    def results() -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = helen.fleet.client.get("/api/v1/results")["results"]
        return [each for each in listed if each["check_id"] == "unwatched"]

    (result,) = wait_until(results, "result of the passive check")
    metrics = {each["name"]: each for each in result["metrics"]}
    assert (result["status"], metrics["silent"]["value"]) == ("ok", 0)
    assert metrics["unwatched_on"]["labels"] == {"agent": "web-1"}
    # certificate_self was proposed, and is not accepted; what else listens on this machine may come and go.
    assert metrics["unwatched"]["value"] == metrics["unwatched_on"]["value"] >= 1
    for words in (["--report", "x"], ["--report", "a/b", "--check", "tcp"], ["--report", "a/b", "--accept"]):
        helen(*words, status=2)


TABLES = {"tcp": CheckTable("tcp", args={"port": {"type": "integer", "required": True}})}
GOOD = json.dumps({"discover": 1, "listeners": [{"port": 80, "address": "::"}, 5], "notes": ["services: denied"]})


@pytest.mark.parametrize(
    ("target", "labels", "outcome", "why"),
    [
        ({"outcome": "offline", "result": None, "why": "not connected"}, {}, "offline", "not connected"),
        ({"outcome": "expired", "result": None}, {}, "expired", ""),
        ({"outcome": "answered", "result": None}, {}, "failed", "it gave no reason"),
        ({"outcome": "answered", "result": {"status": "unknown", "summary": "boom"}}, {}, "failed", "boom"),
        ({"outcome": "refused", "result": None, "why": "w" * 9000}, {}, "refused", "w"),
        ({"outcome": "answered", "result": {"status": "ok", "summary": "{}"}}, {}, "failed", "its answer is none of"),
        ({"outcome": "answered", "result": {"status": "ok", "summary": GOOD}}, None, "failed", "can't name this agent"),
    ],
)
def test_agents_that_say_nothing_useful(
    target: dict[str, Any], labels: dict[str, str] | None, outcome: str, why: str
) -> None:
    """A target without a usable answer has its outcome and reason, at most 400 characters long, and no proposal."""
    looked = look_at({"agent": "web-1"} | target, read_assignments(""), TABLES, labels, ())
    assert (looked.outcome, looked.unwatched) == (outcome, 0)
    assert why in looked.why and len(looked.why) <= 400


def test_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Each agent and proposal is one printed line, in which control characters of agents are escaped."""
    answered = {"agent": "web-1", "outcome": "answered", "result": {"status": "ok", "summary": GOOD}}
    hostile = {"agent": "evil", "outcome": "answered", "result": {"status": "critical", "summary": "\x1b[2Jgone"}}
    print_found([look_at(each, read_assignments(""), TABLES, {}, ()) for each in (answered, hostile)])
    assert capsys.readouterr().out == (
        "web-1: 1 found, 1 without a check\n    HTTP listens on port 80: tcp\n    note: services: denied\n"
        "    note: left out, since no check could use it: 1 finding\nevil: FAILED \\x1b[2Jgone\n"
    )
