"""Runs three brokers, three Helens with TLS who share a key, and sixty agents; and does to them what goes wrong."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from helen_running import Program, Running, pulse, wait_until
from mesh_stage import Stage, network_key

from helen.cli.base.client import Failed

AGENTS = 60
PATIENCE = 90.0  # seconds for what has no figure of its own; only what is broken comes near it
BENCH = Path(__file__).parents[2] / "bench"
QUICK = {"default_heartbeat_interval": 0.5}


class Fleet:
    """Runs all of it on one stage: brokers b0 to b2, Helens h0 to h2, agents a-0000 and so on, and clients that ask."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.moved: Counter[signal.Signals] = Counter()  # agents that had to go because of it
        self.revoked: set[str] = set()
        self.key = network_key(stage.folder)
        self.brokers: list[Any] = []
        for number in range(3):
            peers = [broker.run["peer"] for broker in self.brokers]
            self.brokers.append(stage.broker(f"b{number}", peers=peers, **QUICK).up())
        self.helens = [self.helen(number) for number in range(3)]
        for helen in self.helens:
            helen.up()
        self.ports = [helen.run["agents"] for helen in self.helens]
        wait_until(self.settled, "network that has settled", PATIENCE)
        self.helens[0].client.post(
            "/api/v1/push", {"files": {"pulse.lua": pulse(every="1s")}, "rings": "off"}, PATIENCE
        )
        wait_until(self.settled, "push at all three", PATIENCE)
        self.agents = self.start_agents()
        wait_until(lambda: len(self.reporting(range(3), 0.0)) == AGENTS, "report of every agent", PATIENCE)
        wait_until(self.settled, "news of all agents at all three", PATIENCE)

    def helen(self, number: int, *options: str) -> Running:
        """Start a Helen that uses its own broker first, the others when that one is gone."""
        backends = [broker.run["backend"] for broker in self.brokers]
        calls = [word for end in backends[number:] + backends[:number] for word in ("--scale0", end)]
        name = f"h{number}"
        return self.stage.helen(
            name, *calls, "--scale0-identity", name, "--network-key", str(self.key), *options, plain=False
        )

    def start_agents(self) -> Program:
        states = [word for helen in self.helens for word in ("--state", str(helen.state))]
        words = [sys.executable, str(BENCH / "fleet.py"), *states, "--folder", str(self.stage.folder / "agents")]
        return self.program([*words, "--count", str(AGENTS)], "agents.log")

    def start_clients(self) -> Program:
        frontends = [broker.run["frontend"] for broker in self.brokers]
        return self.program(
            [sys.executable, str(Path(__file__).with_name("asking.py")), str(AGENTS), *frontends], "desk"
        )

    def program(self, words: list[str], log: str) -> Program:
        program = Program(words, self.stage.folder / log, {"PYTHONPATH": os.environ.get("PYTHONPATH", "")})
        self.stage.programs.append(program)
        return program

    # -------------------------------------------------------------------------------------- looking

    def settled(self) -> bool:
        told = [helen.client.get("/api/v1/status")["network"]["shared"] for helen in self.helens]
        return all(each["settled"] for each in told) and len({each["digest"] for each in told}) == 1

    def know_each_other(self) -> bool:
        told = [helen.client.get("/api/v1/status")["network"]["shared"]["helens"] for helen in self.helens]
        return [sorted(each) for each in told] == [["h1", "h2"], ["h0", "h2"], ["h0", "h1"]]

    def reporting(self, numbers: Any, since: float) -> set[str]:
        """Return the agents of which one of these Helens has had a result since then; a Helen that just starts says
        nothing.
        """
        agents: set[str] = set()
        for number in numbers:
            with contextlib.suppress(Failed):
                found = self.helens[number].client.get(f"/api/v1/results?since={since}")["results"]
                agents |= {each["agent"] for each in found}
        return agents

    def members(self, number: int) -> set[str]:
        listed = self.helens[number].client.get("/api/v1/agents")["agents"]
        return {each["name"] for each in listed if each["connected"]}

    # --------------------------------------------------------------------------------------- acting

    def leave_her(self, number: int, how: signal.Signals) -> float:
        """Kill or end a Helen, and return the seconds until all of its agents report to others."""
        members, since, began = self.members(number), time.time(), time.monotonic()
        self.moved[how] += len(members)
        self.helens[number].signal(how)
        self.wait_for_news(members, since, [other for other in range(3) if other != number])
        return time.monotonic() - began

    def fill(self, number: int) -> None:
        """Let a Helen have agents, if it has hardly any: who has the most lets half of them go."""
        if len(self.members(number)) >= AGENTS // 10:
            return
        count, most = max((len(self.members(each)), each) for each in range(3))
        self.helens[most].client.post("/api/v1/drain", {"over": "2s"})
        wait_until(lambda: len(self.members(most)) <= count // 2, f"end of half of h{most}'s agents", PATIENCE)
        self.helens[most].client.post("/api/v1/drain/undo", {})
        wait_until(lambda: self.members(number), f"agents at h{number}", PATIENCE)

    def wait_for_news(self, agents: set[str], since: float, numbers: Any) -> None:
        wait_until(lambda: agents <= self.reporting(numbers, since), f"results of {agents} at {numbers}", PATIENCE)

    def revive(self, number: int) -> None:
        self.helens[number].program.wait()
        self.helens[number] = self.helen(number, "--listen", self.ports[number])

    def wait_for(self, number: int) -> None:
        self.helens[number].up()
        wait_until(lambda: self.state_of(number) == "active", f"h{number} in the network", PATIENCE)

    def state_of(self, number: int) -> str:
        return str(self.helens[number].client.get("/api/v1/status")["network"]["scale0"]["state"])

    def try_broker(self, number: int) -> None:
        """Kill and start a broker, stop it for longer than its peers bear, and restart it."""
        broker = self.brokers[number]
        for how in (signal.SIGKILL, signal.SIGTERM):
            broker.program.process.send_signal(how)
            broker.program.wait()
            broker.again()
        broker.program.process.send_signal(signal.SIGSTOP)
        time.sleep(2.0)
        broker.program.process.send_signal(signal.SIGCONT)
