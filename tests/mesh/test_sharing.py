"""What is the same at all Helens of a network: two brokers, two Helens with TLS, a real agent."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from helen_running import Running, pulse, wait_until
from mesh_stage import Stage

from helen.cli.client import Failed
from helen.cli.main import main
from helen.journal.together import check_together

pytestmark = pytest.mark.integration
SOON = 10.0  # seconds; it takes parts of one, on a quiet machine


@pytest.fixture(scope="module")
def pair(common: Stage) -> Iterator[Stage]:
    """h1 at one broker and h2 at another, which know each other."""
    common.network_key = common.folder / "network.key"
    command = ["openssl", "genpkey", "-algorithm", "ed25519", "-out", str(common.network_key)]
    subprocess.run(command, check=True, capture_output=True)
    common.network_key.chmod(0o600)
    first = common.broker("b1", peers=[]).up()
    second = common.broker("b2", peers=[first.run["peer"]]).up()
    common.h1, common.h2 = start(common, "h1", first.run["backend"]), start(common, "h2", second.run["backend"])
    for helen in (common.h1, common.h2):
        helen.up()
    wait_until(lambda: settled(common.h1, common.h2), "network that has settled", SOON)
    yield common


def start(stage: Stage, name: str, *brokers: str) -> Running:
    options = ["--scale0-identity", name, "--network-key", str(stage.network_key)]
    return stage.helen(name, *(word for broker in brokers for word in ("--scale0", broker)), *options, plain=False)


def shared(helen: Running) -> dict[str, Any]:
    return dict(helen.client.get("/api/v1/status")["network"]["shared"])


def settled(*helens: Running) -> bool:
    """All have the same, and nobody has anything to say."""
    told = [shared(helen) for helen in helens]
    return all(each["settled"] for each in told) and len({each["digest"] for each in told}) == 1


def checks(helen: Running) -> set[str]:
    return {check["name"] for check in helen.client.get("/api/v1/checks")["checks"]}


def test_fresh_helens_agree_on_keys(pair: Stage) -> None:
    """Each made keys of her own; those of one are everybody's now, so that agents may move."""
    keys = [helen.client.get("/api/v1/keys") for helen in (pair.h1, pair.h2)]
    assert keys[0] == keys[1]
    assert [key["here"] for key in keys[0]["keys"]] == [True]
    assert (keys[0]["version"], keys[0]["waiting"]) == (1, False)


@pytest.mark.parametrize(("at", "other"), [("h1", "h2"), ("h2", "h1")])
def test_a_push_at_one_is_a_push_at_all(pair: Stage, at: str, other: str) -> None:
    """Files are fetched by hash; they lie in the folder of the other, too, so that a change there builds on them."""
    here, there = getattr(pair, at), getattr(pair, other)
    here.client.post("/api/v1/push", {"files": {f"{at}.lua": pulse(at)}, "rings": "off"})
    wait_until(lambda: at in checks(there), "check", SOON)
    assert (there.checks / f"{at}.lua").read_text() == pulse(at)
    wait_until(lambda: settled(pair.h1, pair.h2), "peace", SOON)
    versions = [helen.client.get("/api/v1/status")["manifest"] for helen in (pair.h1, pair.h2)]
    assert versions[0] == versions[1]


def test_undone_at_the_other(pair: Stage) -> None:
    """The way back is everybody's as well."""
    before = checks(pair.h1)
    pair.h1.client.post("/api/v1/push", {"files": {"wrong.lua": pulse("wrong")}, "rings": "off"})
    wait_until(lambda: "wrong" in checks(pair.h2), "push", SOON)
    pair.h2.client.post("/api/v1/push/undo", {})
    wait_until(lambda: checks(pair.h1) == before, "way back", SOON)
    wait_until(lambda: settled(pair.h1, pair.h2), "peace", SOON)


def test_assignments(pair: Stage) -> None:
    """The newest are everybody's, whoever changed them."""
    for at, other, every in ((pair.h1, pair.h2, "7s"), (pair.h2, pair.h1, "9s")):
        text = f'[[assign]]\ncheck = "h1"\nagents = "*"\nevery = "{every}"\n'
        at.client.put("/api/v1/assignments", {"text": text})
        wait_until(lambda o=other, t=text: o.client.get("/api/v1/assignments")["text"] == t, "assignments", SOON)


def test_downtimes(pair: Stage) -> None:
    """Planned at one, in force at all; cancelled at another, over at all."""
    window = {"kind": "downtime", "id": "move", "until": time.time() + 3_600, "agents": ["web-*"], "author": "ann"}
    pair.h1.client.post("/api/v1/windows", window)
    wait_until(lambda: windows(pair.h2) == {"move": "ann"}, "downtime", SOON)
    pair.h2.client.post("/api/v1/windows/move/cancel", {})
    wait_until(lambda: windows(pair.h1) == {}, "end of the downtime", SOON)


def windows(helen: Running) -> dict[str, str]:
    return {each["id"]: each["author"] for each in helen.client.get("/api/v1/windows")["windows"]}


def test_drained(pair: Stage) -> None:
    """`helen drain` empties h1: her agent goes to h2, with every result; nobody comes before it is undone."""
    pair.agent1 = pair.h1.agent("web-1")
    pair.programs.append(pair.agent1)
    wait_until(lambda: connected(pair.h1, "web-1"), "agent", SOON)
    kept = pair.h1.folder / "web-1" / "servers.json"
    wait_until(kept.exists, "list of Helens at the agent", SOON)
    assert [each["address"] for each in json.loads(kept.read_text())] == [pair.h2.run["agents"]]
    wait_until(lambda: settled(pair.h1, pair.h2) and reports(pair.h1, "web-1"), "peace, and a result", SOON)
    for broker in pair.brokers.values():  # a client of Majordomo finds it at either of them
        desk = pair.asker(broker.run["frontend"])
        desk.wait_for("equus.web-1")
        assert json.loads(desk.mdp1("equus.web-1", b"h1")[0])["summary"] == "h1"
    shown = helen(pair.h1, "drain", "--dry-run", "--output", "json")
    assert json.loads(shown.stdout)["others"] == [pair.h2.run["agents"]]
    assert connected(pair.h1, "web-1")
    done = helen(pair.h1, "drain", "--over", "1s")
    assert (done.exit_code, done.stdout.splitlines()[-2:]) == (
        0, ["This Helen is drained. Agents here: 0; open questions: 0.", f"Other Helens: {pair.h2.run['agents']}"]
    )  # fmt: skip
    wait_until(lambda: reports(pair.h2, "web-1"), "result at the other", SOON)
    refused = pair.h1.agent("web-2")
    pair.programs.append(refused)
    wait_until(lambda: "shutting-down" in refused.said, "word to one who comes", SOON)
    assert "drained" in ready(pair.h1)
    assert helen(pair.h1, "drain", "--undo").exit_code == 0
    assert ready(pair.h1) == ""
    assert check_together([pair.h1.state, pair.h2.state]).problems == ()
    wait_until(lambda: left_to(pair.h1, "web-1"), "judgement that is left to the other", SOON)
    refused.end()


def helen(running: Running, *words: str) -> Result:
    return CliRunner().invoke(main, [*words, "--state", str(running.state)], catch_exceptions=False)


def ready(running: Running) -> str:
    """Why she isn't."""
    try:
        running.client.get("/readyz")
    except Failed as failed:
        return str(failed)
    return ""


def left_to(running: Running, agent: str) -> bool:
    """Nobody here says that it is missing."""
    return not running.client.get(f"/api/v1/states?agent={agent}")["states"]


def test_an_agent_moves_and_is_revoked_elsewhere(pair: Stage) -> None:
    """Enrolled at h1, it comes back there when h2 dies; revoked at h2 it is cut at h1 within seconds."""
    wait_until(lambda: connected(pair.h2, "web-1"), "agent", SOON)
    died, since = time.monotonic(), time.time()
    pair.h2.signal(signal.SIGKILL)
    wait_until(lambda: reports(pair.h1, "web-1", since), "result at the other", SOON)
    assert time.monotonic() - died < 15.0
    pair.h2.program.wait()
    pair.h2 = start(pair, "h2", pair.brokers["b2"].run["backend"]).up()
    wait_until(lambda: settled(pair.h1, pair.h2), "peace", SOON)
    pair.h2.client.post("/api/v1/agents/web-1/revoke", {})
    wait_until(lambda: not connected(pair.h1, "web-1"), "end of its connection", 3.0)
    wait_until(lambda: "not-enrolled" in pair.agent1.said, "word to the agent", SOON)


def connected(helen: Running, name: str) -> bool:
    return any(each["connected"] for each in helen.client.get("/api/v1/agents")["agents"] if each["name"] == name)


def reports(helen: Running, name: str, since: float = 0.0) -> list[Any]:
    return [each for each in helen.client.get(f"/api/v1/results?since={since}")["results"] if each["agent"] == name]


def test_what_is_in_force_outlives_the_brokers(pair: Stage) -> None:
    """With no broker in reach a restarted Helen goes on with what she has; what she changes is told later."""
    broker = pair.brokers["b2"]
    broker.program.process.kill()
    broker.program.wait()
    pair.h2.end()
    pair.h2 = start(pair, "h2", broker.run["backend"]).up()
    assert "h1" in checks(pair.h2)
    assert shared(pair.h2)["joined"]
    pair.h2.client.post("/api/v1/push", {"files": {"alone.lua": pulse("alone")}, "rings": "off"})
    assert "alone" in checks(pair.h2)
    broker.again()
    wait_until(lambda: "alone" in checks(pair.h1), "check that was pushed while the broker was away", SOON)
    assert Path(broker.folder / "state" / "documents" / "checks.document").exists()
