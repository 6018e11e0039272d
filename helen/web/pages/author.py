"""Serves the page of one file of a check: written, judged as it is typed, tried on agents, pushed, watched and taken
back.

static/author.js does all that by routes of the API; without a script the text is shown to read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from heapq import nsmallest

from attrs import frozen
from twisted.internet.threads import deferToThread

from equus_protocol.manifest import FILE_NAME
from helen.agents.roster import Agent
from helen.library.check_folder import Reading
from helen.library.check_templates import SMALL, begun
from helen.rollout.gate_limits import NAMES
from helen.rollout.rings import write_rings
from helen.web.connections.short_turns import take_turns
from helen.web.pages.answer import write_page
from helen.web.pages.environment import segment
from helen.web.problems import Problem, bad_request
from helen.web.query import first_text
from helen.web.request import ApiRequest
from helen.web.route import Query, Routes
from helen.web.routes.checks import read_folder, tag_of_folder
from helen.web.sight.agents_in_turns import steps_of
from helen.web.web_parts import WebParts

routes = Routes()
MOST_NAMES = 500  # of agents that the field completes
LIBRARY = "lib/"


@frozen
class _File:
    """Holds a file as the page begins with it. `fault`: why it can't be edited here; `tag`: of the whole folder."""

    text: str
    tests: str
    tag: str
    is_new: bool
    fault: str = ""
    users: tuple[str, ...] = ()  # checks that require it, if it is a library


@routes.page("/author", "check-files", "Begin a new check", query=(Query("name", str, "of it"), Query("like", str, "")))
def begin(parts: WebParts, request: ApiRequest) -> bytes:
    """Lead on to the page of a new check. Raises Problem 400 for a name that no check may have."""
    name, like = (first_text(request, "name") or "").removesuffix(".lua"), first_text(request, "like") or SMALL
    if not FILE_NAME.fullmatch(f"{name}.lua") or "/" in name:
        raise bad_request(f"{name[:80]!r} is no name of a check: 1 to 63 letters, digits, _ . and -")
    request.setResponseCode(303)
    request.setHeader("location", f"/author/{segment(f'{name}.lua')}?like={segment(like)}")
    return b""


@routes.page(
    "/author/<path:name>", "check-files", "Write a check", query=(Query("like", str, "a check to begin from"),)
)
async def author(parts: WebParts, request: ApiRequest, name: str) -> bytes:
    """Answer with a file of the folder, or with a new one. Raises Problem 404 for what is no name of a file."""
    if not FILE_NAME.fullmatch(name):
        raise Problem(404, "not found", f"{name[:80]!r} is no file of a check: NAME.lua, or lib/NAME.lua")
    library = parts.library
    reading, tests = await read_folder(parts)
    file = await deferToThread(_file_of, reading, tests, name, first_text(request, "like") or SMALL)
    published = library.published.files.get(name) if library.published is not None else None
    plan = library.plan
    return await write_page(
        parts, request, "author", of=name, file=file,
        is_library=name.startswith(LIBRARY), published=published,
        at_version=library.published and library.published.version,
        problems=library.problems.get(name, ()), can_sign=bool(library.keys.private),
        has_rollout=library.releases.last is not None,
        refused=[each for each in library.releases.refused if name in each.files], rings=write_rings(plan.rings),
        gates=plan.limits, gate_names=NAMES, targets=await _targets(parts),
    )  # fmt: skip


def _file_of(reading: Reading, tests: dict[str, bytes], name: str, like: str) -> _File:
    """Return the file with which the page begins. For a thread: a folder has megabytes."""
    tag = tag_of_folder(reading, tests)
    if name not in reading.files:
        template = None if name.startswith(LIBRARY) else begun(name.removesuffix(".lua"), like)
        text, cases = ("return {}\n", "") if template is None else (template.text, template.tests)
        return _File(text, cases, tag, True, reading.faults.get(name, ""))
    content, cases_there = reading.files[name], tests.get(name, b"")
    fault = ""
    for each in (content, cases_there):
        try:
            each.decode()
        except UnicodeDecodeError as error:
            fault = f"byte {error.start} is no UTF-8: edit the file itself"
        if b"\0" in each:
            fault = "it holds a byte that is no text: edit the file itself"
    return _File(
        content.decode("utf-8", "replace"), cases_there.decode("utf-8", "replace"), tag, False, fault,
        _users_of(reading, name),
    )  # fmt: skip


def _users_of(reading: Reading, name: str) -> tuple[str, ...]:
    if not name.startswith(LIBRARY):
        return ()
    wanted = re.compile(rb"require\s*\(?\s*[\"']" + re.escape(name[len(LIBRARY) : -4].encode()) + rb"[\"']")
    return tuple(sorted(each for each, text in reading.files.items() if each != name and wanted.search(text)))


async def _targets(parts: WebParts) -> list[str]:
    """Return names and labels of agents that the field of a dry run completes, looked for in short turns."""
    names, labels = list[str](), set[str]()

    def take(agents: Sequence[Agent]) -> None:
        for agent in agents:
            if not agent.is_host:
                names.append(agent.name)
                labels.update(f"{key}={value}" for key, value in agent.labels.items())

    await take_turns(steps_of(list(parts.sessions.roster.agents.values()), take))
    return [*nsmallest(MOST_NAMES, names), *nsmallest(MOST_NAMES, labels)]
