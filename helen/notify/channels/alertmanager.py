"""Implement the channel `alertmanager`: it posts to Alertmanager itself, by version 2 of its API."""

from __future__ import annotations

import time
from typing import Any, ClassVar

from attrs import frozen

from helen.files.toml_table import Table
from helen.notify.attempt import Attempt
from helen.notify.channels.channel import ChannelKind
from helen.notify.http_receiver import HttpReceiver
from helen.notify.messages import Message
from helen.notify.payloads import alert_annotations, alert_url, rfc3339
from helen.states.matchers import as_labels

ENDS_SECONDS = 240.0  # after which an alert that isn't re-sent is over for Alertmanager: four re-sendings missed


@frozen
class Alertmanager(ChannelKind):
    """Holds the settings of a channel to Alertmanager, which listens at `receiver.url`, written without /api."""

    type_name: ClassVar[str] = "alertmanager"
    groups_itself: ClassVar[bool] = True

    receiver: HttpReceiver

    @classmethod
    def read(cls, table: Table) -> Alertmanager:
        """Take the settings of HttpReceiver."""
        return cls(HttpReceiver.read(table))

    @property
    def knows_labels(self) -> bool:
        """Return True: to Alertmanager an alert is its labels."""
        return True

    async def send(self, attempt: Attempt) -> str:
        """Post the alerts of the message. Raises SendFailed or SecretMissing."""

        def make() -> list[dict[str, Any]]:
            return api_v2(attempt.message, attempt.external_url, time.time())

        return await self.receiver.post(attempt, make, "/api/v2/alerts")

    def show(self) -> dict[str, Any]:
        """Return `shape`, `url`, `headers` and `bearer`."""
        return {"shape": "alertmanager-v2", **self.receiver.show()}


def api_v2(message: Message, external_url: str, now: float) -> list[dict[str, Any]]:
    """Return the body of POST /api/v2/alerts; its keys are Alertmanager's. `now`: unix seconds.

    An alert that fires ends ENDS_SECONDS from now unless it is sent again.
    """
    return [
        {
            "labels": as_labels(alert.labels),
            "annotations": alert_annotations(alert),
            "startsAt": rfc3339(alert.began),
            "endsAt": rfc3339(now + ENDS_SECONDS if alert.firing else max(alert.at, alert.began)),
            "generatorURL": alert_url(external_url, alert),
        }
        for alert in message.alerts
    ]
