"""What the API answers when something is wrong: application/problem+json (RFC 9457), each with a next step in it."""

from __future__ import annotations

import json
from typing import Any

from klein import Klein
from twisted.logger import Logger
from twisted.python.failure import Failure

from helen.certificates import BadRequest
from helen.changing import NotDurable
from helen.credentials import NotEnrolled, UnknownAgent
from helen.journal.values import JournalError
from helen.one_shots import NeedsSignature, OrderRefused
from helen.policy import AssignmentsError
from helen.releases import PushRefused
from helen.runs import RunRefused
from helen.store import StoreClosed, StoreFailed, StoreOverloaded
from helen.web.tags import READS, answer_known, tag_of
from helen.web_tokens import TokenRefused

log = Logger()

_STATUS: dict[type[Exception], tuple[int, str]] = {
    BadRequest: (400, "bad request"),
    NotEnrolled: (409, "refused"),
    UnknownAgent: (404, "no such agent"),
    PushRefused: (409, "push refused"),
    NeedsSignature: (409, "needs a signature"),
    OrderRefused: (409, "order refused"),
    AssignmentsError: (400, "assignments refused"),
    RunRefused: (503, "can't be asked"),
    StoreFailed: (503, "the disk doesn't take it"),
    StoreOverloaded: (503, "the disk doesn't take it"),
    StoreClosed: (503, "Helen is stopping"),
    TokenRefused: (409, "refused"),
    NotDurable: (503, "the disk doesn't take it"),
    JournalError: (503, "Helen is stopping"),
}


UNSURE = (NotDurable,)  # what was asked for may come to be all the same


class Problem(Exception):
    """Raised by a route: its HTTP status, what kind of thing is wrong, and a sentence."""

    is_unsure = False

    def __init__(self, status: int, title: str, detail: str) -> None:
        super().__init__(detail)
        self.status, self.title = status, title


def write_json(request: Any, document: Any, status: int = 200, tag: str | None = None) -> bytes:
    """A JSON answer. What is read has a tag: `tag`, or that of the whole answer; a reader who has it gets a 304."""
    body = json.dumps(document, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
    request.setResponseCode(status)
    request.setHeader("content-type", "application/json")
    if status == 200 and (tag is not None or request.method in READS):
        given = tag or (request.responseHeaders.getRawHeaders("etag") or [tag_of(body)])[0]
        return b"" if answer_known(request, given) else body
    return body


def refuse(request: Any, status: int, title: str, detail: str) -> bytes:
    """An answer that says what is wrong."""
    request.setResponseCode(status)
    request.setHeader("content-type", "application/problem+json")
    return problem(status, title, detail)


def refuse_problem(request: Any, problem: Problem) -> bytes:
    """The same for one that was raised before its route was reached."""
    return refuse(request, problem.status, problem.title, str(problem))


def problem(status: int, title: str, detail: str) -> bytes:
    """A document of RFC 9457."""
    document = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    return json.dumps(document, ensure_ascii=False).encode() + b"\n"


def add_error_answers(app: Klein) -> None:
    """Turn what routes raise into answers; what nobody foresaw is logged, and 500 says so without its inside."""

    @app.handle_errors(Exception)
    def answer(_self: Any, request: Any, failure: Failure) -> bytes:
        return answer_error(request, failure)


def answer_error(request: Any, failure: Failure) -> bytes:
    """What is said of an error, wherever it was raised."""
    error = failure.value
    if isinstance(error, Problem):
        status, title = error.status, error.title
    elif (known := _STATUS.get(type(error))) is not None:
        status, title = known
    elif getattr(error, "code", None) in range(400, 500):  # werkzeug's: no such page, no such method
        status, title = error.code, str(getattr(error, "name", "refused")).lower()
        allowed = sorted(getattr(error, "valid_methods", None) or ())
        if allowed:
            request.setHeader("allow", ", ".join(allowed))
    else:
        log.failure("the HTTP API", failure)
        status, title, error = 500, "internal error", Exception("Helen's log says what happened")
    request.is_unsure = isinstance(error, UNSURE) or getattr(error, "is_unsure", False)
    return refuse(request, status, title, str(error))
