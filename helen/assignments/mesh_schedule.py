"""Makes the entries of a mesh: each of its agents runs the check against each other one. Pure.

The id of a check is that of the entry with the other agent's name, `ping@edge-2`; `{address}` and `{name}` in texts of
arguments are the other agent's, and so is an argument `host` or `address` that nothing gives. It depends on the other
agent's link: one that is away is one problem, which has been told.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping

from attrs import field, frozen

from equus_protocol.one_off import fits
from helen.assignments.schedule import Assignment, Assignments, CheckTable, ScheduleEntry, schedule_by_id
from helen.assignments.target_schedule import with_place
from helen.states.model import LINK

MOST_MEMBERS = 50  # of one mesh: 2,450 checks
ADDRESS = "address"  # the label of an agent that others reach in another way than it connects from

Mesh = tuple[str, ...]
Members = Mapping[str, str]  # agent -> address


@frozen
class Peer:
    """Holds the other agent of a check in a mesh."""

    name: str
    address: str
    labels: Mapping[str, str] = field(factory=dict)
    port: int | None = None
    given: str = ""


def address_of(mesh: Mesh, name: str, labels: Mapping[str, str], connects_from: str) -> str | None:
    """Return the address under which a member of a mesh is checked; None: it is none, or no address is known."""
    if not any(fits(pattern, name, labels) for pattern in mesh):
        return None
    return labels.get(ADDRESS) or connects_from or None


def first_of(fitting: Members) -> dict[str, str]:
    """Return the members of a mesh of all agents that fit: the first by name."""
    return {name: fitting[name] for name in heapq.nsmallest(MOST_MEMBERS, fitting)}


def base_of(entry: Assignment) -> str:
    """Return the part of the ids that all checks of a mesh share."""
    return entry.id or entry.check


def id_of(entry: Assignment, peer: str) -> str:
    """Return the id of the check of a mesh against one agent."""
    return f"{base_of(entry)}@{peer}"


def meshes_of(assignments: Assignments) -> list[Assignment]:
    """Return the entries of meshes; of those with one id the last counts."""
    return list({base_of(entry): entry for entry in assignments.entries if entry.mesh}.values())


def mesh_entries(
    assignments: Assignments, tables: Mapping[str, CheckTable], agent: str, labels: Mapping[str, str],
    members: Callable[[Mesh], Members],
) -> tuple[ScheduleEntry, ...]:  # fmt: skip
    """Return what an agent is to run against the others of its meshes, in the order of the ids."""
    found = [
        each for entry in meshes_of(assignments) if agent in (known := members(entry.mesh))
        for each in _of_mesh(assignments, tables, entry, agent, labels, known)
    ]  # fmt: skip
    return tuple(sorted(found, key=lambda each: each.id))


def _of_mesh(
    assignments: Assignments, tables: Mapping[str, CheckTable], entry: Assignment, agent: str,
    labels: Mapping[str, str], members: Members,
) -> Iterator[ScheduleEntry]:  # fmt: skip
    peers = {id_of(entry, name): Peer(name, address) for name, address in members.items() if name != agent}
    for made in schedule_by_id(assignments, dict.fromkeys(peers, entry), tables, agent, labels):
        peer = peers[made.id]
        yield with_place(made, tables.get(made.check), peer, (f"{peer.name}/{LINK}",))


def members_among(mesh: Mesh, agents: Iterable[Mapping[str, object]]) -> dict[str, str]:
    """Return the members of a mesh among agents as the API lists them: `name`, `kind`, `labels` and `address`."""
    found: dict[str, str] = {}
    for agent in agents:
        labels = agent["labels"]
        if agent.get("kind") != "host" and agent.get("revoked") is None and isinstance(labels, Mapping):
            address = address_of(mesh, str(agent["name"]), labels, str(agent.get("address") or ""))
            found |= {} if address is None else {str(agent["name"]): address}
    return first_of(found)
