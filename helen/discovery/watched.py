"""Tells whether a check of an agent's schedule looks at a finding already. Pure.

Only the agent's own checks count: what others see of it from outside, and what targets see, is theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import urlsplit

from attrs import frozen

from helen.assignments.schedule import CheckTable, ScheduleEntry
from helen.discovery.answers import Listener, Mount
from helen.discovery.known import DAEMONS, FACILITIES

_LOCAL = frozenset({"localhost", "127.0.0.1", "::1", "ip6-localhost"})
_PORTS_OF = {"https": 443, "http": 80}


@frozen
class Running:
    """Holds a check that an agent runs, with the arguments that it has in effect: its own, and the table's defaults."""

    check: str
    args: Mapping[str, Any]


class Schedule:
    """Holds the checks of one agent, which cover findings. `agent`: its name, by which checks may call it."""

    def __init__(self, agent: str, entries: Iterable[ScheduleEntry], tables: Mapping[str, CheckTable]) -> None:
        self._agent = agent
        self.ids = {entry.id for entry in entries}
        self._running = [Running(each.check, _defaults(tables.get(each.check)) | each.args) for each in entries]

    def runs(self, *checks: str) -> bool:
        """Return True if one of these checks is among those of the agent, whatever its arguments."""
        return any(each.check in checks for each in self._running)

    def watches_port(self, listener: Listener) -> bool:
        """Return True if a check connects to the port, on this host or by a name of the certificate found there."""
        return any(
            port == listener.port and (self._is_here(host) or host == listener.host or host in listener.names)
            for each in self._running
            for host, port in _places(each.args)
        )

    def watches_mount(self, mount: Mount) -> bool:
        """Return True if `disk` looks at it, or was told to leave it out."""
        return any(each.check == "disk" and _covers(each.args, mount) for each in self._running)

    def watches_service(self, service: str) -> bool:
        """Return True if `systemd_unit` names the service."""
        name = service.removesuffix(".service")
        named = (each.args.get("unit") for each in self._running if each.check == "systemd_unit")
        return any(unit in (service, name) for unit in named)

    def watches_all_units(self) -> bool:
        """Return True if `systemd_unit` looks for units that have failed."""
        return any(each.check == "systemd_unit" and each.args.get("unit") is None for each in self._running)

    def watches_process(self, name: str) -> bool:
        """Return True if `process` names it, or `systemd_unit` a service that starts it."""
        services = DAEMONS[name].services
        return any(each.check == "process" and each.args.get("name") == name for each in self._running) or any(
            self.watches_service(f"{service}.service") for service in services
        )

    def watches_facility(self, name: str) -> bool:
        """Return True if a check runs that is for this part of a host."""
        return self.watches_all_units() if name == "units" else self.runs(*FACILITIES[name].checks)

    def _is_here(self, host: str) -> bool:
        return host in _LOCAL or host == self._agent or host.startswith(f"{self._agent}.")


def _defaults(table: CheckTable | None) -> dict[str, Any]:
    declared = table.args if table is not None else {}
    return {name: rule["default"] for name, rule in declared.items() if isinstance(rule, Mapping) and "default" in rule}


def _places(args: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return hosts and ports that a check with these arguments connects to."""
    found = []
    port, host = args.get("port"), args.get("host", "localhost")
    if isinstance(port, int | float) and isinstance(host, str):
        found.append((host.lower(), int(port)))
    url = args.get("url")
    if isinstance(url, str):
        try:
            parts = urlsplit(url)
            found.append((parts.hostname or "", parts.port or _PORTS_OF.get(parts.scheme, 0)))
        except ValueError:  # a port that is none
            pass
    return found


def _covers(args: Mapping[str, Any], mount: Mount) -> bool:
    if args.get("path") is not None:
        return bool(args["path"] == mount.path)
    left_out = args.get("exclude", [])
    if isinstance(left_out, list) and any(fnmatchcase(mount.path, str(pattern)) for pattern in left_out):
        return True
    return args.get("network") is True or not mount.is_network
