"""Tests a real Helen that is copied while it works; another one starts from the copy, and its agent goes on."""

from __future__ import annotations

import stat
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from helen_running import PULSE, Running, pulse, wait_until
from ports import free_port

from helen.cli.main import main
from helen.journal.verify import check_history


def helen_command(*words: str) -> Result:
    return CliRunner().invoke(main, list(words), catch_exceptions=False)


NOTIFY = """[channels.ops]
type = "webhook"
url = "http://127.0.0.1:9/"

[route]
channels = ["ops"]
"""
ASSIGN = '[[assign]]\ncheck = "pulse"\nid = "beat"\n\n[[assign]]\ncheck = "sick"\n'
SICK = PULSE.replace('return "ok", args.word', 'return "critical", args.word')
PASSIVE = '[[check]]\nhost = "nas"\nid = "raid"\n'


def fill(helen: Running) -> dict[str, Any]:
    """Give a running Helen one thing of each kind; return what a copy must have."""
    client = helen.client
    (helen.state / "assignments.toml").write_text(ASSIGN)
    (helen.state / "notifications.toml").write_text(NOTIFY)
    (helen.state / "passive.toml").write_text(PASSIVE)
    wait_until(lambda: any(each["id"] == "beat" for each in schedule(helen)), "schedule")
    wait_until(lambda: client.get("/api/v1/notifications")["configured"], "channel")
    wait_until(lambda: is_broken(state_of(helen, "sick")), "problem")
    client.post("/api/v1/acks", {"agent": "web-1", "check": "sick", "owner": "ann", "comment": "seen"})
    now = time.time()
    body = {"kind": "downtime", "agents": ["web-1"], "checks": ["beat"], "begin": now, "until": now + 9_000}
    window = client.post("/api/v1/windows", body | {"author": "ann", "comment": "move"})["window"]["id"]
    token = client.post("/api/v1/web-tokens", {"name": "grafana", "scopes": ["read"]})["token"]
    return {"window": window, "token": token, "version": client.get("/api/v1/push")["version"]}


def is_there(helen: Running) -> bool:
    return any(each["name"] == "web-1" and each["connected"] for each in helen.client.get("/api/v1/agents")["agents"])


def schedule(helen: Running) -> Any:
    return helen.client.get("/api/v1/agents/web-1")["schedule"]


def state_of(helen: Running, check: str) -> Any:
    found = helen.client.get("/api/v1/states")["states"]
    return next((each for each in found if (each["agent"], each["check_id"]) == ("web-1", check)), None)


def is_broken(state: Any) -> bool:
    """Say whether the check is critical and confirmed: until then nobody can acknowledge it."""
    return state is not None and (state["status"], state["kind"]) == ("critical", "hard")


@pytest.mark.parametrize("options", [(), ("--history",)])
def test_a_copy_of_a_running_helen_goes_on(tmp_path: Path, options: tuple[str, ...]) -> None:
    """The copy has everything, the agent and the token work, and nothing is published before a yes (J3)."""
    (tmp_path / "checks").mkdir()
    (tmp_path / "checks" / "pulse.lua").write_text(pulse())
    (tmp_path / "checks" / "sick.lua").write_text(SICK.format(word="ill", every="1s"))
    listen = f"127.0.0.1:{free_port()}"
    helen = Running(tmp_path, "--listen", listen).up()
    agent = helen.agent("web-1", "role=web")
    copy = None
    try:
        wait_until(lambda: is_there(helen), "agent")
        made = fill(helen)
        file = tmp_path / "helen.backup"
        done = helen_command("backup", str(file), "--state", str(helen.state), *options)
        assert done.exit_code == 0, done.output
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        helen.end()
        other = tmp_path / "other"
        done = helen_command("restore", str(file), "--state", str(other / "state"))
        assert (done.exit_code, "helen push --yes" in done.output) == (0, True), done.output
        assert not check_history(other / "state").problems
        copy = Running(other, "--listen", listen, "--mute").up()  # with another, empty folder of checks
        again = copy.client
        assert (state_of(copy, "sick") or {})["acknowledged"]["owner"] == "ann"
        assert [each["id"] for each in again.get("/api/v1/windows")["windows"]] == [made["window"]]
        assert again.get("/api/v1/status")["notifications"]["configured"]
        assert [each["name"] for each in again.get("/api/v1/web-tokens")["tokens"] if each["name"] == "grafana"]
        assert (other / "state" / "passive.key").read_bytes() == (helen.state / "passive.key").read_bytes()
        assert (other / "state" / "checks" / "sick.lua").exists()
        wait_until(lambda: is_there(copy), "agent at the copy")
        wait_until(lambda: any(not r["kept"] for r in again.get("/api/v1/results")["results"]), "new results")
        assert {each["id"] for each in schedule(copy)} == {"beat", "sick"}
        (copy.checks / "own.lua").write_text(pulse("own"))
        refused = helen_command("push", str(copy.checks / "own.lua"), "--state", str(copy.state))
        assert (refused.exit_code, "restored from a backup" in refused.output) == (1, True), refused.output
        time.sleep(1.5)  # the folder is looked at each second
        assert again.get("/api/v1/push")["version"] == made["version"]
        told = helen_command("status", "--state", str(copy.state))
        assert "restored from a backup" in told.output and "--mute" in told.output
        for name in ("pulse.lua", "sick.lua"):
            (copy.checks / name).write_text((copy.state / "checks" / name).read_text())
        done = helen_command("push", "--yes", "--detach", "--rings", "off", "--state", str(copy.state))
        assert done.exit_code == 0, done.output
        wait_until(lambda: again.get("/api/v1/push")["version"] > made["version"], "version after the yes")
        assert not (copy.state / "restored.json").exists()
    finally:
        agent.end()
        helen.end()
        if copy is not None:
            copy.end()
