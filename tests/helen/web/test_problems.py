"""Tests that errors of the packages below become problems: one status and title each, the error's words, and
headers."""

from __future__ import annotations

import json

import pytest
from werkzeug.exceptions import MethodNotAllowed, NotFound
from werkzeug.routing import RequestRedirect

from helen.jobs.errors import BadJob, JobRefused, JobsUnavailable, JobUncertain, UnknownJob
from helen.library.push_request import BadPushRequest
from helen.passive.submission import TooOften
from helen.web.problems import Problem, document_of, problem_of, unauthorized


@pytest.mark.parametrize(
    ("error", "status", "title"),
    [
        (JobRefused("x"), 409, "refused"), (BadJob("x"), 400, "refused"), (UnknownJob("x"), 404, "refused"),
        (JobsUnavailable("x"), 503, "refused"), (JobUncertain("x"), 503, "refused"),
        (BadPushRequest("x"), 400, "bad request"), (NotFound(), 404, "not found"),
        (RequestRedirect("http://h/x"), 404, "not found"), (Problem(418, "x", "y"), 418, "x"),
    ],
)  # fmt: skip
def test_errors_have_a_status(error: Exception, status: int, title: str) -> None:
    """A known error becomes a problem with its status and title."""
    problem = problem_of(error)
    assert problem is not None
    assert (problem.status, problem.title) == (status, title)


def test_headers_go_with_a_problem() -> None:
    """A problem has the headers of its error: retry-after, allow, or www-authenticate."""
    told = [problem_of(TooOften("x", 1.2)), problem_of(MethodNotAllowed(["PUT", "GET"])), unauthorized("x", "Basic")]
    assert [problem.headers for problem in told if problem is not None] == [
        {"retry-after": "2"}, {"allow": "GET, PUT"}, {"www-authenticate": 'Basic realm="helen"'}
    ]  # fmt: skip


def test_faults_of_helen_are_no_problems() -> None:
    """An unknown error, or a subclass of a known one, is no problem and goes to the log."""

    class Stranger(JobRefused):
        pass

    assert [problem_of(error) for error in (ValueError("x"), None, Stranger("x"))] == [None, None, None]


def test_the_document() -> None:
    """The document of a problem is that of RFC 9457 in UTF-8."""
    document = json.loads(document_of(Problem(404, "no such agent", "é")))
    assert document == {"type": "about:blank", "title": "no such agent", "status": 404, "detail": "é"}


def test_half_a_letter_in_a_sentence() -> None:
    """Half a surrogate pair in a sentence becomes a question mark."""
    document = json.loads(document_of(Problem(404, "no such agent", "no agent fits a\ud800 or \udfff")))
    assert document["detail"] == "no agent fits a? or ?"
