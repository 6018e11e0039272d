"""Tests a quorum of real agents: one that cannot look is outvoted, and one that dies changes nothing."""

from __future__ import annotations

import json
import signal
import socket
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
PROBES = ("probe-1", "probe-2", "probe-3")
TARGETS = '[[target]]\nname = "door"\naddress = "localhost"\nvia = ["probe-*"]\nquorum = "2 of 3"\n'
ASSIGN = '[[assign]]\ncheck = "tcp"\ntargets = ["door"]\nevery = "2s"\nretry = "1s"\nattempts = 2\nstale = "10m"\n'
SHIPPED = Path(__file__).parents[3] / "checks"


def bound_to(port: int) -> socket.socket:
    """Return a socket of a port that may have several."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    made.bind(("127.0.0.1", port))
    return made


class Stage:
    """Runs a Helen with three probes that look at a port of this machine; probe-3's policy forbids it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.probes = folder, dict[str, Program]()
        (folder / "checks" / "lib").mkdir(parents=True)
        for path in (SHIPPED / "tcp.lua", *(SHIPPED / "lib").glob("*.lua")):
            (folder / "checks" / path.relative_to(SHIPPED)).write_bytes(path.read_bytes())
        (folder / "policy.toml").write_text('[caps.tcp]\nnetworks = [{ cidr = "192.0.2.0/24", ports = [9] }]\n')
        (folder / "policy.toml").chmod(0o600)
        self.helen = Running(folder).up()
        for name in PROBES:
            token = self.helen.client.post("/api/v1/tokens", {"agent": name})["token"]
            words = [*EQUUS, "--server", self.helen.run["agents"], "--state", str(folder / name), "--name", name]
            words += ["--join", token, *(["--policy", str(folder / "policy.toml")] if name == "probe-3" else [])]
            self.probes[name] = Program(words, folder / f"{name}.log")
        wait_until(lambda: self.connected() == set(PROBES), "connection of all probes")
        # Bound for all of the test, so that nothing else gets the port while the door is closed: that does not answer.
        self.kept = bound_to(0)
        self.port = self.kept.getsockname()[1]
        self.open_door()
        self.replace("targets", TARGETS)
        self.replace(
            "assignments", f'{ASSIGN}args = {{ port = {self.port}, limit = "15s", warn = "30", crit = "30" }}\n'
        )

    def open_door(self) -> None:
        self.door = bound_to(self.port)
        self.door.listen(4_096)  # nothing takes the connections off the queue

    def allow(self) -> None:
        """Have the policy of probe-3 allow it to look: from now on nothing that is slow becomes unknown."""
        networks = ", ".join(f'{{ cidr = "{cidr}", ports = [{self.port}] }}' for cidr in ("127.0.0.0/8", "::1/128"))
        (self.folder / "policy.toml").write_text(f"[caps.tcp]\nnetworks = [{networks}]\n")
        self.probes["probe-3"].process.send_signal(signal.SIGHUP)
        wait_until(lambda: "ok" in self.saw().get("probe-3", ()), "result of probe-3 by its new policy")

    def replace(self, what: str, text: str) -> None:
        self.helen.client.put(f"/api/v1/{what}", {"text": text})

    def connected(self) -> set[str]:
        return {each["name"] for each in self.helen.client.get("/api/v1/agents")["agents"] if each["connected"]}

    def command(self, *words: str) -> str:
        done = CliRunner().invoke(main, [*words, "--state", str(self.helen.state)])
        assert done.exit_code == 0, done.output
        return str(done.output)

    def confirmed(self) -> str | None:
        """Return the status of the target once it is confirmed; None before that, and while nothing is known of it."""
        with suppress(Missing):
            state = self.helen.client.get("/api/v1/states/door/tcp")
            return state["status"] if state["attempt"] == 0 and state["reason"] != "pending" else None
        return None

    def saw(self) -> dict[str, set[str]]:
        """Return what each agent saw of the target since the start, as far as memory has it."""
        seen: dict[str, set[str]] = {}
        for each in self.helen.client.get("/api/v1/recent?agent=door&check=tcp&limit=1000")["results"]:
            seen.setdefault(each["ran"], set()).add(each["status"])
        return seen

    def told(self) -> list[dict[str, Any]]:
        found = self.helen.client.get("/api/v1/changes?kind=decision&on=door&limit=1000")["changes"]
        return [each["document"] for each in found if each["document"]["action"] == "notify"]

    def end(self) -> None:
        for probe in self.probes.values():
            probe.end()
        self.helen.end()
        self.door.close()
        self.kept.close()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    made = Stage(tmp_path_factory.mktemp("quorum"))
    try:
        yield made
    finally:
        made.end()


def test_one_that_cannot_look_is_outvoted(stage: Stage) -> None:
    """Two see it well, the policy of the third forbids it to look: the target is well, and it is shown who saw what."""
    wait_until(lambda: stage.confirmed() == "ok", "state of the target")
    wait_until(lambda: stage.saw().keys() == set(PROBES), "results of all probes")
    assert stage.saw() == {"probe-1": {"ok"}, "probe-2": {"ok"}, "probe-3": {"unknown"}}
    assert stage.confirmed() == "ok" and stage.told() == []
    shown = stage.command("explain", "door/tcp")
    assert "probe-1, probe-2 and probe-3 look at it; 2 of them must see it bad" in shown
    assert "probe-3 saw unknown" in shown or "by probe-3 says unknown" in shown
    assert "has no address that is granted to tcp" in shown  # the name was looked up, and what it is refused
    (target,) = json.loads(stage.command("targets", "--output", "json"))["targets"]
    assert (target["quorum"], target["runners"]) == ("2 of 3", list(PROBES))
    assert "probe-1, probe-2, probe-3 (2 of 3)" in stage.command("targets")
    (latest,) = stage.helen.client.get("/api/v1/agents/door")["results"]
    assert latest["status"] == "ok"
    for probe in PROBES:
        own = stage.helen.client.get(f"/api/v1/agents/{probe}")
        assert [own["schedule"], own["results"], own["unheard"]] == [[], [], []]


def test_two_see_it_down(stage: Stage) -> None:
    """A problem that two see is told once, of the target and with how many see it; then its end is told."""
    stage.allow()
    stage.door.close()
    wait_until(lambda: stage.confirmed() == "critical", "problem")
    wait_until(stage.told, "message")  # it is decided with the state, and durable a moment later
    assert [(each["what"], each["status"]) for each in stage.told()] == [("problem", "critical")]
    changes = stage.helen.client.get("/api/v1/changes?kind=transition&on=door&limit=1000")["changes"]
    said = [each["document"]["summary"] for each in changes]
    assert any(each.startswith(("2 of 3 see it: ", "3 of 3 see it: ")) for each in said), said
    stage.open_door()
    wait_until(lambda: stage.confirmed() == "ok", "recovery")
    wait_until(lambda: len(stage.told()) > 1, "message of the recovery")
    assert [each["what"] for each in stage.told()] == ["problem", "recovery"]


def test_one_that_dies(stage: Stage) -> None:
    """The others go on, nothing is told, and `helen targets` says that one is missing; what is written is whole."""
    before = stage.told()
    stage.probes["probe-1"].process.kill()
    stage.probes["probe-1"].wait()
    wait_until(lambda: stage.connected() == {"probe-2", "probe-3"}, "end of the connection")
    wait_until(lambda: "probe-1" not in stage.command("targets").splitlines()[1], "end of its lease")
    done = len(stage.helen.client.get("/api/v1/recent?agent=door&check=tcp&limit=1000")["results"])
    wait_until(
        lambda: len(stage.helen.client.get("/api/v1/recent?agent=door&check=tcp&limit=1000")["results"]) >= done + 4,
        "two more rounds",
    )
    assert stage.confirmed() == "ok" and stage.told() == before
    stage.helen.end()
    report = check_history(stage.helen.state)
    assert report.problems == () and report.results > 0
