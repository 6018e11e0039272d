"""Routes of targets: things without an agent, and the agents that look at them. docs/api.rst lists them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, NotRequired, TypedDict

from attrs import evolve, frozen

from equus_protocol.results import STATUS_WORDS
from helen.agents.sight import Sight
from helen.assignments.mesh_schedule import Members, base_of, id_of
from helen.assignments.schedule import Assignment
from helen.parts import Parts
from helen.states.model import AWAY, PENDING
from helen.storage.config_file import version_of
from helen.web.answers import write_json
from helen.web.bodies import Body
from helen.web.body_fields import OptionalText, whole_or_none_of
from helen.web.config_files import WrittenFile, write_file
from helen.web.connections.short_turns import ROWS_A_STEP, take_turns
from helen.web.json_types import words
from helen.web.request import ApiRequest
from helen.web.route import V1, Routes

routes = Routes()
NOT_SEEN = (PENDING, AWAY)  # reasons of states that no result is behind: the agent has not said it


class TargetJson(TypedDict):
    """Describes a target; `runners` are the agents that look at it, `quorum` says how many have to see it bad.

    `via` names and describes agents: to a limited caller it is empty. `source` is the place where it was found, such as
    a path on Helen's machine: null for one that the file declares, and to a limited caller.
    """

    name: str
    address: str
    port: int | None
    source: str | None
    labels: dict[str, str]
    via: list[str]
    quorum: str
    runners: list[str]
    checks: list[str]


class TargetsJson(TypedDict):
    """Lists targets by name, the text of targets.toml, and sentences about targets that no agent looks at."""

    text: str | None
    version: NotRequired[str]
    fault: str | None
    faults: list[str]
    targets: list[TargetJson]


class ReplaceTargets(Body, frozen=True, kw_only=True):
    """Has the whole text of targets.toml, or null; `version` is what the client has read."""

    text: Annotated[str | None, whole_or_none_of("targets.toml")]
    version: OptionalText = None


@routes.get(f"{V1}/targets", "read", "Things without an agent, and who looks at them", answer=TargetsJson)
async def get_targets(parts: Parts, request: ApiRequest) -> bytes:
    """Answer with the targets, and the text of targets.toml; to a limited caller without the text."""
    file, sight = parts.targets.config_file, parts.visible(request.caller)
    shown: TargetsJson = {"text": None, "fault": None, "faults": [], "targets": await _listed(parts, sight)}
    if sight is None:
        text, faults = await file.text(), list[str]()
        version = version_of(text)
        await take_turns(parts.targets.fault_steps(faults))
        shown = {**shown, "text": text, "version": version, "fault": file.fault, "faults": faults}
        request.setHeader("etag", f'"{version}"')
    return write_json(request, shown)


async def _listed(parts: Parts, sight: Sight | None) -> list[TargetJson]:
    """Return the targets that are seen, by name, each as it is when it is looked at: some a step."""
    listed, names = list[TargetJson](), sorted(parts.targets.config)

    def steps() -> Iterator[None]:
        for first in range(0, len(names), ROWS_A_STEP):
            listed.extend(_shown(parts, names[first : first + ROWS_A_STEP], sight))
            yield

    await take_turns(steps())
    return listed


def _shown(parts: Parts, names: Iterable[str], sight: Sight | None) -> list[TargetJson]:
    targets = parts.targets
    return [
        {
            "name": name, "address": target.address, "labels": dict(target.labels),
            "via": list(target.via) if sight is None else [],
            "source": targets.found.get(name) if sight is None else None,
            "port": target.port, "quorum": str(target.quorum),
            "runners": [each for each in targets.runners(name) if sight is None or sight(each)],
            "checks": [entry.id for entry in targets.entries_of(name)],
        }
        for name in names if sight is None or sight(name) if (target := targets.config.get(name)) is not None
    ]  # fmt: skip


class MeshJson(TypedDict):
    """Shows which agent sees which: `seen` has a row for each agent, with the status of each agent in the same order.

    It is null for the agent itself, and where nothing is known. `left_out` agents fit and are beyond the most. `mesh`
    has the patterns; to a limited caller it is empty.
    """

    id: str
    check: str
    mesh: list[str]
    agents: list[str]
    addresses: list[str]
    left_out: int
    seen: list[list[Annotated[str, words(*STATUS_WORDS)] | None]]


class MeshesJson(TypedDict):
    """Lists the meshes of assignments.toml, in its order."""

    meshes: list[MeshJson]


@routes.get(f"{V1}/mesh", "read", "Agents that check each other, and who sees whom", answer=MeshesJson)
async def get_meshes(parts: Parts, request: ApiRequest) -> bytes:
    """Answer with a table for each mesh; a limited caller gets the agents that it sees, and no mesh without any."""
    listed, shown = await meshes_in_sight(parts, parts.visible(request.caller)), list[MeshJson]()

    def steps() -> Iterator[None]:
        for each in listed:  # of 50 agents at most
            shown.append(_mesh(parts, each))
            yield

    await take_turns(steps())
    return write_json(request, {"meshes": shown})


@frozen
class MeshInSight:
    """Holds a mesh as a caller sees it: `members` have addresses; to a limited caller `left_out` is 0."""

    entry: Assignment
    members: Members
    left_out: int

    @property
    def id(self) -> str:
        return base_of(self.entry)


async def meshes_in_sight(parts: Parts, sight: Sight | None) -> list[MeshInSight]:
    """Return the meshes with the members that are seen; with a limit, no mesh without any, and none of its patterns."""
    listed = [MeshInSight(*each) for each in parts.meshes.meshes()]
    if sight is None:
        return listed
    found = list[MeshInSight]()

    def steps() -> Iterator[None]:
        for each in listed:
            members = {name: address for name, address in each.members.items() if sight(name)}
            if members:
                found.append(MeshInSight(evolve(each.entry, mesh=()), members, 0))
            yield

    await take_turns(steps())
    return found


def _mesh(parts: Parts, mesh: MeshInSight) -> MeshJson:
    return {
        "id": mesh.id, "check": mesh.entry.check, "mesh": list(mesh.entry.mesh), "agents": list(mesh.members),
        "addresses": list(mesh.members.values()), "left_out": mesh.left_out, "seen": who_sees_whom(parts, mesh),
    }  # fmt: skip


def who_sees_whom(parts: Parts, mesh: MeshInSight) -> list[list[str | None]]:
    """Return the status of each member by each member, in their order; None for itself and where nothing is known.

    Nothing is known before the first result, and once the agent counts as away: its checks are unknown for that alone.
    """
    states, ids = parts.evaluator.timeline.states, {peer: id_of(mesh.entry, peer) for peer in mesh.members}

    def seen(watcher: str, peer: str) -> str | None:
        state = states.get((watcher, ids[peer])) if watcher != peer else None
        return None if state is None or state.shown.reason in NOT_SEEN else STATUS_WORDS[state.shown.status]

    return [[seen(watcher, peer) for peer in mesh.members] for watcher in mesh.members]


@routes.put(
    f"{V1}/targets", "targets", "Replace the things without an agent", body=ReplaceTargets, answer=WrittenFile,
    action="targets", errors={400: "bad request, or targets refused", 412: "changed meanwhile"},
)  # fmt: skip
async def put_targets(parts: Parts, request: ApiRequest, body: ReplaceTargets) -> bytes:
    """Replace the whole text; null takes the file away."""
    return write_json(request, await write_file(parts.targets.config_file, body.text, body.version, request))
