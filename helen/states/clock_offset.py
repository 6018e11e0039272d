"""Measures how far an agent's clock is ahead of Helen's, from the results that it sends. Pure.

A result takes no negative time to get here, so an offset above the figure so far is believed at once. One below it is
either a clock that was wrong or has been set, or results that waited in a spool. Results that waited come in a rush:
each is closer to now than the one before. So a lower figure is believed only after it has stood still for a while, and
a backlog that drains after an hour's cut doesn't look like news from a slow clock. For an agent that is new to this
Helen no result speaks for another figure, so two that agree are enough: an agent that comes from a Helen with a clock
that is minutes behind is judged before it would be stale.

An agent's spool keeps the order in which runs ended. So a result that ended before the one in front of it shows that
the clock was set back. It is believed at once if the one in front came a while ago over the same connection; else such
results don't count for that minute, but the check is not silent.

When Helen's own clock is set, an agent's clock may have been set with it (the agent sits on Helen's machine) or not.
The next result that fits one of the two figures says which, and it is remembered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve

from equus_protocol.cheap_values import cheap_value
from equus_protocol.result_fields import END_OF_TIME

TOLERANCE = 2.0  # seconds: ordinary delays between the end of a check and its arrival
DOUBT_SECONDS = 60.0  # of Helen's time that a lower figure has to stand
DOUBT_RESULTS = 3  # results in that time that have to agree
NEW_SECONDS = 5.0  # of Helen's time between two results that agree, of a clock that was not measured before
STEADY = 8.0  # seconds that it may vary in the meantime: a figure that changes more is a backlog that drains


@cheap_value
class Newest:
    """Describes the newest result of an agent's spool.

    `ended` by the agent's clock, as it was said; `received` by Helen's.
    """

    spool: str
    sequence: int
    ended: float
    received: float
    doubted: bool = False  # the clock was set back, and the new figure is not believed yet


@cheap_value
class AgentClock:
    """Describes a clock of an agent: seconds ahead, and since when how many results show a lower figure.

    `rivals`: the seconds ahead if the agent's clock was set together with Helen's, and if it was not; None: no step is
    in doubt. `alone`: True for a clock that is not set with Helen's, None while that is not known. `is_new`: no result
    has shown the figure yet.
    """

    offset: float = 0.0  # until it is measured, an agent's clock is taken as right
    since: float | None = None
    first: float = 0.0
    count: int = 0
    rivals: tuple[float, float] | None = None
    alone: bool | None = None
    is_new: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return `offset`, `since`, `first` and `count`; `rivals` and `alone` if they are known, `is_new` if true."""
        document = {"offset": self.offset, "since": self.since, "first": self.first, "count": self.count}
        more = {"rivals": self.rivals, "alone": self.alone, "is_new": self.is_new or None}
        return document | {name: value for name, value in more.items() if value is not None}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> AgentClock:
        """Read the document that `to_json` makes, or one of an older version."""
        rivals = document.get("rivals")
        return cls(**{**document, "rivals": None if rivals is None else (rivals[0], rivals[1])})


def offset_ms(clock: AgentClock | None) -> int | None:
    """Return how many milliseconds an agent's clock is ahead of Helen's, for the history.

    None until it is measured, and where ordinary delays may be all there is of it. A backlog that drains doesn't count
    as a slow clock.
    """
    if clock is None or not TOLERANCE < abs(clock.offset) < END_OF_TIME:
        return None
    return round(clock.offset * 1000)


def measure(clock: AgentClock, ended: float, received: float) -> AgentClock:
    """Return the clock after one more result; unix seconds, `ended` by the agent's clock, `received` by Helen's."""
    ahead = ended - received
    if clock.rivals is not None:
        clock = _decide(clock, ahead)
    if clock.is_new:
        return _measure_first(clock, ahead, received)
    if ahead > clock.offset:
        return AgentClock(ahead, alone=clock.alone)
    if ahead >= clock.offset - TOLERANCE:
        return clock if clock.since is None else evolve(clock, since=None, first=0.0, count=0)
    if clock.since is None or abs(ahead - clock.first) > STEADY:
        return evolve(clock, since=received, first=ahead, count=1)
    if clock.count + 1 >= DOUBT_RESULTS and received - clock.since >= DOUBT_SECONDS:
        return AgentClock(ahead, alone=clock.alone)
    return evolve(clock, count=clock.count + 1)


def _measure_first(clock: AgentClock, ahead: float, received: float) -> AgentClock:
    """Believe a figure that is not lower than that of a right clock, or two that agree and did not come in a rush."""
    if ahead >= clock.offset - TOLERANCE:
        return AgentClock(max(ahead, clock.offset), alone=clock.alone)
    if clock.since is None or abs(ahead - clock.first) > TOLERANCE:
        return evolve(clock, since=received, first=ahead, count=1)
    if received - clock.since >= NEW_SECONDS:
        return AgentClock(max(ahead, clock.first), alone=clock.alone)
    return evolve(clock, count=clock.count + 1)


def _decide(clock: AgentClock, ahead: float) -> AgentClock:
    assert clock.rivals is not None
    for alone, offset in enumerate(clock.rivals):
        if abs(ahead - offset) <= TOLERANCE:
            return AgentClock(offset, alone=bool(alone))
    return clock


def after_step(clock: AgentClock, stepped: float) -> AgentClock:
    """Return an agent's clock after Helen's was set by `stepped` seconds; a step back is negative."""
    since = None if clock.since is None else clock.since + stepped
    clock = evolve(clock, since=since)
    if clock.is_new:
        return clock
    if clock.alone is not None:
        by = stepped if clock.alone else 0.0
        return evolve(clock, offset=clock.offset - by, first=clock.first - by)
    together, alone = clock.rivals or (clock.offset, clock.offset)
    alone -= stepped
    if abs(alone - together) <= TOLERANCE:
        return AgentClock(together)
    return AgentClock(max(together, alone), rivals=(together, alone))


def is_older(newest: Newest | None, spool: str, sequence: int) -> bool:
    """Return True if a result was in the same spool before the newest."""
    return newest is not None and newest.spool == spool and sequence <= newest.sequence


def is_set_back(newest: Newest | None, ended: float, spool: str) -> bool:
    """Return True if a clock was set back before a result that follows the newest, or is in doubt since it was.

    `ended`: when the result ended, unix seconds by the agent's clock.
    """
    if newest is None or newest.spool != spool:
        return False
    return newest.doubted or ended < newest.ended - TOLERANCE
