"""What is known of checks from before this start: the roster takes it up from the states that were kept. Pure.

A state has no words and no figures: those come with the next result. Until then a check is shown as it was, and since
when nothing was heard of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import evolve

from helen.judged import LINK, RETIRED, State
from helen.roster import Agent, Latest


def take_up(agents: dict[str, Agent], states: Mapping[tuple[str, str], State], forgotten: Iterable[str]) -> None:
    """Into the latest results of agents that are known. What was recovered with its words keeps them.

    Results may have been recovered of agents that are nobody's any more: those are not the present.
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
                found.latest[check_id] = evolve(recovered, since=shown.since)
        elif shown.reason != RETIRED:
            found.took(
                Latest(check_id, shown.status, "", state.seen.at, shown.reason, state.seen.code, since=shown.since,
                       kept=True)
            )  # fmt: skip
