"""What was measured of agents' clocks moves with a step of Helen's own, one agent a step."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

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
