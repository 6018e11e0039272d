"""Three brokers, three Helens, sixty agents, and clients that never stop asking, while each process is killed, stopped
and restarted in turn.

Every request ends, once: by an answer or by a code. Agents of a Helen who is dead, or does not move, report to another
within 15 s. Nothing that was acknowledged is in no history. By hand with more rounds: `HELEN_MATRIX_ROUNDS=5 python -m
pytest tests/mesh/test_three_of_each.py`; what each step took goes to standard output (`-s`).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helen_running import Program, Running, pulse, wait_until
from mesh_stage import Stage

from helen.cli.client import Failed
from helen.journal.together import check_together

pytestmark = pytest.mark.integration
ROUNDS = int(os.environ.get("HELEN_MATRIX_ROUNDS", "1"))
AGENTS = 60
NEWS_SECONDS = 15.0  # in which agents of a dead Helen report to another
PATIENCE = 90.0  # seconds for what has no figure of its own; only what is broken comes near it
BENCH = Path(__file__).parents[2] / "bench"
QUICK = {"default_heartbeat_interval": 0.5}
SERVED = {"200"}
# What a request may end by while processes die: the agent was between two Helens, or was lost while it was asked;
# nobody answered in time; its broker went down.
LOST = {"404 unknown_agent", "502 worker_lost", "504 deadline", "503 draining", "503 no_broker", "408 expired"}


class Fleet:
    """All of it."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.moved: Counter[signal.Signals] = Counter()  # agents that had to go because of it
        self.key = stage.folder / "network.key"
        subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", str(self.key)], check=True,
                       capture_output=True)  # fmt: skip
        self.key.chmod(0o600)
        self.brokers: list[Any] = []
        for number in range(3):
            peers = [broker.run["peer"] for broker in self.brokers]
            self.brokers.append(stage.broker(f"b{number}", peers=peers, **QUICK).up())
        self.helens = [self.helen(number) for number in range(3)]
        for helen in self.helens:
            helen.up()
        self.ports = [helen.run["agents"] for helen in self.helens]
        wait_until(self.settled, "network that has settled", PATIENCE)
        self.helens[0].client.post("/api/v1/push", {"files": {"pulse.lua": pulse(every="1s")}, "rings": "off"})
        wait_until(self.settled, "push at all three", PATIENCE)
        self.agents = self.start_agents()
        wait_until(lambda: len(self.reporting(range(3), 0.0)) == AGENTS, "report of every agent", PATIENCE)
        wait_until(self.settled, "news of all agents at all three", PATIENCE)
        self.clients = self.start_clients()

    def helen(self, number: int, *options: str) -> Running:
        """Her own broker first, the others when that one is gone."""
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

    def reporting(self, numbers: Any, since: float) -> set[str]:
        """Agents of which one of these Helens has had a result since then; one who is just starting says nothing."""
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
        """A Helen is killed or ended; how long it takes until all of her agents report to others."""
        hers, since, began = self.members(number), time.time(), time.monotonic()
        self.moved[how] += len(hers)
        self.helens[number].signal(how)
        self.wait_for_news(hers, since, [other for other in range(3) if other != number])
        return time.monotonic() - began

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
        """Killed and started, stopped for longer than its peers bear, restarted."""
        broker = self.brokers[number]
        for how in (signal.SIGKILL, signal.SIGTERM):
            broker.program.process.send_signal(how)
            broker.program.wait()
            broker.again()
        broker.program.process.send_signal(signal.SIGSTOP)
        time.sleep(2.0)
        broker.program.process.send_signal(signal.SIGCONT)


@pytest.fixture
def fleet(stage: Stage) -> Iterator[Fleet]:
    yield Fleet(stage)


def test_each_is_killed_stopped_and_restarted_in_turn(fleet: Fleet) -> None:
    took: dict[str, float] = {}
    for turn in range(3 * ROUNDS):
        number, following, last = (each % 3 for each in range(turn, turn + 3))
        began = time.monotonic()
        took[f"{turn}: h{number} stopped"] = stop_her_and_try_a_broker(fleet, number)
        took[f"{turn}: h{following} killed"] = fleet.leave_her(following, signal.SIGKILL)
        fleet.revive(following)
        fleet.wait_for(following)  # else all would be with the one who is left
        took[f"{turn}: h{last} ended"] = fleet.leave_her(last, signal.SIGTERM)
        assert fleet.helens[last].program.wait() == 0
        fleet.revive(last)
        fleet.wait_for(last)
        print(f"round {turn}: {time.monotonic() - began:.1f} s")
    print(json.dumps(took, indent=1))
    wait_until(fleet.settled, "network that has settled", PATIENCE)
    fleet.clients.process.terminate()
    assert fleet.clients.wait() == 0
    fleet.agents.process.terminate()
    fleet.agents.wait()
    for helen in fleet.helens:
        helen.end()
    judge_requests(json.loads(fleet.clients.said.splitlines()[-1]))
    found = check_together([helen.state for helen in fleet.helens])
    print(found.results, "results,", found.repeated, "with two Helens")
    print("agents that had to go:", fleet.moved)
    assert found.problems == ()
    assert min(fleet.moved[how] for how in (signal.SIGSTOP, signal.SIGKILL, signal.SIGTERM)) >= AGENTS // 3
    assert found.results > AGENTS * 10
    assert {name: seconds for name, seconds in took.items() if seconds > NEWS_SECONDS} == {}


def stop_her_and_try_a_broker(fleet: Fleet, number: int) -> float:
    """While a Helen stands still, a broker goes through everything."""
    hers, since, began = fleet.members(number), time.time(), time.monotonic()
    fleet.moved[signal.SIGSTOP] += len(hers)
    fleet.helens[number].signal(signal.SIGSTOP)
    fleet.try_broker(number)
    fleet.wait_for_news(hers, since, [other for other in range(3) if other != number])
    took = time.monotonic() - began
    fleet.helens[number].signal(signal.SIGCONT)
    fleet.wait_for(number)
    return took


def judge_requests(told: dict[str, Any]) -> None:
    """Each ended once, nearly all of them well, and the others by a code that says what happened."""
    print(told)
    assert sum(told["ended"].values()) == told["asked"]
    assert told["twice"] == []
    assert set(told["ended"]) <= SERVED | LOST
    assert told["ended"]["200"] > told["asked"] / 2
