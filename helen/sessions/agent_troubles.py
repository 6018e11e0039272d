"""Tells people what is wrong with one agent as Helen sees it: it is beyond a quota, or there are two copies of it.

A trouble is shown with the agent and told through channels once; it is over when it was not seen for QUIET_SECONDS.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define
from twisted.logger import Logger

from equus_protocol.results import CRITICAL, OK, WARNING
from groundwork.event import Event
from helen.agents.roster import Agent

# Agents come back within five minutes (docs/protocol.rst, section 3), so that a copy of one is seen again by then.
QUIET_SECONDS = 600.0
QUOTA, COPY = "equus:quota", "equus:copy"  # what messages name as the check; no check can have such an id
STATUS = {QUOTA: WARNING, COPY: CRITICAL}
MOST_OPEN = 10_000  # troubles at once: beyond, agents still have them in their lists, and no channel is told


@define
class _Open:
    agent: Agent
    key: str
    kind: str
    seen: float  # monotonic seconds


class AgentTroubles:
    """Holds the troubles that last. `steady`: monotonic seconds.

    `told` is called with the agent's name, the check to name, whether it is a problem or a recovery, the status, and
    a sentence.
    """

    log = Logger()

    def __init__(self, steady: Callable[[], float]) -> None:
        self.told: Event[[str, str, str, int, str]] = Event()
        self._steady = steady
        self._open: dict[tuple[str, str], _Open] = {}

    def __len__(self) -> int:
        return len(self._open)

    def note(self, agent: Agent, kind: str, key: str, sentence: str) -> None:
        """Take note of a trouble of `kind` (QUOTA or COPY); `key` tells those of a kind apart. The first is told."""
        known = self._open.get((agent.name, key))
        if known is not None and known.agent is agent:
            known.seen = self._steady()
            return
        if len(self._open) >= MOST_OPEN:
            return
        is_first = not any(each.kind == kind for each in self._of(agent))
        self._open[agent.name, key] = _Open(agent, key, kind, self._steady())
        agent.noticed[key] = sentence
        self.log.warn("{sentence}", sentence=sentence)
        if is_first:
            self.told(agent.name, kind, "problem", STATUS[kind], sentence)

    def sweep(self) -> None:
        """End the troubles that were not seen for a while; called once a second."""
        now = self._steady()
        for each in [each for each in self._open.values() if now - each.seen >= QUIET_SECONDS]:
            del self._open[each.agent.name, each.key]
            each.agent.noticed.pop(each.key, None)
            if not any(other.kind == each.kind for other in self._of(each.agent)):
                sentence = f"not seen again for {QUIET_SECONDS / 60:g} minutes"
                self.told(each.agent.name, each.kind, "recovery", OK, sentence)

    def _of(self, agent: Agent) -> list[_Open]:
        found = (self._open.get((agent.name, key)) for key in agent.noticed)
        return [each for each in found if each is not None]
