"""Define an alert, and the message in which alerts travel together; each with JSON both ways. Pure.

helen/notify/routing.py decides where an alert goes, grouping.py when, and a file of channels/ how it looks.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from attrs import asdict, frozen

from groundwork.check_notes import NO_NOTES, CheckNotes
from helen.states.matchers import ALERTNAME

OWN_LABELS = ("alertname", "agent", "check", "severity")  # an agent's labels of these names don't count
RECOVERED = frozenset(("recovery", "closed"))  # subjects of decisions when nothing is broken any more
REPLACED = "replaced"  # the alert goes on under other labels; only receivers that know alerts by labels are sent this


@frozen
class Alert:
    """Describes one check that people are notified of.

    `number`: its decision's place in the history; times are unix seconds.
    """

    agent: str
    check: str
    number: int
    at: float
    what: str
    status: str
    why: str
    labels: dict[str, str]
    summary: str
    began: float  # the time of the first decision that it is broken
    firing: bool = True
    runbook: str | None = None
    owner: str | None = None
    notes: str | None = None

    @property
    def key(self) -> str:
        """Return AGENT/CHECK."""
        return f"{self.agent}/{self.check}"

    def to_json(self) -> dict[str, Any]:
        """Return the fields by their names."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Alert:
        """Return the alert that `to_json` has written."""
        return cls(**document)


@frozen
class Message:
    """Describes one message to one channel.

    `at`: unix seconds. `fresh`: keys of the alerts that have changed; none: a repeat.
    """

    id: str
    group: str  # the group's key, of helen/notify/group.py
    channel: str
    route: str
    by: dict[str, str]  # the labels that its group is grouped by
    at: float
    alerts: tuple[Alert, ...]
    fresh: frozenset[str] = frozenset()
    truncated: int = 0  # alerts that are firing and found no room
    test: bool = False

    @property
    def firing(self) -> bool:
        """Return True if an alert of it fires."""
        return any(alert.firing for alert in self.alerts)

    def to_json(self) -> dict[str, Any]:
        """Return the fields by their names, alerts as `Alert.to_json` has them."""
        return asdict(self) | {"alerts": [alert.to_json() for alert in self.alerts], "fresh": sorted(self.fresh)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Message:
        """Return the message that `to_json` has written."""
        alerts = tuple(Alert.from_json(each) for each in document["alerts"])
        return cls(**{**document, "alerts": alerts, "fresh": frozenset(document["fresh"])})


def labels_of(agent: str, check: str, severity: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return the labels by which an alert is routed and grouped: the agent's, and OWN_LABELS, which win."""
    ours = dict(zip(OWN_LABELS, (ALERTNAME, agent, check, severity), strict=True))
    return {**{str(key): str(value) for key, value in given.items()}, **ours}


def alert_of(
    agent: str,
    check: str,
    number: int,
    decision: Mapping[str, Any],
    labels: Mapping[str, str],
    summary: str,
    notes: CheckNotes = NO_NOTES,
) -> Alert:
    """Return the alert of a decision to notify, as the history has it.

    A check that flaps is a warning at least, even if it is ok at this moment.
    """
    status, what = decision["status"], decision["what"]
    firing = what not in RECOVERED and (status != "ok" or what == "flapping")
    severity = "warning" if firing and status == "ok" else status
    return Alert(
        agent, check, number, decision["at"], what, status, decision["why"], labels_of(agent, check, severity, labels),
        summary, decision["at"], firing, notes.runbook, notes.owner, notes.notes,
    )  # fmt: skip


def message_id(group: str, at: float) -> str:
    """Return the id by which a receiver knows a message that comes twice. `at`: unix seconds.

    A group sends one message at a time, so its key and the time are enough.
    """
    return hashlib.sha256(json.dumps([group, at]).encode()).hexdigest()[:32]
