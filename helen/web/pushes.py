"""Routes of pushes and of the keys that sign them. docs/api.rst lists them."""

from __future__ import annotations

from typing import Any

from klein import Klein

from helen.rings import write_rings
from helen.web import shown
from helen.web.bodies import (
    read_base64,
    read_body,
    read_files,
    read_flag,
    read_optional_text,
    read_plan,
    read_strings,
    read_text,
    wants_dry_run,
)
from helen.web.files import demand_folder
from helen.web.problems import Problem, write_json
from helen.web.rollouts import show_rollout
from helen.wheels import NotAnEquus, version_of


def add_routes(app: Klein) -> None:
    """To the class of the API, whose instances have `_helen`."""

    @app.route("/api/v1/push", methods=["GET"])
    def pushed(api: Any, request: Any) -> bytes:
        """How far the newest set has come, and what waits for a signature."""
        connected = [agent for agent in api._helen.house.roster.connected() if agent.version == 2]
        answer = shown.show_push(api._helen.library, connected)
        last = api._helen.library.releases.last
        answer["rollout"] = None if last is None else show_rollout(api._helen, last)
        return write_json(request, answer)

    @app.route("/api/v1/push", methods=["POST"])
    async def push(api: Any, request: Any) -> bytes:
        """Files by name; in a dry run they are judged and nothing changes."""
        body = await read_body(request)
        files, tests, library = read_files(body, "files"), read_files(body, "tests"), api._helen.library
        plan, replace, dry_run = read_plan(body, library.plan), read_flag(body, "replace"), wants_dry_run(request, body)
        request.subject = " ".join(sorted(files))
        gone = read_strings(body, "remove") if body.get("remove") else []
        if request.getHeader(b"if-match") is not None:
            await demand_folder(api, request)
        verdicts = await library.push(files, tests, request.caller.actor, plan, dry_run, replace, gone)
        warnings = [problem.at(name) for name, found in verdicts.items() for problem in found.problems]
        newest = library.releases.newest
        made = {"version": newest.version if newest is not None else None, "warnings": warnings}
        preview = await library.releases.preview(plan) if dry_run else []
        made |= {"rings": write_rings(plan.rings), "plan": preview}
        return write_json(request, made, 200 if dry_run else 201)

    @app.route("/api/v1/push/signed", methods=["POST"])
    async def push_signed(api: Any, request: Any) -> bytes:
        body = await read_body(request)
        envelope, undo = read_text(body, "manifest").encode(), read_text(body, "undo").encode()
        library = api._helen.library
        plan = read_plan(body, library.plan)
        if wants_dry_run(request, body):
            return write_json(request, {"version": library.check_signed(envelope, undo, plan).version})
        version = await library.accept(envelope, undo, request.caller.actor, plan)
        request.subject = f"version {version}"
        return write_json(request, {"version": version}, 201)

    @app.route("/api/v1/push/agent", methods=["POST"])
    async def push_agent(api: Any, request: Any) -> bytes:
        """`wheels`: base64 by file name. They go out with the set that is published."""
        body = await read_body(request)
        wheels, plan = read_base64(body, "wheels"), read_plan(body, api._helen.library.plan)
        try:
            version = version_of(wheels)
        except NotAnEquus as error:
            raise Problem(400, "bad request", str(error)) from error
        request.subject = version
        if wants_dry_run(request, body):
            return write_json(request, {"agent": version})
        await api._helen.library.offer_agent(version, wheels, request.caller.actor, plan)
        return write_json(request, {"agent": version}, 201)

    @app.route("/api/v1/push/undo", methods=["POST"])
    async def push_undo(api: Any, request: Any) -> bytes:
        body, library = await read_body(request), api._helen.library
        if wants_dry_run(request, body):
            return write_json(request, {"version": library.releases.way_back().version})
        version = await library.undo(request.caller.actor)
        request.subject = f"version {version}"
        return write_json(request, {"version": version}, 201)

    @app.route("/api/v1/keys", methods=["GET"])
    def keys(api: Any, request: Any) -> bytes:
        """Who signs check sets."""
        return write_json(request, shown.show_keys(api._helen.keys, api._helen.library))

    @app.route("/api/v1/keys", methods=["POST"])
    async def rotate_keys(api: Any, request: Any) -> bytes:
        """`root`: a new root with its signatures; without one Helen makes herself a new key."""
        body = await read_body(request)
        root, dry_run = read_optional_text(body, "root"), wants_dry_run(request, body)
        await api._helen.rotate_keys(None if root is None else root.encode(), dry_run)
        return write_json(request, shown.show_keys(api._helen.keys, api._helen.library), 200 if dry_run else 201)
