"""What a test of this folder starts; all of it ends with the test."""

from __future__ import annotations

from pathlib import Path

from helen_running import Running
from peers import Agent, Asker, Broker


class Stage:
    """Whoever shares one may leave things on it for the tests: processes, peers."""

    b: Broker
    h1: Running
    h2: Running
    web1: Agent
    desk: Asker

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[Broker | Running | Agent | Asker] = []

    def helen(self, name: str, *options: str) -> Running:
        """Plaintext, so that agents of a few lines may come."""
        (self.folder / name / "checks").mkdir(parents=True, exist_ok=True)
        running = Running(self.folder / name, "--insecure-plaintext", *options)
        self._started.append(running)
        return running

    def broker(self, name: str = "b1") -> Broker:
        self._started.append(broker := Broker(self.folder / name))
        return broker

    def agent(self, helen: Running, name: str) -> Agent:
        self._started.append(agent := Agent(helen.run["agents"], name))
        return agent

    def asker(self, endpoint: str, curve: tuple[bytes, bytes, bytes] | None = None) -> Asker:
        self._started.append(asker := Asker(endpoint, curve))
        return asker

    def end(self) -> None:
        for one in reversed(self._started):
            one.end()
