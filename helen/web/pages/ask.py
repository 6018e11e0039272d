"""Serves the page that asks agents: a published check or code of one's own, now, or as a job that waits for agents
away.

static/ask.js asks and follows the answers; without it the page lists the checks with their arguments, and the jobs.
"""

from __future__ import annotations

from typing import Any

from helen.web.pages.answer import write_page
from helen.web.query import first_text, texts
from helen.web.request import ApiRequest
from helen.web.route import Query, Routes
from helen.web.routes.checks import show_checks
from helen.web.routes.jobs import jobs_in_sight
from helen.web.sight.agents_in_turns import agents_in_sight
from helen.web.web_parts import WebParts

routes = Routes()
JOBS = 8  # the newest, which are listed
FORM = (
    Query("check", str, "a published check"), Query("on", str, "agents by name, pattern or KEY=PATTERN", many=True),
    Query("args", str, "arguments, a JSON object"), Query("timeout", str, "seconds for an answer, such as 30s"),
    Query("wait", str, "how long to wait for agents that are away"), Query("job", str, "a job to follow"),
)  # fmt: skip


@routes.page("/ask", "read", "A question to agents", query=FORM)
async def ask_page(parts: WebParts, request: ApiRequest) -> bytes:
    """Answer with the form of a question, filled in as the address says, and the newest jobs."""
    given = {name: first_text(request, name) or "" for name in ("check", "args", "timeout", "wait", "job")}
    known = await agents_in_sight(parts.sessions.roster.agents.values(), parts.visible(request.caller))
    return await write_page(
        parts, request, "ask", given=given, on=texts(request, "on"), checks=show_checks(parts.library)["checks"],
        jobs=await newest_jobs(parts, request), has_jobs=parts.network is not None and parts.network.jobs is not None,
        known=len(known),
    )  # fmt: skip


async def newest_jobs(parts: WebParts, request: ApiRequest) -> list[dict[str, Any]]:
    """Return the newest jobs as GET /api/v1/jobs shows them; none where this Helen keeps none."""
    jobs = parts.network.jobs if parts.network is not None else None
    if jobs is None:
        return []
    return [await jobs.show(job) for job in jobs_in_sight(parts, request, jobs.newest())[:JOBS]]
