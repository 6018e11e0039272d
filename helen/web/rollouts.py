"""Routes of rollouts: how far one has come, pause, resume, undo. docs/api.rst lists them; helen/library.py does it."""

from __future__ import annotations

from typing import Any

from klein import Klein

from helen import publications
from helen.releases import PushRefused
from helen.rollout import OPEN, Rollout, show_ring
from helen.web.bodies import read_body, wants_dry_run
from helen.web.problems import Problem, write_json

SHOWN_MEMBERS = 100  # names of a ring's members; all of them are counted


def show_rollout(helen: Any, rollout: Rollout) -> dict[str, Any]:
    """A rollout as the API and `helen push` show it: rings that are over, the open one, those to come."""
    library = helen.library
    rings = [_few_members(each) for each in rollout.past]
    shown: dict[str, Any] = {
        "version": rollout.version, "base": rollout.base, "author": rollout.author, "started": rollout.started,
        "changed": rollout.changed, "state": "paused" if rollout.paused is not None else rollout.state,
        "why": rollout.why, "paused": rollout.paused, "by_itself": rollout.by_itself,
        "files": rollout.touched.text, "checks": sorted(rollout.touched.checks),
        "gates": rollout.plan.limits.to_json(), "waits": library.waits,
    }  # fmt: skip
    done = max((each["number"] for each in rings), default=0)
    if rollout.state == OPEN and rollout.ring is not None:
        done = rollout.ring.number
        rings.append(_few_members(_open_ring(helen, rollout)))
    rings += [
        {"number": number, "ring": spec.text, "state": "to come" if rollout.state == OPEN else "not reached"}
        for number, spec in enumerate(rollout.plan.rings[done:], done + 1)
    ]
    newest = library.releases.newest
    connected = [agent for agent in helen.house.roster.connected() if agent.version == 2]
    have = [agent for agent in connected if newest is not None and agent.digest == newest.digest]
    kept_old = {agent.name: agent.not_active for agent in have if agent.not_active}
    shown |= {"newest": None if newest is None else newest.version, "kept_old": kept_old}
    return shown | {"rings": rings, "agents": len(connected), "loaded": len(have)}


def _open_ring(helen: Any, rollout: Rollout) -> dict[str, Any]:
    ring, steady = rollout.ring, helen.house.clocks().steady
    assert ring is not None
    here = frozenset(helen.house.followers())
    mine = here - ring.before if ring.members is None else ring.members - ring.before
    return show_ring(ring, OPEN) | {
        "size": len(mine), "here": len(mine & here), "place": rollout.place,
        "waits_for": ring.waits_for(here, steady) if rollout.paused is None else "somebody to resume it",
    }  # fmt: skip


def _few_members(ring: dict[str, Any]) -> dict[str, Any]:
    members = ring.get("members")
    return ring if members is None else ring | {"size": len(members), "members": members[:SHOWN_MEMBERS]}


def add_routes(app: Klein) -> None:
    """Put them beside those of helen/web/api.py, whose object is the first argument."""

    @app.route("/api/v1/rollouts", methods=["GET"])
    async def list_rollouts(api: Any, request: Any) -> bytes:
        """The newest first, as far as their versions are kept."""
        rows = await api._helen.store.call(publications.rollouts)
        listed = [
            {"version": row.version, "state": row.state, "author": row.author, "started": row.started,
             "changed": row.changed, "why": row.detail["why"], "rings": row.detail["rings"]}
            for row in reversed(rows)
        ]  # fmt: skip
        return write_json(request, {"rollouts": listed})

    @app.route("/api/v1/rollouts/current", methods=["GET"])
    def current_rollout(api: Any, request: Any) -> bytes:
        """The one under way, or else the last one."""
        return write_json(request, show_rollout(api._helen, _last(api)))

    @app.route("/api/v1/rollouts/pause", methods=["POST"])
    async def pause_rollout(api: Any, request: Any) -> bytes:
        return await _set_paused(api, request, True)

    @app.route("/api/v1/rollouts/resume", methods=["POST"])
    async def resume_rollout(api: Any, request: Any) -> bytes:
        return await _set_paused(api, request, False)

    @app.route("/api/v1/rollouts/undo", methods=["POST"])
    async def undo_rollout(api: Any, request: Any) -> bytes:
        """Of the one under way; what has passed all its rings is undone by `/push/undo`."""
        is_dry, rollout = wants_dry_run(request, await read_body(request)), _under_way(api)
        if not is_dry:
            await api._helen.library.undo(request.caller.actor)
            rollout = _last(api)
        return write_json(request, show_rollout(api._helen, rollout), 200 if is_dry else 201)


def _last(api: Any) -> Rollout:
    rollout: Rollout | None = api._helen.library.releases.last
    if rollout is None:
        raise Problem(404, "no rollout", "nothing has been pushed yet")
    return rollout


def _under_way(api: Any) -> Rollout:
    rollout: Rollout | None = api._helen.library.releases.rollout
    if rollout is None:
        raise PushRefused("no rollout is under way: `helen push --undo` takes back what all agents run")
    return rollout


async def _set_paused(api: Any, request: Any, is_paused: bool) -> bytes:
    is_dry, rollout = wants_dry_run(request, await read_body(request)), _under_way(api)
    if (rollout.paused is not None) == is_paused:
        raise PushRefused(f"version {rollout.version} is {'paused already' if is_paused else 'not paused'}")
    if not is_dry:
        rollout = await api._helen.library.pause(request.caller.actor, is_paused)
    return write_json(request, show_rollout(api._helen, rollout), 200 if is_dry else 201)
