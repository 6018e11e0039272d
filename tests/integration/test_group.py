"""Test a group that grows and shrinks: machines join with one token, most vanish without a word, and leave the
lists.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from helen_running import EQUUS, Program, Running, pulse, wait_until

from helen.cli.main import main

pytestmark = pytest.mark.integration
SIZE = int(os.environ.get("GROUP_SIZE", "6"))  # agents; the acceptance of the group was run with 50
STAY = SIZE // 5 or 1  # that do not vanish
PATIENCE = 240.0 + 5.0 * SIZE  # seconds: each agent is an interpreter that starts
ASSIGN = '[[assign]]\ncheck = "pulse"\nlabels = { role = "web" }\nevery = "5s"\nstale = "10m"\n'


class Group:
    """Run a Helen, and machines that join with one token from a file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "checks").mkdir()
        (folder / "checks" / "pulse.lua").write_text(pulse())
        self.helen = Running(folder).up()
        self.machines: dict[str, Program] = {}
        self.command("assign", "--file", str(self.written("assignments.toml", ASSIGN)))

    def written(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path

    def command(self, *words: str) -> str:
        done = CliRunner().invoke(main, [*words, "--state", str(self.helen.state)])
        assert done.exit_code == 0, done.output
        return str(done.output)

    def join(self, name: str, token: Path) -> None:
        words = ["--server", self.helen.run["agents"], "--state", str(self.folder / name), "--join-file", str(token)]
        self.machines[name] = Program([*EQUUS, *words, "--name", name], self.folder / f"{name}.log")

    def agents(self) -> dict[str, Any]:
        return {each["name"]: each for each in self.helen.client.get("/api/v1/agents?limit=1000")["agents"]}

    def answering(self) -> set[str]:
        return {each["agent"] for each in self.helen.client.get("/api/v1/results?limit=1000")["results"]}

    def end(self) -> None:
        for machine in self.machines.values():
            machine.end()
        self.helen.end()


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Group]:
    made = Group(tmp_path)
    try:
        yield made
    finally:
        made.end()


def test_most_of_a_group_vanishes(group: Group) -> None:
    """A token of many uses admits a group with its labels, and machines that are killed are forgotten without a
    word.
    """
    names = [f"asg-{number}" for number in range(SIZE)]
    words = [
        "--uses",
        str(SIZE),
        "--names",
        "asg-*",
        "--labels",
        "role=web",
        "--ephemeral",
        "45s",
    ]  # one that has enrolled is back within a second or two
    made = group.command("token", *words, "--expires", "30d").split()
    token = group.written("token", made[made.index("--join") + 1])
    for name in names:
        group.join(name, token)
    wait_until(lambda: group.answering() == set(names), "result of each", PATIENCE)
    assert {each["given"]["role"] for each in group.agents().values()} == {"web"}
    assert "No token is good any more." in group.command("tokens")
    group.join("asg-late", token)
    wait_until(
        lambda: "the token is used, expired, or not for the name asg-late" in group.machines["asg-late"].said, "end"
    )
    for name in names[STAY:]:
        group.machines[name].process.kill()
    wait_until(lambda: set(group.agents()) == set(names[:STAY]), "forgotten agents", PATIENCE)
    listed = [line.split()[0] for line in group.command("agents").splitlines()]
    assert listed == ["AGENT", *names[:STAY]]
    told = group.helen.client.get("/api/v1/changes?kind=decision&limit=1000")["changes"]
    assert [each["document"] for each in told if each["document"]["action"] == "notify"] == []
    forgotten = [
        each for each in group.helen.client.get("/api/v1/audit?limit=1000")["audit"] if each["action"] == "forget"
    ]
    assert {(each["actor"], each["subject"]) for each in forgotten} == {("helen", name) for name in names[STAY:]}
