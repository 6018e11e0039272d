"""Writes answers: JSON with its tag, and the problem that an error comes to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from twisted.logger import Logger
from twisted.python.failure import Failure

from helen.web.etags import READS, answer_known, tag_of
from helen.web.problems import PROBLEM_JSON, UNCERTAIN, Problem, document_of, problem_of
from helen.web.request import ApiRequest

log = Logger()

Document = Mapping[str, object]


def write_json(
    request: ApiRequest, document: Document | Sequence[Document] | str, status: int = 200, tag: str | None = None
) -> bytes:
    """Return a JSON answer. One that was read gets `tag`, or the hash of the answer; a client that has it gets 304."""
    body = json.dumps(document, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
    request.setResponseCode(status)
    request.setHeader("content-type", "application/json")
    if status == 200 and (tag is not None or request.method in READS):
        given = tag or (request.responseHeaders.getRawHeaders("etag") or [tag_of(body)])[0]
        return b"" if answer_known(request, given) else body
    return body


def refuse(request: ApiRequest, problem: Problem) -> bytes:
    """Return the answer that a problem is: a page, if a page was asked for, else the JSON of RFC 9457."""
    if request.refuse_page is not None:
        set_headers(request, problem)
        return request.refuse_page(request, problem)
    request.setResponseCode(problem.status)
    request.setHeader("content-type", PROBLEM_JSON)
    set_headers(request, problem)
    return document_of(problem)


def set_headers(request: ApiRequest, problem: Problem) -> None:
    """Give the answer the headers of a problem, also where another project's convention shows it."""
    for name, value in problem.headers.items():
        request.setHeader(name, value)


def refuse_error(request: ApiRequest, failure: Failure) -> bytes:
    """Return the answer to an error, wherever it was raised; one that nothing foresaw goes to the log, not out.

    An answer of which a piece is sent already is cut off: an end behind it would make it look whole.
    """
    if request.startedWriting:
        log.failure("the HTTP API: the answer to {method} {path} is cut off", failure,
                    method=request.method.decode("latin-1"), path=request.path.decode("latin-1"))  # fmt: skip
        request.code = 500  # for the count of answers: the client has seen another one
        request.cut()
        return b""
    problem = problem_of(failure.value)
    if problem is None:
        log.failure("the HTTP API", failure)
        problem = Problem(500, "internal error", "Helen's log says what happened")
    request.is_uncertain = isinstance(failure.value, UNCERTAIN)
    return refuse(request, problem)
