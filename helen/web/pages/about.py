"""Serves the page about this Helen: what runs, what it lacks, and the command for each."""

from __future__ import annotations

from helen.parts import Parts
from helen.web.overview import overview_for
from helen.web.pages.answer import write_page
from helen.web.request import ApiRequest
from helen.web.route import Routes
from helen.web.web_parts import WebParts

routes = Routes()


@routes.page("/about", "read", "About this Helen")
async def about(parts: WebParts, request: ApiRequest) -> bytes:
    """Answer with the state of every part in a few words."""
    status = await overview_for(parts, parts.visible(request.caller))
    return await write_page(parts, request, "about", status=status, lacking=lacking(parts))


def lacking(parts: Parts) -> list[tuple[str, str]]:
    """Return a sentence and a command for each part that is not set up yet."""
    found = []
    if not parts.sessions.roster.agents:
        found.append(("No agent has joined.", "helen token web-1"))
    if parts.notifier.config_file.config is None:
        found.append(("Nobody is told of problems.", f"$EDITOR {parts.state}/notifications.toml"))
    if parts.pipeline.overview(0.0) is None:
        found.append(("Days and months of history need a pipeline.", "helen pipeline run"))
    return found
