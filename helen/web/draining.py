"""Routes of emptying a Helen. docs/api.rst lists them."""

from __future__ import annotations

from typing import Any

from klein import Klein

from helen.draining import DEFAULT_OVER, MAX_OVER
from helen.web.bodies import read_body, read_seconds, wants_dry_run
from helen.web.problems import Problem, write_json


def show_drain(helen: Any) -> dict[str, Any]:
    """How far it is, and where agents may go."""
    network = helen.network
    others = network.other_helens() if network is not None else []
    return helen.drain.overview() | {"questions": len(helen.house.runs), "others": others}


def add_routes(app: Klein) -> None:
    """To the class of the API, whose instances have `_helen`."""

    @app.route("/api/v1/drain", methods=["GET"])
    def drain_shown(api: Any, request: Any) -> bytes:
        return write_json(request, show_drain(api._helen))

    @app.route("/api/v1/drain", methods=["POST"])
    async def drain(api: Any, request: Any) -> bytes:
        """`over` is how long it may take; with `dry_run` nothing happens; `force`, where no other Helen is known."""
        helen, body = api._helen, await read_body(request)
        over = read_seconds(body, "over", DEFAULT_OVER)
        if not 1 <= over <= MAX_OVER:
            raise Problem(400, "bad request", f"`over` is 1 to {MAX_OVER:g} s")
        shown = show_drain(helen)
        if not shown["others"] and body.get("force") is not True:
            raise Problem(
                409, "nowhere to go", "no other Helen that lives is known here, so agents might report to nobody:"
                " see `network.shared` of `helen status --output json`. With --force those that know another go there",
            )  # fmt: skip
        if wants_dry_run(request, body):
            return write_json(request, shown | {"over": over})
        try:
            await helen.drain.begin(over, request.caller.actor)
        except OSError as error:
            raise Problem(
                503, "the disk doesn't take it", f"drained.json can't be written: {error.strerror}"
            ) from error
        return write_json(request, show_drain(helen) | {"over": over}, 202)

    @app.route("/api/v1/drain/undo", methods=["POST"])
    async def drain_undone(api: Any, request: Any) -> bytes:
        if not wants_dry_run(request, await read_body(request)):
            await api._helen.drain.undo(request.caller.actor)
        return write_json(request, show_drain(api._helen))
