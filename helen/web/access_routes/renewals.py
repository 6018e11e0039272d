"""Routes of certificates that end: which agents need help, the grace, and tokens for many. docs/api.rst lists them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Annotated, TypedDict

from attrs import frozen

from helen.agents.roster import Agent
from helen.identity.join_tokens import USUAL_SECONDS
from helen.identity.renewals import Renewal, checked_grace
from helen.parts import Parts
from helen.storage.token_rows import Terms
from helen.web.answers import write_json
from helen.web.bodies import Body
from helen.web.body_fields import Duration, Flag, Patterns
from helen.web.connections.short_turns import take_turns
from helen.web.json_types import words
from helen.web.problems import Problem, bad_request
from helen.web.query import patterns_in, texts
from helen.web.request import ApiRequest
from helen.web.route import ON, V1, Query, Routes
from helen.web.sight.agents_in_turns import agents_in_sight, meant_by, steps_of

routes = Routes()
SOON = 86_400.0  # seconds before its end: an agent that is well has renewed its certificate a day earlier
MOST_TOKENS = 10_000  # of one answer


class RenewalJson(TypedDict):
    """Says how long an agent's certificate is good. Times are unix seconds; null: there is none.

    `state`: `good`; `grace`, it has expired and is renewed when the agent comes; `over`, the agent needs a token.
    """

    agent: str
    connected: bool
    last_seen: float | None
    ends: float | None
    renewed_until: float | None
    state: Annotated[str, words("good", "grace", "over")]


class RenewalsJson(TypedDict):
    """Holds the grace in seconds, 0 for none, and the agents whose certificate has expired or ends soon."""

    grace: float
    agents: list[RenewalJson]


class GraceJson(TypedDict):
    """Holds the seconds for which an expired certificate is renewed, 0 for none."""

    grace: float


class AgentToken(TypedDict):
    """Holds a token that is good for one agent; null in a dry run."""

    agent: str
    token: str | None


class AgentTokens(TypedDict):
    """Holds tokens with which agents enrol again at `address`, within `ttl` seconds. They are shown this once."""

    tokens: list[AgentToken]
    address: str
    ttl: float


class SetGrace(Body, frozen=True, kw_only=True):
    """Sets for how long after its end a certificate is renewed."""

    grace: Duration


class MakeAgentTokens(Body, frozen=True, kw_only=True):
    """Asks for a token for each of these agents that needs help, or with `all` for each of them."""

    on: Patterns
    ttl: Duration = USUAL_SECONDS
    all: Flag = False


@frozen
class _Row:
    """Holds an agent, and for how long its certificate is valid."""

    agent: Agent
    renewal: Renewal


@routes.get(
    f"{V1}/renewals", "read", "Certificates that have expired or end soon", answer=RenewalsJson,
    query=(ON, Query("all", bool, "all agents, and not only those whose certificate ends within a day")),
)  # fmt: skip
async def get_renewals(parts: Parts, request: ApiRequest) -> bytes:
    """Answer with the grace, and with the agents whose certificate has expired or ends soon."""
    now = time.time()
    everyone = texts(request, "all")[-1:] in (["1"], ["true"])
    rows = await _rows(parts, request, patterns_in(request) or ["*"], now, everyone)
    shown: RenewalsJson = {"grace": parts.authority.grace, "agents": [_show(row, now) for row in rows]}
    return write_json(request, shown)


@routes.post(f"{V1}/renewals", "renewals", "How long expired certificates are renewed", body=SetGrace, answer=GraceJson)
async def set_grace(parts: Parts, request: ApiRequest, body: SetGrace) -> bytes:
    """Set the grace."""
    checked_grace(body.grace)
    if not body.dry_run:
        await parts.authority.set_grace(body.grace, time.time(), request.caller.actor)
    shown: GraceJson = {"grace": body.grace}
    return write_json(request, shown)


@routes.post(
    f"{V1}/renewals/tokens", "agent-tokens", "Tokens with which many agents enrol again", body=MakeAgentTokens,
    answer=AgentTokens, status=201, secret=True, errors={404: "no such agent"},
)  # fmt: skip
async def make_agent_tokens(parts: Parts, request: ApiRequest, body: MakeAgentTokens) -> bytes:
    """Make one token for each agent that fits and needs help. Raises Problem if none fits, or too many do."""
    now = time.time()
    names = [row.agent.name for row in await _rows(parts, request, body.on, now, body.all)]
    if not names and not await _rows(parts, request, body.on, now, True):
        raise Problem(404, "no such agent", f"no agent that is not revoked fits {', '.join(body.on)}")
    if len(names) > MOST_TOKENS:
        raise bad_request(f"{len(names)} agents fit, and {MOST_TOKENS} tokens are made at once: give narrower patterns")
    tokens = parts.authority.tokens
    tokens.checked(Terms(), body.ttl)
    made = {} if body.dry_run else await tokens.make_for_each(names, now, body.ttl, request.caller.actor)
    shown: AgentTokens = {
        "tokens": [{"agent": name, "token": made.get(name)} for name in names],
        "address": parts.live.address,
        "ttl": body.ttl,
    }
    return write_json(request, shown, 200 if body.dry_run else 201)


async def _rows(
    parts: Parts, request: ApiRequest, patterns: list[str], now: float, everyone: bool
) -> list[_Row]:  # fmt: skip
    """Return agents by name, those that the caller sees.

    A connection without a certificate is one without TLS, which needs none.
    """
    agents, found = parts.sessions.roster.agents.values(), list[_Row]()

    def take(some: Iterable[Agent]) -> None:
        rows = [_Row(agent, parts.authority.renewal(agent.name)) for agent in some]
        found.extend(
            row for row in rows
            if not (row.renewal.ends is None and row.agent.link is not None)
            and (everyone or row.renewal.ends is None or row.renewal.ends <= now + SOON)
        )  # fmt: skip

    askable = await agents_in_sight(agents, parts.visible(request.caller), meant_by(patterns, askable=True))
    await take_turns(steps_of(askable, take))
    return sorted(found, key=lambda row: row.agent.name)


def _show(row: _Row, now: float) -> RenewalJson:
    agent, renewal = row.agent, row.renewal
    return {
        "agent": agent.name, "connected": agent.link is not None, "last_seen": agent.last_seen, "ends": renewal.ends,
        "renewed_until": renewal.renewed_until, "state": renewal.state(now),
    }  # fmt: skip
