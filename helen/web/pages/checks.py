"""Serves the page of all checks: those that are published, what is wrong with files, what was taken back, and a new
one.
"""

from __future__ import annotations

from twisted.internet.threads import deferToThread

from helen.library.check_templates import templates
from helen.web.pages.answer import write_page
from helen.web.request import ApiRequest
from helen.web.route import Routes
from helen.web.routes.checks import seen_checks
from helen.web.web_parts import WebParts

routes = Routes()


@routes.page("/checks", "fleet-look", "The checks")
async def checks(parts: WebParts, request: ApiRequest) -> bytes:
    """Answer with the published checks and libraries, and the faults of files."""
    library = parts.library
    shown, is_limited = await seen_checks(parts, request), parts.visible(request.caller) is not None
    files = library.published.files if library.published is not None and not is_limited else {}
    broken = {each["file"]: each for each in reversed(shown["problems"]) if each["severity"] == "error"}
    names = {f"{each['name']}.lua" for each in shown["checks"]} | {name for name in files if name.startswith("lib/")}
    return await write_page(
        parts, request, "checks", shown=shown, broken=broken, folder=library.folder,
        libraries=sorted(name for name in files if name.startswith("lib/")),
        unpublished=sorted({each["file"] for each in shown["problems"]} - names - {""}),
        staged=None if is_limited else library.staged, templates=(await deferToThread(templates)).values(),
    )  # fmt: skip
