"""Picks the events that a client of a stream asks for, and shows them as its caller may see them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypedDict

from attrs import evolve, frozen

from groundwork.globs import fits_glob
from helen.agents.sight import Sight
from helen.evaluation.event_log import Line
from helen.journal.values import CHANGE_KINDS
from helen.web.json_types import words
from helen.web.sight.redaction import KINDS, redacted


class EventJson(TypedDict):
    """Holds the data of one event. `received` is in unix seconds; of a `reset` the client reads anew what it shows."""

    kind: Annotated[str, words(*CHANGE_KINDS, "reset")]
    received: float
    agent: str | None
    check_id: str | None
    document: dict[str, Any]


@frozen
class EventFilter:
    """Picks the events that a client asks for; nothing: all events. `labels(agent)` are those of an agent.

    `sight` None: the caller is not limited to some agents. Else events of no agent are left out, too.
    """

    kinds: frozenset[str] = frozenset()
    agents: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    labels: Callable[[str], dict[str, str]] = lambda agent: {}
    sight: Sight | None = None

    def with_labels(self, labels: Mapping[str, dict[str, str]]) -> EventFilter:
        """Return the same filter by labels as they are now, for a thread."""
        return evolve(self, labels=lambda agent: labels.get(agent, {}))

    def fits(self, line: Line) -> bool:
        """Return True for an event that is asked for. One without an agent, or a check, passes patterns of those."""
        if self.kinds and line.kind not in self.kinds:
            return False
        if self.sight is not None and not (line.kind in KINDS and self.sight(line.agent)):
            return False
        if self.agents and line.agent is not None and not self._is_agent(line.agent):
            return False
        check = line.check_id
        return not self.checks or check is None or any(fits_glob(check, pattern) for pattern in self.checks)

    def shown(self, line: Line) -> Line:
        """Return an event that fits as the caller sees it."""
        return line if self.sight is None else redacted(line, self.sight)

    def _is_agent(self, agent: str) -> bool:
        for pattern in self.agents:
            key, is_label, value = pattern.partition("=")
            if not is_label:
                if fits_glob(agent, pattern):
                    return True
            elif fits_glob(self.labels(agent).get(key, ""), value) and key in self.labels(agent):
                return True
        return False
