"""Compares names with patterns that callers send (`web-*`), so that no pattern costs much time or memory.

An expression of one megabyte of wildcards takes seven seconds to read, and Python keeps tens of thousands of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from fnmatch import translate
from functools import lru_cache

LONGEST = 300  # letters of a pattern: names, and keys with values of labels, are shorter
MOST_PATTERNS = 100  # of one question: each is held against every agent
MOST_LETTERS = 3_000  # of its patterns together; 3,000 take some 10 ms to read
MOST_NAMES = 10_000  # of one question: those of a great fleet, which are looked up and not compared
KEPT = 1_024  # patterns whose expressions are kept: up to 20 KB each
WILD = frozenset("*?[")

Test = Callable[[str], "re.Match[str] | None"]


def is_name(pattern: str) -> bool:
    """Return True for a pattern that is the name of one agent: it has no wildcard, and no `=` of a label."""
    return WILD.isdisjoint(pattern) and "=" not in pattern


def why_too_much(patterns: Collection[str]) -> str:
    """Return what is too much of these patterns, as the end of a sentence; empty if nothing is."""
    if len(patterns) > MOST_NAMES:
        return f"has more than {MOST_NAMES:,} names"
    wild = [pattern for pattern in patterns if not is_name(pattern)]
    if len(wild) > MOST_PATTERNS:
        return f"has more than {MOST_PATTERNS} patterns beside plain names"
    if max(map(len, patterns), default=0) > LONGEST:
        return f"has a name or pattern of more than {LONGEST} letters"
    return f"has patterns of more than {MOST_LETTERS:,} letters" if sum(map(len, wild)) > MOST_LETTERS else ""


def fits_glob(text: str, pattern: str) -> bool:
    """Return True if a text fits a pattern as a whole; nothing fits one of more than LONGEST letters."""
    return len(pattern) <= LONGEST and _test(pattern)(text) is not None


def reader_of_all(patterns: Iterable[str]) -> Callable[[str, Mapping[str, str]], bool]:
    """Return the function that says if an agent's name, or one of its labels, fits one of the patterns.

    `KEY=PATTERN` is of a label. It is for many agents: names are looked up, and patterns of names are one expression.
    """
    wanted = list(patterns)
    if "*" in wanted:
        return lambda name, labels: True
    names = frozenset(pattern for pattern in wanted if is_name(pattern))
    match = _joined(tuple(pattern for pattern in wanted if not is_name(pattern) and "=" not in pattern))
    of_labels = [(key, _test(value)) for key, _, value in (each.partition("=") for each in wanted if "=" in each)]

    def fits(name: str, labels: Mapping[str, str]) -> bool:
        return (
            name in names or match(name) is not None
            or any(key in labels and test(labels[key]) is not None for key, test in of_labels)
        )  # fmt: skip

    return fits


@lru_cache(KEPT)
def _test(pattern: str) -> Test:
    return re.compile(translate(pattern)).match


@lru_cache(32)
def _joined(patterns: tuple[str, ...]) -> Test:
    return re.compile("|".join(map(translate, patterns)) or "(?!)").match
