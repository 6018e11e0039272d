"""Tests Debian's sample configuration of Nagios 4, imported, applied to a real Helen, and run by a real agent."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from helen_running import EQUUS, Program, Running, wait_until

import helen_checks
from helen.cli.main import main

pytestmark = pytest.mark.integration

SAMPLES = Path(__file__).parent / "samples"
SERVICES = ["Current-Load", "Current-Users", "HTTP", "PING", "Root-Partition", "SSH", "Swap-Usage", "Total-Processes"]
WORDS = {
    "Current-Load": "load average", "Current-Users": "USERS", "HTTP": "", "PING": "P", "Root-Partition": "DISK",
    "SSH": "", "Swap-Usage": "SWAP", "Total-Processes": "PROCS",
}  # fmt: skip


@pytest.fixture
def helen(tmp_path: Path) -> Iterator[Running]:
    checks = tmp_path / "helen" / "checks"
    (checks / "lib").mkdir(parents=True)
    for name in ("plugin.lua", "lib/plugin_figures.lua"):
        shutil.copy(Path(helen_checks.__file__).parent / name, checks / name)
    running = Running(tmp_path / "helen")
    try:
        yield running.up()
    finally:
        running.end()


def run(*words: str) -> str:
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    return done.output


def test_each_service_of_the_sample_runs(helen: Running, tmp_path: Path) -> None:
    """A result is a plugin's own: none is denied, unknown for its arguments, or not there."""
    assert Path("/usr/lib/nagios/plugins/check_load").exists(), "apt-get install monitoring-plugins-basic"
    folder, words = tmp_path / "imported", ["--resources", str(SAMPLES / "resource.cfg")]
    run("import", "nagios", str(SAMPLES / "objects.cache"), *words, "--out", str(folder), "--agent", "core")
    entries = folder / "assignments.toml"
    entries.write_text(re.sub(r'^(every|retry) = ".*"', r'\1 = "2s"', entries.read_text(), flags=re.MULTILINE))
    run("apply", "-f", str(folder), "--yes", "--state", str(helen.state))
    token = helen.client.post("/api/v1/tokens", {"agent": "core"})["token"]
    at = [
        "--server",
        helen.run["agents"],
        "--state",
        str(tmp_path / "core"),
        "--policy",
        str(folder / "policy/core.toml"),
    ]
    agent = Program([*EQUUS, *at, "--join", token, "--name", "core"], tmp_path / "core.log")

    def said() -> dict[str, str]:
        listed = helen.client.get("/api/v1/results")["results"]
        return {each["check_id"]: each["summary"] for each in listed if each["agent"] == "localhost"}

    try:
        found = wait_until(lambda: said() if {*SERVICES, "host"} <= said().keys() else None, "all results", 60.0)
    finally:
        agent.end()
    for id in SERVICES:
        assert "policy" not in found[id] and "slots" not in found[id], found[id]
        assert WORDS[id] in found[id], found[id]
