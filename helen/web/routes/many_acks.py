"""Routes that acknowledge many checks at once, or take that back: by their names, or by a filter of a board."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, TypedDict

from attrs import frozen

from groundwork.counts import count
from helen.agents.sight import Sight
from helen.parts import Parts
from helen.states.downtimes import MAX_COMMENT
from helen.states.model import PENDING, Key, State
from helen.web.answers import write_json
from helen.web.bodies import Body
from helen.web.body_fields import Json, OnlyTrue, OptionalText, Reads, Text
from helen.web.connections.short_turns import ROWS_A_STEP, take_turns
from helen.web.problems import Problem, bad_request
from helen.web.request import ApiRequest
from helen.web.route import V1, Routes
from helen.web.routes.acks import MAX_OWNER, read_until
from helen.web.routes.rows import selected
from helen.web.rows.selection import Wanted
from helen.web.web_parts import WebParts

routes = Routes()
MOST_KEYS = 10_000  # of one request
MOST_REFUSED = 1_000  # that an answer names


def read_keys(body: Json, name: str) -> tuple[Key, ...] | None:
    """Return checks, each as [AGENT, CHECK], or None where there are none. Raises Problem."""
    given = body.get(name)
    if given is None:
        return None
    if not isinstance(given, list) or not 0 < len(given) <= MOST_KEYS:
        raise bad_request(f"`{name}` is a list of 1 to {MOST_KEYS:,} checks, each as [AGENT, CHECK]")
    for each in given:
        if not isinstance(each, list) or len(each) != 2 or not all(isinstance(part, str) and part for part in each):
            raise bad_request(f"`{name}`: each is [AGENT, CHECK]")
    return tuple(dict.fromkeys((agent, check) for agent, check in given))


def read_expected(body: Json, name: str) -> int | None:
    """Return the number of checks that the caller has seen fit, or None where it is missing. Raises Problem."""
    given = body.get(name)
    if given is not None and (isinstance(given, bool) or not isinstance(given, int) or given < 0):
        raise bad_request(f"`{name}` is a number of checks")
    return given


Keys = Annotated[tuple[Key, ...] | None, Reads(read_keys, {"type": "array", "maxItems": MOST_KEYS})]


class ManyChecks(Body, frozen=True, kw_only=True):
    """Names checks: by `keys`, or by the `filter` of a board of which `expected` is the number of rows seen."""

    keys: Keys = None
    filter: OptionalText = None
    expected: Annotated[int | None, Reads(read_expected)] = None


class AcknowledgeMany(ManyChecks, frozen=True, kw_only=True):
    """Takes problems over. A sticky acknowledgement outlasts changes from one bad status to another."""

    owner: Text
    comment: OptionalText = None
    until: Annotated[float | None, Reads(read_until)] = None
    sticky: OnlyTrue = False


class ClearManyAcks(ManyChecks, frozen=True, kw_only=True):
    """Takes acknowledgements back."""

    owner: OptionalText = None


class RefusedCheck(TypedDict):
    """Names a check that was left out, and says why."""

    agent: str
    check: str
    why: str


class ManyJson(TypedDict):
    """Counts the checks that were done, and names those that were left out, 1,000 at most."""

    set: int
    refused: list[RefusedCheck]


@frozen
class Sorted:
    """Holds checks that can be done, and those that can't, with the reason."""

    good: tuple[Key, ...]
    refused: tuple[tuple[Key, str], ...]


@routes.post(
    f"{V1}/acks/many", "ack", "Take many problems over", body=AcknowledgeMany, answer=ManyJson, action="ack-many",
    errors={412: "other checks fit by now"},
)  # fmt: skip
async def acknowledge_many(parts: WebParts, request: ApiRequest, body: AcknowledgeMany) -> bytes:
    """Acknowledge each check that is known to be broken; the others are named with the reason."""
    document = {
        "action": "set", "owner": body.owner[:MAX_OWNER], "until": body.until,
        "comment": (body.comment or "")[:MAX_COMMENT], "sticky": body.sticky,
    }  # fmt: skip
    return await _write(parts, request, body, document, _why_no_ack)


@routes.post(
    f"{V1}/acks/clear/many", "ack-clear", "Take many acknowledgements back", body=ClearManyAcks, answer=ManyJson,
    action="ack-clear-many", errors={412: "other checks fit by now"},
)  # fmt: skip
async def clear_many_acks(parts: WebParts, request: ApiRequest, body: ClearManyAcks) -> bytes:
    """Clear each acknowledgement that there is; the other checks are named with the reason."""
    document = {"action": "clear", "owner": (body.owner or "operator")[:MAX_OWNER]}
    return await _write(parts, request, body, document, _why_no_clearing)


async def _write(
    parts: WebParts, request: ApiRequest, body: ManyChecks, document: dict[str, Any],
    why_not: Callable[[State], str | None],
) -> bytes:  # fmt: skip
    sight = parts.visible(request.caller)
    found = await _sort(parts, await _keys_of(parts, body, sight), why_not, sight)
    request.subject = f"{count(len(found.good), 'check')}: {' '.join('/'.join(key) for key in found.good[:5])}"
    if not body.dry_run:
        await parts.commands.write_many("ack", ((key, document) for key in found.good))
    refused = [{"agent": key[0], "check": key[1], "why": why} for key, why in found.refused[:MOST_REFUSED]]
    return write_json(request, {"set": len(found.good), "refused": refused})


async def _keys_of(parts: WebParts, body: ManyChecks, sight: Sight | None) -> Sequence[Key]:
    """Return the checks that a body names. Raises Problem 412 if the filter fits another number by now."""
    if (body.keys is None) == (body.filter is None):
        raise bad_request("either `keys` or `filter` says which checks are meant")
    if body.keys is not None:
        return body.keys
    if body.expected is None:
        raise bad_request("`filter` needs `expected`: how many checks fitted when you looked")
    rows = (await selected(parts, Wanted(body.filter or "", all=True, sight=sight), time.time())).rows
    if len(rows) != body.expected:
        said = f"{count(len(rows), 'check fits', 'checks fit')} {body.filter!r} by now, not {body.expected}: look again"
        raise Problem(412, "precondition failed", said)
    if len(rows) > MOST_KEYS:
        raise bad_request(f"{len(rows)} checks fit; one request takes {MOST_KEYS:,}")
    return [row.key for row in rows]


async def _sort(
    parts: Parts, keys: Sequence[Key], why_not: Callable[[State], str | None], sight: Sight | None
) -> Sorted:  # fmt: skip
    good, refused = list[Key](), list[tuple[Key, str]]()

    def steps() -> Iterator[None]:
        for first in range(0, len(keys), ROWS_A_STEP):
            states = parts.evaluator.timeline.states
            for key in keys[first : first + ROWS_A_STEP]:
                state = states.get(key) if sight is None or sight(key[0]) else None
                why = "nothing is known of it" if state is None else why_not(state)
                if why is None:
                    good.append(key)
                else:
                    refused.append((key, why))
            yield

    await take_turns(steps())
    return Sorted(tuple(good), tuple(refused))


def _why_no_ack(state: State) -> str | None:
    return "it is not known to be broken" if state.shown.status == 0 or state.hard.reason == PENDING else None


def _why_no_clearing(state: State) -> str | None:
    return "it is not acknowledged" if state.ack is None else None
