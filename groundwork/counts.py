"""Write numbers of things as people do: `1 agent`, `2 agents`, `0 files`, `3 matches`, `1 query`, `2 queries`.

The rule is that of English nouns: a noun that has another plural is written with it, `count(n, "series", "series")`.
"""

from __future__ import annotations

from collections.abc import Sequence

_HISSING = ("s", "x", "z", "ch", "sh")
_VOWELS = "aeiou"


def count(number: float, noun: str, plural: str = "") -> str:
    """Return a number and its noun, which is singular for 1 alone."""
    shown = number if isinstance(number, int) else f"{number:g}"
    return f"{shown} {noun if number == 1 else plural or plural_of(noun)}"


def plural_of(noun: str) -> str:
    """Return the plural of an English noun that follows the rule; of several words the last one changes."""
    if noun.endswith("y") and noun[-2:-1] not in _VOWELS:
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(_HISSING) else f"{noun}s"


def is_or_are(number: float) -> str:
    """Return the verb behind a number of things: `is` for 1 alone."""
    return "is" if number == 1 else "are"


def all_of(names: Sequence[str]) -> str:
    """Return names as a list in a sentence: `a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)
