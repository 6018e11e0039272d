"""Reads requests of Alertmanager's tools, and answers faults as they read them: a JSON string."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from twisted.internet.threads import deferToThread

from helen.evaluation.commands import NotDurable
from helen.journal.values import JournalError
from helen.passive.submission import NoSubmission, NotReported
from helen.states.downtimes import WindowRefused
from helen.states.linear_regex import BadExpression
from helen.states.matchers import Matcher, read_matchers
from helen.web.answers import set_headers, write_json
from helen.web.bodies import json_value
from helen.web.problems import Problem, problem_of
from helen.web.query import texts
from helen.web.request import ApiRequest


async def answer_plainly(request: ApiRequest, answer: Awaitable[bytes]) -> bytes:
    """Return the answer, or the text of what is wrong with the request."""
    try:
        return await answer
    except (Problem, NotReported) as error:
        problem = problem_of(error)
        assert problem is not None
        set_headers(request, problem)
        return write_json(request, str(problem), problem.status)
    except (NotDurable, JournalError) as error:
        return write_json(request, str(error), 503)
    except (WindowRefused, BadExpression, ValueError) as error:
        return write_json(request, str(error), 400)


async def read_json_value(request: ApiRequest) -> Any:
    """Return the JSON of a body. Raises Problem for anything else, and for too many parts."""
    return await deferToThread(json_value, request.body())


async def read_json_list(request: ApiRequest) -> list[dict[str, Any]]:
    """Return a list of JSON objects. Raises Problem or NoSubmission for anything else."""
    listed = await read_json_value(request)
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise NoSubmission("a list of alerts is expected")
    return listed


def read_filter(request: ApiRequest) -> tuple[Matcher, ...]:
    """Return the matchers of `?filter=`. Raises ValueError, with a sentence, for one that can't be."""
    return tuple(matcher for text in texts(request, "filter") for matcher in read_matchers(text))
