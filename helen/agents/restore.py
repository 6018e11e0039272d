"""Keeps the latest results of the roster in step with the states: at a start, and when a check is retired. Pure.

A state has no summary and no metrics: those come with the next result. Until then a check is shown with its status of
before, and the time of its last result.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping

from msgspec.structs import replace

from helen.agents.roster import Agent, Latest, Roster
from helen.journal.values import Change, StoredResult
from helen.states.events import Transition
from helen.states.model import LINK, RETIRED, State


def drop_retired(roster: Roster, change: Change) -> None:
    """Drop the latest result of a check if this change is the transition with which it was retired."""
    agent = roster.agents.get(change.agent or "")
    if agent is None or change.check_id is None or change.kind != Transition.KIND:
        return
    if json.loads(change.document)["now"]["reason"] == RETIRED:
        agent.drop(change.check_id)


def drop_late(roster: Roster, retired: Collection[tuple[str, str]], records: Iterable[StoredResult]) -> None:
    """Drop results that were on their way when their check was retired, and came after that."""
    for record in records if retired else ():
        key = record.entry.agent, record.entry.check_id
        if key in retired and key[0] in roster.agents:
            roster.agents[key[0]].drop(key[1])


def restore_latest(agents: dict[str, Agent], states: Mapping[tuple[str, str], State], forgotten: Iterable[str]) -> None:
    """Put states into the latest results of known agents; a result that was recovered from the journal stays.

    Forgotten agents are dropped, and revoked ones lose their results, which say nothing about the present.
    """
    for name in forgotten:
        agents.pop(name, None)
    for agent in agents.values():
        if agent.revoked_at is not None:
            agent.revoke(agent.revoked_at)
    for (name, check_id), state in states.items():
        found = agents.get(name)
        if found is None or found.revoked_at is not None or check_id == LINK or state.seen is None:
            continue
        shown, recovered = state.shown, found.latest.get(check_id)
        if recovered is not None:
            if shown.known and recovered.status == shown.status:  # a result alone doesn't know since when
                found.latest[check_id] = replace(recovered, since=shown.since)
        elif shown.reason != RETIRED:
            found.take(
                Latest(check_id, shown.status, "", state.seen.at, shown.reason, state.seen.code, since=shown.since,
                       kept=True)
            )  # fmt: skip
