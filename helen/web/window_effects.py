"""Foresees the effects of a downtime or silence: the messages that it would have held, and those that its end sends."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping
from typing import TypedDict

from attrs import evolve

from helen.agents.sight import Sight
from helen.evaluation.event_log import Line
from helen.states.downtimes import Window, spans
from helen.states.events import Decision
from helen.states.fleet_timeline import Timeline
from helen.states.inputs import Released
from helen.states.machine import step
from helen.states.model import Key, State
from helen.web.past.newest_changes import newest_changes
from helen.web.problems import Problem
from helen.web.web_parts import WebParts

SHOWN = 20  # messages that are listed; all of them are counted


class PastMessage(TypedDict):
    """Names a message that was due, whether or not a channel was there to take it. `at` is in unix seconds."""

    at: float
    agent: str
    check_id: str
    what: str
    status: str


PastMessages = TypedDict("PastMessages", {"messages": int, "newest": list[PastMessage], "from": float})


async def past_messages(
    parts: WebParts, window: Window, seconds: float, now: float, sight: Sight | None
) -> PastMessages | None:  # fmt: skip
    """Return the messages that a window like this one would have held in the last `seconds`; `now`: unix seconds.

    A window that recurs counts at its times of day, as if it had been there; another one as if it had been on
    all the time. `from` says since when all is known (unix seconds). None: the past can't be read now.
    Messages about agents out of sight do not count.
    """
    begin = now - seconds
    times = list(spans(evolve(window, begin=begin, until=now), begin))
    begins = [span[0] for span in times]
    labels = {agent: rules.labels for agent, rules in parts.evaluator.timeline.rules.items()}

    def fits(line: Line) -> bool:
        place = bisect_right(begins, line.received) - 1
        is_seen = line.agent is not None and (sight is None or sight(line.agent))
        if not is_seen or line.agent is None or line.check_id is None or place < 0 or line.received > times[place][1]:
            return False
        covered = window.scope.covers(line.agent, line.check_id, labels.get(line.agent, {}))
        return covered and json.loads(line.data)["document"].get("action") == "notify"

    try:
        found = await newest_changes(parts, [Decision.KIND], fits, seconds, now)
    except Problem:
        return None
    newest: list[PastMessage] = [_message(line) for line in reversed(found.lines[-SHOWN:])]
    return {"messages": len(found.lines), "newest": newest, "from": max(begin, found.since)}


def _message(line: Line) -> PastMessage:
    said = json.loads(line.data)["document"]
    agent, check_id = line.agent or "", line.check_id or ""
    return {"at": line.received, "agent": agent, "check_id": check_id, "what": said["what"], "status": said["status"]}


def told_by_end(timeline: Timeline, states: Mapping[Key, State], window: Window, now: float) -> list[Key]:
    """Return the checks of which people are told at once when a window ends, in their order. `now`: unix seconds.

    Each state is stepped as it would be; nothing is kept. For a thread, on a copy of the states.
    """
    end = Released(now, window.kind, window.id, f"{window.kind} {window.id} has been cancelled")
    return sorted(key for key, state in states.items() if state.holds and _is_told(state, end, timeline, key))


def _is_told(state: State, end: Released, timeline: Timeline, key: Key) -> bool:
    _, events = step(state, end, timeline.rule(key))
    return any(isinstance(event, Decision) and event.action == "notify" for event in events)
