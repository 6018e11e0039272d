"""Turn the objects of a Nagios, Naemon or Icinga 1 into hosts and services of Helen. Pure.

Each service keeps its plugin with its whole command line. The core ran them all itself, so the agent beside it runs
them, and each host becomes a target.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from attrs import frozen

from helen.importing.command_line import split
from helen.importing.found import Budget, Command, Found, Host, NotUnderstood, Reported, Service
from helen.importing.nagios_macros import ADDRESS, arguments, filled, known
from helen.importing.nagios_objects import Core, Object
from helen.importing.names import Names, groups_as_labels

HOST_CHECK = "host"  # the id of a host's own check
MAX_ATTEMPTS = 100
TIMEOUT = 60.0  # seconds, as the core's service_check_timeout
_ROUND_THE_CLOCK = {"", "24x7", "none", "null"}


@frozen
class _Names:
    hosts: Names
    checks: Mapping[str, Names]


def convert(core: Core, source: str) -> Found:
    """Return all that a core watches, and what of it can't be taken over."""
    found, names = Found(source), _Names(Names(), defaultdict(Names))
    commands = {each.get("command_name", ""): each.get("command_line", "") for each in core.objects.get("command", [])}
    hosts = {each["host_name"]: each for each in core.objects["host"] if each.get("host_name")}
    groups = _groups(core)
    for name, each in hosts.items():
        legal = names.hosts.host(name)
        found.hosts[legal] = Host(legal, each.get("address") or name, groups_as_labels(groups[name]))
        if legal != name:
            found.remark("hosts have other names here, since Helen's are a-z 0-9 . _ -", f"{name} -> {legal}")
    for each in hosts.values():
        _take_host(found, core, names, commands, each, hosts)
    checked = {service.host for service in found.services}
    for each in core.objects.get("service", []):
        _take_service(found, core, names, commands, each, hosts, checked)
    _remark_others(found, core)
    return found


def _groups(core: Core) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for group in core.objects.get("hostgroup", []):
        for member in group.get("members", "").split(","):
            found[member.strip()].append(group.get("hostgroup_name", ""))
    return found


def _take_host(
    found: Found, core: Core, names: _Names, commands: Mapping[str, str], host: Object, hosts: Mapping[str, Object]
) -> None:
    """Take a host's own check, which its services depend on."""
    if not host.get("check_command") or host.get("active_checks_enabled") == "0":
        return
    name = names.hosts.host(host["host_name"])
    parents = [names.hosts.host(each.strip()) for each in host.get("parents", "").split(",") if each.strip() in hosts]
    try:
        id = names.checks[name].check(HOST_CHECK)
        made = _service(core, commands, host, {}, name, id, tuple(f"{each}/{HOST_CHECK}" for each in parents[:20]))
    except NotUnderstood as why:
        found.remark(f"no check of the host itself: {why}", host["host_name"])
        return
    found.services.append(made)


def _take_service(
    found: Found, core: Core, names: _Names, commands: Mapping[str, str], service: Object,
    hosts: Mapping[str, Object], checked: set[str],
) -> None:  # fmt: skip
    label = f"{service.get('host_name', '?')}/{service.get('service_description', '?')}"
    found.total += 1
    host = hosts.get(service.get("host_name", ""))
    if host is None:
        found.omit(label, "its host is not in the file")
        return
    name = names.hosts.host(host["host_name"])
    description = service.get("service_description", "")
    _remark_differences(found, label, service)
    try:
        if service.get("active_checks_enabled") == "0":
            found.reported.append(_passive(service, name))
            return
        id = names.checks[name].check(description)
        depends = (HOST_CHECK,) if name in checked else ()
        made = _service(core, commands, host, service, name, id, depends)
    except NotUnderstood as why:
        found.omit(label, why)
        return
    found.services.append(made)
    if id != description:
        found.remark("services have other ids here, without spaces and slashes", f"{label} -> {id}")


def _passive(service: Object, name: str) -> Reported:
    """Return a service that others report. Raises NotUnderstood if the core takes no results of it."""
    if service.get("passive_checks_enabled") == "0":
        raise NotUnderstood("it is neither run nor reported: active and passive checks are switched off")
    stale = _number(service, "freshness_threshold") if service.get("check_freshness") == "1" else 0.0
    return Reported(name, service.get("service_description", ""), stale or None, attempts=_attempts(service))


def _service(
    core: Core, commands: Mapping[str, str], host: Object, service: Object, name: str, id: str,
    depends: tuple[str, ...],
) -> Service:  # fmt: skip
    """Return a service, or a host's own check if `service` is empty. Raises NotUnderstood with the reason."""
    thing = service or host
    command_name, args = arguments(thing.get("check_command", ""))
    if not commands.get(command_name):
        raise NotUnderstood(f"the command {command_name[:80]!r} is not in the file")
    every = _number(thing, "check_interval") * core.unit
    if every <= 0:
        if service:
            raise NotUnderstood("its check_interval is 0: the core doesn't run it by itself")
        every = 5 * core.unit  # the core looks at such a host when a service of it fails
    line = filled(commands[command_name], known(host, service, args, core.users), Budget())
    argv = tuple(word.replace(ADDRESS, "{address}") for word in split(line))
    return Service(
        name, id, "plugin", max(1.0, every), Command(command_name, argv),
        retry=_retry(thing, core.unit, every), attempts=_attempts(thing), timeout=TIMEOUT, flap=_flap(thing),
        depends=depends,
    )  # fmt: skip


def _number(thing: Object, key: str) -> float:
    try:
        value = float(thing.get(key, "0"))
    except ValueError:
        raise NotUnderstood(f"its {key} is {thing[key][:40]!r}, which is no number") from None
    if not 0 <= value <= 1e7:
        raise NotUnderstood(f"its {key} is {value:g}, which can't be")
    return value


def _retry(thing: Object, unit: float, every: float) -> float | None:
    retry = _number(thing, "retry_interval") * unit
    return max(1.0, retry) if 0 < retry < every else None


def _attempts(thing: Object) -> int | None:
    attempts = int(_number(thing, "max_check_attempts"))
    return min(attempts, MAX_ATTEMPTS) if attempts else None


def _flap(thing: Object) -> tuple[float, float] | bool | None:
    if thing.get("flap_detection_enabled") == "0":
        return False
    low, high = _number(thing, "low_flap_threshold"), _number(thing, "high_flap_threshold")
    return (high, low) if 0 < low < high <= 100 else None


def _remark_differences(found: Found, label: str, service: Object) -> None:
    if service.get("check_period", "").lower() not in _ROUND_THE_CLOCK:
        found.remark("run at all hours here, and not by check_period: see `helen silence --daily`", label)
    if service.get("event_handler"):
        found.remark("have an event handler, and there are none here", label)
    if service.get("is_volatile") == "1":
        found.remark("are volatile there: give their entries attempts = 1", label)


def _remark_others(found: Found, core: Core) -> None:
    """Name the kinds of objects that have no counterpart in the folder."""
    for kind, sentence in {
        "contact": "contacts are not taken over: write channels and rules, docs/notifications.rst",
        "servicedependency": "dependencies of services are not taken over: write `depends` in their entries",
        "hostdependency": "dependencies of hosts are not taken over: write `depends` in their entries",
        "serviceescalation": "escalations are not taken over: a rule with a longer group_wait is the nearest",
        "hostescalation": "escalations are not taken over: a rule with a longer group_wait is the nearest",
    }.items():
        for number, each in enumerate(core.objects.get(kind, []), 1):
            found.remark(sentence, each.get(f"{kind}_name") or f"{kind} {number}")
