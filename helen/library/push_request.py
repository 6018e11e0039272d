"""Reads what a push brings: files by name, and how it goes out. The HTTP API and `equus.push` take the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve

from helen.rollout.gate_limits import Limits, read_limits
from helen.rollout.rings import read_fraction, read_rings
from helen.rollout.rollout import Plan


class BadPushRequest(ValueError):
    """Says that a parameter of a push has a value that can't be used; the text names both."""


def read_files(params: Mapping[str, Any], name: str) -> dict[str, bytes]:
    """Return the bytes of each file of `params[name]`, by its name; no files if the parameter is missing.

    A byte that is no UTF-8 comes as a surrogate (Python's surrogateescape). Raises BadPushRequest for anything else
    than an object of texts.
    """
    files = params.get(name, {})
    if not isinstance(files, dict) or not all(isinstance(text, str) for text in files.values()):
        raise BadPushRequest(f"`{name}` is an object of file names and their text")
    try:
        return {file: text.encode("utf-8", "surrogateescape") for file, text in files.items()}
    except UnicodeEncodeError as error:
        raise BadPushRequest(f"`{name}` holds what is no text: {error.reason}") from error


def read_plan(params: Mapping[str, Any], usual: Plan) -> Plan:
    """Return the plan of a push: `rings`, or `canary` for the first of two rings, and `gates` by name.

    Missing fields are taken from `usual`. Raises BadPushRequest for a value that can't be used, and for `rings` and
    `canary` at once.
    """
    rings, canary = _read_text(params, "rings"), params.get("canary")
    if rings is not None and canary is not None:
        raise BadPushRequest("`rings` and `canary` at once: `canary` is short for rings of which the last is all")
    if canary is not None:
        rings = _read_canary(canary)
    limits = _read_gates(params, usual)
    if rings is None:
        return evolve(usual, limits=limits)
    try:
        return Plan(read_rings(rings), limits)
    except ValueError as error:
        raise BadPushRequest(f"`rings`: {error}") from error


def _read_text(params: Mapping[str, Any], name: str) -> str | None:
    value = params.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise BadPushRequest(f"`{name}` is missing, or no text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise BadPushRequest(f"`{name}` is no text: {error.reason}") from error
    return value


def _read_gates(params: Mapping[str, Any], usual: Plan) -> Limits:
    given = params.get("gates") or {}
    if not isinstance(given, dict):
        raise BadPushRequest("`gates` is a JSON object")
    if not all(isinstance(value, str) for value in given.values()):
        raise BadPushRequest('`gates` is an object of names and texts, such as {"errors": "5%"}')
    try:
        return read_limits(given, usual.limits)
    except ValueError as error:
        raise BadPushRequest(f"`gates`: {error}") from error


def _read_canary(canary: Any) -> str:
    try:
        read_fraction(str(canary))
    except ValueError as error:
        raise BadPushRequest(f"`canary`: {error}") from error
    return str(canary)
