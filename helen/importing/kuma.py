"""Turn the monitors of an Uptime Kuma into targets and entries of Helen. Pure.

Monitors of the same address become checks of one target. One agent looks at all of them, as Kuma did.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from attrs import define, field

from helen.importing.found import Found, Host, NotUnderstood, Reported, Service
from helen.importing.kuma_checks import Monitor, address_of, made, number, text
from helen.importing.names import Names, check_id

LONGEST = 30 * 86_400.0
MAX_ATTEMPTS = 100
PINGS = "pings"  # the host of pings
_NO_SERVICE = ("group",)


@define
class _Known:
    hosts: Names = field(factory=Names)
    ids: defaultdict[str, Names] = field(factory=lambda: defaultdict(Names))


def convert(monitors: Sequence[Monitor], source: str) -> Found:
    """Return all that a Kuma watches, and what of it can't be taken over."""
    found, known = Found(source), _Known()
    for monitor in monitors:
        if text(monitor, "type") in _NO_SERVICE:
            found.remark("groups are not taken over: give their targets labels", text(monitor, "name"))
            continue
        found.total += 1
        try:
            _take(found, known, monitor)
        except NotUnderstood as why:
            found.omit(_label(monitor), why)
    return found


def _label(monitor: Monitor) -> str:
    return text(monitor, "name") or f"monitor {text(monitor, 'id')}"


def _take(found: Found, known: _Known, monitor: Monitor) -> None:
    label = _label(monitor)
    if not monitor.get("active", 1):
        raise NotUnderstood("it is paused there")
    every = number(monitor, "interval", 1, LONGEST, 60)
    attempts = int(min(MAX_ATTEMPTS, number(monitor, "maxretries", 0, 1e9, 0) + 1))
    if text(monitor, "type") == "push":
        found.reported.append(Reported(PINGS, known.ids[PINGS].check(label), every=every, attempts=attempts))
        found.remark("are pushed to another URL from now on: `helen ping url NAME` prints it", label)
        return
    address = address_of(monitor)
    host = known.hosts.host(address) if address else ""
    secret = f"kuma-{check_id(label).lower()}"
    check, args = made(monitor, secret)
    if host:
        found.hosts.setdefault(host, Host(host, address))
    retry = number(monitor, "retry_interval", 0, LONGEST, 0)
    id = known.ids[host].check(label)
    found.services.append(
        Service(host, id, check, every, args=args, attempts=attempts, retry=retry if 1 <= retry < every else None)
    )
    _remark(found, monitor, label, check, secret if "password" in args else "")
    if id != label:
        found.remark("services have other ids here, without spaces and slashes", f"{label} -> {id}")


def _remark(found: Found, monitor: Monitor, label: str, check: str, secret: str) -> None:
    if secret:
        found.remark("need a secret in /etc/equus/secrets.toml of the agent", f"{label}: {secret}")
    if monitor.get("expiry_notification") and text(monitor, "url").startswith("https:"):
        found.remark("tell of certificates that end there: add `tls_certificate` for their targets", label)
    if text(monitor, "database_connection_string"):
        found.remark("run a query there; the check here logs in and looks at the server's own figures", label)
    if check == "dns" and not text(monitor, "dns_resolve_server"):
        found.remark("ask the agent's own name servers: see [caps.dns] of its policy", label)
