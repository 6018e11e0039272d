"""Routes of authors: what lint says of a draft, and code that was published. docs/api.rst lists them."""

from __future__ import annotations

import json
import re
from typing import TypedDict

from helen.parts import Parts
from helen.storage import publication_rows
from helen.web.answers import write_json
from helen.web.bodies import Body
from helen.web.body_fields import Files
from helen.web.etags import answer_known
from helen.web.json_types import Object
from helen.web.problems import Problem, bad_request
from helen.web.request import ApiRequest
from helen.web.route import V1, Routes

routes = Routes()
SHA256 = re.compile("[0-9a-f]{64}")


class LintProblem(TypedDict):
    """Describes a fault of a file. One of severity `error` keeps it from being published."""

    line: int
    severity: str
    text: str


class LintedFile(TypedDict):
    """Holds a check's table as lint has read it, null for a library or if it can't be read, and what is wrong."""

    table: Object | None
    problems: list[LintProblem]


class LintedTest(TypedDict):
    """Says how one recorded test came out; `said` has the differences from the expected values."""

    file: str
    name: str
    line: int
    ok: bool
    said: str


class LintJson(TypedDict):
    """Holds the verdicts of lint on each file by its name, and on each recorded test."""

    files: dict[str, LintedFile]
    tests: list[LintedTest]


class CodeVersion(TypedDict):
    """Names a version of the set that has the file. `at` is in unix seconds."""

    version: int
    author: str
    at: float


class CodeJson(TypedDict):
    """Holds a file that was published, and the versions that have it, the newest first."""

    name: str
    text: str
    versions: list[CodeVersion]


class LintFiles(Body, frozen=True, kw_only=True):
    """Has files by name, and their tests; a test that is missing is that of the folder."""

    files: Files
    tests: Files = {}


@routes.post(
    f"{V1}/checks/lint", "lint", "Judge files that are not published yet", body=LintFiles, answer=LintJson,
    errors={409: "push refused, or superseded", 503: "lint can't run"},
)  # fmt: skip
async def lint_checks(parts: Parts, request: ApiRequest, body: LintFiles) -> bytes:
    """Answer with the faults of files and the outcomes of their tests. Nothing is kept or published.

    A caller has one draft judged at a time; a newer one takes the place of one that waits.
    Raises Problem 400 without a file, PushRefused, Superseded and LintFailed.
    """
    if not body.files:
        raise bad_request("`files` names no file")
    caller = request.caller
    return write_json(request, await parts.drafts.judge(caller.identity or caller.actor, body.files, body.tests))


@routes.get(
    f"{V1}/code/<digest>", "check-files", "Published code, by its hash", answer=CodeJson,
    errors={404: "no such code"},
)  # fmt: skip
async def get_code(parts: Parts, request: ApiRequest, digest: str) -> bytes:
    """Answer with a file of one of the versions that are kept; bytes that are no UTF-8 come as surrogates.

    Raises Problem 404 for others.
    """
    found = await parts.store.call(publication_rows.versions_of, digest) if SHA256.fullmatch(digest) else ()
    versions = [each for each in found if not each.name.startswith("agent/")]
    content = await parts.library.releases.files.find(digest) if versions else None
    if content is None:
        raise Problem(404, "no such code", "no version that is kept has this code; the last 20 are")
    shown: CodeJson = {
        "name": versions[0].name,
        "text": content.decode("utf-8", "surrogateescape"),
        "versions": [{"version": each.version, "author": each.author, "at": each.at} for each in versions],
    }
    if answer_known(request, f'"{digest}-{versions[0].version}"'):
        return b""
    request.setHeader("content-type", "application/json")
    return json.dumps(shown).encode() + b"\n"  # in ASCII: bytes that are no UTF-8 stay what they are
