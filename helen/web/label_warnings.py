"""Finds rules about labels that no operator has given to any agent: claims steer only under trusted keys.

Told at the start, in GET /api/v1/status, and of assignments when they are replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from groundwork.counts import count
from helen.assignments.schedule import Assignments
from helen.notify.messages import OWN_LABELS
from helen.notify.routing import Rule
from helen.parts import Parts
from helen.rollout.rings import RingSpec
from helen.states.matchers import ALERTNAME

OF_ALERTS = frozenset({*OWN_LABELS, ALERTNAME, "alertname"})


def all_warnings(parts: Parts) -> list[str]:
    """Return a sentence for each key of a label that rules in force use and no agent has as a fact."""
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
    return list(_sentences(parts, used))


def assignment_warnings(parts: Parts, assignments: Assignments) -> list[str]:
    """Return a sentence for each key of a label that these assignments use and no agent has as a fact."""
    return list(_sentences(parts, {key: ["assignments.toml"] for key in sorted(of_assignments(assignments))}))


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


def _sentences(parts: Parts, used: dict[str, list[str]]) -> Iterator[str]:
    roster = parts.sessions.roster
    open_keys = used.keys() - roster.trusted
    for agent in roster.agents.values() if open_keys else ():
        open_keys -= agent.given.keys()
    for key in sorted(open_keys):
        claimed = sum(key in agent.claimed for agent in roster.agents.values())
        saying = count(claimed, "agent says it of itself", "agents say it of themselves")
        of_agents = f"{saying}, which steers nothing: " if claimed else ""
        yield (
            f"{', '.join(used[key])}: no agent was given the label {key}. {of_agents}give it with"
            f" `helen label NAME {key}=VALUE`, or start Helen with --trust-label {key}"
        )
