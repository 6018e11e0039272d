"""Tests trials on a great fleet: its agents are asked, and looked at when a version is over, in turns."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from held_walks import HeldWalks

from helen.agents.roster import Agent
from helen.sessions.rollout_control import ASKED_A_TICK, KEYS_A_STEP, RolloutControl, Watch

AGENTS, CHECKS = 1_500, 4


class Undone:
    """Is a version that was taken back, which 1,500 agents have tried; all but some have gone back to
    the one before.
    """

    def __init__(self) -> None:
        self.walks, self.now, self.looked = HeldWalks(), 100.0, 0
        self.written: list[tuple[str, dict[str, Any]]] = []
        self.run: list[tuple[str, ...]] = []
        link = SimpleNamespace(version=2)
        self.agents = {
            f"a{number}": Agent(f"a{number}", link, digest="new" if number % 100 == 0 else "old")  # type: ignore[arg-type]
            for number in range(AGENTS)
        }
        self.tried = {"5": {(name, f"c{check}") for name in self.agents for check in range(CHECKS)}}
        sessions: Any = SimpleNamespace(
            roster=SimpleNamespace(agents=self.agents), fair_turns=self.walks,
            journal=SimpleNamespace(change=lambda kind, document: self.written.append((kind, document))),
            delivery=SimpleNamespace(schedule_of=self._schedule_of, run_now=lambda *key: self.run.append(key)),
        )  # fmt: skip
        library: Any = SimpleNamespace(
            releases=SimpleNamespace(rollout=None), offered=lambda name: SimpleNamespace(digest="old")
        )
        judge: Any = SimpleNamespace(timeline=SimpleNamespace(tried=self.tried))
        self.control = RolloutControl(sessions, library, judge, Path(), wall=lambda: self.now, steady=lambda: self.now)

    def _schedule_of(self, agent: Agent) -> tuple[Any, ...]:
        self.looked += 1
        return (SimpleNamespace(timeout=3.0, id="c0"),)

    def tick(self) -> list[int]:
        """Return how many schedules each step has looked at."""
        self.control.tick()
        assert self.walks.left or not self.tried
        return self.walks.take_all(lambda: self.looked)


def test_agents_go_back_in_turns() -> None:
    undone = Undone()
    sizes = undone.tick()
    assert (max(sizes), sum(sizes), undone.written) == (1, AGENTS * 99 // 100, [])  # their last runs are not over
    assert len(sizes) >= AGENTS + AGENTS * CHECKS / KEYS_A_STEP
    undone.now += 10.0
    assert max(undone.tick()) == 0
    ((kind, document),) = undone.written
    back = sorted(name for name, agent in undone.agents.items() if agent.digest == "old")
    assert (kind, document["action"], document["version"], document["agents"]) == ("rollout", "back", 5, back)


def test_a_tick_in_the_middle_begins_nothing_again() -> None:
    """Walks last longer than the second between two ticks; what was journalled is so once."""
    undone = Undone()
    undone.control.tick()
    undone.walks.step()
    left = undone.walks.left
    undone.control.tick()
    assert undone.walks.left == left
    undone.walks.take_all(lambda: undone.looked)
    undone.now += 10.0
    undone.tick()
    undone.tick()
    assert len(undone.written) == 1


def test_those_that_are_not_tried_any_more_are_forgotten() -> None:
    """The timeline has closed the trial of all but two: one has gone back late, one never did."""
    undone = Undone()
    undone.tick()
    undone.now += 10.0
    undone.tick()
    undone.agents["a100"].digest = "old"
    undone.tried["5"] = {("a100", "c0"), ("a200", "c1")}
    undone.tick()
    undone.now += 10.0
    undone.tick()
    assert [document["agents"] for _, document in undone.written[1:]] == [["a100"]]
    assert undone.control._journaled == {("5", "a100")}
    undone.tried.clear()
    undone.control.tick()
    assert (undone.control._settling, undone.control._journaled) == ({}, set())


def test_members_are_asked_in_turns() -> None:
    """A step makes one schedule, and a tick asks ASKED_A_TICK members; none is asked of a ring that has ended
    meanwhile.
    """
    undone, pairs = Undone(), dict[Any, Any]()
    undone.tried.clear()
    evidence = SimpleNamespace(pairs=pairs, limits=SimpleNamespace(results=1), drop=pairs.pop)
    ring = SimpleNamespace(evidence=evidence)
    watch = Watch(SimpleNamespace(ring=ring), SimpleNamespace())  # type: ignore[arg-type]
    for number, name in enumerate(sorted(undone.agents)):
        key = (name, "gone" if number == 5 else "c0")
        pairs[key] = SimpleNamespace(new=[1] if number == 3 else [])
        watch.asks.append((float(number) / AGENTS, key, 30.0))
    undone.control._watch = watch
    undone.control.tick()
    sizes = undone.walks.take_all(lambda: undone.looked)
    assert (max(sizes), len(sizes)) == (1, ASKED_A_TICK)
    asked = sorted(undone.agents)[:ASKED_A_TICK]
    del asked[5], asked[3]  # one is not assigned any more, one has answered
    assert [name for name, _ in undone.run] == asked and ("a1002", "gone") not in pairs
    assert len(pairs) == AGENTS - 1
    undone.control.tick()
    undone.walks.step()
    undone.control._watch = None
    undone.walks.take_all(lambda: undone.looked)
    assert len(undone.run) == len(asked) + 1
