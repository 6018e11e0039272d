"""Say where each service that was found will run, as entries of assignments.toml, and with which plugins. Pure.

The agent beside the old core runs all that no other agent runs. A host is a target, unless it is an agent itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import define, evolve, field

from groundwork.durations import write_duration
from helen.importing.capabilities import Reached
from helen.importing.found import Found, Service
from helen.importing.proposal import Plugins

MAX_PLUGIN_TIMEOUT = 300.0  # seconds, as a policy's timeout_max is unless it says more
SLACK = 5.0  # seconds that the check has beyond its plugin

Entry = dict[str, Any]


@define
class Layout:
    """Holds the services of `found`, laid out on agents and targets. `agent` is the one beside the old core."""

    found: Found
    agent: str
    plugins: Plugins = field(factory=Plugins)
    reached: dict[str, list[Reached]] = field(factory=dict)  # by shipped checks, of each agent
    agents: frozenset[str] = frozenset()

    def entries(self) -> list[Entry]:
        """Return all entries; those that hold for several hosts, and differ in nothing else, are one."""
        self.agents = frozenset(each.runner for each in self.found.services if each.runner) | {self.agent}
        return _merged(self._entry(self._placed(service)) for service in self.found.services)

    def is_target(self, host: str) -> bool:
        """Return True for a host that is watched, and is no agent."""
        return host in self.found.hosts and host not in self.agents

    def _placed(self, service: Service) -> Service:
        """Return a service under the name that its results get: those of an agent's host by others are the others'."""
        runner = service.runner or self.agent
        if service.host in ("", runner) or service.host not in self.agents:
            return service
        self.found.remark(
            "are filed under the agent that runs them, since their host is an agent too", f"{service.host}/{service.id}"
        )
        return evolve(service, id=f"{service.host}:{service.id}", depends=())

    def _entry(self, service: Service) -> Entry:
        """Return the entry of a service; `on` says whether it is on agents or targets, and on which one."""
        is_target = service.runner is None and self.is_target(service.host)
        timeout = min(service.timeout or 60.0, MAX_PLUGIN_TIMEOUT)
        args = self._args(service, is_target, timeout)
        settings = {
            "check": service.check, "id": service.id, "every": write_duration(service.every),
            "timeout": write_duration(timeout) if service.command is not None else None,
            "args": args or None,
            "retry": write_duration(service.retry) if service.retry else None,
            "attempts": service.attempts,
            "flap": list(service.flap) if isinstance(service.flap, tuple) else service.flap,
            "depends": list(service.depends) or None,
        }  # fmt: skip
        on = ("targets", service.host) if is_target else ("agents", service.runner or self.agent)
        return {"on": on} | {key: value for key, value in settings.items() if value is not None}

    def _args(self, service: Service, is_target: bool, timeout: float) -> Mapping[str, Any]:
        host = self.found.hosts.get(service.host)
        address = "{address}" if is_target else host.address if host else ""
        if service.command is None:
            known = "" if host is None else host.address
            self.reached.setdefault(service.runner or self.agent, []).append(
                Reached(service.check, service.args, known)
            )
            return {key: _with_address(value, address) for key, value in service.args.items()}
        runners = host.via if is_target and host and host.via else (service.runner or self.agent,)
        for runner in runners:
            name, has_slot = self.plugins.add(runner, service.command, host, max(1.0, timeout - SLACK))
        return {"name": name} | ({"slots": [f"address={address}"]} if has_slot else {})


def _with_address(value: Any, address: str) -> Any:
    return value.replace("{address}", address) if isinstance(value, str) and address else value


def _merged(entries: Iterable[Entry]) -> list[Entry]:
    found: dict[str, Entry] = {}
    for entry in entries:
        where, name = entry.pop("on")
        key = json.dumps([where, entry], sort_keys=True)
        found.setdefault(key, {"check": entry["check"], where: []} | entry)[where].append(name)
    return list(found.values())
