"""Implement the channel `incident`: it opens and ends incidents at PagerDuty, Opsgenie or Splunk On-Call.

Each check has an incident, and each alert is a message of its own: an event that is refused holds up no other.
"""

from __future__ import annotations

from typing import Any, ClassVar

from attrs import evolve, frozen

from helen.files.toml_table import Secret, Table
from helen.notify.attempt import Attempt
from helen.notify.channels.channel import ChannelKind
from helen.notify.http_post import Request, post
from helen.notify.http_receiver import HttpReceiver
from helen.notify.incident_events import SHAPES, alerts_to_tell
from helen.notify.secrets import show_setting

URLS = {"pagerduty": "https://events.pagerduty.com/v2/enqueue", "opsgenie": "https://api.opsgenie.com/v2/alerts"}


@frozen
class Incident(ChannelKind):
    """Holds the settings of an incident service.

    `key`: the routing key of PagerDuty, or the API key of Opsgenie; the URL of Splunk On-Call has it in itself.
    """

    type_name: ClassVar[str] = "incident"
    one_alert: ClassVar[bool] = True

    shape: str
    receiver: HttpReceiver
    key: Secret | None = None

    @classmethod
    def read(cls, table: Table) -> Incident:
        """Take `shape`, `key` and the settings of HttpReceiver; `url` has a default where the service has one."""
        shape = table.choice("shape", tuple(SHAPES))
        receiver = HttpReceiver.read(table, URLS.get(shape))
        key = table.secret("key", required=shape in URLS)
        if key is not None and shape not in URLS:
            table.faults.append(f"{table.place}: key is not used by {shape}: its URL ends with it")
        return cls(shape, receiver, key if isinstance(key, Secret) else None)

    async def send(self, attempt: Attempt) -> str:
        """Post the events one after the other. Raises SendFailed or SecretMissing; an event that comes twice is one."""
        requests = await attempt.in_thread(lambda: self.requests(attempt))
        said = [await post(attempt, request) for request in requests]
        return said[-1] if said else "nothing has changed for it"

    def requests(self, attempt: Attempt) -> list[Request]:
        """Return the requests for a message. Raises SecretMissing if a reference leads nowhere. Blocks: files."""
        key = "" if self.key is None else attempt.secrets.text(self.key)
        made = []
        for alert, fires in alerts_to_tell(attempt.message):
            event = SHAPES[self.shape](alert, fires, attempt.external_url, key)
            request = self.receiver.request(attempt, event.document, event.path)
            if self.shape == "opsgenie":
                request = evolve(request, headers={"Authorization": f"GenieKey {key}", **request.headers})
            made.append(request)
        return made

    def show(self) -> dict[str, Any]:
        """Return `shape`, `key`, `url`, `headers` and `bearer`."""
        return {"shape": self.shape, "key": show_setting(self.key), **self.receiver.show()}
