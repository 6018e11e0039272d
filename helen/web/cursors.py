"""Cuts long lists into pages: `limit` says how many rows, `cursor` where the page before has ended. Pure.

A cursor holds the place of the last row, not a number of rows: rows that come or go in between shift nothing, and a row
that is there all the time and keeps its place is shown once. It is good for the same list with the same filters alone.
"""

from __future__ import annotations

import base64
import binascii
import json
from bisect import bisect_right
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, TypeVar

from attrs import frozen

from helen.web.problems import bad_request
from helen.web.request import ApiRequest

T = TypeVar("T")
MOST = 1_000  # rows of a page: half a megabyte of JSON
GREATEST = 2**63  # of a number: the database has no greater ones
MOST_CURSOR = 2_000  # characters; names and check ids have 255 bytes each


@frozen
class Page:
    """Describes the page that a request asks for. `limit` None: all rows. `after`: the place of the last row shown."""

    limit: int | None
    after: tuple[Any, ...] | None
    filters: str  # what the cursor is good for

    def cut(self, rows: Sequence[T], place: Callable[[T], tuple[Any, ...]]) -> tuple[Sequence[T], str | None]:
        """Return the rows of this page, of all that are sorted by `place`, and the cursor of the next page, if any."""
        first = 0 if self.after is None else bisect_right(rows, self.after, key=place)
        if self.limit is None:
            return rows[first:], None
        shown = rows[first : first + self.limit]
        more = first + self.limit < len(rows)
        return shown, self.next(place(shown[-1])) if more and shown else None

    def next(self, place: tuple[Any, ...]) -> str:
        """Return the cursor for the rows after a place."""
        return base64.urlsafe_b64encode(json.dumps([self.filters, *place]).encode()).decode().rstrip("=")


def read_page(
    request: ApiRequest, name: str, shape: tuple[type, ...], filters: Sequence[str] = (), default: int | None = None
) -> Page:
    """Return the page that a request asks for, of the list `name` with places of this shape. Raises Problem."""
    mark = sha256(json.dumps([name, *sorted(filters)]).encode()).hexdigest()[:12]
    return Page(_read_limit(request, default), _read_cursor(request, mark, shape), mark)


def _read_limit(request: ApiRequest, default: int | None) -> int | None:
    given = request.args.get(b"limit")
    if given is None:
        return default
    text = given[-1].decode("ascii", "replace")
    if not (text.isascii() and text.isdigit() and len(text) < 6 and 1 <= int(text) <= MOST):
        raise bad_request(f"`limit` is a number from 1 to {MOST}")
    return int(text)


def _read_cursor(request: ApiRequest, mark: str, shape: tuple[type, ...]) -> tuple[Any, ...] | None:
    given = request.args.get(b"cursor")
    if given is None:
        return None
    try:
        if len(given[-1]) > MOST_CURSOR:
            raise ValueError
        read = json.loads(base64.urlsafe_b64decode(given[-1] + b"=" * (-len(given[-1]) % 4)))
        kept, *place = read
    except (ValueError, TypeError, binascii.Error, RecursionError) as error:
        raise bad_request("`cursor` is none of ours: begin without one") from error
    if kept != mark:
        raise bad_request("`cursor` is of another list, or of other filters: begin without one")
    if len(place) != len(shape) or not all(_fits(each, kind) for each, kind in zip(place, shape, strict=True)):
        raise bad_request("`cursor` is none of ours: begin without one")
    return tuple(place)


def _fits(value: object, kind: type) -> bool:
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(value, str) and kind is str:
        return value.isascii() or _is_text(value)
    if isinstance(value, int) and kind is int:
        return type(value) is int and -GREATEST <= value < GREATEST
    return type(value) is kind


def _is_text(value: str) -> bool:
    """Return False for a half of a letter, which no database takes."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
