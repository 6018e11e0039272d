"""Tests that `helen status` and /metrics tell how connections to Scale0 and ZeroTask are, in real processes."""

from __future__ import annotations

import json
import re

import pytest
import zmq
from click.testing import CliRunner, Result
from helen_running import Running, wait_until
from mesh_stage import Stage
from peers import broker_config
from web_client import ask

from helen.cli.main import main

pytestmark = pytest.mark.integration
QUICK = {"default_heartbeat_interval": 0.5}


def status(helen: Running) -> Result:
    return CliRunner().invoke(main, ["status", "--state", str(helen.state)])


def figures(helen: Running) -> dict[str, float]:
    text = ask(helen, "GET", "/metrics").raw.decode()
    found = re.findall(r"^(helen_(?:scale0|zerotask)_\w+) (\S+)$", text, re.MULTILINE)
    return {name: float(value) for name, value in found}


def named(helen: Running, word: str) -> list[str]:
    return [line for line in status(helen).stderr.splitlines() if word in line]


def test_a_second_helen_of_one_name_says_so(stage: Stage) -> None:
    """A second Helen of a name is told by the brokers of Scale0 and ZeroTask; the first one has no trouble (F34)."""
    broker, (run_file, _) = stage.broker(**QUICK).up(), stage.zerotask()
    tasks = json.loads(wait_until(lambda: run_file.exists() and run_file.read_text(), "run.json"))["listen"]
    options = ["--scale0", broker.run["backend"], "--scale0-identity", "same", "--zerotask", tasks]
    first = stage.helen("h1", *options).up()
    wait_until(lambda: not named(first, "Scale0") and not named(first, "ZeroTask"), "first Helen without trouble")
    second = stage.helen("h2", *options).up()
    [line] = wait_until(lambda: named(second, "409"), "line that names Scale0")
    assert line.startswith("Scale0: ") and broker.run["backend"] in line and "same" in line
    [line] = wait_until(lambda: named(second, "ZeroTask: "), "line that names ZeroTask")
    assert "helen.same" in line
    assert status(second).exit_code == status(first).exit_code == 0
    assert figures(first) == {
        "helen_scale0_connected": 1,
        "helen_scale0_services": 2,
        "helen_scale0_requests": 0,
        "helen_zerotask_connected": 1,
        "helen_zerotask_running": 0,
        "helen_zerotask_jobs": 0,
    }
    found = figures(second)
    assert (found["helen_scale0_connected"], found["helen_zerotask_connected"]) == (0, 0)
    first.program.end()
    wait_until(lambda: not named(second, "Scale0") and not named(second, "ZeroTask"), "second Helen in the place")


def test_brokers_that_go_away_are_missed(stage: Stage) -> None:
    """A broker that has gone is missed by its name, until it is back (F34)."""
    broker, (run_file, program) = stage.broker(**QUICK).up(), stage.zerotask()
    tasks = json.loads(wait_until(lambda: run_file.exists() and run_file.read_text(), "run.json"))["listen"]
    helen = stage.helen("h1", "--scale0", broker.run["backend"], "--zerotask", tasks).up()
    wait_until(
        lambda: figures(helen).get("helen_zerotask_connected") and not status(helen).stderr.count("Scale0"), "both"
    )
    broker.program.end()
    wait_until(lambda: named(helen, "Scale0: ") and not named(helen, "ZeroTask: "), "trouble of Scale0 alone")
    program.end()
    wait_until(lambda: named(helen, "ZeroTask: "), "trouble of ZeroTask")
    broker.again()
    wait_until(lambda: not named(helen, "Scale0: ") and named(helen, "ZeroTask: "), "trouble of ZeroTask alone")


def key_file(public: bytes, secret: bytes | None = None, role: str = "") -> str:
    lines = [*(["metadata", f'    role = "{role}"'] if role else []), "curve", f'    public-key = "{public.decode()}"']
    return "\n".join([*lines, *([f'    secret-key = "{secret.decode()}"'] if secret else [])]) + "\n"


def test_a_key_of_a_broker_may_change(stage: Stage) -> None:
    """The new file is read with the next call; Helen runs on (F34)."""
    folder, secret = stage.folder / "authorized", stage.folder / "h1.secret"
    folder.mkdir()
    own, wrong, right = zmq.curve_keypair(), zmq.curve_keypair(), zmq.curve_keypair()
    secret.touch(0o600)
    secret.write_text(key_file(*own))
    (stage.folder / "b1.secret").touch(0o600)
    (stage.folder / "b1.secret").write_text(key_file(*right))
    (folder / "h1.key").write_text(key_file(own[0], role="helen"))
    (folder / "b1.key").write_text(key_file(wrong[0]))
    (stage.folder / "broker.json").write_text(broker_config("b1", address="127.0.0.1", **QUICK))
    keys = ["--curve-key", str(stage.folder / "b1.secret"), "--authorized-keys", str(folder)]
    host = stage.helen("h0", "--embed-scale0", str(stage.folder / "broker.json"), *keys).up()
    run = json.loads((host.state / "scale0" / "run.json").read_text())
    mine = ["--curve-key", str(secret), "--authorized-keys", str(folder)]
    helen = stage.helen("h1", "--scale0", f"{run['backend']}#b1", "--scale0-identity", "h1", *mine).up()
    wait_until(lambda: named(helen, "keys do not match"), "trouble of Scale0")
    (folder / "b1.key").write_text(key_file(right[0]))
    wait_until(lambda: not named(helen, "Scale0"), "session with the new key")
    assert figures(host)["helen_scale0_broker_active"] == 1 and figures(host)["helen_scale0_broker_sessions"] >= 2
    (folder / "bad.key").write_text("curve\n")
    [line] = wait_until(lambda: named(host, "bad.key"), "faulty key file")
    assert line.startswith("Scale0: ") and not named(helen, "bad.key")
