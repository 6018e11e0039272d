"""Routes about the API itself: its tokens, and the audit of what was done with them. docs/api.rst lists them."""

from __future__ import annotations

import time
from typing import Any

from attrs import asdict
from klein import Klein

from helen.records import audit_page
from helen.web.bodies import read_body, read_optional_seconds, read_strings, read_text, wants_dry_run
from helen.web.cursors import read_page
from helen.web.problems import write_json
from helen.web.tokens import WebTokens, show_token

SHOWN = 100  # entries of the audit without `limit`


def add_routes(app: Klein) -> None:
    """To the class of the API, whose instances have `_helen` and `tokens`."""

    @app.route("/api/v1/audit", methods=["GET"])
    async def list_audit(api: Any, request: Any) -> bytes:
        """The newest first; `?subject=` is what it was done to."""
        given = request.args.get(b"subject", [])
        subject = given[-1].decode("utf-8", "replace") if given else None
        page = read_page(request, "audit", (int,), [] if subject is None else [subject], default=SHOWN)
        limit = page.limit or SHOWN
        before = page.after[0] if page.after else None
        found = await api._helen.store.call(audit_page, before, subject, limit + 1)
        entries = [asdict(entry) for entry in found[:limit]]
        following = page.next((found[limit - 1].id,)) if len(found) > limit else None
        return write_json(request, {"audit": entries, "next": following})

    @app.route("/api/v1/web-tokens", methods=["GET"])
    def list_web_tokens(api: Any, request: Any) -> bytes:
        now, page = time.time(), read_page(request, "web-tokens", (str,))
        rows, following = page.cut(api.tokens.listed(), lambda token: (token.name,))
        return write_json(request, {"tokens": [show_token(each, now) for each in rows], "next": following})

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
