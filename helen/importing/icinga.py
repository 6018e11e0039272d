"""Turn the objects of an Icinga 2 into hosts and services of Helen. Pure.

A service with `command_endpoint` runs at that endpoint, so there it is its host's own agent; all others are run by the
agent beside the old core.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from helen.importing.command_line import checked
from helen.importing.found import Command, Found, Host, NotUnderstood, Reported, Service
from helen.importing.icinga_commands import command_line
from helen.importing.icinga_dump import Attributes
from helen.importing.icinga_macros import ADDRESS, Resolver
from helen.importing.names import Names, groups_as_labels

HOST_CHECK = "host"
MAX_ATTEMPTS = 100
LONGEST = 30 * 86_400.0
_PASSIVE = "passive"

Objects = Mapping[str, Mapping[str, Attributes]]


def convert(objects: Objects, source: str) -> Found:
    """Return all that an Icinga watches, and what of it can't be taken over."""
    found, hosts, checks = Found(source), Names(), defaultdict[str, Names](Names)
    for name, host in objects["Host"].items():
        legal = hosts.host(name)
        groups = [each for each in host.get("groups") or [] if isinstance(each, str)]
        address = str(host.get("address") or host.get("address6") or name)
        found.hosts[legal] = Host(legal, address, groups_as_labels(groups))
        if legal != name:
            found.remark("hosts have other names here, since Helen's are a-z 0-9 . _ -", f"{name} -> {legal}")
    endpoints = _endpoints(objects, hosts)
    for name, host in objects["Host"].items():
        legal = hosts.host(name)
        id = checks[legal].check(HOST_CHECK)
        try:
            found.services.append(_service(found, objects, name, {}, host, legal, id, (), endpoints))
        except NotUnderstood as why:
            found.remark(f"no check of the host itself: {why}", name)
    have_own = {service.host for service in found.services}
    for label, service in objects["Service"].items():
        found.total += 1
        host_name = str(service.get("host_name", ""))
        legal = hosts.given.get(host_name, "")
        try:
            if host_name not in objects["Host"]:
                raise NotUnderstood("its host is not in the dump")
            _take(found, objects, label, service, legal, checks[legal], legal in have_own, endpoints)
        except NotUnderstood as why:
            found.omit(label, why)
    return found


def _endpoints(objects: Objects, hosts: Names) -> dict[str, str]:
    """Return the agents that run checks of their own, by the endpoint's name: those that are a host as well."""
    named = {str(each.get("command_endpoint") or "") for kind in ("Host", "Service") for each in objects[kind].values()}
    return {name: hosts.given[name] for name in named if name in hosts.given}


def _take(
    found: Found, objects: Objects, label: str, service: Attributes, host: str, names: Names, has_own: bool,
    endpoints: Mapping[str, str],
) -> None:  # fmt: skip
    short = label.partition("!")[2] or label
    if service.get("check_command") == _PASSIVE or service.get("enable_active_checks") is False:
        if service.get("enable_passive_checks") is False:
            raise NotUnderstood("it is neither run nor reported: active and passive checks are switched off")
        found.reported.append(Reported(host, short, attempts=_attempts(service)))
        return
    id = names.check(short)
    depends = (HOST_CHECK,) if has_own else ()
    of_host = objects["Host"][str(service["host_name"])]
    found.services.append(_service(found, objects, label, service, of_host, host, id, depends, endpoints))
    if id != short:
        found.remark("services have other ids here, without spaces and slashes", f"{label} -> {id}")
    if service.get("check_period"):
        found.remark("run at all hours here, and not by check_period: see `helen silence --daily`", label)
    if service.get("event_command"):
        found.remark("have an event handler, and there are none here", label)


def _service(
    found: Found, objects: Objects, label: str, service: Attributes, host: Attributes, name: str, id: str,
    depends: tuple[str, ...], endpoints: Mapping[str, str],
) -> Service:  # fmt: skip
    """Return a service, or a host's own check if `service` is empty. Raises NotUnderstood with the reason."""
    thing = service or host
    wanted = str(thing.get("check_command") or "")
    command = objects["CheckCommand"].get(wanted)
    if command is None:
        raise NotUnderstood(f"the command {wanted[:80]!r} is not in the dump")

    def remark(sentence: str) -> None:
        found.remark(f"{wanted}: {sentence}", label)

    words = command_line(command, Resolver(service, host, command), remark)
    argv = tuple(word.replace(ADDRESS, "{address}") for word in checked(tuple(words)))
    if command.get("env"):
        remark("the command's environment variables are left out")
    every = _number(thing, "check_interval") or 300.0
    retry = _number(thing, "retry_interval")
    endpoint = str(thing.get("command_endpoint") or "")
    if endpoint and endpoint not in endpoints:
        remark(f"run at the endpoint {endpoint} there, and beside the core here")
    return Service(
        name, id, "plugin", max(1.0, every), Command(wanted, argv),
        retry=max(1.0, retry) if retry and retry < every else None, attempts=_attempts(thing),
        timeout=_number(thing, "check_timeout") or _number(command, "timeout") or 60.0, flap=_flap(thing),
        depends=depends, runner=endpoints.get(endpoint),
    )  # fmt: skip


def _number(thing: Mapping[str, Any], key: str) -> float:
    value = thing.get(key) or 0
    if not isinstance(value, int | float) or not 0 <= value <= LONGEST:
        raise NotUnderstood(f"its {key} is {str(value)[:40]}, which can't be")
    return float(value)


def _attempts(thing: Mapping[str, Any]) -> int | None:
    attempts = thing.get("max_check_attempts")
    return min(int(attempts), MAX_ATTEMPTS) if isinstance(attempts, int | float) and attempts >= 1 else None


def _flap(thing: Mapping[str, Any]) -> tuple[float, float] | bool | None:
    if not thing.get("enable_flapping"):
        return False
    low, high = _number(thing, "flapping_threshold_low"), _number(thing, "flapping_threshold_high")
    return (high, low) if 0 < low < high <= 100 else None
