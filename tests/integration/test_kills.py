"""Test kill -9 of Helen, of agents and of both at random, and compare the history with the acknowledged results.

Real processes, a real sandbox. The seed is printed with a failure; HELEN_KILL_SEED and HELEN_KILL_ROUNDS run it again,
or longer, by hand.
"""

import os
import random
import shutil
import time

import pytest
from patience import Patience
from ports import free_port

from equus.spool.spool import Spool
from helen.cli.local import processes
from helen.cli.local.processes import Local
from helen.journal.values import Ack
from helen.journal.verify import check_history

ROUNDS = int(os.environ.get("HELEN_KILL_ROUNDS", "30"))
AGENTS = ("a-1", "a-2", "a-3")
PULSE = 'return { summary = "pulse", every = "1s", timeout = "5s", run = function() return "ok", "beat" end }\n'
DRAIN_SECONDS = 60.0


class Mortals(Local):
    """Run processes that are killed and started again, and read from their spools which results are acknowledged."""

    def __init__(self, folder):
        super().__init__(folder)
        self.listen = f"127.0.0.1:{free_port()}"
        checks = self.state / "checks"
        checks.mkdir(parents=True)
        (checks / "pulse.lua").write_text(PULSE)

    def raise_helen(self):
        self.start_helen(self.listen, "off")
        self.wait_for_helen()

    def kill(self, name):
        for entry in [entry for entry in self._processes if entry[0] == name]:
            self._processes.remove(entry)
            entry[1].kill()
            entry[1].wait()

    def acked(self, name):
        """Return what this agent, which is dead, holds to be acknowledged; from a copy, for opening a spool
        repairs it.
        """
        copy = self.folder / f"{name}-spool-copy"
        shutil.copytree(self.folder / name / "spool", copy)
        spool = Spool(copy)
        found = Ack(name, spool.id, spool.first - 1)
        spool.close()
        shutil.rmtree(copy)
        return found

    def is_drained(self):
        """Tell if every agent is connected, and Helen has all results that it numbered so far."""
        agents = self.client.get("/api/v1/agents")["agents"]
        return len(agents) == len(AGENTS) and all(agent["connected"] for agent in agents)


def wait_until(condition, seconds, what):
    bound = Patience(seconds)
    while not condition():
        assert bound.lasts(), f"not within {seconds:g} s: {what}"
        time.sleep(0.1)


@pytest.mark.adversary(51)
@pytest.mark.integration
def test_nothing_acknowledged_is_lost_and_nothing_is_there_twice(tmp_path, monkeypatch):
    """Each acknowledged result is in the history once and without holes, whichever processes are killed and when."""
    monkeypatch.setattr(processes, "START_SECONDS", DRAIN_SECONDS)  # how soon it starts is not what is tested here
    seed = int(os.environ.get("HELEN_KILL_SEED", random.SystemRandom().randrange(2**32)))
    print(f"HELEN_KILL_SEED={seed}")
    dice = random.Random(seed)
    mortals = Mortals(tmp_path)
    acked = []
    try:
        mortals.raise_helen()
        for name in AGENTS:
            mortals.start_agent(name)
        wait_until(mortals.is_drained, DRAIN_SECONDS, "all agents connected")
        for _ in range(ROUNDS):
            time.sleep(dice.uniform(0.1, 1.2))
            victims = dice.choice([["helen"], ["a-1"], ["a-2", "a-3"], ["helen", "a-1"], ["helen", *AGENTS]])
            for name in victims:
                mortals.kill(name)
            acked += [mortals.acked(name) for name in victims if name != "helen"]
            if "helen" in victims:
                mortals.raise_helen()
            for name in set(victims) - {"helen"}:
                mortals.start_agent(name)
        wait_until(mortals.is_drained, DRAIN_SECONDS, "all agents connected again")
        time.sleep(3.0)
        for name in AGENTS:
            mortals.kill(name)
            acked.append(mortals.acked(name))
    finally:
        mortals.stop()
    report = check_history(mortals.state, acked)
    assert report.problems == ()
    assert report.results >= sum(max(ack.sequence for ack in acked if ack.agent == name) for name in AGENTS) > ROUNDS
