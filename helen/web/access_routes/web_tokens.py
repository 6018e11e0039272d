"""Routes of the tokens of this API. docs/api.rst lists them."""

from __future__ import annotations

import time
from typing import NotRequired, TypedDict

from helen.storage.web_token_rows import WebToken
from helen.web.access_routes.browsers import show_limit
from helen.web.answers import write_json
from helen.web.bodies import Body
from helen.web.body_fields import OptionalDuration, OptionalPatterns, Scopes, Text
from helen.web.cursors import read_page
from helen.web.json_types import Scope
from helen.web.request import ApiRequest
from helen.web.route import V1, Routes
from helen.web.sight.limits import checked_limit, is_within
from helen.web.tokens import is_over, no_token
from helen.web.web_parts import WebParts

routes = Routes()


class WebTokenJson(TypedDict):
    """Describes a token of the API; `token` is its secret, shown when it is made alone. Times are unix seconds.

    `on` has the patterns of agents that it is limited to, null for none.
    """

    name: str
    scopes: list[Scope]
    created: float
    created_by: str
    expires: float | None
    used_at: float | None
    expired: bool
    on: list[str] | None
    token: NotRequired[str | None]


class WebTokensJson(TypedDict):
    """Lists tokens, a page of them, by name."""

    tokens: list[WebTokenJson]
    next: str | None


class MakeWebToken(Body, frozen=True, kw_only=True):
    """Asks for a token with these scopes, which `expires` after a duration or never.

    `on` limits it to agents: patterns of names, or KEY=PATTERN; a caller with a limit gives some of its own.
    """

    name: Text
    scopes: Scopes
    expires: OptionalDuration = None
    on: OptionalPatterns = None


@routes.get(f"{V1}/web-tokens", "web-tokens", "Tokens of this API", answer=WebTokensJson, paged=True)
def list_web_tokens(parts: WebParts, request: ApiRequest) -> bytes:
    """Answer with all tokens, without their secrets; of a limited caller with those that are no wider."""
    within = [each for each in parts.tokens.listed() if is_within(each.on, request.caller)]
    now, page = time.time(), read_page(request, "web-tokens", (str,))
    rows, following = page.cut(within, lambda token: (token.name,))
    return write_json(request, {"tokens": [show_token(each, now) for each in rows], "next": following})


@routes.post(
    f"{V1}/web-tokens", "web-token", "Make a token of this API", body=MakeWebToken, answer=WebTokenJson, status=201,
    secret=True, errors={409: "refused: the name is taken, or there are too many"},
)  # fmt: skip
async def make_web_token(parts: WebParts, request: ApiRequest, body: MakeWebToken) -> bytes:
    """Make a token, and answer with its secret."""
    now = time.time()
    on = checked_limit(request.caller, body.on or ())
    checked = parts.tokens.checked(body.name, body.scopes, body.expires, request.caller.actor, now, on)
    secret = None if body.dry_run else await parts.tokens.add(checked)
    shown: WebTokenJson = {**show_token(checked, now), "token": secret}
    return write_json(request, shown, 200 if body.dry_run else 201)


@routes.post(
    f"{V1}/web-tokens/<name>/revoke", "web-token-revoke", "A token opens nothing any more", body=Body,
    answer=WebTokenJson, errors={404: "no such token"},
)  # fmt: skip
async def revoke_web_token(parts: WebParts, request: ApiRequest, body: Body, name: str) -> bytes:
    """Revoke a token, and answer with what it was."""
    now = time.time()
    token = parts.tokens.get(name)
    if not is_within(token.on, request.caller):
        raise no_token(name)
    if not body.dry_run:
        await parts.tokens.revoke(name, now, request.caller.actor)
    return write_json(request, show_token(token, now))


def show_token(token: WebToken, now: float) -> WebTokenJson:
    """Return a token without its secret. `now` is in unix seconds."""
    return {
        "name": token.name, "scopes": list(token.scopes), "created": token.created, "created_by": token.created_by,
        "expires": token.expires, "used_at": token.used_at, "expired": is_over(token, now),
        "on": show_limit(token.on),
    }  # fmt: skip
