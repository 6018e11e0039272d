"""Starts agents for a test of this folder; all of it ends with the test."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from helen_running import TWISTD, Program, Running
from peers import Agent, Asker, Broker, Rpc


def network_key(folder: Path) -> Path:
    """Return the file of a new key that the Helens of a network share."""
    key = folder / "network.key"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", str(key)], check=True, capture_output=True)
    key.chmod(0o600)
    return key


class Stage:
    """Tests that share one may leave things on it for each other: processes, peers."""

    b: Broker
    h1: Running
    h2: Running
    web1: Agent
    desk: Asker
    rpc: Rpc

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.brokers: dict[str, Broker] = {}
        self.programs: list[Program] = []  # started by somebody else, ended by us
        self._started: list[Broker | Running | Agent | Asker | Rpc | Program] = []

    def helen(self, name: str, *options: str, plain: bool = True) -> Running:
        """Start a Helen: plaintext agents of a few lines may come, and without keys the network is one for trials."""
        is_open = not {"--curve-key", "--keys-or-nothing"} & set(options)
        options = tuple(word for word in options if word != "--keys-or-nothing")
        if is_open and any(word.startswith(("--scale0", "--embed-", "--zerotask")) for word in options):
            options = (*options, "--insecure-network")
        (self.folder / name / "checks").mkdir(parents=True, exist_ok=True)
        running = Running(self.folder / name, *(["--insecure-plaintext"] if plain else []), *options)
        self._started.append(running)
        return running

    def broker(self, name: str = "b1", **config: Any) -> Broker:
        self._started.append(broker := Broker(self.folder / name, **config))
        self.brokers[name] = broker
        return broker

    def agent(self, helen: Running, name: str) -> Agent:
        self._started.append(agent := Agent(helen.run["agents"], name))
        return agent

    def asker(self, endpoint: str, curve: tuple[bytes, bytes, bytes] | None = None) -> Asker:
        self._started.append(asker := Asker(endpoint, curve))
        return asker

    def zerotask(self) -> tuple[Path, Program]:
        """Start `twistd zerotask`, and return where its run.json will be."""
        state = self.folder / "zerotask"
        words = [*TWISTD, "-n", "--pidfile=", "zerotask", "--state", str(state), "--listen", "tcp://127.0.0.1:0"]
        words += ["--publish", "tcp://127.0.0.1:0", "--insecure-network"]
        program = Program(words, self.folder / "zerotask.log")
        self._started.append(program)
        return state / "run.json", program

    def client(self, endpoint: str) -> Rpc:
        self._started.append(rpc := Rpc(endpoint))
        return rpc

    def end(self) -> None:
        for one in (*self.programs, *reversed(self._started)):
            one.end()
