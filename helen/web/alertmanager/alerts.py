"""Shows states as the alerts of Alertmanager's API (v2), and the channels that would be told as its receivers. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attrs import frozen

from equus_protocol.results import OK, STATUS_WORDS
from helen.notify.channels.alertmanager import ENDS_SECONDS
from helen.notify.config import Config
from helen.notify.messages import labels_of
from helen.notify.payloads import fingerprint, rfc3339
from helen.notify.routing import route
from helen.states.matchers import Matcher, as_labels
from helen.states.model import AWAITING, DEPENDENCY, DOWNTIME, PENDING, SILENCE, Key, State
from helen.web.alertmanager.silences import ack_id, uuid_of

HIDDEN = "hidden"  # stands for the fingerprint of an alert of an agent out of the caller's sight
NO_RECEIVER = "nobody"  # the receiver of what no channel gets

Alert = dict[str, Any]
Labels = Mapping[str, str]  # as our rules know them: Alertmanager's names have fewer characters


@frozen
class Facts:
    """Holds an agent's labels, and the summary of one check's last result."""

    labels: Mapping[str, str]
    summary: str


@frozen
class View:
    """Holds all that a request asks about, as it is at one moment. `now` is in unix seconds."""

    states: Mapping[Key, State]
    facts: Callable[[Key], Facts]
    config: Config | None
    now: float
    sees: Callable[[str], bool] | None = None  # a test for the names of agents; None: all are seen


@frozen
class AlertFilter:
    """Picks the alerts that a request asks for."""

    active: bool = True
    silenced: bool = True
    inhibited: bool = True
    matchers: tuple[Matcher, ...] = ()
    receiver: Callable[[str], object] = lambda name: True

    def takes(self, alert: Mapping[str, Any]) -> bool:
        """Return True for an alert that is asked for."""
        status = alert["status"]
        return (
            (self.active or status["state"] != "active")
            and (self.silenced or not status["silencedBy"])
            and (self.inhibited or not status["inhibitedBy"])
            and any(self.receiver(each["name"]) for each in alert["receivers"])
            and all(matcher.matches(alert["labels"]) for matcher in self.matchers)
        )


def is_alert(state: State) -> bool:
    """Return True if people would be told of a state, were nothing in its way."""
    return state.flap.on or (state.hard.status != OK and state.hard.reason != PENDING)


def alerts(view: View, keys: Iterable[Key]) -> list[tuple[Labels, Alert]]:
    """Return alerts as GET /api/v2/alerts has them, each with the labels that it is routed by; the oldest first."""
    made = [_alert(view, key, view.states[key]) for key in keys if is_alert(view.states[key])]
    return sorted(made, key=lambda pair: (pair[1]["startsAt"], pair[1]["fingerprint"]))


def groups(config: Config | None, listed: Iterable[tuple[Labels, Alert]]) -> list[dict[str, Any]]:
    """Return alerts by receiver and by the labels that its rule groups by: `receiver`, `labels`, `alerts`."""
    found: dict[tuple[str, tuple[tuple[str, str], ...]], list[Alert]] = {}
    for labels, alert in listed:
        routed = () if config is None else route(config.route, labels).destinations
        for name, by in [(each.channel, each.by) for each in routed] or [(NO_RECEIVER, ())]:
            found.setdefault((name, tuple(as_labels(dict(by)).items())), []).append(alert)
    return [
        {"receiver": {"name": name}, "labels": dict(by), "alerts": grouped}
        for (name, by), grouped in sorted(found.items(), key=lambda pair: pair[0])
    ]


def receivers(config: Config | None) -> list[dict[str, str]]:
    """Return the channels, and the receiver of what no channel gets, each with its `name`."""
    return [{"name": name} for name in (*(config.channels if config is not None else ()), NO_RECEIVER)]


def receivers_of(config: Config | None, labels: Mapping[str, str]) -> list[str]:
    """Return the names of the channels that would be told of an alert with these labels."""
    found = [] if config is None else [each.channel for each in route(config.route, labels).destinations]
    return found or [NO_RECEIVER]


def _alert(view: View, key: Key, state: State) -> tuple[Labels, Alert]:
    facts = view.facts(key)
    status = state.shown.status if state.flap.on else state.hard.status
    severity = "warning" if status == OK else STATUS_WORDS[status]
    raw = labels_of(*key, severity, facts.labels)
    labels = as_labels(raw)
    since, seen = state.hard.since, state.hard.since if state.seen is None else max(state.seen.at, state.hard.since)
    annotations = {"summary": facts.summary, "why": "it flaps" if state.flap.on else state.hard.reason or ""}
    return raw, {
        "labels": labels,
        "annotations": {name: text for name, text in annotations.items() if text},
        "startsAt": rfc3339(since),
        "endsAt": rfc3339(view.now + ENDS_SECONDS),
        "updatedAt": rfc3339(seen),
        "fingerprint": fingerprint(labels),
        "receivers": [{"name": name} for name in receivers_of(view.config, raw)],
        "status": _status(view, key, state),
    } | _link(view.config, key)


def _link(config: Config | None, key: Key) -> dict[str, str]:
    base = "" if config is None else config.external_url
    return {"generatorURL": f"{base}/api/v1/explain/{key[0]}/{key[1]}"} if base else {}


def _status(view: View, key: Key, state: State) -> dict[str, Any]:
    """Return the status of an alert: a silence and a downtime silence it, a broken parent inhibits it."""
    silenced = [uuid_of(hold.ref) for hold in state.holds if hold.kind in (DOWNTIME, SILENCE)]
    silenced += [ack_id(key)] if state.ack is not None else []
    parents = [hold.ref for hold in state.holds if hold.kind in (DEPENDENCY, AWAITING)]
    is_seen = view.sees if view.sees is not None else lambda agent: True
    inhibited = [_parent(view, ref) if is_seen(ref.partition("/")[0]) else HIDDEN for ref in parents]
    word = "suppressed" if silenced or inhibited else "active"
    return {"state": word, "silencedBy": silenced, "inhibitedBy": inhibited}


def _parent(view: View, ref: str) -> str:
    """Return the fingerprint of the alert of a parent."""
    agent, _, check_id = ref.partition("/")
    parent = view.states.get((agent, check_id))
    severity = "critical" if parent is None or parent.hard.status == OK else STATUS_WORDS[parent.hard.status]
    return fingerprint(as_labels(labels_of(agent, check_id, severity, view.facts((agent, check_id)).labels)))
