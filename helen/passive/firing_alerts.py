"""Turns alerts of Prometheus into passive results: all alerts of one name on one host are one check.

Alerts are told apart by all their labels. The check is ok once the last of them has ended, so those that fire are
remembered, over a restart too. Pure, but for `write`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from hashlib import sha256
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import attrs
from attrs import field, frozen

from groundwork.counts import count
from helen.passive.submission import NoSubmission, Submission

PREFIX = "alerts:"  # before HOST/CHECK: the key in kv
MAX_FIRING = 500  # of one check that are remembered: what is beyond is heard of again with the next repeat
MAX_SUMMARY = 200  # characters of each that are remembered
NAMED = 3  # alerts that a summary names
WORST_FIRST = ("critical", "unknown", "warning", "ok")
SEVERITIES = {"warning": "warning", "critical": "critical", "error": "critical", "page": "critical", "ok": "ok",
              "none": "ok", "info": "ok", "unknown": "unknown"}  # fmt: skip

Key = tuple[str, str]


@frozen
class Alert:
    """Holds one alert as it was sent to Helen. `labels` is a hash of all of them; `ends` is in unix seconds, None: it
    is not known.
    """

    host: str
    check: str
    labels: str
    status: str
    summary: str
    link: str = ""
    ends: float | None = None


@frozen
class Firing:
    """Holds the firing alerts of one check, by the hash of their labels. `has_fewer`: others have ended meanwhile."""

    alerts: dict[str, Alert] = field(factory=dict)
    has_fewer: bool = False


class FiringAlerts:
    """Remembers which alerts fire. `write(key, text)` keeps a text for the next start; None drops it."""

    def __init__(self, write: Callable[[str, str | None], None]) -> None:
        self._write = write
        self._firing: dict[Key, Firing] = {}

    def restore(self, key: str, text: str) -> None:
        """Take over what `write` was called with before this start."""
        host, _, check = key.removeprefix(PREFIX).partition("/")
        kept = json.loads(text)
        alerts = {labels: Alert(host, check, labels, **each) for labels, each in kept["alerts"].items()}
        self._firing[host, check] = Firing(alerts, kept["has_fewer"])

    def forget(self, key: Key) -> None:
        """Forget the alerts of a check that is declared no more."""
        if self._firing.pop(key, None) is not None:
            self._write(PREFIX + "/".join(key), None)

    def take(self, key: Key, alerts: Iterable[Alert], now: float) -> Submission:
        """Take alerts of one check, in their order; return its result. `now`: unix seconds."""
        before = self._firing.get(key, Firing())
        firing = {labels: alert for labels, alert in before.alerts.items() if not _is_over(alert, now)}
        for alert in alerts:
            if _is_over(alert, now):
                firing.pop(alert.labels, None)
            elif len(firing) < MAX_FIRING or alert.labels in firing:
                firing[alert.labels] = alert
        gone = before.alerts.keys() - firing.keys()
        self._keep(key, Firing(firing, bool(firing) and (before.has_fewer or bool(gone))))
        return self._result(key, now)

    def _keep(self, key: Key, firing: Firing) -> None:
        if not firing.alerts:
            self.forget(key)
            return
        self._firing[key] = firing
        kept = {labels: _kept(alert) for labels, alert in firing.alerts.items()}
        self._write(PREFIX + "/".join(key), json.dumps({"alerts": kept, "has_fewer": firing.has_fewer}))

    def _result(self, key: Key, now: float) -> Submission:
        firing = self._firing.get(key, Firing())
        if not firing.alerts:
            return Submission(*key, {"status": "ok", "summary": "it is over"}, "alertmanager")
        listed = sorted(firing.alerts.values(), key=lambda alert: WORST_FIRST.index(alert.status))
        document = {"status": listed[0].status, "summary": _summary(listed, firing.has_fewer)}
        document |= {"output": listed[0].link} if listed[0].link else {}
        ends = [alert.ends for alert in listed if alert.ends is not None]
        within = max(ends) - now if len(ends) == len(listed) else None
        return Submission(*key, document, "alertmanager", None, within, "the alert ends by itself")


def read_alert(alert: dict[str, Any], read_time: Callable[[Any, str], float]) -> Alert:
    """Read an alert as Alertmanager's API has it. Raises NoSubmission for one that names no host and check.

    `read_time(text, name)` returns unix seconds, or raises ValueError.
    """
    labels, notes = alert.get("labels"), alert.get("annotations") or {}
    if not isinstance(labels, dict) or not isinstance(notes, dict):
        raise NoSubmission("an alert has `labels`")
    host = labels.get("agent") or labels.get("host") or host_of(str(labels.get("instance", "")))
    check = labels.get("check") or labels.get("alertname")
    if not isinstance(host, str) or not isinstance(check, str) or not host or not check:
        raise NoSubmission("an alert of others is a result here: it has a label agent, host or instance, and alertname")
    status = SEVERITIES.get(str(labels.get("severity", "critical")).lower(), "critical")
    summary = notes.get("summary") or notes.get("description") or notes.get("message") or f"{check} fires"
    link = alert.get("generatorURL")
    named = sha256(json.dumps(labels, sort_keys=True).encode()).hexdigest()[:32]
    return Alert(host, check, named, status, str(summary), link if isinstance(link, str) else "",
                 _end_of(alert, read_time))  # fmt: skip


def host_of(instance: str) -> str:
    """Return the host in an `instance` of Prometheus: HOST:PORT, a URL, or an IPv6 address; "" if it has none."""
    try:
        return str(ip_address(instance))
    except ValueError:
        pass
    try:
        return urlsplit(instance if "://" in instance else f"//{instance}").hostname or ""
    except ValueError:
        return ""


def _end_of(alert: dict[str, Any], read_time: Callable[[Any, str], float]) -> float | None:
    """Return when an alert ends, in unix seconds. The year 1 says that a time is not set, as Go has it."""
    text = alert.get("endsAt")
    if not text or str(text).startswith("0001"):
        return None
    try:
        return read_time(text, "endsAt")
    except ValueError as error:
        raise NoSubmission(str(error)) from error


def _is_over(alert: Alert, now: float) -> bool:
    return alert.ends is not None and alert.ends <= now


def _summary(listed: list[Alert], has_fewer: bool) -> str:
    if len(listed) == 1:
        return f"1 alert still fires: {listed[0].summary}" if has_fewer else listed[0].summary
    named = "; ".join(alert.summary for alert in listed[:NAMED])
    return f"{count(len(listed), 'alert fires', 'alerts fire')}: {named}{'; ...' if len(listed) > NAMED else ''}"


def _kept(alert: Alert) -> dict[str, Any]:
    """Return the part of an alert that is kept in the store: `status`, `summary`, `link`, `ends`."""
    kept = attrs.asdict(alert, filter=lambda each, _: each.name not in ("host", "check", "labels"))
    return kept | {"summary": alert.summary[:MAX_SUMMARY], "link": alert.link[:MAX_SUMMARY]}
