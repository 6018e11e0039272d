"""Implement the channel `webhook`: it posts JSON to a URL, in Helen's shape or that of Alertmanager's webhooks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from attrs import frozen

from helen.files.toml_table import Table
from helen.notify.attempt import Attempt
from helen.notify.channels.channel import ChannelKind
from helen.notify.http_receiver import HttpReceiver
from helen.notify.messages import Alert, Message
from helen.notify.payloads import alert_annotations, alert_url, fingerprint, own_document, rfc3339, status_of
from helen.states.matchers import as_labels

NEVER = "0001-01-01T00:00:00Z"  # Alertmanager's webhook writes this time for "not yet"


@frozen
class Webhook(ChannelKind):
    """Holds the settings of a webhook. `shape`: own, or alertmanager-v4, as Alertmanager posts to its webhooks."""

    type_name: ClassVar[str] = "webhook"

    receiver: HttpReceiver
    shape: str = "own"

    @classmethod
    def read(cls, table: Table) -> Webhook:
        """Take `shape` and the settings of HttpReceiver."""
        shape = table.choice("shape", ("own", "alertmanager-v4"), "own")
        return cls(HttpReceiver.read(table), shape)

    @property
    def knows_labels(self) -> bool:
        """Return True for Alertmanager's shape, in which an alert is its labels."""
        return self.shape != "own"

    async def send(self, attempt: Attempt) -> str:
        """Post the message in the channel's shape. Raises SendFailed or SecretMissing."""
        make = own_document if self.shape == "own" else webhook_v4
        return await self.receiver.post(attempt, lambda: make(attempt.message, attempt.external_url))

    def show(self) -> dict[str, Any]:
        """Return `shape`, `url`, `headers` and `bearer`."""
        return {"shape": self.shape, **self.receiver.show()}


def webhook_v4(message: Message, external_url: str) -> dict[str, Any]:
    """Return the document that Alertmanager posts to a webhook receiver, version 4; its keys are Alertmanager's."""
    alerts = [_webhook_alert(alert, external_url) for alert in message.alerts]
    labels = ", ".join(f'{name}="{value}"' for name, value in sorted(message.by.items()))
    return {
        "receiver": message.channel,
        "status": status_of(message),
        "alerts": alerts,
        "groupLabels": as_labels(message.by),
        "commonLabels": _common(alert["labels"] for alert in alerts),
        "commonAnnotations": _common(alert["annotations"] for alert in alerts),
        "externalURL": external_url,
        "version": "4",
        "groupKey": f"{{}}/{{{message.route}}}:{{{labels}}}",
        "truncatedAlerts": message.truncated,
    }


def _webhook_alert(alert: Alert, external_url: str) -> dict[str, Any]:
    labels = as_labels(alert.labels)
    return {
        "status": "firing" if alert.firing else "resolved",
        "labels": labels,
        "annotations": alert_annotations(alert),
        "startsAt": rfc3339(alert.began),
        "endsAt": NEVER if alert.firing else rfc3339(alert.at),
        "generatorURL": alert_url(external_url, alert),
        "fingerprint": fingerprint(labels),
    }


def _common(each: Iterable[dict[str, str]]) -> dict[str, str]:
    """Return the names and values that all of them have."""
    common: dict[str, str] | None = None
    for labels in each:
        common = dict(labels) if common is None else {k: v for k, v in common.items() if labels.get(k) == v}
    return common or {}
