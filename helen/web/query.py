"""Reads parameters of the query, which come as bytes and may be repeated."""

from __future__ import annotations

import math

from groundwork.durations import parse_duration
from groundwork.globs import why_too_much
from helen.web.problems import bad_request
from helen.web.request import ApiRequest

LATEST = 253_402_300_800  # the year 10000, in unix seconds: what has no date is no time


def texts(request: ApiRequest, name: str) -> list[str]:
    """Return all values of a parameter; what is no UTF-8 in them is replaced."""
    values: list[bytes] = request.args.get(name.encode(), [])
    return [value.decode("utf-8", "replace") for value in values]


def first_text(request: ApiRequest, name: str) -> str | None:
    """Return the first value of a parameter, or None if it is not given."""
    return next(iter(texts(request, name)), None)


def patterns_in(request: ApiRequest, name: str = "on") -> list[str]:
    """Return the names and patterns of a parameter. Raises Problem for more than can be compared in a moment."""
    given = texts(request, name)
    if why := why_too_much(given):
        raise bad_request(f"`{name}` {why}")
    return given


def read_moment(name: str, text: str | None, now: float, default: float) -> float:
    """Return unix seconds, given so or as how long ago: `1790000000` or `6h`. `now`: unix seconds. Raises Problem."""
    if text is None:
        return default
    try:
        moment = now - parse_duration(text) if text[-1:].isalpha() else float(text)
    except ValueError as error:
        raise bad_request(f"`{name}` is unix seconds, or how long ago, such as 6h") from error
    if not math.isfinite(moment) or not 0 <= moment <= LATEST:
        raise bad_request(f"`{name}` is a time from 1970 to 9999, in unix seconds, or how long ago")
    return moment
