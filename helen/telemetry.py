"""Counts and measures Helen itself, for /metrics. Nothing is decided by these figures.

Pure and bounded: each counter's labels are words of ours (the first MOST_WORDS of them, then `other`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from attrs import frozen

from equus_protocol.results import STATUS_WORDS

MOST_WORDS = 50  # values of one label: errors and outcomes are a dozen; this is for words that a peer may choose
QUICK = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)  # seconds of what should be none
SLOW = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)  # of a check: its timeout is 10 s
LOOKS_KEPT = 240  # of the reactor's lag: those of a minute
LATE = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3_600.0)  # of results on their way: spools hold them


class Histogram:
    """Counts how often a figure was at most each bound. One thread observes; any may read."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.sum = 0.0
        self._counts = [0] * (len(self.bounds) + 1)

    def observe(self, value: float) -> None:
        """Count one value, in the unit of the bounds."""
        self._counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def observe_all(self, values: Iterable[float]) -> None:
        """Count many values, in the unit of the bounds: a call for each would be most of what counting costs."""
        counts, bounds, added = self._counts, self.bounds, 0.0
        for value in values:
            counts[bisect_left(bounds, value)] += 1
            added += value
        self.sum += added

    def cumulative(self) -> list[int]:
        """Return, for each bound and at last for infinity, how many values were not above it."""
        counts, sum_ = list(self._counts), 0
        for at, count in enumerate(counts):
            sum_ += count
            counts[at] = sum_
        return counts


class Words(Counter[str]):
    """Counts by a word of a small vocabulary; what comes when it is full counts as `other`."""

    def count(self, word: str) -> None:
        self[word if word in self or len(self) < MOST_WORDS else "other"] += 1


class Stored(Protocol):
    """Describes a durable result as far as it is counted (helen.journal.values.StoredResult)."""

    @property
    def entry(self) -> Any: ...

    @property
    def document(self) -> Any: ...


@frozen
class Look:
    """Describes a look at the reactor: how many seconds late it came, and how many of these Helen held the reactor.

    `held` is None where the kernel does not tell how long a thread waits for a processor.
    """

    lag: float
    held: float | None


class Telemetry:
    """Holds the figures of one Helen, from its start on."""

    def __init__(self) -> None:
        self.results = Counter(dict.fromkeys(STATUS_WORDS, 0))
        self.duration = Histogram(SLOW)
        self.lag = Histogram(LATE)
        self.loop_lag = Histogram(QUICK)
        self.loop_held = Histogram(QUICK)  # what of that lag was no wait for a processor
        self.processor_wait: float | None = None  # seconds of the reactor's thread; None: the kernel does not tell
        self.looks: deque[Look] = deque(maxlen=LOOKS_KEPT)
        self.requests = Words()  # of the HTTP API, by the class of the answer
        self.pushed = 0  # times that agents were told of another set of checks
        self.streams_cut = 0

    def looked(self, look: Look, waited: float | None) -> None:
        """Count a look at the reactor. `waited`: all seconds that its thread has waited for a processor so far."""
        self.looks.append(look)
        self.loop_lag.observe(look.lag)
        self.processor_wait = waited
        if look.held is not None:
            self.loop_held.observe(look.held)

    def cut(self) -> None:
        """Count a stream that was ended because its reader was too slow."""
        self.streams_cut += 1

    def count_push(self) -> None:
        """Count a set of checks that agents are told of."""
        self.pushed += 1

    def durable(self, results: Iterable[Stored]) -> None:
        """Count results that are on disk, scheduled or asked for."""
        words, durations, lags = self.results, [], []
        for stored in results:
            document = stored.document
            words[document.word] += 1
            started, took = document.started, document.took_ms
            if took is not None:
                took /= 1_000
                durations.append(took)
            if started is not None:
                lag = stored.entry.received - (started + (took or 0.0))
                lags.append(lag if lag > 0.0 else 0.0)
        self.duration.observe_all(durations)
        self.lag.observe_all(lags)
