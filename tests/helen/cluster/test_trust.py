"""Tests what a program of this machine can do to a Helen through ZeroMQ: nothing without a key that has a role."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq
from helen_running import Running, pulse, wait_until
from mesh_stage import Stage
from peers import Asker, Rpc, broker_config

pytestmark = pytest.mark.integration
PWN = {"files": {"pwn.lua": pulse("pwn")}, "rings": "off"}


def versions(helen: Running) -> Any:
    return helen.client.get("/api/v1/status")["manifest"]


class Thief:
    """Calls ZeroTask through Scale0, as any client of Majordomo does."""

    def __init__(self, asker: Asker) -> None:
        self.asker = asker

    def call(self, method: str, /, **params: Any) -> Any:
        text = json.dumps({"jsonrpc": "2.0", "method": f"zerotask.broker.{method}", "params": params, "id": 1})
        told = json.loads(self.asker.mdp2("zerotask.broker", text.encode())[0])
        return told.get("result", told.get("error"))


@pytest.fixture(scope="module")
def bare(common: Stage) -> Iterator[Stage]:
    """Yield a stage with a Helen with both brokers, without keys, and an agent."""
    (common.folder / "broker.json").write_text(broker_config("b1"))
    listen = ("--zerotask-listen", "tcp://127.0.0.1:0")
    words = ("--embed-scale0", str(common.folder / "broker.json"), "--embed-zerotask", *listen)
    common.h1 = common.helen("h1", *words, "--scale0-identity", "h1", "--keys-or-nothing").up()
    common.web1 = common.agent(common.h1, "web-1")
    run = json.loads((common.h1.state / "scale0" / "run.json").read_text())
    common.desk = common.asker(run["frontend"])
    common.desk.wait_for("zerotask.broker", "equus.web-1")
    yield common


@pytest.mark.parametrize("method", ["equus.push", "equus.check", "equus.check.h1", "mdp:equus.web-1"])
@pytest.mark.parametrize("entry", ["Scale0", "ZeroTask"])
def test_without_keys_there_is_no_way_to_publish_or_ask(bare: Stage, method: str, entry: str) -> None:
    """Plain tasks are taken at both entries (F37)."""
    caller: Any = Thief(bare.desk)
    name = "thief"
    if entry == "ZeroTask":
        run = json.loads((bare.h1.state / "zerotask" / "run.json").read_text())
        caller = bare.client(run["listen"])
        name = caller.name
    caller.call("client_connect", client_id=name)
    before = versions(bare.h1)
    params: Any = PWN if "push" in method else {"agents": ["web-1"], "check": "echo"}
    refused = caller.call("client_new_task", client_id=name, method=method, params=params)
    assert refused["code"] == -32001 and "role" in refused["message"]
    assert len(caller.call("client_new_task", client_id=name, method="plain", params=[])) == 32
    assert caller.call("node_connect", node_id="fake", methods=["equus.check"])["code"] == -32001
    assert versions(bare.h1) == before and bare.web1.asked == []


def test_without_keys_no_agent_is_asked_or_taken(bare: Stage) -> None:
    """An agent is neither asked by a request nor taken by a worker that offers it as its own (F37, F38)."""
    assert bare.desk.final(bare.desk.ask("equus.web-1", b"echo"))[:2] == (403, "not_allowed")
    assert bare.desk.final(bare.desk.ask("helen.h1", b"status"))[:2] == (403, "not_allowed")
    run = json.loads((bare.h1.state / "scale0" / "run.json").read_text())
    fake = bare.asker(run["backend"])
    named = {"identity": "fake", "services": ["equus.web-1"], "config_type": "JSON"}
    fake.say(b"CHECKCONFIG", named)
    ready = {"services": ["equus.web-1"], "heartbeat": True, "time": time.time(), "config_version": "0"}
    fake.say(b"READY", ready | {"epochs": {"equus.web-1": 2**50}})
    told = [fake.read() for _ in range(2)]
    error = next(json.loads(frames[3]) for frames in told if frames[2] == b"DISCONNECTERROR")
    assert (error["code"], error["reason"]) == (403, "not_allowed") and "--insecure-network" in error["message"]
    assert not bare.web1.closed.is_set() and bare.web1.asked == []


def test_a_broker_without_a_key_is_not_joined(stage: Stage) -> None:
    """Any program may wait at its port; `helen status` says so, and what to do (F37)."""
    words = ("--scale0", "tcp://127.0.0.1:9", "--zerotask", "tcp://127.0.0.1:9", "--keys-or-nothing")
    helen = stage.helen("h1", *words).up()
    network = helen.client.get("/api/v1/status")["network"]
    assert (network["scale0"], network["zerotask"]) == (None, None)
    assert [sentence.partition(" is not joined")[0] for sentence in network["troubles"]] == [
        "--scale0 tcp://127.0.0.1:9", "--zerotask tcp://127.0.0.1:9"
    ]  # fmt: skip


def test_helens_own_user_has_all_roles_on_her_sockets(stage: Stage) -> None:
    """The kernel says which user it is; so the guard is that of the control socket."""
    helen = stage.helen("h1", "--embed-zerotask", "--keys-or-nothing").up()
    agent = stage.agent(helen, "web-1")
    listen = json.loads((helen.state / "zerotask" / "run.json").read_text())["listen"]
    assert listen.startswith("ipc://")
    client = stage.client(listen)
    wait_until(lambda: [each["connected"] for each in helen.client.get("/api/v1/agents")["agents"]] == [True], "web-1")
    told = client.result(client.submit("equus.check", {"agents": ["web-1"], "check": "echo"}))
    assert told["counts"]["answered"] == 1 and agent.asked == [("echo", b"{}")]


def test_a_trial_says_so(stage: Stage) -> None:
    """A trial is told in the log at each start, and in `helen status`."""
    helen = stage.helen("h1", "--embed-zerotask", "--insecure-network").up()
    assert "trials only" in helen.client.get("/api/v1/status")["network"]["insecure"]
    assert "--insecure-network" in helen.program.said


def key_file(folder: Path, name: str, pair: tuple[bytes, bytes], role: str = "") -> None:
    said = f'    role = "{role}"\n' if role else ""
    text = f'metadata\n    identity = "{name}"\n{said}curve\n    public-key = "{pair[0].decode()}"\n'
    (folder / f"{name}.key").write_text(text)


def test_keys_with_roles(stage: Stage) -> None:
    """Each may do what its role says; the audit has the name of the key (F37, F68)."""
    folder, secret = stage.folder / "authorized", stage.folder / "own.secret"
    folder.mkdir()
    own, pairs = zmq.curve_keypair(), {role: zmq.curve_keypair() for role in ("plain", "operate", "push")}
    secret.touch(0o600)
    secret.write_text(f'curve\n    public-key = "{own[0].decode()}"\n    secret-key = "{own[1].decode()}"\n')
    for role, pair in pairs.items():
        key_file(folder, f"of-{role}", pair, "" if role == "plain" else role)
    keys = ("--curve-key", str(secret), "--authorized-keys", str(folder), "--rings", "off")
    helen = stage.helen("h1", "--embed-zerotask", "--zerotask-listen", "tcp://127.0.0.1:0", *keys).up()
    listen = json.loads((helen.state / "zerotask" / "run.json").read_text())["listen"]
    clients = {role: Rpc(listen, (*pair, own[0]), f"of-{role}") for role, pair in pairs.items()}
    push = {"files": {"pulse.lua": pulse()}}
    assert clients["plain"].call("client_connect", client_id="boss")["code"] == -32001
    for role in ("plain", "operate"):
        told = clients[role].call("client_new_task", client_id=f"of-{role}", method="equus.push", params=push)
        assert told["code"] == -32001
    task = clients["push"].submit("equus.push", push)
    assert clients["push"].result(task)["version"] is not None
    wait_until(lambda: helen.client.get("/api/v1/checks")["checks"], "check")
    actors = {each["actor"] for each in helen.client.get("/api/v1/audit")["audit"] if each["action"] == "push"}
    assert actors == {"zerotask:of-push key:of-push"}
    for client in clients.values():
        client.end()
