"""Puts downtimes and silences into words: what one covers, when it is on, and how one has ended. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

from attrs import evolve, frozen

from groundwork.counts import count
from helen.evaluation.event_log import Line
from helen.states.downtimes import WEEKDAYS, Recurrence, Window, planned_window, spans

NAMED = 4  # patterns, or exact checks, that a sentence names


@frozen
class Shown:
    """Holds a window and the words for it.

    `begin` and `end` are of the span that is on or comes next, or of the last one; None: there is none. Unix seconds.
    """

    window: Window
    scope: str
    times: str
    active: bool
    begin: float | None
    end: float | None
    how: str = ""  # it ended

    @property
    def path(self) -> str:
        """Return the address of its page; /windows/new is the page of none."""
        return f"/windows/{self.window.id}" if self.window.id != "new" else "/windows/new?id=new"

    def of(self, window: Window) -> Shown:
        """Return the same of a window with another scope, such as the part of it that a limited caller sees."""
        return evolve(self, window=window, scope=scope_words(window))


def shown_window(window: Window, active: bool, now: float) -> Shown:
    """Return a window in words; `now`: unix seconds."""
    begin, end = next(spans(window, now), (None, None))
    if end == float("inf"):
        end = None
    return Shown(window, scope_words(window), time_words(window.recurrence), active, begin, end)


def scope_words(window: Window) -> str:
    """Return the scope of a window in words, such as `disk* on db-* with role=db`."""
    scope = window.scope
    exact = [f"{agent}/{check}" for agent, check in sorted(scope.keys)]
    if scope.keys and not scope.agents:
        return _few(exact, "check")
    checks = "every check" if "*" in scope.checks else _few(scope.checks, "check")
    agents = "every agent" if "*" in scope.agents else _few(scope.agents, "agent")
    labels = "".join(f" with {key}={glob}" for key, glob in scope.labels)
    where = f" where {' and '.join(map(str, scope.matchers))}" if scope.matchers else ""
    besides = f", and {_few(exact, 'check')}" if exact else ""
    return f"{checks} on {agents}{labels}{where}{besides}"


def _few(names: Sequence[str], noun: str) -> str:
    named = ", ".join(names[:NAMED])
    return named if len(names) <= NAMED else f"{named} and {count(len(names) - NAMED, f'{noun} more', f'{noun}s more')}"


def time_words(recurrence: Recurrence | None) -> str:
    """Return at which times of day a window recurs; empty for one that does not."""
    if recurrence is None:
        return ""
    every = len(recurrence.days) == len(WEEKDAYS)
    days = "each day" if every else ", ".join(WEEKDAYS[day].capitalize() for day in recurrence.days)
    return f"{days} {recurrence.begin:%H:%M}-{recurrence.end:%H:%M} {recurrence.zone.key}"


def ended_windows(lines: Sequence[Line], present: Collection[str], now: float) -> list[Shown]:
    """Return the windows that have ended by these changes, the newest first. `now`: unix seconds.

    `present`: the ids of those that are there now. One that was opened before these changes and cancelled in them is
    left out: nothing but its id is known.
    """
    begun: dict[str, Window] = {}
    ended: list[tuple[float, Shown]] = []
    for line in lines:
        said: dict[str, Any] = json.loads(line.data)["document"]
        before = begun.pop(said["id"], None)
        if said.get("action") == "cancel":
            if before is not None:
                by = f"cancelled by {said['author']}" if said.get("author") else "cancelled"
                ended.append((line.received, _over(before, line.received, by)))
            continue
        window = planned_window(line.kind, said, line.received)
        if before is not None and before.until is not None and before.until <= line.received:
            ended.append((before.until, _over(before, before.until, "over")))
        if window is not None:
            begun[window.id] = window
    for window in begun.values():
        if window.until is not None and window.until <= now and window.id not in present:
            ended.append((window.until, _over(window, window.until, "over")))
    return [shown for _, shown in sorted(ended, key=lambda each: each[0], reverse=True)]


def _over(window: Window, at: float, how: str) -> Shown:
    return Shown(window, scope_words(window), time_words(window.recurrence), False, window.begin, at, how)
