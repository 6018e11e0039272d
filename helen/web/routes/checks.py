"""Routes of checks: those that are published, and the files of the folder of checks. docs/api.rst lists them.

`helen export` reads the files; `helen apply` pushes them.
"""

from __future__ import annotations

import json
from typing import Any, TypedDict

from twisted.internet.threads import deferToThread

from helen.agents.sight import Sight, seen
from helen.library import check_folder
from helen.library.check_folder import Reading
from helen.library.library import Library
from helen.library.published import Published, PushRefused
from helen.library.withheld_files import show
from helen.parts import Parts
from helen.web.answers import write_json
from helen.web.etags import answer_known, demand, tag_of_document
from helen.web.json_types import Object
from helen.web.request import ApiRequest
from helen.web.route import V1, Routes

routes = Routes()


class CheckJson(TypedDict):
    """Describes a published check. `every` and `timeout` are seconds; `kept_old`: the newer one is broken."""

    name: str
    summary: str
    every: float | None
    timeout: float | None
    needs: list[str]
    args: Object
    sha256: str
    kept_old: bool


class FileProblem(TypedDict):
    """Describes a fault in a file of the folder; with an empty `file`, of the folder."""

    file: str
    line: int | None
    severity: str
    text: str


class RefusedFile(TypedDict):
    """Names a file of the folder that was taken back, as long as it has not changed since. `at` is in unix seconds."""

    file: str
    version: int
    at: float
    why: str
    removed: bool


class ChecksJson(TypedDict):
    """Lists the published checks, and what is wrong with the folder."""

    version: int | None
    checks: list[CheckJson]
    problems: list[FileProblem]
    refused: list[RefusedFile]
    waits: str | None


class CheckFiles(TypedDict):
    """Holds the files of the folder of checks, and the tests beside them, by name."""

    files: dict[str, str]
    tests: dict[str, str]


@routes.get(f"{V1}/checks", "read", "The published checks", answer=ChecksJson)
async def list_checks(parts: Parts, request: ApiRequest) -> bytes:
    """Answer with the published checks, and what is wrong with files of the folder.

    A caller that is limited to some agents gets the checks that they run.
    """
    return write_json(request, await seen_checks(parts, request))


async def seen_checks(parts: Parts, request: ApiRequest) -> dict[str, Any]:
    """Return the checks as the caller of a request may see them (ChecksJson has the keys)."""
    shown, sight = show_checks(parts.library), parts.visible(request.caller)
    if sight is not None:
        used = await deferToThread(_used, parts, sight)
        checks = [each for each in shown["checks"] if each["name"] in used]
        shown |= {"checks": checks, "problems": [], "refused": [], "waits": None}
    return shown


@routes.get(f"{V1}/checks/files", "check-files", "The files of the folder of checks", answer=CheckFiles)
async def get_check_files(parts: Parts, request: ApiRequest) -> bytes:
    """Answer with each file of the folder and the tests beside them; bytes that are no UTF-8 come as surrogates."""
    reading, tests = await read_folder(parts)
    if answer_known(request, tag_of_folder(reading, tests)):
        return b""
    request.setHeader("content-type", "application/json")
    return await deferToThread(_write_files, reading, tests)


def _used(parts: Parts, sight: Sight) -> set[str]:
    """Return the names of the checks that visible agents run. In a thread: schedules of thousands take a while."""
    agents = seen(sight, list(parts.sessions.roster.agents.values()))
    return {entry.check for agent in agents for entry in parts.sessions.delivery.schedule_of(agent)}


def show_checks(library: Library) -> dict[str, Any]:
    """Return the published checks, and what is wrong with files of the folder (ChecksJson has the keys)."""
    published = library.published
    problems: list[FileProblem] = [
        {"file": name, "line": problem.line, "severity": problem.severity, "text": problem.text}
        for name, found in sorted(library.problems.items())
        for problem in found
    ]
    return {
        "version": None if published is None else published.version,
        "checks": [] if published is None else _show_tables(library, published),
        "problems": problems,
        "refused": show(library.releases.refused),
        "waits": library.waits,
    }


def _show_tables(library: Library, published: Published) -> list[CheckJson]:
    return [
        {
            "name": table.name,
            "summary": table.summary,
            "every": table.every,
            "timeout": table.timeout,
            "needs": list(table.needs),
            "args": table.args,
            "sha256": published.files[f"{table.name}.lua"].sha256,
            "kept_old": f"{table.name}.lua" in library.kept_old,
        }
        for table in sorted(published.tables.values(), key=lambda table: table.name)
        if f"{table.name}.lua" in published.files
    ]


# ---------------------------------------------------------------------------------------------- the folder


async def demand_folder(parts: Parts, request: ApiRequest) -> None:
    """Raises Problem 412 unless the folder is as the client has read it."""
    demand(request, tag_of_folder(*await read_folder(parts)), "the folder of checks")


async def read_folder(parts: Parts) -> tuple[Reading, dict[str, bytes]]:
    """Return the files of the folder of checks, and its tests. Raises PushRefused if it can't be read."""
    folder = parts.library.folder
    try:
        reading = await deferToThread(check_folder.read, folder)
        tests = await deferToThread(check_folder.read_tests, folder)
    except OSError as error:
        raise PushRefused(f"the folder {folder} can't be read: {error.strerror}") from error
    return reading, tests


def tag_of_folder(reading: Reading, tests: dict[str, bytes]) -> str:
    """Return the tag by which another client's change of the folder is noticed. Some megabytes of hashing at most."""
    files = {**reading.files, **{f"tests/{name}": content for name, content in tests.items()}}
    return tag_of_document(_texts(files))


def _texts(files: dict[str, bytes]) -> dict[str, str]:
    return {name: content.decode("utf-8", "surrogateescape") for name, content in files.items()}


def _write_files(reading: Reading, tests: dict[str, bytes]) -> bytes:
    return json.dumps({"files": _texts(reading.files), "tests": _texts(tests)}).encode() + b"\n"
