"""Writes a message as text for people: one line for a subject, and lines for a mail or a chat. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from helen.notify.messages import Alert, Message
from helen.notify.payloads import alert_url
from helen.states.alert_decisions import AS_SAID

MAX_ALERTS = 100  # of one text; the others are counted
MAX_SUBJECT = 200  # characters


def subject_line(message: Message) -> str:
    """Return a subject such as `[FIRING 2] web-1/disk CRITICAL, web-1/load WARNING`, the newest alerts first."""
    return one_line(_subject(message))[:MAX_SUBJECT]


def _subject(message: Message) -> str:
    if message.test:
        return "[TEST] Helen can reach this channel"
    newest = sorted(message.alerts, key=lambda alert: (alert.key not in message.fresh, not alert.firing))
    firing = sum(alert.firing for alert in message.alerts) + message.truncated
    head = f"[FIRING {firing}]" if firing else "[RESOLVED]"
    named = [f"{alert.agent}/{alert.check} {_status_word(alert)}" for alert in newest[:3]]
    more = len(newest) - len(named) + message.truncated
    return f"{head} {', '.join(named)}" + (f" and {more} more" if more else "")


def lines(message: Message, external_url: str) -> Iterator[str]:
    """Yield the lines of the text: each alert with its reason, then the rule and the group it came by."""
    for alert in message.alerts[:MAX_ALERTS]:
        new = "" if alert.key in message.fresh or message.test else " (as before)"
        yield f"{_status_word(alert)}  {one_line(alert.key)}{new}"
        why = alert.what if alert.why == AS_SAID else f"{alert.what}: {alert.why}"
        for text in (alert.summary, why, f"since {_moment(alert.began)}", *_for_people(alert)):
            yield f"    {one_line(text)}"
        if external_url:
            yield f"    {alert_url(external_url, alert)}"
        yield ""
    more = len(message.alerts[MAX_ALERTS:]) + message.truncated
    if more:
        yield f"... and {more} more; `helen status` has them all."
    by = ", ".join(f"{name}={value}" for name, value in message.by.items())
    yield f"-- \nHelen. Rule {one_line(message.route)}, grouped by {one_line(by) or 'nothing'}. " + (
        f"Why: helen explain {one_line(message.alerts[0].key)}" if message.alerts and not message.test else ""
    )


def _for_people(alert: Alert) -> Iterator[str]:
    if alert.owner:
        yield f"owner: {alert.owner}"
    if alert.runbook:
        yield f"runbook: {alert.runbook}"
    yield from (alert.notes or "").splitlines()


def one_line(text: str) -> str:
    """Return the text with each unprintable character as an escape: a check's text may hold what ends a header."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _status_word(alert: Alert) -> str:
    return alert.status.upper() if alert.firing else "OK" if alert.status == "ok" else "CLOSED"


def _moment(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"
