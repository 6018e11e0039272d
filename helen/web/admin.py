"""Routes about the API itself: its tokens, and the audit of what was done with them. docs/api.rst lists them."""

from __future__ import annotations

import time
from typing import Any

from klein import Klein

from helen.web.bodies import read_body, read_optional_seconds, read_strings, read_text, wants_dry_run
from helen.web.problems import write_json
from helen.web.tokens import WebTokens, show_token


def add_routes(app: Klein) -> None:
    """To the class of the API, whose instances have `_helen` and `tokens`."""

    @app.route("/api/v1/web-tokens", methods=["GET"])
    def list_web_tokens(api: Any, request: Any) -> bytes:
        now = time.time()
        return write_json(request, {"tokens": [show_token(each, now) for each in api.tokens.listed()]})

    @app.route("/api/v1/web-tokens", methods=["POST"])
    async def add_web_token(api: Any, request: Any) -> bytes:
        """`name`, `scopes`, and `expires`, a duration; the answer has the token, which is shown this once."""
        tokens: WebTokens = api.tokens
        body, now = await read_body(request), time.time()
        name, scopes = read_text(body, "name"), read_strings(body, "scopes")
        checked = tokens.checked(name, scopes, read_optional_seconds(body, "expires"), request.caller.actor, now)
        if wants_dry_run(request, body):
            return write_json(request, show_token(checked, now) | {"token": None})
        secret = await tokens.add(checked)
        return write_json(request, show_token(checked, now) | {"token": secret}, 201)

    @app.route("/api/v1/web-tokens/<name>/revoke", methods=["POST"])
    async def revoke_web_token(api: Any, request: Any, name: str) -> bytes:
        tokens: WebTokens = api.tokens
        body, now = await read_body(request), time.time()
        token = tokens.get(name)
        if not wants_dry_run(request, body):
            await tokens.revoke(name, now, request.caller.actor)
        return write_json(request, show_token(token, now))
