"""Makes proposals of findings that no check looks at: entries of assignments for the agent that found them. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from attrs import field, frozen

from helen.assignments.arguments import faults_of
from helen.assignments.schedule import CheckTable
from helen.discovery.answers import Findings, Listener, Mount
from helen.discovery.known import DAEMONS, FACILITIES, PORTS, USUAL_SERVICES
from helen.discovery.watched import Schedule

MOST_PROPOSALS = 100  # of one agent: more are a lie, or nothing that a person would read
# Where servers stop and clients begin: ports above are given out for a while (net.ipv4.ip_local_port_range).
FIRST_PASSING_PORT = 32_768
_SIMPLE = {"ssh": ("ssh_banner", 22), "smtp": ("smtp", 25), "redis": ("redis", 6379), "memcached": ("memcached", 11211)}
_NOT_OF_IDS = re.compile(r"[^A-Za-z0-9_.@-]+")


@frozen
class Proposal:
    """Holds a check that would cover a finding. `what` is a sentence for people, in one line."""

    check: str
    id: str
    args: Mapping[str, Any] = field(factory=dict)
    what: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """Return what makes two proposals one entry for two agents."""
        return self.check, self.id, json.dumps(self.args, sort_keys=True)


def propose(findings: Findings, schedule: Schedule, tables: Mapping[str, CheckTable]) -> tuple[list[Proposal], int]:
    """Return a proposal for each finding that nothing looks at, and how many more there would be.

    One whose check is not published, or would refuse its arguments, is none.
    """
    found: list[Proposal] = []
    taken = set(schedule.ids)
    for wanted in _all(findings, schedule):
        for each in wanted:
            table = tables.get(each.check)
            if table is None or any(faults_of(each.args, table.args)):
                continue
            free = _free_id(each.id, taken)
            taken.add(free)
            found.append(Proposal(each.check, free, each.args, each.what))
            break
    return found[:MOST_PROPOSALS], max(0, len(found) - MOST_PROPOSALS)


def _all(findings: Findings, schedule: Schedule) -> Iterator[list[Proposal]]:
    """Give for each finding that nothing looks at the proposals for it, the best first."""
    for listener in {(each.port, each.host): each for each in findings.listeners}.values():
        if listener.port < FIRST_PASSING_PORT and not schedule.watches_port(listener):
            yield _of_listener(listener, findings.processes)
    yield from _of_mounts(findings.mounts, schedule)
    for service in findings.services:
        if not service.startswith(USUAL_SERVICES) and not schedule.watches_service(service):
            args, name = {"unit": service}, service.removesuffix(".service")
            yield [Proposal("systemd_unit", f"unit-{_word(name)}", args, f"the service {name} runs")]
    for name in findings.processes:
        if not schedule.watches_process(name) and not _is_seen_otherwise(name, findings):
            yield [Proposal("process", f"process-{name}", {"name": name}, f"{DAEMONS[name].title} runs")]
    for name in findings.facilities:
        facility = FACILITIES[name]
        if not schedule.watches_facility(name):
            yield [Proposal(check, check, {}, f"this host has {facility.title}") for check in facility.checks]


def _is_seen_otherwise(name: str, findings: Findings) -> bool:
    """Return True if the program is found by its port, or by its service, as well."""
    daemon = DAEMONS[name]
    return any(each.port in daemon.ports for each in findings.listeners) or any(
        service.removesuffix(".service").partition("@")[0] in daemon.services for service in findings.services
    )


def _of_listener(listener: Listener, processes: Iterable[str]) -> list[Proposal]:
    port, host = listener.port, listener.host
    title = next(
        (DAEMONS[each].title for each in processes if port in DAEMONS[each].ports), PORTS.get(port, "a program")
    )
    what = f"{title} listens on port {port}"
    where = {} if host == "localhost" else {"host": host}
    found = []
    if listener.speaks in _SIMPLE:
        check, usual = _SIMPLE[listener.speaks]
        found.append(Proposal(check, f"{check}-{port}", where | ({} if port == usual else {"port": port}), what))
    elif listener.speaks == "http" and listener.is_fine:
        url = f"http://{f'[{host}]' if ':' in host else host}{'' if port == 80 else f':{port}'}/"
        found.append(Proposal("http", f"http-{port}", {"url": url}, what))
    elif listener.speaks == "tls":
        named = {"server_name": listener.names[0]} if listener.is_fine and listener.names else {"verify": False}
        args = {"host": host, "port": port} | named
        found.append(Proposal("tls_certificate", f"tls-{port}", args, f"{what}, with a certificate"))
    return [*found, Proposal("tcp", f"tcp-{port}", where | {"port": port}, what)]


def _of_mounts(mounts: Iterable[Mount], schedule: Schedule) -> Iterator[list[Proposal]]:
    """Give one proposal for all filesystems if the agent does not run `disk` at all, else one for each."""
    missing = [mount for mount in mounts if not schedule.watches_mount(mount)]
    if missing and not schedule.runs("disk"):
        yield [Proposal("disk", "disk", {}, "filesystems are mounted")]
        missing = [mount for mount in missing if mount.is_network]
    for mount in missing:
        name = _word(mount.path.strip("/")) or "root"
        yield [Proposal("disk", f"disk-{name}", {"path": mount.path}, f"a filesystem is mounted on {mount.path}")]


def _word(text: str) -> str:
    return _NOT_OF_IDS.sub("-", text).strip("-")[:100]


def _free_id(wanted: str, taken: set[str]) -> str:
    """Return an id that the agent has not: an entry of an id that is taken would replace the check that has it."""
    number, free = 2, wanted
    while free in taken:
        free, number = f"{wanted}-{number}", number + 1
    return free
