"""Reads the fields of a request's body by their types: how each is read, and what it may hold.

A reader takes the JSON object and the field's name, and raises Problem 400 with a sentence that names the field.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from attrs import frozen

from groundwork.durations import parse_duration
from groundwork.globs import why_too_much
from helen.library.push_request import read_files
from helen.queries.live_queries import MAX_ASKED_SECONDS
from helen.web.json_types import Scope
from helen.web.problems import bad_request

DEFAULT_TIMEOUT = 30.0  # seconds that agents have for an answer

Json = Mapping[str, Any]


@frozen
class Reads:
    """Says how a field of a body is read: `reader(body, name)` returns its value, or raises Problem.

    `schema` is for a field that takes more than its value's type says, such as a duration, which may be a text.
    """

    reader: Callable[[Json, str], Any]
    schema: Mapping[str, Any] | None = None


AS_IT_IS = Reads(lambda body, name: body.get(name))


def read_text(body: Json, name: str) -> str:
    """Return a text that must be there, and that UTF-8 has bytes for. Raises Problem."""
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise bad_request(f"`{name}` is missing, or no text")
    return encodable(value, f"`{name}` is no text")


def encodable(text: str, fault: str) -> str:
    """Return the text if UTF-8 has bytes for it. Raises Problem that begins with `fault`."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise bad_request(f"{fault}: {error.reason}") from error
    return text


def read_optional_text(body: Json, name: str) -> str | None:
    """Return a text, or None where there is none. Raises Problem."""
    return None if body.get(name) is None else read_text(body, name)


def read_flag(body: Json, name: str) -> bool:
    """Return true or false, false if it is missing. Raises Problem for anything else."""
    value = body.get(name, False)
    if not isinstance(value, bool):
        raise bad_request(f"`{name}` is true or false")
    return value


def read_strings(body: Json, name: str) -> list[str]:
    """Return a list of texts; one text is a list of one. Raises Problem."""
    value = body.get(name)
    value = [value] if isinstance(value, str) else value
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise bad_request(f"`{name}` is a list of texts")
    return value


def read_patterns(body: Json, name: str) -> list[str]:
    """Return patterns of agents, one or more of them. Raises Problem."""
    patterns = body.get(name)
    patterns = [patterns] if isinstance(patterns, str) else patterns
    if not isinstance(patterns, list) or not patterns or not all(isinstance(pattern, str) for pattern in patterns):
        raise bad_request(f"`{name}` is a name, a pattern such as web*, KEY=VALUE, or a list of them")
    if why := why_too_much(patterns):
        raise bad_request(f"`{name}` {why}")
    return patterns


def read_object(body: Json, name: str) -> dict[str, Any]:
    """Return a JSON object, an empty one if it is missing. Raises Problem."""
    value = body.get(name) or {}
    if not isinstance(value, dict):
        raise bad_request(f"`{name}` is a JSON object")
    return value


def read_labels(body: Json, name: str) -> dict[str, str]:
    """Return labels, texts by their keys; none if it is missing. Raises Problem."""
    value = read_object(body, name)
    if not all(isinstance(text, str) for text in value.values()):
        raise bad_request(f'`{name}` is an object of texts: {{"role": "web"}}')
    return {encodable(key, f"`{name}` holds no text"): encodable(value[key], f"`{name}.{key}`") for key in value}


def read_number(body: Json, name: str) -> int:
    """Return a whole number. Raises Problem."""
    value = body.get(name)
    if type(value) is not int:
        raise bad_request(f"`{name}` is a whole number")
    return value


def read_base64(body: Json, name: str) -> dict[str, bytes]:
    """Return the bytes of files, written in base64, by their names. Raises Problem."""
    files = body.get(name)
    try:
        if not isinstance(files, dict):
            raise ValueError
        return {file: base64.b64decode(text, validate=True) for file, text in files.items()}
    except (TypeError, ValueError) as error:
        raise bad_request(f"`{name}` is an object of file names and their bytes in base64") from error


def read_seconds(body: Json, name: str) -> float:
    """Return the seconds of a duration such as 30 or "2h". Raises Problem."""
    try:
        return parse_duration(body.get(name))
    except ValueError as error:
        raise bad_request(f"`{name}`: {error}") from error


def read_optional_seconds(body: Json, name: str) -> float | None:
    """Return the seconds of a duration, or None where there is none. Raises Problem."""
    return None if body.get(name) is None else read_seconds(body, name)


def read_answer_time(body: Json, name: str) -> float:
    """Return the seconds that agents have for an answer, at most MAX_ASKED_SECONDS. Raises Problem."""
    timeout = read_seconds(body, name)
    if not 0 < timeout <= MAX_ASKED_SECONDS:
        raise bad_request(f"`{name}` is more than 0 and at most {MAX_ASKED_SECONDS:g} s")
    return timeout


def whole_of(file: str) -> Reads:
    """Return how the whole text of a file of settings is read. The reader raises Problem for anything else."""

    def read(body: Json, name: str) -> str:
        value = body.get(name)
        if not isinstance(value, str):
            raise bad_request(f"`{name}` is the whole of {file}")
        return encodable(value, f"`{name}` holds what is no text")

    return Reads(read)


def whole_or_none_of(file: str) -> Reads:
    """Return how the whole text is read of a file that null takes away. The reader raises Problem for another value."""

    def read(body: Json, name: str) -> str | None:
        value = body.get(name)
        if value is not None and not isinstance(value, str):
            raise bad_request(f"`{name}` is the whole of {file}, or null")
        return None if value is None else encodable(value, f"`{name}` holds what is no text")

    return Reads(read)


def _some_strings(body: Json, name: str) -> list[str]:
    return read_strings(body, name) if body.get(name) else []


def _optional_patterns(body: Json, name: str) -> list[str] | None:
    return None if body.get(name) is None else read_patterns(body, name)


def _is_true(body: Json, name: str) -> bool:
    return body.get(name) is True


_TEXT = {"type": "string"}
_DURATION = {"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "examples": ["30s", "2h", "7d"]}]}
_OPTIONAL_DURATION = {"anyOf": [_DURATION, {"type": "null"}]}
_PATTERNS = {"anyOf": [_TEXT, {"type": "array", "items": _TEXT, "minItems": 1}]}
_FILES = {"type": "object", "additionalProperties": _TEXT}

Text = Annotated[str, Reads(read_text)]
OptionalText = Annotated[str | None, Reads(read_optional_text)]
Flag = Annotated[bool, Reads(read_flag)]
OnlyTrue = Annotated[bool, Reads(_is_true)]  # anything else than true counts as false
Strings = Annotated[list[str], Reads(_some_strings)]
Scopes = Annotated[list[Scope], Reads(read_strings)]
Object = Annotated[dict[str, Any], Reads(read_object)]
Number = Annotated[int, Reads(read_number)]
Labels = Annotated[dict[str, str], Reads(read_labels, {"type": "object", "additionalProperties": _TEXT})]
Files = Annotated[dict[str, bytes], Reads(read_files, _FILES)]
Wheels = Annotated[dict[str, bytes], Reads(read_base64)]
Patterns = Annotated[list[str], Reads(read_patterns, _PATTERNS)]
OptionalPatterns = Annotated[list[str] | None, Reads(_optional_patterns, _PATTERNS)]
Duration = Annotated[float, Reads(read_seconds, _DURATION)]
OptionalDuration = Annotated[float | None, Reads(read_optional_seconds, _OPTIONAL_DURATION)]
AnswerTime = Annotated[float, Reads(read_answer_time, _DURATION)]
