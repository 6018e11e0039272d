"""Finds rules about labels that no operator has given to any agent: claims steer only under trusted keys.

Told at the start, in GET /api/v1/status, and of assignments when they are replaced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from groundwork.counts import count
from helen.agents.roster import Agent
from helen.assignments.schedule import Assignments
from helen.notify.messages import OWN_LABELS
from helen.notify.routing import Rule
from helen.parts import Parts
from helen.rollout.rings import RingSpec
from helen.states.matchers import ALERTNAME
from helen.web.connections.short_turns import take_turns
from helen.web.sight.agents_in_turns import steps_of

OF_ALERTS = frozenset({*OWN_LABELS, ALERTNAME, "alertname"})


async def all_warnings(parts: Parts) -> list[str]:
    """Return a sentence for each key of a label that rules in force use and no agent has as a fact.

    Agents are looked through in short turns, if a key is in question.
    """
    config = parts.notifier.config_file.config
    used: dict[str, list[str]] = {}
    for place, keys in (
        ("assignments.toml", of_assignments(parts.sessions.delivery.assignments)),
        ("notifications.toml", frozenset() if config is None else frozenset(_of_rule(config.route)) - OF_ALERTS),
        ("--rings", _of_rings(parts.live.settings.rings or ())),
        ("a downtime or silence", _of_windows(parts)),
    ):
        for key in sorted(keys):
            used.setdefault(key, []).append(place)
    return await _sentences(parts, used)


async def assignment_warnings(parts: Parts, assignments: Assignments) -> list[str]:
    """Return a sentence for each key of a label that these assignments use and no agent has as a fact."""
    return await _sentences(parts, {key: ["assignments.toml"] for key in sorted(of_assignments(assignments))})


def of_assignments(assignments: Assignments) -> frozenset[str]:
    """Return the keys of labels that entries and defaults ask for."""
    return frozenset(key for entry in (*assignments.entries, *assignments.defaults) for key in entry.labels)


def _of_rule(rule: Rule) -> Iterator[str]:
    yield from (matcher.label for matcher in rule.matchers)
    for each in rule.below:
        yield from _of_rule(each)


def _of_rings(specs: Iterable[RingSpec]) -> frozenset[str]:
    return frozenset(spec.label[0] for spec in specs if spec.label is not None)


def _of_windows(parts: Parts) -> frozenset[str]:
    windows = parts.evaluator.timeline.windows.values()
    return frozenset(key for window in windows for key, _ in window.scope.labels)


async def _sentences(parts: Parts, used: dict[str, list[str]]) -> list[str]:
    roster = parts.sessions.roster
    found = _KeysOfAgents(used.keys() - roster.trusted)
    if found.open:
        await take_turns(steps_of(list(roster.agents.values()), found.take))
    return [_sentence(used[key], key, found.claimed[key]) for key in sorted(found.open)]


class _KeysOfAgents:
    """Finds which keys no agent was given, and how many say them of themselves: of some agents at a time."""

    def __init__(self, keys: set[str]) -> None:
        self.open = keys
        self.claimed: Counter[str] = Counter()

    def take(self, agents: Sequence[Agent]) -> None:
        """Look at some agents."""
        for agent in agents:
            self.open -= agent.given.keys()
            self.claimed.update(self.open & agent.claimed.keys())


def _sentence(places: list[str], key: str, claimed: int) -> str:
    saying = count(claimed, "agent says it of itself", "agents say it of themselves")
    of_agents = f"{saying}, which steers nothing: " if claimed else ""
    return (
        f"{', '.join(places)}: no agent was given the label {key}. {of_agents}give it with"
        f" `helen label NAME {key}=VALUE`, or start Helen with --trust-label {key}"
    )
