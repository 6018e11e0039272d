"""Routes of pushes: checks, a set that was signed elsewhere, a newer agent, and the undo. docs/api.rst lists them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Annotated, Any, NotRequired, TypedDict

from msgspec import Meta

from helen.agents.load_report import newer_version
from helen.agents.roster import Agent
from helen.files import restored
from helen.library.agent_wheels import NotAnEquus, version_of
from helen.library.library import Library
from helen.library.push_request import read_plan
from helen.parts import Parts
from helen.rollout.rings import write_rings
from helen.rollout.rollout import Plan
from helen.web.answers import write_json
from helen.web.bodies import Body
from helen.web.body_fields import Files, Flag, Strings, Text, Wheels
from helen.web.connections.short_turns import take_turns
from helen.web.json_types import Object
from helen.web.problems import bad_request
from helen.web.request import ApiRequest
from helen.web.route import V1, Routes
from helen.web.routes.checks import demand_folder
from helen.web.routes.rollouts import followers_in_sight, show_rollout
from helen.web.sight.agents_in_turns import steps_of
from helen.web.sight.set_progress import UpgradeJson, progress_of

routes = Routes()
IN_THE_WAY = {409: "push refused"}


class StagedJson(TypedDict):
    """Holds the bytes to sign of a version that waits for a signature."""

    version: int
    manifest: str
    undo: str
    files: dict[str, str]


class PushJson(TypedDict):
    """Counts the agents that run the newest version, and lists files that they keep old."""

    version: int | None
    digest: NotRequired[str]
    agents: int
    loaded: int
    kept_old: dict[str, dict[str, str]]
    can_sign: bool
    rollout: Object | None
    staged: StagedJson | None
    agent: str | None
    upgrade: UpgradeJson | None


class PlannedRing(TypedDict):
    """Describes one ring of a dry run, and the agents that would be in it."""

    number: int
    ring: str
    size: int
    members: list[str]


class PushedJson(TypedDict):
    """Names the version that came of a push, and the rings by which it goes out."""

    version: int | None
    warnings: list[str]
    rings: str
    plan: list[PlannedRing]


class VersionJson(TypedDict):
    """Names the version of a set of checks."""

    version: int


class PushedAgent(TypedDict):
    """Names the version of Equus that goes out; null while more of its wheels are to come."""

    agent: str | None


class ConfirmedJson(TypedDict):
    """Says if this Helen had been restored, and the newest version that agents refuse its set for; 0: none."""

    restored: bool
    held: int


class RingsBody(Body, frozen=True, kw_only=True):
    """Says how a push goes out: by `rings`, or by `canary`, which is short for two of them; past which `gates`."""

    canary: Annotated[str | None, Meta(examples=["1%", None])] = None
    rings: Annotated[str | None, Meta(examples=["1%, 10%, 100%"])] = None
    gates: dict[str, str] | None = None

    def plan(self, usual: Plan) -> Plan:
        """Return the plan; what is not said is as usual. Raises BadPushRequest."""
        return read_plan({"canary": self.canary, "rings": self.rings, "gates": self.gates}, usual)


class PushChecks(RingsBody, frozen=True, kw_only=True):
    """Has files by name, and those that leave the folder; `replace` takes a rollout back that is under way."""

    files: Files = {}
    tests: Files = {}
    replace: Flag = False
    remove: Strings = []


class PushSigned(RingsBody, frozen=True, kw_only=True):
    """Has the signed envelopes of what is staged."""

    manifest: Text
    undo: Text


class PushAgent(RingsBody, frozen=True, kw_only=True):
    """Has the wheels of an Equus by their file names, in base64, or pieces of them, `NAME/00` and so on.

    With `more` they are kept for a request that follows: one holds 8 MiB.
    """

    wheels: Wheels
    more: Flag = False


@routes.get(f"{V1}/push", "read", "How far the newest set of checks has come", answer=PushJson)
async def get_push(parts: Parts, request: ApiRequest) -> bytes:
    """Answer with how far the newest set has come, and what waits for a signature."""
    sight = parts.visible(request.caller)
    connected = await followers_in_sight(parts, sight)
    last = parts.library.releases.last
    rollout = None if last is None else await show_rollout(parts, last, sight, connected)
    shown = {**await show_push(parts.library, connected), "rollout": rollout}
    return write_json(request, shown if sight is None else shown | {"staged": None})


@routes.post(
    f"{V1}/push", "push", "Validate, sign and publish checks", body=PushChecks, answer=PushedJson, status=201,
    action="push", errors=IN_THE_WAY | {412: "precondition failed"},
)  # fmt: skip
async def push_checks(parts: Parts, request: ApiRequest, body: PushChecks) -> bytes:
    """Publish files; in a dry run they are judged and nothing changes."""
    library, plan = parts.library, body.plan(parts.library.plan)
    request.subject = " ".join(sorted(body.files))
    if request.getHeader(b"if-match") is not None:
        await demand_folder(parts, request)
    verdicts = await library.push(
        body.files, body.tests, request.caller.actor, plan, body.dry_run, body.replace, body.remove
    )
    newest = library.releases.newest
    preview = await library.releases.preview(plan) if body.dry_run else []
    shown = {
        "version": newest.version if newest is not None else None,
        "warnings": [problem.at(name) for name, found in verdicts.items() for problem in found.problems],
        "rings": write_rings(plan.rings),
        "plan": preview,
    }
    return write_json(request, shown, 200 if body.dry_run else 201)


@routes.post(
    f"{V1}/push/signed", "push-signed", "Publish what was signed elsewhere", body=PushSigned, answer=VersionJson,
    status=201, action="push-signed", errors=IN_THE_WAY,
)  # fmt: skip
async def push_signed(parts: Parts, request: ApiRequest, body: PushSigned) -> bytes:
    """Publish the staged set with the signatures that were made elsewhere."""
    envelope, undo, library = body.manifest.encode(), body.undo.encode(), parts.library
    plan = body.plan(library.plan)
    if body.dry_run:
        return write_json(request, {"version": (await library.check_signed(envelope, undo, plan)).version})
    version = await library.accept(envelope, undo, request.caller.actor, plan)
    request.subject = f"version {version}"
    return write_json(request, {"version": version}, 201)


@routes.post(
    f"{V1}/push/agent", "push-agent", "Send an Equus out", body=PushAgent, answer=PushedAgent, status=201,
    action="push-agent", errors=IN_THE_WAY,
)  # fmt: skip
async def push_agent(parts: Parts, request: ApiRequest, body: PushAgent) -> bytes:
    """Offer a newer Equus, which goes out with the set that is published. Raises Problem for other wheels."""
    library, caller = parts.library, request.caller.actor
    plan = body.plan(library.plan)
    try:
        if body.more:
            if not body.dry_run:
                library.uploads.add(caller, body.wheels, parts.sessions.clocks().steady)
            return write_json(request, {"agent": None}, 200 if body.dry_run else 201)
        wheels = library.uploads.peek(caller, body.wheels)
        version = version_of(wheels)
    except NotAnEquus as error:
        library.uploads.forget(caller)
        raise bad_request(str(error)) from error
    request.subject = version
    if not body.dry_run:
        library.uploads.forget(caller)
        await library.offer_agent(version, wheels, caller, plan)
    return write_json(request, {"agent": version}, 200 if body.dry_run else 201)


@routes.post(
    f"{V1}/push/confirm", "push-confirm", "Publish though this Helen was restored from a backup", body=Body,
    answer=ConfirmedJson, status=201, action="push-confirm",
)  # fmt: skip
async def confirm_push(parts: Parts, request: ApiRequest, body: Body) -> bytes:
    """End the wait of a restored Helen: its set is numbered above what connected agents hold, and goes out."""
    library = parts.library
    held = await _newest_held(parts)
    shown = {"restored": library.restored is not None, "held": held}
    if not body.dry_run:
        await library.confirm(held, functools.partial(restored.remove, parts.state))
    return write_json(request, shown, 200 if body.dry_run else 201)


@routes.post(
    f"{V1}/push/undo", "push-undo", "Go back to the set before", body=Body, answer=VersionJson, status=201,
    action="push-undo", errors=IN_THE_WAY,
)  # fmt: skip
async def undo_push(parts: Parts, request: ApiRequest, body: Body) -> bytes:
    """Publish the set before the newest one again."""
    library = parts.library
    if body.dry_run:
        return write_json(request, {"version": library.way_back.document.version})
    version = await library.undo(request.caller.actor)
    request.subject = f"version {version}"
    return write_json(request, {"version": version}, 201)


async def _newest_held(parts: Parts) -> int:
    """Return the newest version that an agent refuses our set for, looked for in short turns; 0: none does."""
    held = [0]

    def take(agents: Sequence[Agent]) -> None:
        held[0] = max(held[0], *(newer_version(agent.troubles) for agent in agents))

    await take_turns(steps_of(parts.sessions.roster.connected(), take))
    return held[0]


async def show_push(library: Library, connected: list[Agent]) -> dict[str, Any]:
    """Return how far the newest set has come, and what is staged (PushJson has the keys, but for `rollout`).

    `connected` are the agents of version 2; they are counted in short turns.
    """
    progress = await progress_of(library, connected)
    shown: dict[str, Any] = {"version": None, "staged": None, "can_sign": bool(library.keys.private)}
    shown |= {"agents": len(connected), "loaded": 0, "kept_old": {}, "agent": None, "upgrade": None}
    if progress is not None:
        newest = progress.published
        shown |= {"version": newest.version, "digest": newest.digest, "loaded": progress.loaded}
        shown |= {"agent": progress.equus, "kept_old": progress.kept_old, "upgrade": progress.upgrade()}
    staged = library.staged
    if staged is not None:
        shown["staged"] = {
            "version": staged.version,
            "manifest": staged.pair.new.decode(),
            "undo": staged.pair.undo.decode(),
            "files": {name: entry.sha256 for name, entry in staged.files.items()},
        }
    return shown
