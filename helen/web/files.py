"""Routes of what an operator keeps in files: the text of notifications.toml, and the files of the folder of checks.

`helen export` reads them and `helen apply` writes them; the other files of settings have routes of their own.
"""

from __future__ import annotations

import json
from typing import Any

from klein import Klein
from twisted.internet.threads import deferToThread

from helen import checkfolder
from helen.checkfolder import Reading
from helen.releases import PushRefused
from helen.textbook import version_of
from helen.web.bodies import read_body, read_optional_text, wants_dry_run
from helen.web.preconditions import demand
from helen.web.problems import Problem, write_json
from helen.web.reporting import write_book
from helen.web.tags import answer_known, tag_of_document


def add_routes(app: Klein) -> None:
    """Put them beside those of helen/web/api.py, whose object is the first argument."""

    @app.route("/api/v1/notifications/file", methods=["GET"])
    async def notifications_file(api: Any, request: Any) -> bytes:
        """As it is written: a URL that stands in it is shown, so keep secrets by reference."""
        text = await api._helen.notifier.book.text()
        fault, version = api._helen.notifier.book.fault, version_of(text)
        return write_json(request, {"text": text, "version": version, "fault": fault}, tag=f'"{version}"')

    @app.route("/api/v1/notifications/file", methods=["PUT"])
    async def put_notifications_file(api: Any, request: Any) -> bytes:
        """`text` is the whole of it, null takes it away; `version` or If-Match: what it was before."""
        body = await read_body(request)
        text = body.get("text")
        if text is not None and not isinstance(text, str):
            raise Problem(400, "bad request", "`text` is the whole of notifications.toml, or null")
        book, version = api._helen.notifier.book, read_optional_text(body, "version")
        made = await write_book(book, text, version, wants_dry_run(request, body), request)
        return write_json(request, {"version": made, "fault": None})

    @app.route("/api/v1/checks/files", methods=["GET"])
    async def check_files(api: Any, request: Any) -> bytes:
        """Each file of the folder of checks, and the tests beside them; bytes that are no text as surrogates."""
        reading, tests = await _read_folder(api)
        if answer_known(request, tag_of_folder(reading, tests)):
            return b""
        request.setHeader("content-type", "application/json")
        answer: bytes = await deferToThread(_written, reading, tests)
        return answer


async def demand_folder(api: Any, request: Any) -> None:
    """Raises Problem 412 unless the folder is as whoever asks has read it."""
    demand(request, tag_of_folder(*await _read_folder(api)), "the folder of checks")


async def _read_folder(api: Any) -> tuple[Reading, dict[str, bytes]]:
    folder = api._helen.library.folder
    try:
        reading = await deferToThread(checkfolder.read, folder)
        tests = await deferToThread(checkfolder.read_tests, folder)
    except OSError as error:
        raise PushRefused(f"the folder {folder} can't be read: {error.strerror}") from error
    return reading, tests


def tag_of_folder(reading: Reading, tests: dict[str, bytes]) -> str:
    """By which a change by somebody else is noticed. Some megabytes of hashing at most."""
    sizes = {**reading.files, **{f"tests/{name}": content for name, content in tests.items()}}
    return tag_of_document({name: content.decode("utf-8", "surrogateescape") for name, content in sizes.items()})


def _written(reading: Reading, tests: dict[str, bytes]) -> bytes:
    def texts(files: dict[str, bytes]) -> dict[str, str]:
        return {name: content.decode("utf-8", "surrogateescape") for name, content in files.items()}

    return json.dumps({"files": texts(reading.files), "tests": texts(tests)}).encode() + b"\n"
