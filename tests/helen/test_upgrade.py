"""Tests `helen push --agent`: a real agent runs the newer Equus, and one whose policy does not allow it refuses."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner
from helen_running import EQUUS, Program, Running, pulse, wait_until

import equus
import equus_protocol
import groundwork
from helen.cli.main import main

NAME = "helen_equus-0.2.0-py3-none-any.whl"


def wheel(path: Path) -> Path:
    """Write a wheel of this very agent as version 0.2.0, and return its path."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        about = "Metadata-Version: 2.1\nName: helen-equus\nVersion: 0.2.0\n"
        archive.writestr("helen_equus-0.2.0.dist-info/METADATA", about)
        for package in (equus, equus_protocol, groundwork):
            root = Path(str(package.__file__)).parent
            for file in root.rglob("*"):
                if file.suffix in (".py", ".lua"):
                    archive.write(file, f"{root.name}/{file.relative_to(root)}")
    return path


def agent(helen: Running, name: str, policy: str) -> Program:
    path = helen.folder / f"{name}.toml"
    path.write_text(policy)
    token = helen.client.post("/api/v1/tokens", {"agent": name})["token"]
    words = [*EQUUS, "--server", helen.run["agents"], "--state", str(helen.folder / name), "--join", token]
    return Program([*words, "--name", name, "--policy", str(path)], helen.folder / f"{name}.log", cwd="/")


@pytest.mark.integration
def test_an_equus_that_helen_sends_out(tmp_path: Path) -> None:
    """A real upgrade goes over TLS, signed, fetched by its hash and tried out; the other agent names its policy's
    missing line.
    """
    checks = tmp_path / "checks"
    checks.mkdir()
    (checks / "pulse.lua").write_text(pulse())
    helen = Running(tmp_path).up()
    agents = []
    try:
        agents = [agent(helen, "web-1", "[upgrade]\nallow = true\n"), agent(helen, "web-2", "")]
        rows = lambda: {row["name"]: row for row in helen.client.get("/api/v1/agents")["agents"]}  # noqa: E731
        wait_until(lambda: len([row for row in rows().values() if row["connected"]]) == 2, "both agents")
        assert {row["equus"] for row in rows().values()} == {"0.1.0"}
        words = ["push", "--state", str(helen.state), "--agent", str(wheel(tmp_path / NAME)), "--rings", "off"]
        pushed = CliRunner().invoke(main, words)
        assert "agents run it" in pushed.output, (pushed.output, pushed.exception)
        wait_until(lambda: rows()["web-1"]["equus"] == "0.2.0" and rows()["web-1"]["connected"], "newer agent")
        wait_until(lambda: "upgrade" in rows()["web-2"]["troubles"], "refusal")
        assert rows()["web-2"]["equus"] == "0.1.0"
        assert "section [upgrade]: allow = true" in rows()["web-2"]["troubles"]["upgrade"]
        wait_until(lambda: rows()["web-1"]["current"], "newer agent with the whole set")
        shown = CliRunner().invoke(main, ["agents", "--state", str(helen.state)])
        assert "web-2: the newest upgrade is not used: denied: Equus 0.2.0 is offered" in shown.stderr
        assert agents[0].process.poll() is None
    finally:
        for one in agents:
            one.end()
        helen.end()
