"""Defines what a question in PromQL may fail with, and the numbers that bound it. Values only.

Each failure has the HTTP status and the word that Prometheus' API gives to failures of its kind.
"""

from __future__ import annotations

MOST_TEXT = 5_000  # characters of a question: the parser takes the square of the time, 1 s at this length
MOST_DEPTH = 100  # of brackets, signs and operators within each other
MOST_SELECTORS = 20  # of one question: each is a walk through the history
MOST_STEPS = 11_000  # of one answer, as Prometheus has it
MOST_SERIES = 10_000  # that one selector may find
MOST_SAMPLES = 5_000_000  # read for one question: 80 MB
MOST_CELLS = 4_000_000  # series times steps that are in memory for each part of a question: 36 MB
MOST_POINTS = 500_000  # in one answer: some 17 MB of JSON
MOST_TRIES = 2_000_000  # times that an expression's steps are tried on a character of a label
MOST_SEGMENTS = 3_000  # of the journal, read for one question: 8 hours at one each 10 s
SECONDS = 30.0  # for one question, the waiting not included
MEMORY = 1 << 30  # bytes of data of the process that answers


class Refused(Exception):
    """Says why a question gets no answer; `status` and `kind` are those of Prometheus' API."""

    status, kind = 422, "execution"


class BadData(Refused):
    """Says that a question makes no sense: it can't be read, or a parameter is none."""

    status, kind = 400, "bad_data"


class Unsupported(Refused):
    """Says that a question uses a part of PromQL that Helen does not have. The text names the part."""


class TooMuch(Refused):
    """Says that a question is about more than one answer can be made from. The text says how to ask for less."""


class TimedOut(Refused):
    """Says that a question took too long."""

    status, kind = 503, "timeout"


class Unavailable(Refused):
    """Says that nothing can be asked now, or that what is asked can't be read."""

    status, kind = 503, "unavailable"
