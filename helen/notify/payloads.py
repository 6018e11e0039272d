"""Build the parts of a message's JSON that several kinds of channels share, and Helen's own shape of it. Pure.

docs/notifications.rst lists the fields. Times in Helen's own JSON are unix seconds, Alertmanager's are RFC 3339.
"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from helen.notify.messages import Alert, Message


def own_document(message: Message, external_url: str) -> dict[str, Any]:
    """Return version 1 of Helen's own shape.

    Keys: `version`, `id`, `channel`, `route`, `kind`, `status`, `group`, `sent`, `alerts` and `truncated`.
    """
    alerts = [
        {
            "agent": alert.agent, "check": alert.check, "status": alert.status, "firing": alert.firing,
            "new": alert.key in message.fresh, "what": alert.what, "why": alert.why, "summary": alert.summary,
            "labels": alert.labels, "began": alert.began, "decided": alert.at, "url": alert_url(external_url, alert),
            "runbook": alert.runbook, "owner": alert.owner, "notes": alert.notes,
        }
        for alert in message.alerts
    ]  # fmt: skip
    return {
        "version": 1, "id": message.id, "channel": message.channel, "route": message.route,
        "kind": "test" if message.test else "change" if message.fresh else "repeat",
        "status": status_of(message), "group": message.by, "sent": message.at, "alerts": alerts,
        "truncated": message.truncated,
    }  # fmt: skip


def encode_json(document: Any) -> bytes:
    """Return the document as JSON in UTF-8; a lone surrogate in a text becomes "?"."""
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")


def status_of(message: Message) -> str:
    """Return `firing` if any alert of the message's group fires, else `resolved`."""
    return "firing" if message.firing or message.truncated else "resolved"


def alert_url(external_url: str, alert: Alert) -> str:
    """Return the URL that explains this alert, or "" if Helen's own URL is not set."""
    if not external_url:
        return ""
    return f"{external_url}/api/v1/explain/{quote(alert.agent, safe='')}/{quote(alert.check, safe='')}"


def alert_annotations(alert: Alert) -> dict[str, str]:
    """Return Alertmanager's annotations of an alert, those that are not empty.

    They are `summary`, `what` and `why`, and `runbook_url`, `owner` and `notes` of the check.
    """
    texts = {"summary": alert.summary, "what": alert.what, "why": alert.why, "runbook_url": alert.runbook or "",
             "owner": alert.owner or "", "notes": alert.notes or ""}  # fmt: skip
    return {name: text for name, text in texts.items() if text}


def fingerprint(labels: dict[str, str]) -> str:
    """Return the same 16 hex digits for the same labels. Not Alertmanager's: receivers compare them, none computes."""
    text = "\xff".join(f"{name}\xff{value}" for name, value in sorted(labels.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def rfc3339(at: float) -> str:
    """Return a time in unix seconds as Alertmanager writes it, in UTC with milliseconds."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
