"""Test `helen push --agent` with the built wheel of the product itself, against a real Helen and a real agent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from helen_running import EQUUS, Program, Running, pulse, wait_until
from product import build_product

from equus_protocol.pieces import PIECE
from groundwork.figures import figure
from helen.cli import agent_upgrade
from helen.cli.main import main

NEWER = "9.0.0"

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel of this source with a newer version."""
    wheel = build_product(tmp_path_factory.mktemp("product"), NEWER)
    assert wheel.stat().st_size > PIECE  # or this shows nothing
    return wheel


@pytest.fixture(scope="module")
def alone(product: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel of the agent alone, made by the documented command."""
    out = tmp_path_factory.mktemp("alone")
    done = CliRunner().invoke(main, ["agent-wheel", str(product), "--out", str(out)])
    assert done.exit_code == 0, done.output
    wheel = out / product.name
    assert wheel.stat().st_size <= PIECE
    sizes = [figure(path.stat().st_size, "B") for path in (wheel, product)]
    assert f"{wheel}: {sizes[0]}, of {sizes[1]} with the server" in done.output
    return wheel


@pytest.fixture
def helen(tmp_path: Path) -> Iterator[Running]:
    """Yield a Helen with one check."""
    folder = tmp_path / "helen"
    (folder / "checks").mkdir(parents=True)
    (folder / "checks" / "pulse.lua").write_text(pulse())
    running = Running(folder)
    try:
        yield running.up()
    finally:
        running.end()


def begin(helen: Running, name: str, allowed: bool) -> Program:
    """Start an agent whose policy allows upgrades, or does not."""
    policy = helen.folder / f"{name}.toml"
    policy.write_text(f"[upgrade]\nallow = {str(allowed).lower()}\n")
    policy.chmod(0o644)
    token = helen.client.post("/api/v1/tokens", {"agent": name})["token"]
    words = [*EQUUS, "--server", helen.run["agents"], "--state", str(helen.folder / name), "--join", token]
    return Program([*words, "--name", name, "--policy", str(policy)], helen.folder / f"{name}.log")


def push(helen: Running, wheel: Path) -> Result:
    runner = CliRunner(env={"HELEN_STATE": str(helen.state), "HELEN_URL": None, "HELEN_TOKEN": None})
    return runner.invoke(main, ["push", "--rings", "off", "--agent", str(wheel)])


@pytest.mark.parametrize("kind", ["product", "alone"])
def test_the_real_wheel_arrives_and_is_confirmed(
    helen: Running, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The real wheel arrives in pieces, one agent runs it and one refuses it, and the printed figures say so (J1)."""
    wheel: Path = request.getfixturevalue(kind)
    if kind == "product":
        monkeypatch.setattr(agent_upgrade, "AT_ONCE", PIECE)  # and in several requests
    agents = [begin(helen, "web-1", True), begin(helen, "web-2", False)]
    try:
        wait_until(lambda: len(helen.client.get("/api/v1/results")["results"]) == 2, "result of both agents")
        done = push(helen, wheel)
        assert done.exit_code == 0, (done.output, [agent.said for agent in agents])
        assert f"Equus {NEWER}: 1 of 2 agents run it, 1 refused it" in done.stdout
        assert "web-2 does not run it: denied: " in done.stderr
        assert ("is longer than 1 MiB" in done.stderr) is (kind == "product")
        assert not any(f"of {fewer} agents" in done.stdout for fewer in (0, 1)), done.stdout
        versions = {agent["name"]: agent["equus"] for agent in helen.client.get("/api/v1/agents")["agents"]}
        assert NEWER in versions["web-1"] and NEWER not in versions["web-2"]
        installed = helen.folder / "web-1" / "upgrade" / NEWER
        assert (installed / "helen").exists() is (kind == "product")
    finally:
        for agent in agents:
            agent.end()


def test_nobody_confirms(helen: Running, alone: Path) -> None:
    """A push that no agent confirms fails, and says which agent refused and why (J1)."""
    agent = begin(helen, "web-1", False)
    try:
        wait_until(lambda: helen.client.get("/api/v1/results")["results"], "result of the agent")
        done = push(helen, alone)
        assert done.exit_code == 1
        assert f"no agent has confirmed that it runs Equus {NEWER}" in done.stderr
        assert "add to " in done.stderr and "allow = true" in done.stderr
    finally:
        agent.end()
    assert os.path.exists(helen.folder / "web-1")
    assert not os.path.exists(helen.folder / "web-1" / "upgrade")
