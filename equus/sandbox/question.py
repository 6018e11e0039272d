"""A host call as a worker sends it: until when, which, and with what. Pure."""

from __future__ import annotations

from typing import Any

from equus.sandbox.frames import QUESTION
from equus.sandbox.values import decode


def read_question(question: bytes) -> tuple[str, list[Any], float]:
    """The call's name, its arguments, the deadline that the worker knows of. ValueError, struct.error: no question."""
    deadline, length = QUESTION.unpack_from(question)
    end = QUESTION.size + length
    args = decode(question[end:])
    if not isinstance(args, list) or deadline != deadline:
        raise ValueError("no list of arguments, or no deadline")
    return question[QUESTION.size : end].decode(), args, deadline
