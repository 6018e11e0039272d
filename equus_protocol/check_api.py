"""Tell the version of what checks are written against: host calls, fields of a check's table, globals of the sandbox.

The second number grows when something is added, the first when something is taken away or changes its meaning. A set of
checks from elsewhere names the versions that it was written for (docs/sets.rst). Pure.
"""

from __future__ import annotations

import re

API = (1, 0)
_VERSION = re.compile(r"\d{1,6}\.\d{1,6}")


def read_api(text: str) -> tuple[int, int]:
    """Return a version such as "1.0" as two numbers. Raises ValueError for another text."""
    if not _VERSION.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is no version of the API of checks, such as 1.0")
    first, second = text.split(".")
    return int(first), int(second)


def api_text(version: tuple[int, int] = API) -> str:
    """Return a version as it is written."""
    return f"{version[0]}.{version[1]}"
