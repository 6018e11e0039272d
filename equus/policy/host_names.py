"""Compare host names with the patterns of a policy. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

_NAME = re.compile(r"(?:\*\.)?(?!-)[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*")
MOST_CHARACTERS = 253


def read_pattern(text: object) -> str:
    """Return a host name, or `*.` and a domain, as they are compared: lower case, ASCII, without a dot at the end.

    Raises ValueError if it is neither.
    """
    if not isinstance(text, str):
        raise ValueError("has a name that is not a text")
    try:
        plain = canonical(text if text.isascii() else text.encode("idna").decode("ascii"))
    except UnicodeError:
        plain = ""
    if len(plain) > MOST_CHARACTERS or not _NAME.fullmatch(plain):
        raise ValueError(f'has {text!r}; a name is "db.example.org", or "*.example.org" for all below')
    return plain


def canonical(host: str) -> str:
    """Return a host name in lower case, without the dot of the root."""
    return host.lower().removesuffix(".")


def fits(host: str, patterns: Iterable[str]) -> bool:
    """Return True if a pattern is this name, or is `*.` and a domain above it."""
    name = canonical(host)
    return any(name == known or (known.startswith("*.") and name.endswith(known[1:])) for known in patterns)
