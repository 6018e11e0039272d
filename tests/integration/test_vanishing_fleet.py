"""Test fifty machines that join with one token, of which forty vanish: none is reported, and they are on no list.
(Issue 19, part 1.)
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen
from click.testing import CliRunner
from helen_running import TWISTD, Running, pulse, wait_until
from namespaces import ADDRESS, Agents, Outside

from helen.cli.main import main

PATIENCE = 120.0  # seconds
COUNT, STAYING = 50, 10
NAMES = [f"asg-{number:02}" for number in range(COUNT)]
NOTIFICATIONS = """
[channels.book]
type = "command"
argv = ["/bin/sh", "-c", "cat >> {folder}/told; echo >> {folder}/told"]
[route]
channels = "book"
group_by = ["agent"]
group_wait = "0s"
group_interval = "1s"
"""


@frozen
class Scene:
    """Hold Helen, fifty machines of one token, and one machine that is to be missed."""

    helen: Running
    fleet: Agents
    usual: Agents
    folder: Path

    def command(self, *words: str) -> str:
        done = CliRunner().invoke(main, [*words, "--state", str(self.helen.state)])
        assert done.exit_code in (0, 1), done.output
        return str(done.output)

    def connected(self) -> set[str]:
        listed = self.helen.client.get("/api/v1/agents?limit=1000")["agents"]
        return {each["name"] for each in listed if each["connected"]}

    def told(self) -> str:
        path = self.folder / "told"
        return path.read_text() if path.exists() else ""


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    outside = Outside(tmp_path)
    started: list[Any] = [outside]
    try:
        runner = [*outside.enter, *TWISTD, "-n", "--pidfile="]
        helen = Running(tmp_path, "--listen", f"{ADDRESS}:0", "--name", ADDRESS, runner=runner)
        started.append(helen)
        (helen.checks / "pulse.lua").write_text(pulse())
        helen.up()
        (helen.state / "assignments.toml").write_text('[judge]\naway = "5s"\n')
        (helen.state / "notifications.toml").write_text(NOTIFICATIONS.format(folder=tmp_path))
        server = f"{ADDRESS}:{helen.run['agents'].rpartition(':')[2]}"
        asked = {"uses": COUNT, "names": "asg-*", "labels": {"role": "web"}, "ephemeral": 10.0}
        fleet = outside.agents(server, token(helen, asked), tmp_path / "fleet", NAMES)
        started.append(fleet)
        usual = outside.agents(server, token(helen, {"agent": "usual"}), tmp_path / "usual", ["usual"])
        started.append(usual)
        yield Scene(helen, fleet, usual, tmp_path)
    finally:
        for each in reversed(started):
            each.end()


def token(helen: Running, asked: dict[str, Any]) -> str:
    return str(helen.client.post("/api/v1/tokens", asked)["token"])


@pytest.mark.long
@pytest.mark.integration
def test_fifty_join_with_one_token_and_forty_vanish(scene: Scene) -> None:
    """The forty of fifty machines with one token that vanish leave all lists, and only the lasting machine beside them
    is reported.
    """
    wait_until(lambda: len(scene.connected()) == COUNT + 1, "agents", PATIENCE)
    assert len({scene.fleet.network_of(name) for name in NAMES}) == COUNT
    assert listed(scene, "--on", "role=web") == set(NAMES)  # by the labels of the token, which is used up
    assert "asg-" not in scene.command("tokens")
    wait_until(lambda: pulses(scene) >= {*NAMES, "usual"}, "results", PATIENCE)
    for name in NAMES[STAYING:]:
        scene.fleet.vanish(name)
    scene.usual.vanish("usual")
    left = {*NAMES[:STAYING], "usual"}
    wait_until(lambda: listed(scene) == left, "list without them", PATIENCE)
    wait_until(lambda: "usual" in scene.told(), "word about the machine that is missed", PATIENCE)
    assert "asg-" not in scene.told()
    assert scene.connected() == {*NAMES[:STAYING]}
    wait_until(lambda: {each["agent"] for each in states(scene)} == left, "states without theirs", PATIENCE)


def states(scene: Scene) -> list[dict[str, Any]]:
    return list(scene.helen.client.get("/api/v1/states?all=true&limit=1000")["states"])


def pulses(scene: Scene) -> set[str]:
    """Return the agents whose check has run."""
    return {each["agent"] for each in states(scene) if each["check_id"] == "pulse" and each["status"] == "ok"}


def listed(scene: Scene, *words: str) -> set[str]:
    """Return the names that `helen agents` lists."""
    return {each["name"] for each in json.loads(scene.command("agents", *words, "--output", "json"))["agents"]}
