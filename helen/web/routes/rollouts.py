"""Routes of rollouts: how far one has come, pause, resume, undo. docs/api.rst lists them; helen/library does it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict

from helen.agents.roster import Agent
from helen.agents.sight import Sight
from helen.library.published import PushRefused
from helen.parts import Parts
from helen.rollout.ring import show_ring
from helen.rollout.rollout import OPEN, Rollout
from helen.storage import publication_rows
from helen.web.answers import write_json
from helen.web.bodies import Body
from helen.web.body_fields import Text
from helen.web.json_types import Object
from helen.web.problems import Problem
from helen.web.request import ApiRequest
from helen.web.route import V1, Routes
from helen.web.sight.agents_in_turns import agents_in_sight, names_in_sight
from helen.web.sight.set_progress import progress_of

routes = Routes()
Names = Callable[[str], bool] | None  # the test of names that are seen; None: all are
SAID_RINGS = "what is said of rings is for callers without a limit"
OF_RING = ("number", "state", "opened", "members", "size", "here", "confirmed")  # for callers with a limit
OF_NO_AGENT = ("version", "base", "newest", "author", "started", "changed", "state", "by_itself", "files", "checks",
               "agents", "loaded")  # fmt: skip  # of a rollout, for callers with a limit
SHOWN_MEMBERS = 100  # names of a ring's members; all of them are counted
NOT_UNDER_WAY = {409: "push refused: no rollout is under way, or it is so already"}


class RolloutRow(TypedDict):
    """Describes a rollout in the list. Times are unix seconds."""

    version: int
    state: str
    author: str
    started: float
    changed: float
    why: str | None
    rings: Any


class RolloutsJson(TypedDict):
    """Lists the rollouts of the versions that are kept, the newest first."""

    rollouts: list[RolloutRow]


class RolloutJson(TypedDict):
    """Says how far a rollout has come: rings that are over, the open one, and rings to come. Times are unix seconds.

    `set_aside`: agents on whose word two versions were taken back, with these versions.
    """

    version: int
    base: int | None
    newest: int | None
    author: str
    started: float
    changed: float
    state: str
    why: str | None
    paused: Object | None
    by_itself: bool
    files: str
    checks: list[str]
    gates: Object
    waits: str | None
    kept_old: dict[str, Object]
    rings: list[Object]
    agents: int
    loaded: int
    set_aside: dict[str, list[int]]


class Readmitted(TypedDict):
    """Names an agent that is listened to again in rollouts."""

    agent: str


class Readmit(Body, frozen=True, kw_only=True):
    """Names an agent that was set aside."""

    agent: Text


@routes.get(f"{V1}/rollouts", "read", "The rollouts of the last versions", answer=RolloutsJson)
async def list_rollouts(parts: Parts, request: ApiRequest) -> bytes:
    """Answer with rollouts, the newest first, as far as their versions are kept."""
    listed, sight = await listed_rollouts(parts), parts.visible(request.caller)
    return write_json(request, {"rollouts": [seen_rollout({**each}, sight) for each in listed]})


async def listed_rollouts(parts: Parts) -> list[RolloutRow]:
    """Return the rollouts of the versions that are kept, the newest first."""
    rows = await parts.store.call(publication_rows.rollouts)
    return [
        {"version": row.version, "state": row.state, "author": row.author, "started": row.started,
         "changed": row.changed, "why": row.detail["why"], "rings": row.detail["rings"]}
        for row in reversed(rows)
    ]  # fmt: skip


@routes.get(
    f"{V1}/rollouts/current", "read", "How far the newest one has come", answer=RolloutJson,
    errors={404: "no rollout"},
)  # fmt: skip
async def get_current_rollout(parts: Parts, request: ApiRequest) -> bytes:
    """Answer with the rollout under way, or else the last one."""
    shown = await show_rollout(parts, _last(parts), parts.visible(request.caller))
    return write_json(request, shown)


@routes.get(
    f"{V1}/rollouts/<int:version>", "read", "One of the last versions", answer=RolloutJson,
    errors={404: "no such rollout"},
)  # fmt: skip
async def get_rollout(parts: Parts, request: ApiRequest, version: int) -> bytes:
    """Answer with the rollout of a version, as far as it is kept."""
    shown = await show_rollout(parts, await kept_rollout(parts, version), parts.visible(request.caller))
    return write_json(request, shown)


async def kept_rollout(parts: Parts, version: int) -> Rollout:
    """Return the rollout of a version. Raises Problem 404 if there was none, or its version is not kept any more."""
    last = parts.library.releases.last
    if last is not None and last.version == version:
        return last
    row = next((row for row in await parts.store.call(publication_rows.rollouts) if row.version == version), None)
    if row is None:
        said = f"version {version} was not rolled out, or is not kept any more: /rollouts lists those that are"
        raise Problem(404, "no such rollout", said)
    steady = parts.sessions.clocks().steady
    return Rollout.from_json(row.version, row.state, row.author, row.started, row.changed, row.detail, steady)


@routes.post(
    f"{V1}/rollouts/pause", "rollout-pause", "Stay in the open ring", body=Body, answer=RolloutJson, status=201,
    errors=NOT_UNDER_WAY,
)  # fmt: skip
async def pause_rollout(parts: Parts, request: ApiRequest, body: Body) -> bytes:
    """Keep the rollout in its open ring until it is resumed."""
    return await _set_paused(parts, request, body, True)


@routes.post(
    f"{V1}/rollouts/resume", "rollout-resume", "Go on", body=Body, answer=RolloutJson, status=201, errors=NOT_UNDER_WAY
)
async def resume_rollout(parts: Parts, request: ApiRequest, body: Body) -> bytes:
    """Let a paused rollout go on."""
    return await _set_paused(parts, request, body, False)


@routes.post(
    f"{V1}/rollouts/undo", "rollout-undo", "Take the rollout back", body=Body, answer=RolloutJson, status=201,
    errors=NOT_UNDER_WAY,
)  # fmt: skip
async def undo_rollout(parts: Parts, request: ApiRequest, body: Body) -> bytes:
    """Take back the rollout under way; one that has passed all its rings is undone by `/push/undo`."""
    rollout = _under_way(parts)
    if not body.dry_run:
        await parts.library.undo(request.caller.actor)
        rollout = _last(parts)
    return write_json(request, await show_rollout(parts, rollout), 200 if body.dry_run else 201)


@routes.post(
    f"{V1}/rollouts/readmit", "push", "Listen again to an agent in rollouts", body=Readmit, answer=Readmitted,
    errors={409: "push refused: it was not set aside"},
)  # fmt: skip
async def readmit_agent(parts: Parts, request: ApiRequest, body: Readmit) -> bytes:
    """Have an agent that was set aside tried and listened to as all others."""
    if body.dry_run:
        parts.library.releases.aside.demand(body.agent)
    else:
        await parts.library.readmit(body.agent, request.caller.actor)
    shown: Readmitted = {"agent": body.agent}
    return write_json(request, shown)


def seen_rollout(shown: dict[str, Any], sight: Sight | None) -> dict[str, Any]:
    """Return a shown rollout for a caller: one with a limit gets no sentences, and of rings its own agents alone.

    Sentences about a ring may name any agent of the fleet, and so does the text of a ring.
    """
    if sight is None:
        return shown
    few: dict[str, Any] = {name: shown[name] for name in OF_NO_AGENT if name in shown}
    few |= {"why": None if shown["why"] is None else SAID_RINGS}
    if "gates" in shown:
        few |= {"paused": shown["paused"], "gates": shown["gates"], "waits": None}
    for name in ("kept_old", "set_aside"):
        few |= {name: {agent: said for agent, said in shown[name].items() if sight(agent)}} if name in shown else {}
    rings = shown["rings"]  # of the list: a text
    return few | {"rings": [_seen_ring(ring) for ring in rings] if isinstance(rings, list) else ""}


def _seen_ring(ring: dict[str, Any]) -> dict[str, Any]:
    """Return a ring, counted in sight already, with its members there, and without sentences, figures and refusals."""
    few = {name: ring[name] for name in OF_RING if name in ring}
    few |= {name: SAID_RINGS for name in ("why", "waits_for") if ring.get(name)}
    few |= {name: "a ring" for name in ("ring", "place") if name in ring}
    return few | {"why": few.get("why", ""), "figures": [], "refused": {}}


async def show_rollout(
    parts: Parts, rollout: Rollout, sight: Sight | None = None, connected: list[Agent] | None = None
) -> dict[str, Any]:
    """Return a rollout as the API and `helen push` show it, counted in sight (RolloutJson has the keys).

    `connected` are its followers in sight, if they were looked for already. All else is read behind the last turn, so
    that it is of one moment.
    """
    is_seen = await names_in_sight(parts.sessions.roster.agents, sight)
    if connected is None:
        connected = await followers_in_sight(parts, sight)
    progress = await progress_of(parts.library, connected)
    newest = parts.library.releases.newest
    shown = {
        "version": rollout.version,
        "base": rollout.base,
        "author": rollout.author,
        "started": rollout.started,
        "changed": rollout.changed,
        "state": "paused" if rollout.paused is not None else rollout.state,
        "why": rollout.why,
        "paused": rollout.paused,
        "by_itself": rollout.by_itself,
        "files": rollout.touched.text,
        "checks": sorted(rollout.touched.checks),
        "gates": rollout.plan.limits.to_json(),
        "waits": parts.library.waits,
        "newest": None if newest is None else newest.version,
        "kept_old": {} if progress is None else progress.kept_old,
        "rings": _show_rings(parts, rollout, is_seen),
        "agents": len(connected),
        "loaded": 0 if progress is None else progress.loaded,
        "set_aside": parts.library.releases.aside.shown(),
    }
    return seen_rollout(shown, sight)


async def followers_in_sight(parts: Parts, sight: Sight | None) -> list[Agent]:
    """Return the connected agents that are seen and follow the published set, looked at in short turns."""
    agents = parts.sessions.roster.agents.values()
    return await agents_in_sight(agents, sight, lambda agent: agent.link is not None and agent.version == 2)


def _show_rings(parts: Parts, rollout: Rollout, sight: Names) -> list[dict[str, Any]]:
    rings = [_few_members(each, sight) for each in rollout.past]
    done = max((each["number"] for each in rings), default=0)
    if rollout.state == OPEN and rollout.ring is not None:
        done = rollout.ring.number
        rings.append(_few_members(_open_ring(parts, rollout, sight), sight))
    return rings + [
        {"number": number, "ring": spec.text, "state": "to come" if rollout.state == OPEN else "not reached"}
        for number, spec in enumerate(rollout.plan.rings[done:], done + 1)
    ]


def _open_ring(parts: Parts, rollout: Rollout, sight: Names) -> dict[str, Any]:
    ring, steady = rollout.ring, parts.sessions.clocks().steady
    assert ring is not None
    here = frozenset(parts.sessions.followers())
    mine = here - ring.before if ring.members is None else ring.members - ring.before
    confirmed = [name for name in ring.confirmed if sight is None or sight(name)]
    mine = mine if sight is None else frozenset(filter(sight, mine))
    return show_ring(ring, OPEN) | {
        "size": len(mine), "here": len(mine & here), "confirmed": len(confirmed), "place": rollout.place,
        "waits_for": ring.waits_for(here, steady) if rollout.paused is None else "somebody to resume it",
    }  # fmt: skip


def _few_members(ring: dict[str, Any], sight: Names) -> dict[str, Any]:
    members = ring.get("members")
    if sight is not None and members is not None:
        members = [name for name in members if sight(name)]
        ring = ring | {"confirmed": min(ring.get("confirmed", 0), len(members))} if ring.get("state") != OPEN else ring
    return ring if members is None else ring | {"size": len(members), "members": members[:SHOWN_MEMBERS]}


def _last(parts: Parts) -> Rollout:
    rollout = parts.library.releases.last
    if rollout is None:
        raise Problem(404, "no rollout", "nothing has been pushed yet")
    return rollout


def _under_way(parts: Parts) -> Rollout:
    rollout = parts.library.releases.rollout
    if rollout is None:
        raise PushRefused("no rollout is under way: `helen push --undo` takes back what all agents run")
    return rollout


async def _set_paused(parts: Parts, request: ApiRequest, body: Body, is_paused: bool) -> bytes:
    rollout = _under_way(parts)
    if (rollout.paused is not None) == is_paused:
        raise PushRefused(f"version {rollout.version} is {'paused already' if is_paused else 'not paused'}")
    if not body.dry_run:
        rollout = await parts.library.pause(request.caller.actor, is_paused)
    return write_json(request, await show_rollout(parts, rollout), 200 if body.dry_run else 201)
