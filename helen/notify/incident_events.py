"""Makes the events by which incident tools open and end an incident: PagerDuty, Opsgenie, Splunk On-Call. Pure.

An incident has one key from its trigger to its end, made of the agent and the check alone: its severity, its labels and
its title may change meanwhile, and two Helens of a network give the same one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

from attrs import frozen

from helen.notify.message_text import one_line
from helen.notify.messages import Alert, Message
from helen.notify.payloads import alert_url, rfc3339

MAX_KEY = 200  # characters; PagerDuty takes 255, Opsgenie 512
MAX_TITLE = 130  # characters of Opsgenie's `message`, the shortest of the three
MAX_SUMMARY = 1_024  # characters of PagerDuty's `summary`
MAX_TEXT = 4_000  # characters of a description
_PAGERDUTY_SEVERITY = {"critical": "critical", "warning": "warning", "ok": "info"}
_OPSGENIE_PRIORITY = {"critical": "P1", "warning": "P3", "ok": "P5"}
_OTHER_STATUS = ("error", "P2")  # of a check whose state is not known: it may be worse than a warning


@frozen
class Event:
    """Describes one request to an incident tool. `path` is added to the channel's URL."""

    document: dict[str, Any]
    path: str = ""


def incident_key(alert: Alert) -> str:
    """Return the key of the incident that this alert is about, at most MAX_KEY printable characters."""
    key = f"helen/{one_line(alert.key)}"
    if len(key) <= MAX_KEY:
        return key
    return f"{key[: MAX_KEY - 33]}#{hashlib.sha256(key.encode()).hexdigest()[:32]}"


def alerts_to_tell(message: Message) -> Iterator[tuple[Alert, bool]]:
    """Yield the alerts of a message that an incident tool has to hear of, and if each of them fires.

    A repeat tells again what still fires, for tools that have lost it. A test opens an incident and ends it at once.
    """
    for alert in message.alerts:
        if message.test:
            yield alert, True
            yield alert, False
        elif not message.fresh or alert.key in message.fresh:
            yield alert, alert.firing


def title(alert: Alert) -> str:
    """Return one line for the head of an incident: the check, its status and what it says."""
    status = alert.status.upper()
    return one_line(f"{alert.key} {status}: {alert.summary}" if alert.summary else f"{alert.key} {status}")


def pagerduty(alert: Alert, fires: bool, external_url: str, key: str) -> Event:
    """Return an event of PagerDuty's Events API v2. `key`: the routing key of the service."""
    event: dict[str, Any] = {"routing_key": key, "dedup_key": incident_key(alert)}
    if not fires:
        return Event({**event, "event_action": "resolve"})
    url = alert_url(external_url, alert)
    links = [{"href": alert.runbook, "text": "runbook"}] if _is_link(alert.runbook) else []
    links += [{"href": url, "text": "why"}] if url else []
    payload = {
        "summary": title(alert)[:MAX_SUMMARY],
        "source": one_line(alert.agent),
        "severity": _PAGERDUTY_SEVERITY.get(alert.status, _OTHER_STATUS[0]),
        "timestamp": rfc3339(alert.began),
        "component": one_line(alert.check),
        "custom_details": _details(alert),
    }
    client = {"client": "Helen"} | ({"client_url": external_url} if external_url else {})
    return Event({**event, "event_action": "trigger", "payload": payload, "links": links, **client})


def opsgenie(alert: Alert, fires: bool, external_url: str, key: str) -> Event:
    """Return a request of Opsgenie's Alert API v2. `key` goes into a header, not in here."""
    alias = incident_key(alert)
    if not fires:
        note = one_line(f"{alert.what}: {alert.why}")[:MAX_TEXT]
        path = f"/{quote(alias, safe='')}/close?identifierType=alias"
        return Event({"source": "Helen", "note": note}, path)
    details = {name: str(text) for name, text in _details(alert).items() if name != "labels"}
    texts = (alert.summary, f"{alert.what}: {alert.why}", alert_url(external_url, alert))
    return Event({
        "message": title(alert)[:MAX_TITLE],
        "alias": alias,
        "description": "\n".join(text for text in texts if text)[:MAX_TEXT],
        "entity": one_line(alert.agent)[:512],
        "source": "Helen",
        "priority": _OPSGENIE_PRIORITY.get(alert.status, _OTHER_STATUS[1]),
        "details": {**alert.labels, **details},
    })  # fmt: skip


def splunk_on_call(alert: Alert, fires: bool, external_url: str, key: str) -> Event:
    """Return an alert of Splunk On-Call's REST endpoint, whose URL holds the keys."""
    firing = {"critical": "CRITICAL", "warning": "WARNING", "ok": "INFO"}.get(alert.status, "CRITICAL")
    return Event({
        "message_type": firing if fires else "RECOVERY",
        "entity_id": incident_key(alert),
        "entity_display_name": title(alert)[:MAX_SUMMARY],
        "state_message": "\n".join((alert.summary, f"{alert.what}: {alert.why}"))[:MAX_TEXT],
        "state_start_time": int(alert.began),
        "monitoring_tool": "Helen",
        **_details(alert),
        **({"helen_url": alert_url(external_url, alert)} if external_url else {}),
    })  # fmt: skip


Maker = Callable[[Alert, bool, str, str], Event]
SHAPES: dict[str, Maker] = {"pagerduty": pagerduty, "opsgenie": opsgenie, "splunk-on-call": splunk_on_call}


def _details(alert: Alert) -> dict[str, Any]:
    """Return what people want to read beside the title; empty ones are left out."""
    texts = {
        "agent": alert.agent, "check": alert.check, "status": alert.status, "what": alert.what, "why": alert.why,
        "runbook": alert.runbook, "owner": alert.owner, "notes": alert.notes, "labels": alert.labels,
    }  # fmt: skip
    return {name: text for name, text in texts.items() if text}


def _is_link(text: str | None) -> bool:
    return text is not None and text.startswith(("https://", "http://"))
