"""Tests patterns of callers: they fit as fnmatch says, and nothing about them grows with the caller's patience."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest

from groundwork import globs
from groundwork.globs import (
    LONGEST,
    MOST_LETTERS,
    MOST_NAMES,
    MOST_PATTERNS,
    fits_glob,
    reader_of_all,
    why_too_much,
)

NAMES = ("web-1", "web-12", "db", "", "a.b", "web-[1]", "x" * 255, "line\nend", "näme")
PATTERNS = ("web-*", "web-?", "*", "", "db", "[wd]*", "[!w]*", "*.b", "web-[[]1]", "x*x", "line*", "n?me", "[", "*[")


@pytest.mark.parametrize("pattern", PATTERNS)
def test_it_fits_as_fnmatch_says(pattern: str) -> None:
    """Patterns fit as fnmatch says: single ones, and several of one question, for names and for labels."""
    assert [fits_glob(name, pattern) for name in NAMES] == [fnmatchcase(name, pattern) for name in NAMES]
    one, two = reader_of_all([pattern]), reader_of_all(["nobody", pattern, "no*body", "team=x"])
    assert [one(name, {}) for name in NAMES] == [two(name, {}) for name in NAMES]
    assert [one(name, {}) for name in NAMES] == [fnmatchcase(name, pattern) for name in NAMES]
    labelled = reader_of_all([f"role={pattern}"])
    assert [labelled("a", {"role": name}) for name in NAMES] == [fnmatchcase(name, pattern) for name in NAMES]
    assert not labelled("role", {"other": "web-1"})


def test_nothing_asked_is_nobody() -> None:
    """Nobody is asked without a pattern; one star among others asks everybody."""
    assert not reader_of_all([])("web-1", {"a": "b"})
    assert reader_of_all(["x", "*"])("web-1", {})


def test_a_pattern_has_a_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pattern of the greatest length is compared; a longer one fits nothing, and nothing is made of it."""
    assert fits_glob("a" * LONGEST, "a" * (LONGEST - 1) + "*")
    monkeypatch.setattr(globs, "_test", lambda pattern: pytest.fail("it was read"))
    assert not fits_glob("a" * (LONGEST + 1), "a" * LONGEST + "*")


def test_what_is_kept_has_an_end() -> None:
    """The kept patterns are bounded, where Python's own fnmatch keeps 32,768 expressions."""
    assert globs._test.cache_info().maxsize == globs.KEPT
    assert globs._joined.cache_info().maxsize == 32


@pytest.mark.parametrize(("patterns", "why"), [
    (["*"] * MOST_PATTERNS, ""),
    (["*"] * (MOST_PATTERNS + 1), "has more than 100 patterns beside plain names"),
    ([f"web-{number}" for number in range(MOST_NAMES)], ""),
    ([f"web-{number}" for number in range(MOST_NAMES + 1)], "has more than 10,000 names"),
    (["x" * LONGEST], ""),
    (["x" * (LONGEST + 1)], "has a name or pattern of more than 300 letters"),
    (["*" * 300] * (MOST_LETTERS // 300), ""),
    (["*" * 300] * (MOST_LETTERS // 300) + ["a=b"], "has patterns of more than 3,000 letters"),
    ([], ""),
])  # fmt: skip
def test_both_sides_of_each_limit(patterns: list[str], why: str) -> None:
    """A caller is told which limit its patterns have passed."""
    assert why_too_much(patterns) == why
