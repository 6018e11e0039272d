"""Translates errors into problems, the error answers of the API: application/problem+json (RFC 9457).

The packages below raise errors of their own and know no HTTP; their status and title stand in the table here, and each
error's text is the `detail`, with a next step in it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import NotRequired, TypedDict
from urllib.parse import urlsplit

from werkzeug.routing import RequestRedirect

from helen.assignments.schedule import AssignmentsError
from helen.evaluation.commands import NotDurable
from helen.jobs.errors import BadJob, JobRefused, JobsUnavailable, JobUncertain, UnknownJob
from helen.journal.unread import HistoryUnread
from helen.journal.values import JournalError
from helen.keys.certificates import BadRequest
from helen.library.draft_lint import Superseded
from helen.library.linter import LintFailed
from helen.library.published import PushRefused
from helen.library.push_request import BadPushRequest
from helen.passive.submission import NoSubmission, NotAllowed, NotDeclared, NotTaken, TooOften
from helen.queries.live_queries import QueryRefused
from helen.queries.one_off_code import NeedsSignature, OrderRefused
from helen.rollout.set_aside import NotSetAside
from helen.storage.database import StoreClosed, StoreFailed, StoreOverloaded
from helen.storage.enrolled_keys import NotEnrolled, UnknownAgent
from helen.storage.token_rows import UnknownToken
from helen.storage.web_session_rows import SessionRefused
from helen.storage.web_token_rows import TokenRefused
from helen.tunnels.tunnels import TunnelRefused

PROBLEM_JSON = "application/problem+json"

_STATUS: dict[type[BaseException], tuple[int, str]] = {
    BadRequest: (400, "bad request"),
    NotEnrolled: (409, "refused"),
    UnknownAgent: (404, "no such agent"),
    UnknownToken: (404, "no such token"),
    PushRefused: (409, "push refused"),
    NotSetAside: (409, "push refused"),
    Superseded: (409, "superseded"),
    LintFailed: (503, "lint can't run"),
    BadPushRequest: (400, "bad request"),
    NeedsSignature: (409, "needs a signature"),
    OrderRefused: (409, "order refused"),
    AssignmentsError: (400, "assignments refused"),
    QueryRefused: (503, "can't be asked"),
    StoreFailed: (503, "the disk doesn't take it"),
    StoreOverloaded: (503, "the disk doesn't take it"),
    StoreClosed: (503, "Helen is stopping"),
    TokenRefused: (409, "refused"),
    SessionRefused: (409, "refused"),
    NotDurable: (503, "the disk doesn't take it"),
    JournalError: (503, "Helen is stopping"),
    HistoryUnread: (503, "the history can't be read"),
    JobRefused: (409, "refused"),
    BadJob: (400, "refused"),
    UnknownJob: (404, "refused"),
    JobsUnavailable: (503, "refused"),
    JobUncertain: (503, "refused"),
    TunnelRefused: (409, "no tunnel"),
    NoSubmission: (400, "bad request"),
    NotDeclared: (404, "not declared"),
    NotAllowed: (409, "the agent's own"),
    TooOften: (429, "too often"),
    NotTaken: (503, "not taken"),
}
UNCERTAIN = (NotDurable, JobUncertain)  # what was asked for may be done later all the same


class Problem(Exception):
    """Says why a request fails: a status, a title for programs, and a sentence that tells the next step."""

    def __init__(self, status: int, title: str, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.title, self.headers = status, title, headers or {}


class ProblemJson(TypedDict):
    """Says why a request fails, and the next step (RFC 9457). `reasons`: the parts that make /readyz fail."""

    type: str
    title: str
    status: int
    detail: str
    reasons: NotRequired[list[str]]


def bad_request(detail: str) -> Problem:
    """Return the problem of a request that can't be read: status 400."""
    return Problem(400, "bad request", detail)


def unauthorized(detail: str, scheme: str = "Bearer") -> Problem:
    """Return the problem of a request without a credential that is good here: status 401, and how to show one."""
    return Problem(401, "refused", detail, {"www-authenticate": f'{scheme} realm="helen"'})


def problem_of(error: BaseException | None) -> Problem | None:
    """Return the problem that answers an error; None for an error that nothing foresaw, a fault of Helen's own."""
    if isinstance(error, Problem):
        return error
    known = _STATUS.get(type(error)) if error is not None else None
    if known is not None:
        wait = error.wait if isinstance(error, TooOften) else None
        return Problem(*known, str(error), {} if wait is None else {"retry-after": str(math.ceil(wait))})
    return _of_routing(error)


def _of_routing(error: BaseException | None) -> Problem | None:
    """Translate an error of Werkzeug's: no such page, no such method, or a slash too many."""
    if isinstance(error, RequestRedirect):
        return Problem(404, "not found", f"nothing is here; perhaps {urlsplit(error.new_url).path} is meant")
    status = getattr(error, "code", None)
    if not isinstance(status, int) or not 400 <= status < 500:
        return None
    allowed = sorted(getattr(error, "valid_methods", None) or ())
    title = str(getattr(error, "name", "refused")).lower()
    return Problem(status, title, str(error), {"allow": ", ".join(allowed)} if allowed else {})


def document_of(problem: Problem) -> bytes:
    """Return the JSON of a problem, with a newline."""
    document: ProblemJson = {
        "type": "about:blank", "title": problem.title, "status": problem.status, "detail": str(problem),
    }  # fmt: skip
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
