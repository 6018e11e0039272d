"""Compares this machine's clock with those of agents after a step ahead, or a start that may lie behind one.

Until the clock is trusted nothing expires (ClockWatch.settled). Most agents may confirm it; while most are behind, the
hour of waiting begins anew.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.logger import Logger

from groundwork.clock_watch import ClockWatch
from groundwork.start_clock import Agents, judge_by_agents
from helen.states.clock_offset import STEADY, Newest


class ClockTrust:
    """Looks at the newest result of each agent: `newest` returns them by the agent's name."""

    log = Logger()

    def __init__(self, clock: ClockWatch, newest: Callable[[], dict[str, Newest]]) -> None:
        self._clock = clock
        self._newest = newest
        self._before: dict[str, float] = {}
        self.verdict = Agents.FEW

    def look(self) -> None:
        """Judge the clock by what agents have said since it is in doubt; call this every half minute or so."""
        if not self._clock.unsettled():
            self._before, self.verdict = {}, Agents.FEW
            return
        before, self.verdict = self.verdict, judge_by_agents(self._steady_offsets())
        if self.verdict is Agents.AGREE and self._clock.confirm():
            self.log.info("the clocks of most agents agree with this machine's: it is right, and things expire by it")
        elif self.verdict is Agents.BEHIND:
            self._clock.hold()
            if before is not Agents.BEHIND:
                self.log.warn(
                    "the clocks of most agents are behind this machine's, which seems to be ahead: look at its time"
                    " daemon. Nothing expires meanwhile"
                )

    def _steady_offsets(self) -> list[float]:
        """Return how far agents are ahead, in seconds, of those that said the same at the look before.

        A result that waited in a spool says less than the one before it: an agent that drains one has not told its time
        yet.
        """
        since = self._clock.doubted_at
        now = {agent: each.ended - each.received for agent, each in self._newest().items() if each.received > since}
        before, self._before = self._before, now
        return [ahead for agent, ahead in now.items() if abs(ahead - before.get(agent, float("inf"))) <= STEADY]
