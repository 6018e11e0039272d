"""Routes of acknowledgements: take a problem over, and take that back. docs/api.rst lists them.

A command is checked here against what is there now, written into the journal, and answered when it is durable.
"""

from __future__ import annotations

import time
from typing import Annotated, Any, NotRequired, TypedDict

from helen.parts import Parts
from helen.states.downtimes import MAX_COMMENT
from helen.states.model import PENDING, Key
from helen.web.answers import write_json
from helen.web.bodies import Body
from helen.web.body_fields import Json, OnlyTrue, OptionalText, Reads, Text
from helen.web.json_types import words
from helen.web.problems import Problem, bad_request
from helen.web.request import ApiRequest
from helen.web.route import V1, Routes
from helen.web.routes.states import known_key

routes = Routes()
MAX_OWNER = 200  # characters of an owner's name that are kept


def read_until(body: Json, name: str) -> float | None:
    """Return a time to come in unix seconds, or None where there is none. Raises Problem."""
    until = body.get(name)
    if until is None:
        return None
    if isinstance(until, bool) or not isinstance(until, int | float) or not time.time() < until < 4e9:
        raise bad_request(f"`{name}` is a time in unix seconds that is still to come")
    return float(until)


class AckJson(TypedDict):
    """Describes an acknowledgement as it was set or cleared. `until` is in unix seconds."""

    agent: str
    check_id: str
    action: Annotated[str, words("set", "clear")]
    owner: NotRequired[str]
    until: NotRequired[float | None]
    comment: NotRequired[str]
    sticky: NotRequired[bool]


class Acknowledge(Body, frozen=True, kw_only=True):
    """Takes a problem over. A sticky acknowledgement outlasts changes from one bad status to another."""

    agent: Text
    check: Text
    owner: Text
    comment: OptionalText = None
    until: Annotated[float | None, Reads(read_until)] = None
    sticky: OnlyTrue = False


class ClearAck(Body, frozen=True, kw_only=True):
    """Takes an acknowledgement back."""

    agent: Text
    check: Text
    owner: OptionalText = None


@routes.post(
    f"{V1}/acks", "ack", "Take a problem over", body=Acknowledge, answer=AckJson, action="ack",
    errors={404: "no such check", 409: "nothing to acknowledge"},
)  # fmt: skip
async def acknowledge(parts: Parts, request: ApiRequest, body: Acknowledge) -> bytes:
    """Acknowledge the state of a check. Raises Problem if it is not known to be broken."""
    key = known_key(parts, body.agent, body.check)
    state = parts.evaluator.timeline.states[key]
    if state.shown.status == 0 or state.hard.reason == PENDING:
        raise Problem(409, "nothing to acknowledge", f"{key[0]}/{key[1]} is not known to be broken")
    document = {
        "action": "set", "owner": body.owner[:MAX_OWNER], "until": body.until,
        "comment": (body.comment or "")[:MAX_COMMENT], "sticky": body.sticky,
    }  # fmt: skip
    return await _write(parts, request, body, document, key)


@routes.post(
    f"{V1}/acks/clear", "ack-clear", "Take an acknowledgement back", body=ClearAck, answer=AckJson, action="ack-clear",
    errors={404: "no such check", 409: "not acknowledged"},
)  # fmt: skip
async def clear_ack(parts: Parts, request: ApiRequest, body: ClearAck) -> bytes:
    """Clear an acknowledgement. Raises Problem if there is none."""
    key = known_key(parts, body.agent, body.check)
    if parts.evaluator.timeline.states[key].ack is None:
        raise Problem(409, "not acknowledged", f"nobody has acknowledged {key[0]}/{key[1]}")
    owner = body.owner or "operator"
    return await _write(parts, request, body, {"action": "clear", "owner": owner[:MAX_OWNER]}, key)


async def _write(parts: Parts, request: ApiRequest, body: Body, document: dict[str, Any], key: Key) -> bytes:
    request.subject = "/".join(key)
    if not body.dry_run:
        await parts.commands.write("ack", document, *key)
    return write_json(request, {"agent": key[0], "check_id": key[1], **document})
