"""Keeps in memory which agents are members of each mesh, and has their schedules made anew when that changes.

A mesh is an entry of assignments.toml: helen/assignments/mesh_schedule.py. An agent that is away stays a member, and so
it does over a restart: the roster has its labels and its last address.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import define, field

from helen.agents.roster import Agent
from helen.assignments.mesh_schedule import Members, Mesh, address_of, base_of, first_of, meshes_of
from helen.assignments.schedule import Assignment
from helen.sessions.session_service import SessionService


@define(eq=False)
class Fitting:
    """Holds the agents that match a mesh, each with its address, and its members: those that check each other."""

    agents: dict[str, str] = field(factory=dict)
    members: dict[str, str] = field(factory=dict)


class MeshControl:
    """Tells who checks whom; `delivery` asks it whenever it makes a schedule."""

    def __init__(self, sessions: SessionService) -> None:
        self._sessions = sessions
        self._fitting: dict[Mesh, Fitting] = {}
        self._dirty: set[Mesh] = set()
        self._has_begun = False
        sessions.delivery.members = self.members

    def begin(self) -> None:
        """Follow agents as they come and change; called once schedules are known."""
        self._has_begun = True
        self._sessions.delivery.scheduled.subscribe(lambda agent, entries: self._consider(agent))
        self._sessions.attached.subscribe(self._consider)
        self.look_again()

    def members(self, mesh: Mesh) -> Members:
        """Return the members of a mesh, each with the address under which it is checked.

        Before `begin` all agents are looked through at once: a schedule without them would end their checks.
        """
        if mesh not in self._fitting and not self._has_begun:
            found = self._fitting[mesh] = Fitting()
            for agent in self._sessions.roster.agents.values():
                self._look_at(agent, mesh, found)
            found.members = first_of(found.agents)
        return self._fitting[mesh].members if mesh in self._fitting else {}

    def look_again(self) -> None:
        """Follow the meshes of the assignments in force; for a new one the agents are looked through in turns."""
        wanted = {entry.mesh for entry in meshes_of(self._sessions.delivery.assignments)}
        if not self._has_begun:
            return
        fresh = wanted - self._fitting.keys()
        self._fitting = {mesh: self._fitting.get(mesh) or Fitting() for mesh in sorted(wanted)}
        if fresh:
            self._sessions.fair_turns.walk(list(self._sessions.roster.agents.values()), self._consider)

    def _consider(self, agent: Agent) -> None:
        for mesh, found in self._fitting.items():
            self._look_at(agent, mesh, found)

    def _look_at(self, agent: Agent, mesh: Mesh, found: Fitting) -> None:
        may = agent.enrolled and agent.revoked_at is None
        address = address_of(mesh, agent.name, agent.labels, agent.address) if may else None
        if found.agents.get(agent.name) == address:
            return
        self._dirty.add(mesh)
        if address is None:
            del found.agents[agent.name]
        else:
            found.agents[agent.name] = address

    def tick(self) -> None:
        """Have schedules made anew where members have changed, and forget those that are no more. Once a second."""
        known = self._sessions.roster.agents
        for mesh, found in self._fitting.items():
            gone = [name for name in found.members if name not in known or known[name].revoked_at is not None]
            for name in gone:
                found.agents.pop(name, None)
                self._dirty.add(mesh)
        dirty, self._dirty = self._dirty, set()
        if dirty:
            self._sessions.fair_turns.walk(sorted(dirty), self._choose)

    def _choose(self, mesh: Mesh) -> None:
        """Choose the members of a mesh anew: a step of some milliseconds where 10,000 agents fit."""
        found = self._fitting.get(mesh)
        if found is None:
            return
        known, before = self._sessions.roster.agents, found.members
        found.agents = {name: address for name, address in found.agents.items() if name in known}
        found.members = first_of(found.agents)
        if found.members != before:
            names = [name for name in before.keys() | found.members.keys() if name in known]
            self._sessions.fair_turns.walk([known[name] for name in sorted(names)], self._sessions.delivery.schedule)

    # ---------------------------------------------------------------------------------------------- for others

    def meshes(self) -> list[tuple[Assignment, Members, int]]:
        """Return the meshes: the entry of each, its members, and how many agents that fit are left out."""
        listed = [(entry, self._fitting.get(entry.mesh, Fitting())) for entry in self._entries()]
        return [(entry, found.members, len(found.agents) - len(found.members)) for entry, found in listed]

    def watchers(self, check_id: str) -> list[str]:
        """Return the agents that run a check of this id against one agent, by name; none for another check."""
        for _, peer, members in self._with_peer(check_id):
            return sorted(members.keys() - {peer})
        return []

    def mesh_of(self, agent: str, check_id: str) -> str | None:
        """Return the id of the mesh that has an agent run the check of this id; None for another check."""
        return next((base_of(entry) for entry, _, members in self._with_peer(check_id) if agent in members), None)

    def _with_peer(self, check_id: str) -> Iterator[tuple[Assignment, str, Members]]:
        """Yield each mesh with a check of this id, the agent that it is against, and all members."""
        for entry in self._entries() if "@" in check_id else ():
            members, before = self.members(entry.mesh), f"{base_of(entry)}@"
            peer = check_id.removeprefix(before)
            if check_id.startswith(before) and peer in members:
                yield entry, peer, members

    def _entries(self) -> Iterator[Assignment]:
        yield from meshes_of(self._sessions.delivery.assignments)
