"""Serves the route of Helen's state as a whole. docs/api.rst has it."""

from __future__ import annotations

from helen.parts import Parts
from helen.web.answers import write_json
from helen.web.overview import StatusJson, overview_for
from helen.web.request import ApiRequest
from helen.web.route import V1, Routes

routes = Routes()


@routes.get(f"{V1}/status", "read", "All in all", answer=StatusJson)
async def get_status(parts: Parts, request: ApiRequest) -> bytes:
    """Answer with the state of every part in a few words."""
    return write_json(request, await overview_for(parts, parts.visible(request.caller)))
