"""What is told: one alert, and the message in which alerts travel together. Frozen values with JSON both ways. Pure.

Who gets it is helen/notify/routing.py's, when it goes out is grouping.py's, how it looks is shapes.py's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from attrs import asdict, frozen

from helen.matchers import ALERTNAME

OWN_LABELS = ("alertname", "agent", "check", "severity")  # an agent's labels of these names don't count
RECOVERED = frozenset(("recovery", "closed"))  # what a decision may be about when nothing is broken any more
REPLACED = "replaced"  # the same alert goes on under other labels; only receivers that know alerts by labels hear it


@frozen
class Alert:
    """One check that people are told of. `number` is its decision's place in the history; times are unix seconds."""

    agent: str
    check: str
    number: int
    at: float
    what: str
    status: str
    why: str
    labels: dict[str, str]
    summary: str
    began: float  # when it was told as broken first
    firing: bool = True

    @property
    def key(self) -> str:
        return f"{self.agent}/{self.check}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Alert:
        return cls(**document)


@frozen
class Message:
    """What goes to one channel at one time. `fresh`: keys of the alerts that are why; none: it is said again."""

    id: str
    group: str  # the group's key in helen/notify/grouping.py
    channel: str
    route: str
    by: dict[str, str]  # the labels that all of the group have in common because it is grouped by them
    at: float
    alerts: tuple[Alert, ...]
    fresh: frozenset[str] = frozenset()
    truncated: int = 0  # alerts that are firing and found no room
    test: bool = False

    @property
    def firing(self) -> bool:
        return any(alert.firing for alert in self.alerts)

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"alerts": [alert.to_json() for alert in self.alerts], "fresh": sorted(self.fresh)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Message:
        alerts = tuple(Alert.from_json(each) for each in document["alerts"])
        return cls(**{**document, "alerts": alerts, "fresh": frozenset(document["fresh"])})


def labels_of(agent: str, check: str, severity: str, given: Mapping[str, str]) -> dict[str, str]:
    """The labels by which an alert is routed and grouped: the agent's, and ours, which win."""
    ours = dict(zip(OWN_LABELS, (ALERTNAME, agent, check, severity), strict=True))
    return {**{str(key): str(value) for key, value in given.items()}, **ours}


def alert_of(
    agent: str, check: str, number: int, decision: Mapping[str, Any], labels: Mapping[str, str], summary: str
) -> Alert:
    """From a decision to notify, as the history has it. What flaps is a warning at least, however it is this moment."""
    status, what = decision["status"], decision["what"]
    firing = what not in RECOVERED and (status != "ok" or what == "flapping")
    severity = "warning" if firing and status == "ok" else status
    return Alert(
        agent, check, number, decision["at"], what, status, decision["why"], labels_of(agent, check, severity, labels),
        summary, decision["at"], firing,
    )  # fmt: skip


def message_id(group: str, at: float) -> str:
    """The key by which a receiver knows a message that comes twice: a group sends one message at a time."""
    return hashlib.sha256(json.dumps([group, at]).encode()).hexdigest()[:32]
