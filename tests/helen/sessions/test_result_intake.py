"""Tests that the measured offsets of agents' clocks move with a step of Helen's own, one agent a step."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest
from held_walks import HeldWalks

from groundwork.clock_watch import Jump
from helen.agents.roster import Agent
from helen.sessions.result_intake import ResultIntake


def test_offsets_move_in_turns() -> None:
    """A sample by the new time stays as it is; an agent that was forgotten meanwhile gets none."""
    walks, agents = HeldWalks(), {f"a{number}": Agent(f"a{number}") for number in range(300)}
    roster, none = SimpleNamespace(agents=agents), SimpleNamespace()
    intake: Any = ResultIntake(none, roster, none, none, walks, none, lambda: 0.0)  # type: ignore[arg-type]
    for agent in agents.values():
        intake._offsets[agent.name], agent.clock_offset = deque((1.0, 2.0), 20), 2.0
    intake.jumped(Jump(1_000.0, 60.0, 0.0))
    assert agents["a0"].clock_offset == 2.0  # in the turns to come
    intake._offsets["a299"] = deque((-57.0,), 20)
    del agents["a7"]
    moved = walks.take_all(lambda: sum(agent.clock_offset == -58.0 for agent in agents.values()))
    assert max(moved) == 1 and sum(moved) == 298
    assert (agents["a299"].clock_offset, list(intake._offsets["a299"])) == (-57.0, [-59.0, -58.0, -57.0])
    assert "a7" not in intake._offsets


@pytest.mark.parametrize("between", [0, 1, 4, 10, 13])
def test_a_step_while_another_is_followed(between: int) -> None:
    """Every sample moves by all the steps that came after it, and by no other, however far the first walk has come."""
    walks, agents = HeldWalks(), {f"a{number}": Agent(f"a{number}") for number in range(10)}
    roster, none = SimpleNamespace(agents=agents), SimpleNamespace()
    intake: Any = ResultIntake(none, roster, none, none, walks, none, lambda: 0.0)  # type: ignore[arg-type]
    for agent in agents.values():
        intake._estimate_clock(agent, 100.0)
    for step, stepped in enumerate((60.0, 7.0, 3.0), 1):
        intake.jumped(Jump(1_000.0, stepped, 0.0))
        for _ in range(min(between, walks.left)):
            walks.step()
        intake._estimate_clock(agents["a3"], 1_000.0 * step)
    intake._estimate_clock(agents["a9"], 30.5)
    walks.take_all(lambda: 0)
    kept = {name: list(samples) for name, samples in intake._offsets.items()}
    assert kept.pop("a3") == [30.0, 990.0, 1_997.0, 3_000.0]
    assert kept.pop("a9") == [30.0, 30.5]
    assert kept == {name: [30.0] for name in agents if name not in ("a3", "a9")}
    assert {agent.clock_offset for agent in agents.values()} == {30.0, 30.5, 3_000.0}
    assert not any(samples for samples, _ in intake._unmoved)
