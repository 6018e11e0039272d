"""How a message looks to each kind of receiver: our own JSON, Alertmanager's webhook and API, a mail. Pure.

docs/notifications.rst lists the fields. Times in our own JSON are unix seconds, Alertmanager's are RFC 3339.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from typing import Any
from urllib.parse import quote

from helen.matchers import as_labels
from helen.notify.messages import Alert, Message

ENDS_SECONDS = 240.0  # after which an alert that isn't re-sent is over for Alertmanager: four re-sendings missed
NEVER = "0001-01-01T00:00:00Z"  # what the webhook of Alertmanager says for "not yet"
MAIL_ALERTS = 100  # of one mail; the others are counted


def own(message: Message, external: str) -> dict[str, Any]:
    """Version 1 of our own shape."""
    alerts = [
        {
            "agent": alert.agent, "check": alert.check, "status": alert.status, "firing": alert.firing,
            "new": alert.key in message.fresh, "what": alert.what, "why": alert.why, "summary": alert.summary,
            "labels": alert.labels, "began": alert.began, "decided": alert.at, "url": _url(external, alert),
        }
        for alert in message.alerts
    ]  # fmt: skip
    return {
        "version": 1, "id": message.id, "channel": message.channel, "route": message.route,
        "kind": "test" if message.test else "change" if message.fresh else "repeat",
        "status": _status(message), "group": message.by, "sent": message.at, "alerts": alerts,
        "truncated": message.truncated,
    }  # fmt: skip


def webhook_v4(message: Message, external: str) -> dict[str, Any]:
    """What Alertmanager posts to a webhook receiver, version 4."""
    alerts = [_webhook_alert(alert, external) for alert in message.alerts]
    labels = ", ".join(f'{name}="{value}"' for name, value in sorted(message.by.items()))
    return {
        "receiver": message.channel,
        "status": _status(message),
        "alerts": alerts,
        "groupLabels": as_labels(message.by),
        "commonLabels": _common(alert["labels"] for alert in alerts),
        "commonAnnotations": _common(alert["annotations"] for alert in alerts),
        "externalURL": external,
        "version": "4",
        "groupKey": f"{{}}/{{{message.route}}}:{{{labels}}}",
        "truncatedAlerts": message.truncated,
    }


def api_v2(message: Message, external: str, now: float) -> list[dict[str, Any]]:
    """What POST /api/v2/alerts takes. What is firing ends by itself unless it is sent again."""
    return [
        {
            "labels": as_labels(alert.labels),
            "annotations": _annotations(alert),
            "startsAt": rfc3339(alert.began),
            "endsAt": rfc3339(now + ENDS_SECONDS if alert.firing else max(alert.at, alert.began)),
            "generatorURL": _url(external, alert),
        }
        for alert in message.alerts
    ]


def mail(message: Message, external: str, sender: str, to: Iterable[str]) -> EmailMessage:
    """A text, with everything that a filter or a thread needs in its header."""
    made = EmailMessage(policy=SMTP)
    made["From"], made["To"] = sender, ", ".join(to)
    made["Subject"] = _one_line(subject(message))[:200]
    made["Date"] = datetime.fromtimestamp(message.at, UTC)
    domain = sender.rpartition("@")[2] or "helen.invalid"
    made["Message-ID"] = f"<{message.id}@{domain}>"
    made["In-Reply-To"] = made["References"] = f"<{hashlib.sha256(message.group.encode()).hexdigest()[:32]}@{domain}>"
    made["Auto-Submitted"] = "auto-generated"
    made["X-Helen-Status"] = _status(message)
    made.set_content("\n".join(_lines(message, external)) + "\n")
    return made


def plain(message: Message, external: str) -> dict[str, str]:
    """A title and a text, for services that take no more; `type` is Apprise's word for how bad it is."""
    worst = {alert.status for alert in message.alerts if alert.firing}
    kind = "info" if message.test else "failure" if worst - {"warning"} else "warning" if worst else "success"
    return {"title": _one_line(subject(message))[:200], "body": "\n".join(_lines(message, external)), "type": kind}


def subject(message: Message) -> str:
    """`[FIRING 2] web-1: disk CRITICAL, load WARNING`, the newest first."""
    if message.test:
        return "[TEST] Helen can reach this channel"
    told = sorted(message.alerts, key=lambda alert: (alert.key not in message.fresh, not alert.firing))
    firing = sum(alert.firing for alert in message.alerts) + message.truncated
    head = f"[FIRING {firing}]" if firing else "[RESOLVED]"
    named = [f"{alert.agent}/{alert.check} {_word(alert)}" for alert in told[:3]]
    more = len(told) - len(named) + message.truncated
    return f"{head} {', '.join(named)}" + (f" and {more} more" if more else "")


def _lines(message: Message, external: str) -> Iterable[str]:
    for alert in message.alerts[:MAIL_ALERTS]:
        new = "" if alert.key in message.fresh or message.test else " (as before)"
        yield f"{_word(alert)}  {_one_line(alert.key)}{new}"
        for text in (alert.summary, f"{alert.what}: {alert.why}", f"since {_moment(alert.began)}"):
            yield f"    {_one_line(text)}"
        if external:
            yield f"    {_url(external, alert)}"
        yield ""
    more = len(message.alerts[MAIL_ALERTS:]) + message.truncated
    if more:
        yield f"... and {more} more; `helen status` has them all."
    by = ", ".join(f"{name}={value}" for name, value in message.by.items())
    yield f"-- \nHelen. Rule {_one_line(message.route)}, grouped by {_one_line(by) or 'nothing'}. " + (
        f"Why: helen explain {_one_line(message.alerts[0].key)}" if message.alerts else ""
    )


def _word(alert: Alert) -> str:
    return alert.status.upper() if alert.firing else "OK" if alert.status == "ok" else "CLOSED"


def _one_line(text: str) -> str:
    """Text of a check's is anybody's: what could end a header or a line is shown as an escape."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _moment(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"


def rfc3339(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _status(message: Message) -> str:
    return "firing" if message.firing or message.truncated else "resolved"


def _url(external: str, alert: Alert) -> str:
    if not external:
        return ""
    return f"{external}/api/v1/explain/{quote(alert.agent, safe='')}/{quote(alert.check, safe='')}"


def _webhook_alert(alert: Alert, external: str) -> dict[str, Any]:
    labels = as_labels(alert.labels)
    return {
        "status": "firing" if alert.firing else "resolved",
        "labels": labels,
        "annotations": _annotations(alert),
        "startsAt": rfc3339(alert.began),
        "endsAt": NEVER if alert.firing else rfc3339(alert.at),
        "generatorURL": _url(external, alert),
        "fingerprint": fingerprint(labels),
    }


def _annotations(alert: Alert) -> dict[str, str]:
    said = {"summary": alert.summary, "what": alert.what, "why": alert.why}
    return {name: text for name, text in said.items() if text}


def fingerprint(labels: dict[str, str]) -> str:
    """The same for the same labels. Ours, not Alertmanager's: receivers compare it, and compute none."""
    said = "\xff".join(f"{name}\xff{value}" for name, value in sorted(labels.items()))
    return hashlib.sha256(said.encode()).hexdigest()[:16]


def _common(each: Iterable[dict[str, str]]) -> dict[str, str]:
    """What all have."""
    common: dict[str, str] | None = None
    for labels in each:
        common = dict(labels) if common is None else {k: v for k, v in common.items() if labels.get(k) == v}
    return common or {}
