"""Tests a Helen in a Scale0 network: a broker, Helens, agents and clients of raw frames."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
import zmq
from click.testing import CliRunner
from helen_running import pulse, wait_until
from mesh_stage import Stage
from peers import DENIED, ELSEWHERE, answer, broker_config

from helen.cli.main import main

pytestmark = pytest.mark.integration
MOVE_SECONDS = 2.0  # in which an agent that has moved is found where it went


@pytest.fixture(scope="module")
def network(common: Stage) -> Iterator[Stage]:
    """Start a broker, two Helens of which the first publishes a check, and the agent web-1 with it."""
    common.b = common.broker()
    (common.folder / "h1" / "checks").mkdir(parents=True)
    (common.folder / "h1" / "checks" / "pulse.lua").write_text(pulse())
    common.b.up()
    backend = common.b.run["backend"]
    common.h1, common.h2 = (common.helen(n, "--scale0", backend, "--scale0-identity", n) for n in ("h1", "h2"))
    for helen in (common.h1, common.h2):
        helen.up()
    wait_until(lambda: common.h1.client.get("/api/v1/checks")["checks"], "published check")
    common.web1 = common.agent(common.h1, "web-1")
    common.desk = common.asker(common.b.run["frontend"])
    common.desk.wait_for("helen", "helen.h1", "helen.h2", "equus.web-1")
    yield common


@pytest.mark.parametrize("dialect", ["mdp1", "mdp2"])
def test_a_majordomo_client_runs_a_check(network: Stage, dialect: str) -> None:
    """Body frames are the check and its arguments, which may be absent; the answer is the agent's, byte for byte."""
    ask = getattr(network.desk, dialect)
    assert ask("equus.web-1", b"echo", b'{"word": 7}') == [answer("web-1", b'{"word": 7}')]
    assert ask("equus.web-1", b"echo") == [answer("web-1", b"{}")]


REFUSED: dict[str, tuple[str, list[bytes], dict[str, Any], tuple[int, str]]] = {
    "by the agent's policy": ("equus.web-1", [b"denied"], {}, (403, "not_allowed")),
    "nobody of this name": ("equus.web-9", [b"echo"], {}, (404, "unknown_agent")),
    "no answer in time": ("equus.web-1", [b"silence"], {"timeout_ms": 300}, (504, "deadline")),
    "no name of a check": ("equus.web-1", [b"no check"], {}, (400, "malformed")),
    "a name of the protocol's own": ("equus.web-1", [b"equus:once", b"{}"], {}, (400, "malformed")),
    "too many frames": ("equus.web-1", [b"echo", b"{}", b"x"], {}, (400, "malformed")),
    "too large": ("equus.web-1", [b"echo", bytes(1_048_577)], {}, (413, "too_large")),
    "no such file": ("helen.h1", [b"file", b"00"], {}, (404, "unknown_file")),
    "no such question": ("helen.h1", [b"tell"], {}, (400, "malformed")),
}


@pytest.mark.parametrize(("service", "body", "options", "told"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_has_a_code(network: Stage, service: str, body: Any, options: Any, told: Any) -> None:
    code, reason, said = network.desk.final(network.desk.ask(service, *body, **options))
    assert (code, reason) == told
    assert code != 403 or said == [DENIED]


def test_a_cancelled_request_is_abandoned(network: Stage) -> None:
    """A cancelled request makes its agent give up."""
    about, before = network.desk.ask("equus.web-1", b"silence"), len(network.web1.cancelled)
    wait_until(lambda: network.web1.asked[-1:] == [("silence", b"{}")], "question")
    network.desk.say(b"CANCEL", {"id": about})
    wait_until(lambda: len(network.web1.cancelled) > before, "cancel")


def test_helen_answers_for_herself(network: Stage) -> None:
    """Helen answers with its state, and with a file of its published set."""
    status = json.loads(network.desk.final(network.desk.ask("helen.h1", b"status"))[2][0])
    assert "--insecure-network" in status["network"].pop("insecure")
    assert status["network"] == {"scale0": {"identity": "h1", "state": "active"}, "shared": None, "zerotask": None}
    content = pulse().encode()
    sha256 = hashlib.sha256(content).hexdigest().encode()
    assert network.desk.final(network.desk.ask("helen.h1", b"file", sha256)) == (200, "", [content])


def test_agents_learn_of_other_helens(network: Stage) -> None:
    """An agent is told the Helens of a document of the network's configuration."""
    wait_until(lambda: network.web1.servers == [ELSEWHERE], "list of servers")


def test_an_agent_that_goes_while_it_is_asked(network: Stage) -> None:
    """A request to an agent that goes ends with 502, and the agent is known to be gone."""
    network.agent(network.h1, "db-1")
    network.desk.wait_for("equus.db-1")
    assert network.desk.final(network.desk.ask("equus.db-1", b"hangup"))[:2] == (502, "worker_lost")
    assert network.desk.wait_for("equus.db-1", there=False) < MOVE_SECONDS


def test_an_agent_that_moves(network: Stage) -> None:
    """The agent is found where it went, and its old connection, which looks alive, is dropped."""
    old = network.agent(network.h1, "app-1")
    network.desk.wait_for("equus.app-1")
    new = network.agent(network.h2, "app-1")
    assert old.closed.wait(MOVE_SECONDS)
    assert network.desk.mdp1("equus.app-1", b"echo") == [answer("app-1", b"{}")]
    assert (old.asked, new.asked) == ([], [("echo", b"{}")])
    assert network.desk.has("equus.app-1")


def test_there_are_no_jobs_without_zerotask(network: Stage) -> None:
    """The command ends with status 1 and a sentence that names the missing --embed-zerotask."""
    done = CliRunner().invoke(main, ["jobs", "list", "--state", str(network.h1.state)])
    assert (done.exit_code, "--embed-zerotask" in done.stderr) == (1, True)


def test_a_helen_that_stops_says_so(network: Stage) -> None:
    """A Helen that stops takes its services with it, and an agent's too."""
    helen = network.helen("h3", "--scale0", network.b.run["backend"], "--scale0-identity", "h3").up()
    network.agent(helen, "cache-1")
    network.desk.wait_for("helen.h3", "equus.cache-1")
    helen.program.process.terminate()
    assert helen.program.wait() == 0
    assert network.desk.wait_for("helen.h3", "equus.cache-1", there=False) < MOVE_SECONDS


def key_file(public: bytes, secret: bytes | None = None, role: str = "") -> str:
    lines = [*(["metadata", f'    role = "{role}"'] if role else []), "curve", f'    public-key = "{public.decode()}"']
    return "\n".join([*lines, *([f'    secret-key = "{secret.decode()}"'] if secret else [])]) + "\n"


def test_a_broker_in_the_same_process_under_curve(stage: Stage) -> None:
    """One process is broker and Helen; only keys of the folder get in, and Helen's own needs not lie there."""
    (stage.folder / "broker.json").write_text(broker_config("b1"))
    own, desk = zmq.curve_keypair(), zmq.curve_keypair()
    secret, folder = stage.folder / "own.secret", stage.folder / "authorized"
    secret.touch(0o600)
    secret.write_text(key_file(*own))
    folder.mkdir()
    (folder / "desk.key").write_text(key_file(desk[0], role="operate"))
    options = ["--embed-scale0", str(stage.folder / "broker.json"), "--embed-zerotask", "--curve-key", str(secret)]
    helen = stage.helen("h1", *options, "--authorized-keys", str(folder)).up()
    agent = stage.agent(helen, "web-1")
    frontend = json.loads((helen.state / "scale0" / "run.json").read_text())["frontend"]
    _, _, port = frontend.rpartition(":")
    asker = stage.asker(f"tcp://127.0.0.1:{port}", (*desk, own[0]))
    asker.wait_for("equus.web-1", "helen.localhost", "zerotask.broker", "titanic.request")
    assert asker.mdp2("equus.web-1", b"echo") == [answer("web-1", b"{}")]
    assert agent.asked == [("echo", b"{}")]
    runs = [each for each in helen.client.get("/api/v1/audit")["audit"] if each["action"] == "run"]
    assert [(each["actor"], each["subject"], each["address"]) for each in runs] == [
        ("scale0:127.0.0.1 key:desk", "echo on web-1", "Scale0")
    ]
    call = b'{"jsonrpc":"2.0","method":"zerotask.broker.client_connect","params":["c"],"id":1}'
    assert json.loads(asker.mdp2("zerotask.broker", call)[0]) == {"jsonrpc": "2.0", "result": "c", "id": 1}
