"""Tests targets with real agents: who looks, what is known, who takes over, and what changes no state."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from helen_running import EQUUS, Program, Running, wait_until

from helen.cli.base.failures import Missing
from helen.cli.main import main
from helen.journal.verify import check_history

pytestmark = pytest.mark.integration
LOOK = """local check = {
  summary = "Says whom it looks at",
  needs = {},
  args = { host = { type = "string", help = "name" }, limit = { type = "number", default = 5, help = "most" } },
}
function check.run(args, host)
  return args.limit > 5 and "warning" or "ok", "looks at " .. args.host
end
return check
"""
TARGETS = """
[[target]]
name = "switch-1"
address = "10.0.3.1"
labels = { role = "switch" }
via = ["probe-*"]
[[target]]
name = "web-site"
via = ["nobody-*"]
"""
PAIRS = (("probe-1", "probe-2"), ("probe-2", "probe-1"))
ASSIGN = """
[[defaults]]
check = "look"
labels = { role = "switch" }
args = { limit = 5 }
[[assign]]
check = "look"
targets = ["switch-*", "web-*"]
every = "2s"
stale = "10m"
"""


class Stage:
    """Runs a Helen with two probes that may look at switch-1."""

    def __init__(self, folder: Path) -> None:
        (folder / "checks").mkdir()
        (folder / "checks" / "look.lua").write_text(LOOK)
        self.folder = folder
        self.helen = Running(folder).up()
        self.probes: dict[str, Program] = {}

    def command(self, *words: str, status: int = 0) -> str:
        done = CliRunner().invoke(main, [*words, "--state", str(self.helen.state)])
        assert done.exit_code == status, done.output
        return str(done.output)

    def write(self, name: str, text: str) -> str:
        (self.folder / name).write_text(text)
        return str(self.folder / name)

    def target(self, name: str = "switch-1") -> dict[str, Any]:
        listed = json.loads(self.command("targets", "--output", "json"))["targets"]
        return next(each for each in listed if each["name"] == name)

    def state(self, key: str = "switch-1/look") -> dict[str, Any]:
        return dict(self.helen.client.get(f"/api/v1/states/{key}"))

    def confirmed(self, key: str) -> tuple[str, str | None] | None:
        """Return the status and its reason, once results have confirmed them; a check without any is unknown, and
        pending.
        """
        state = self.state(key)
        return (state["status"], state["reason"]) if state["attempt"] == 0 else None

    def confirmed_or_none(self, key: str) -> tuple[str, str | None] | None:
        with suppress(Missing):
            return self.confirmed(key)
        return None

    def told(self) -> list[Any]:
        found = self.helen.client.get("/api/v1/changes?kind=decision&on=switch-1&limit=1000")["changes"]
        return [each["document"] for each in found if each["document"]["action"] == "notify"]

    def runners(self) -> list[str]:
        """Return the runners of the results of switch-1 in the order in which they were received, as far as memory has
        them.
        """
        with suppress(Missing):
            found = self.helen.client.get("/api/v1/recent?agent=switch-1&check=look&limit=1000")["results"]
            return [each["ran"] for each in found]
        return []  # nothing is known of it yet

    def names(self) -> set[str]:
        return {each["name"] for each in self.helen.client.get("/api/v1/agents")["agents"]}

    def all_connected(self) -> bool:
        listed = self.helen.client.get("/api/v1/agents")["agents"]
        return {each["name"] for each in listed if each["connected"]} >= self.probes.keys()

    def end(self) -> None:
        for probe in self.probes.values():
            probe.end()
        self.helen.end()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    made = Stage(tmp_path_factory.mktemp("targets"))
    try:
        for name in ("probe-1", "probe-2"):
            made.probes[name] = made.helen.agent(name)
        wait_until(made.all_connected, "connection of both probes")  # so the lease goes to the better one, and stays
        made.command("targets", "--file", made.write("targets.toml", TARGETS))
        made.command("assign", "--file", made.write("assignments.toml", ASSIGN))
        wait_until(lambda: "switch-1" in made.names(), "target")
        wait_until(lambda: made.runners(), "result of the target")
        yield made
    finally:
        made.end()


def test_a_target_is_a_host_of_its_own(stage: Stage) -> None:
    """A target is a host in states, lists and explanations; its agent has nothing of it among its own checks."""
    target = stage.target()
    assert (target["address"], target["labels"], target["checks"]) == ("10.0.3.1", {"role": "switch"}, ["look"])
    assert target["runners"] in (["probe-1"], ["probe-2"])
    agent = stage.helen.client.get("/api/v1/agents/switch-1")
    assert (agent["kind"], agent["labels"]) == ("host", {"role": "switch"})
    assert [each["summary"] for each in agent["results"]] == ["looks at 10.0.3.1"]
    for probe in stage.probes:
        own = stage.helen.client.get(f"/api/v1/agents/{probe}")
        assert [own["schedule"], own["results"], own["unheard"]] == [[], [], []]
    shown = stage.command("explain", "switch-1/look")
    assert (
        f"the last result, by {target['runners'][0]} says ok" in shown
        and f"{target['runners'][0]} looks at it" in shown
    )
    assert "switch-1" in stage.command("targets") and "nobody yet" in stage.command("targets")
    assert "web-site: no agent fits its via, nobody-*" in stage.command("targets")


def test_a_network_that_the_host_forbids(stage: Stage) -> None:
    """The agent's own policy decides what it may reach: unknown with the line that would allow it, and never ok."""
    (stage.helen.checks / "tcp.lua").write_bytes((Path(__file__).parents[3] / "checks" / "tcp.lua").read_bytes())
    (stage.helen.checks / "lib").mkdir(exist_ok=True)
    for library in (Path(__file__).parents[3] / "checks" / "lib").glob("*.lua"):
        (stage.helen.checks / "lib" / library.name).write_bytes(library.read_bytes())
    far = '[[target]]\nname = "far"\naddress = "192.0.2.7"\nvia = ["probe-*"]\n'
    stage.command("targets", "--file", stage.write("far.toml", TARGETS + far))
    stage.command("assign", "tcp", "--targets", "far", "--every", "2s", "--id", "door", "--args", '{"port": 9}')
    wait_until(lambda: "far" in stage.command("targets"), "target")
    wait_until(lambda: stage.helen.client.get("/api/v1/agents/far")["results"], "result", 120.0)
    wait_until(lambda: stage.confirmed("far/door") == ("unknown", "denied"), "confirmed state", 120.0)
    (found,) = stage.helen.client.get("/api/v1/agents/far")["results"]
    assert "192.0.2.7 port 9 is not granted to tcp" in found["summary"]
    changes = stage.helen.client.get("/api/v1/changes?kind=transition&on=far&limit=1000")["changes"]
    assert "ok" not in {each["document"]["now"]["status"] for each in changes}


def test_targets_from_a_file(stage: Stage) -> None:
    """Targets of a file are looked at as declared ones are; a broken file takes none away, and the fault is told."""
    stage.write("nodes.json", '[{"targets": ["web-9.example.org:9100"], "labels": {"role": "switch"}}]')
    source = f'[[source]]\nfile_sd = "{stage.folder}/nodes.json"\nvia = "probe-*"\n'
    stage.command("targets", "--file", stage.write("sources.toml", TARGETS + source))
    wait_until(lambda: "web-9.example.org-9100" in stage.names(), "target of the file")
    found = stage.target("web-9.example.org-9100")
    assert (found["address"], found["port"], found["source"]) == (
        "web-9.example.org", 9100, f"{stage.folder}/nodes.json"
    )  # fmt: skip
    wait_until(lambda: stage.helen.client.get("/api/v1/agents/web-9.example.org-9100")["results"], "its result")
    (result,) = stage.helen.client.get("/api/v1/agents/web-9.example.org-9100")["results"]
    assert result["summary"] == "looks at web-9.example.org"
    stage.write("nodes.json", '[{"targets": [')
    wait_until(lambda: "what it has found before stays" in stage.command("targets"), "fault of the file")
    assert stage.target("web-9.example.org-9100")["checks"] == ["look"]


def test_agents_that_check_each_other(stage: Stage) -> None:
    """Each has a check for the other one, by its address; who sees whom is a table; with the entry all of it ends."""
    stage.command("assign", "look", "--mesh", "probe-*", "--every", "2s", "--id", "see")
    wait_until(
        lambda: all(stage.confirmed_or_none(f"{one}/see@{other}") == ("ok", None) for one, other in PAIRS), "mesh"
    )
    found = stage.helen.client.get("/api/v1/mesh")["meshes"]
    assert found == [{
        "id": "see", "check": "look", "mesh": ["probe-*"], "agents": ["probe-1", "probe-2"],
        "addresses": ["127.0.0.1", "127.0.0.1"], "left_out": 0, "seen": [[None, "ok"], ["ok", None]],
    }]  # fmt: skip
    results = stage.helen.client.get("/api/v1/agents/probe-1")["results"]
    assert [(each["check_id"], each["summary"]) for each in results] == [("see@probe-2", "looks at 127.0.0.1")]
    shown = stage.command("mesh")
    assert "see (probe-*): 2 agents" in shown and "seen badly" not in shown
    values = '{"limit": 9}'
    stage.command("assign", "look", "--mesh", "probe-*", "--every", "2s", "--id", "see", "--args", values)
    wait_until(lambda: stage.confirmed_or_none("probe-1/see@probe-2") == ("warning", None), "worse mesh")
    assert "probe-2 is seen badly by probe-1 (warning)" in stage.command("mesh", status=1)
    stage.command("assign", "--remove", "--id", "see")
    wait_until(lambda: not stage.helen.client.get("/api/v1/agents/probe-1")["results"], "end of the mesh")
    assert "No meshes yet" in stage.command("mesh")


def test_one_that_dies_hands_over(stage: Stage) -> None:
    """Within two intervals another one looks, nothing is told, no state is lost; and the first comes back in peace."""
    (first,) = stage.target()["runners"]
    second = "probe-2" if first == "probe-1" else "probe-1"
    stage.probes[first].process.kill()
    stage.probes[first].wait()
    wait_until(lambda: stage.target()["runners"] == [second], "handover")
    wait_until(lambda: second in stage.runners(), "result of the second")
    ran = stage.runners()
    assert ran in (sorted(ran), sorted(ran, reverse=True))  # not one of the first behind one of the second
    changes = stage.helen.client.get("/api/v1/changes?kind=transition&on=switch-1&limit=1000")["changes"]
    assert {each["document"]["now"]["status"] for each in changes} == {"ok"}
    assert stage.told() == []
    shown = stage.command("explain", "switch-1/look")
    assert f"{second} looks at it" in shown
    words = ["--server", stage.helen.run["agents"], "--state", str(stage.folder / first), "--name", first]
    stage.probes[first] = Program([*EQUUS, *words], stage.folder / f"{first}-again.log")
    wait_until(lambda: stage.helen.client.get(f"/api/v1/agents/{first}")["connected"], "return of the first")
    assert stage.helen.client.get(f"/api/v1/agents/{first}")["results"] == []


def test_nothing_is_lost_and_nothing_twice(stage: Stage) -> None:
    """The journal's own check counts results of targets as those of the spools that they came from."""
    stage.helen.end()
    report = check_history(stage.helen.state)
    assert report.problems == () and report.results > 0
    stage.helen = Running(stage.folder, "--listen", stage.helen.run["agents"]).up()
    wait_until(lambda: stage.target()["runners"], "lease after the restart")
    before = len(stage.runners())
    wait_until(lambda: len(stage.runners()) > before, "result after the restart")
    assert stage.state()["status"] == "ok" and stage.told() == []


def test_a_target_that_is_taken_out(stage: Stage) -> None:
    """A target that is taken out has its states closed, and leaves the lists. While it is there no agent
    gets its name.
    """
    token = stage.helen.client.post("/api/v1/tokens", {})["token"]
    words = ["--server", stage.helen.run["agents"], "--state", str(stage.folder / "thief"), "--join", token]
    thief = Program([*EQUUS, *words, "--name", "switch-1"], stage.folder / "thief.log")
    assert thief.wait() == 1
    (refused, *_) = stage.helen.client.get("/api/v1/audit?subject=switch-1")["audit"]
    assert refused["detail"].startswith("switch-1 is a target: make a token for it")
    stage.command("targets", "--file", stage.write("none.toml", ""))
    wait_until(lambda: "switch-1" not in stage.names(), "end of the target")
    assert "No targets yet" in stage.command("targets")
    wait_until(lambda: not stage.helen.client.get("/api/v1/states?agent=switch-1")["states"], "end of its states")
