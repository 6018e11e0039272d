"""Serves the route of the audit: the commands that came through the API. docs/api.rst has it."""

from __future__ import annotations

from typing import TypedDict

from attrs import asdict

from helen.parts import Parts
from helen.storage.agent_rows import audit_page
from helen.web.answers import write_json
from helen.web.cursors import read_page
from helen.web.query import texts
from helen.web.request import ApiRequest
from helen.web.route import V1, Query, Routes

routes = Routes()
SHOWN = 100  # entries without `limit`


class AuditEntryJson(TypedDict):
    """Describes one command: its caller, what it was done to, and when (unix seconds)."""

    id: int
    at: float
    actor: str
    action: str
    subject: str
    address: str
    detail: str


class AuditJson(TypedDict):
    """Lists entries of the audit, a page of them, the newest entry first."""

    audit: list[AuditEntryJson]
    next: str | None


@routes.get(
    f"{V1}/audit", "audit", "Who did what", answer=AuditJson, paged=True,
    query=(Query("subject", str, "what it was done to"),),
)  # fmt: skip
async def list_audit(parts: Parts, request: ApiRequest) -> bytes:
    """Answer with entries of the audit; `?subject=` is what a command was done to."""
    given = texts(request, "subject")
    page = read_page(request, "audit", (int,), given[-1:], default=SHOWN)
    limit = page.limit or SHOWN
    before = page.after[0] if page.after else None
    found = await parts.store.call(audit_page, before, given[-1] if given else None, limit + 1)
    entries = [asdict(entry) for entry in found[:limit]]
    following = page.next((found[limit - 1].id,)) if len(found) > limit else None
    return write_json(request, {"audit": entries, "next": following})
