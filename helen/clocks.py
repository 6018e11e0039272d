"""How far an agent's clock is ahead of Helen's, from the results that it sends. Pure.

A result takes no negative time to get here, so what is ahead of the figure so far is believed at once. What is behind
it is either a clock that was wrong or has been set, or results that waited in a spool. Those that waited come in a
rush: each is closer to now than the one before. So a lower figure is believed only after it has stood still for a
while, and a backlog that drains after an hour's cut doesn't look like news from a slow clock.
"""

from __future__ import annotations

from typing import Any

from attrs import evolve, frozen

TOLERANCE = 2.0  # seconds: ordinary delays between the end of a check and its arrival
DOUBT_SECONDS = 60.0  # of Helen's time that a lower figure has to stand
DOUBT_RESULTS = 3  # and results that have to say so
STEADY = 8.0  # seconds that it may vary in the meantime: what changes more is a backlog, however slowly it drains


@frozen
class AgentClock:
    """`offset`: seconds ahead. `since`, `first`, `count`: of results that say it is behind that."""

    offset: float = 0.0  # until it is measured, an agent's clock is taken as right
    since: float | None = None
    first: float = 0.0
    count: int = 0

    def to_json(self) -> dict[str, Any]:
        return {"offset": self.offset, "since": self.since, "first": self.first, "count": self.count}


def measure(clock: AgentClock, ended: float, received: float) -> AgentClock:
    """The clock after one more result. `ended` by the agent's clock, `received` by Helen's."""
    ahead = ended - received
    if ahead > clock.offset:
        return AgentClock(ahead)
    if ahead >= clock.offset - TOLERANCE:
        return clock if clock.since is None else AgentClock(clock.offset)
    if clock.since is None or abs(ahead - clock.first) > STEADY:
        return AgentClock(clock.offset, received, ahead, 1)
    if clock.count + 1 >= DOUBT_RESULTS and received - clock.since >= DOUBT_SECONDS:
        return AgentClock(ahead)
    return evolve(clock, count=clock.count + 1)
