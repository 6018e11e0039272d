"""Makes the runs of a strip, one rectangle each, instead of one for each of its quarters. Pure."""

from __future__ import annotations

from itertools import groupby

from equus_protocol.results import STATUS_WORDS


def strip_runs(strip: str) -> list[tuple[int, int, str]]:
    """Return (first quarter, number of quarters, status digit) of each run of a strip."""
    runs, at = [], 0
    for digit, members in groupby(strip):
        length = len(list(members))
        runs.append((at, length, digit))
        at += length
    return runs


def strip_words(runs: list[tuple[int, int, str]]) -> str:
    """Return a strip for readers who do not see it: the newest time with each status, in hours."""
    words = (*STATUS_WORDS, "nothing known")
    said = [f"{words[int(digit)]} for {length / 4:g} h" for _, length, digit in reversed(runs)]
    return "last 12 hours, the newest first: " + ", ".join(said[:6]) + (", ..." if len(said) > 6 else "")
