"""What clients send: JSON bodies, read into values at the door. Each fault is a Problem with status 400 or 413."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

from attrs import evolve
from twisted.internet.threads import deferToThread

from helen.durations import seconds
from helen.gate_limits import read_limits
from helen.rings import read_fraction, read_rings
from helen.rollout import Plan
from helen.runs import MAX_ASKED_SECONDS
from helen.web.problems import Problem

MAX_BODY = 8 * 1024 * 1024  # bytes of a request: a push of a folder of checks
DEFAULT_TIMEOUT = 30.0  # seconds of a question
AT_ONCE = 65_536  # bytes of JSON: about a millisecond; greater ones are read in a thread


async def read_body(request: Any) -> dict[str, Any]:
    """The JSON object of a request; an empty body is an empty object."""
    raw = request.content.read(MAX_BODY + 1)
    if len(raw) > MAX_BODY:
        raise Problem(413, "too large", f"a request holds at most {MAX_BODY} bytes")
    return _read_object(raw) if len(raw) <= AT_ONCE else await deferToThread(_read_object, raw)


def _read_object(raw: bytes) -> dict[str, Any]:
    try:
        body = json.loads(raw or b"{}")
    except (ValueError, RecursionError) as error:
        raise Problem(400, "bad request", f"the body is no JSON: {error}") from error
    if not isinstance(body, dict):
        raise Problem(400, "bad request", "the body is no JSON object")
    return body


def read_text(body: dict[str, Any], key: str) -> str:
    """A text that must be there, and that UTF-8 has bytes for."""
    value = body.get(key)
    if not isinstance(value, str) or not value:
        raise Problem(400, "bad request", f"`{key}` is missing, or no text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise Problem(400, "bad request", f"`{key}` is no text: {error.reason}") from error
    return value


def read_optional_text(body: dict[str, Any], key: str) -> str | None:
    return None if body.get(key) is None else read_text(body, key)


def wants_dry_run(request: Any, body: dict[str, Any]) -> bool:
    """Whether only to say what would happen: `"dry_run": true` in the body, or `?dry_run=true`; the gate is told."""
    given = body.get("dry_run", False)
    if not isinstance(given, bool):
        raise Problem(400, "bad request", "`dry_run` is true or false")
    asked = request.args.get(b"dry_run", [b"false"])[-1].lower()
    if asked not in (b"true", b"false", b"1", b"0", b""):
        raise Problem(400, "bad request", "`dry_run` is true or false")
    request.is_dry_run = given or asked in (b"true", b"1", b"")
    return bool(request.is_dry_run)


def read_flag(body: dict[str, Any], key: str) -> bool:
    value = body.get(key, False)
    if not isinstance(value, bool):
        raise Problem(400, "bad request", f"`{key}` is true or false")
    return value


def read_strings(body: dict[str, Any], key: str) -> list[str]:
    """A list of texts, or one."""
    value = body.get(key)
    value = [value] if isinstance(value, str) else value
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise Problem(400, "bad request", f"`{key}` is a list of texts")
    return value


def read_patterns(body: dict[str, Any], key: str) -> list[str]:
    """Which agents: one pattern, or a list of them."""
    patterns = body.get(key)
    patterns = [patterns] if isinstance(patterns, str) else patterns
    if not isinstance(patterns, list) or not patterns or not all(isinstance(pattern, str) for pattern in patterns):
        raise Problem(400, "bad request", f"`{key}` is a name, a pattern such as web*, KEY=VALUE, or a list of them")
    return patterns


def read_object(body: dict[str, Any], key: str) -> dict[str, Any]:
    value = body.get(key) or {}
    if not isinstance(value, dict):
        raise Problem(400, "bad request", f"`{key}` is a JSON object")
    return value


def read_files(body: dict[str, Any], key: str) -> dict[str, bytes]:
    """File names and their text; bytes that are no UTF-8 come as surrogates (Python's surrogateescape)."""
    files = body.get(key, {})
    if not isinstance(files, dict) or not all(isinstance(text, str) for text in files.values()):
        raise Problem(400, "bad request", f"`{key}` is an object of file names and their text")
    try:
        return {name: text.encode("utf-8", "surrogateescape") for name, text in files.items()}
    except UnicodeEncodeError as error:
        raise Problem(400, "bad request", f"`{key}` holds what is no text: {error.reason}") from error


def read_base64(body: dict[str, Any], key: str) -> dict[str, bytes]:
    """File names and their bytes, written in base64."""
    files = body.get(key)
    try:
        if not isinstance(files, dict):
            raise ValueError
        return {name: base64.b64decode(text, validate=True) for name, text in files.items()}
    except (TypeError, ValueError) as error:
        raise Problem(400, "bad request", f"`{key}` is an object of file names and their bytes in base64") from error


def read_plan(body: dict[str, Any], usual: Plan) -> Plan:
    """How a push goes out: `rings`, or `canary` for the first of two; `gates` by name. What isn't said is as usual."""
    rings, canary = read_optional_text(body, "rings"), body.get("canary")
    if rings is not None and canary is not None:
        raise Problem(
            400, "bad request", "`rings` and `canary` at once: `canary` is short for rings of which the last is all"
        )
    if canary is not None:
        rings = _read_canary(canary)
    said = read_object(body, "gates")
    if not all(isinstance(value, str) for value in said.values()):
        raise Problem(400, "bad request", '`gates` is an object of names and texts, such as {"errors": "5%"}')
    try:
        limits = read_limits(said, usual.limits)
    except ValueError as error:
        raise Problem(400, "bad request", f"`gates`: {error}") from error
    if rings is None:
        return evolve(usual, limits=limits)
    try:
        return Plan(read_rings(rings), limits)
    except ValueError as error:
        raise Problem(400, "bad request", f"`rings`: {error}") from error


def _read_canary(canary: Any) -> str:
    try:
        read_fraction(str(canary))
    except ValueError as error:
        raise Problem(400, "bad request", f"`canary`: {error}") from error
    return str(canary)


def read_optional_seconds(body: dict[str, Any], key: str) -> float | None:
    """A duration, or None where there is none."""
    return None if body.get(key) is None else read_seconds(body, key, 0.0)


def read_asking_time(body: dict[str, Any]) -> float:
    """`timeout`: how long agents have for an answer."""
    timeout = read_seconds(body, "timeout", DEFAULT_TIMEOUT)
    if not 0 < timeout <= MAX_ASKED_SECONDS:
        raise Problem(400, "bad request", f"`timeout` is more than 0 and at most {MAX_ASKED_SECONDS:g} s")
    return timeout


def read_seconds(body: dict[str, Any], key: str, default: float) -> float:
    try:
        value = seconds(body.get(key, default))
    except ValueError as error:
        raise Problem(400, "bad request", f"`{key}`: {error}") from error
    if not math.isfinite(value):
        raise Problem(400, "bad request", f"`{key}` is no duration")
    return value
