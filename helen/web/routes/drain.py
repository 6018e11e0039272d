"""Routes of draining a Helen: its agents go to others before it is taken away. docs/api.rst lists them."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from helen.parts import Parts
from helen.sessions.drain import DEFAULT_OVER, MAX_OVER
from helen.web.answers import write_json
from helen.web.bodies import Body
from helen.web.body_fields import Duration, OnlyTrue
from helen.web.problems import Problem, bad_request
from helen.web.request import ApiRequest
from helen.web.route import V1, Routes
from helen.web.sight.agents_in_turns import agents_in_sight, is_connected

routes = Routes()


class DrainJson(TypedDict):
    """Says how far agents have gone, and where they may go. `since` is in unix seconds, `over` in seconds."""

    phase: str
    since: float | None
    by: str | None
    agents: int
    questions: int
    others: list[str]
    over: NotRequired[float]


class BeginDrain(Body, frozen=True, kw_only=True):
    """Lets agents go within `over` seconds; `force`, even if no other Helen is known."""

    over: Duration = DEFAULT_OVER
    force: OnlyTrue = False


@routes.get(f"{V1}/drain", "read", "Whether this Helen takes agents", answer=DrainJson)
async def get_drain(parts: Parts, request: ApiRequest) -> bytes:
    """Answer with how far agents have gone."""
    sight = parts.visible(request.caller)
    if sight is None:
        return write_json(request, show_drain(parts))
    connected = await agents_in_sight(parts.sessions.roster.agents.values(), sight, is_connected)
    return write_json(request, show_drain(parts) | {"agents": len(connected), "questions": 0, "by": None})


@routes.post(
    f"{V1}/drain", "drain", "Let this Helen's agents go to others", body=BeginDrain, answer=DrainJson, status=202,
    action="drain", errors={409: "nowhere to go"},
)  # fmt: skip
async def begin_drain(parts: Parts, request: ApiRequest, body: BeginDrain) -> bytes:
    """Begin to let agents go. Raises Problem if there is no other Helen for them."""
    if not 1 <= body.over <= MAX_OVER:
        raise bad_request(f"`over` is 1 to {MAX_OVER:g} s")
    shown = show_drain(parts)
    if not shown["others"] and not body.force:
        raise Problem(
            409, "nowhere to go", "no other Helen that lives is known here, so agents might report to nobody:"
            " see `network.shared` of `helen status --output json`. `helen drain --force` lets those go that know one",
        )  # fmt: skip
    if body.dry_run:
        return write_json(request, shown | {"over": body.over})
    try:
        await parts.drain.begin(body.over, request.caller.actor)
    except OSError as error:
        raise Problem(503, "the disk doesn't take it", f"drained.json can't be written: {error.strerror}") from error
    return write_json(request, show_drain(parts) | {"over": body.over}, 202)


@routes.post(f"{V1}/drain/undo", "drain-undo", "Take agents again", body=Body, answer=DrainJson, action="drain-undo")
async def undo_drain(parts: Parts, request: ApiRequest, body: Body) -> bytes:
    """Take agents again."""
    if not body.dry_run:
        await parts.drain.undo(request.caller.actor)
    return write_json(request, show_drain(parts))


def show_drain(parts: Parts) -> dict[str, Any]:
    """Return how far agents have gone, and where they may go (DrainJson has the keys)."""
    others = parts.network.other_helens() if parts.network is not None else []
    return parts.drain.overview() | {"questions": len(parts.sessions.queries), "others": others}
