"""Finds the samples of a question: in the lake, in segments of the journal, and among results that are in none yet.

The resolution is chosen as pages do it, by the time that is asked for (docs/prometheus.rst): single results for some
hours, then buckets of m5, h1 and d1. No bucket is longer than half of the shortest range of the question. It blocks.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from attrs import define, field, frozen

from helen.journal.unread import HistoryUnread
from helen.promql.errors import MOST_SEGMENTS, BadData, Unavailable
from helen.promql.evaluate import Found
from helen.promql.gathering import Gathering
from helen.promql.kept_pieces import KeptPieces
from helen.promql.matching import Budget, Match
from helen.promql.needs import ALL, Needs
from helen.promql.nodes import Selector
from helen.promql.segment_source import SegmentSource
from helen.promql.series_labels import Choice
from helen.promql.wire import Unsealed

RAW = "raw"
RAW_MILLIS = 6 * 3_600_000  # a question about no longer time is answered from single results
LISTED_SEGMENTS = 400  # that are read for a list of series where there is no lake: an hour or so
LAKE = "helen.promql.lake_source"
DAY = 86_400_000
Millis = int


@frozen
class Facts:
    """Holds what the asking process tells: where the history lies, agents with their labels, who may be seen."""

    state: Path
    lake: Path
    agents: Mapping[str, Mapping[str, str]]
    sees: Callable[[str], bool]
    unsealed: Sequence[Unsealed] = ()


@define
class Archive:
    """Reads samples for one question. `kept` has what questions before it have read of the lake."""

    facts: Facts
    kept: KeptPieces = field(factory=KeptPieces)
    budget: Budget = field(factory=Budget)
    _lake: Any = field(init=False)
    _segments: SegmentSource = field(init=False)

    def __attrs_post_init__(self) -> None:
        history = self.facts.state / "history"
        committed = _committed(history / "committed")  # before the lake is opened: a segment is never in neither
        self._lake = _open(self.facts.lake, self.kept)
        self._segments = SegmentSource(history, committed if self._lake is not None else -1, self.facts.unsealed)

    def resolution(self, begin: Millis, end: Millis, shortest: Millis | None = None, given: str | None = None) -> str:
        """Return the resolution for a span, or the one that is given. Raises BadData for one that there isn't.

        `shortest` is the shortest range of the question.
        """
        levels = {} if self._lake is None else self._lake.lake.levels
        if given is not None:
            if given not in (RAW, *levels):
                raise BadData(f"`resolution` is one of {', '.join((RAW, *levels))}; without it the span decides")
            return given
        spans = {RAW: RAW_MILLIS / DAY} | {name: level.most_days for name, level in levels.items()}
        lengths = {RAW: 0} | {name: level.seconds * 1000 for name, level in levels.items()}
        usable: list[str] = [name for name in spans if shortest is None or 2 * lengths[name] <= shortest]
        fitting = [name for name in usable if spans[name] >= (end - begin) / DAY] or usable[-1:]
        if self._lake is None:
            return fitting[0]
        finer = usable[: usable.index(fitting[0])]
        reaching = self._reaching(fitting, begin)
        return reaching or next((name for name in reversed(finer) if self._lake.oldest(name)), usable[0])

    def step(self, resolution: str) -> Millis:
        """Return the length of a bucket; 0 for single results."""
        return 0 if resolution == RAW else int(self._lake.lake.levels[resolution].seconds * 1000)

    def gather(self, matches: Iterable[Match], begin: Millis, end: Millis, resolution: str,
               names_only: bool = False, needed: frozenset[str] = ALL) -> Gathering:  # fmt: skip
        """Return the series that meet the conditions, with samples between two moments. Raises Refused."""
        choice = Choice(tuple(matches), self.facts.agents, self.facts.sees, self.budget)
        found = Gathering(choice, names_only, needed)
        span = begin * 1000, end * 1000 + 999
        try:
            if self._lake is not None:
                self._lake.gather(found, resolution, *span)
            if resolution == RAW or names_only:
                most = LISTED_SEGMENTS if names_only else MOST_SEGMENTS
                self._segments.gather(found, *span, most, newest_only=names_only)
        except MemoryError:
            raise
        except _faults() as error:
            raise Unavailable(f"the history can't be read ({error}): `helen pipeline doctor`") from error
        return found

    def has_lake(self) -> bool:
        """Return True if there is a lake that can be read."""
        return self._lake is not None

    def _reaching(self, fitting: Sequence[str], begin: Millis) -> str | None:
        """Return the finest that reaches back so far, else that which reaches furthest. None: all are empty."""
        first = datetime.fromtimestamp(begin / 1000, UTC).date()
        chosen = reach = None
        for name in fitting:
            if reach is not None and reach <= first:
                break
            further = self._lake.oldest(name)
            if further is not None and (reach is None or further < reach):
                chosen, reach = name, further
        return chosen


@define
class Reader:
    """Reads the samples of selectors: each of them once, from the times that its steps need."""

    archive: Archive
    spans: Mapping[Selector, tuple[Millis, Millis]]
    resolution: str
    needs: Needs
    _known: dict[tuple[tuple[Match, ...], tuple[Millis, Millis]], Found] = field(init=False, factory=dict)

    def of(self, selector: Selector) -> Found:
        """Return the series that a selector picks. Raises Refused."""
        key = selector.matches, self.spans[selector]
        if key not in self._known:
            alike = (each for each in self.spans if (each.matches, self.spans[each]) == key)
            needed = frozenset[str]().union(*(self.needs.of_each[each] for each in alike))
            found = self.archive.gather(selector.matches, *key[1], self.resolution, needed=needed)
            self._known[key] = found.found()
        return self._known[key]


def _open(folder: Path, kept: KeptPieces) -> Any:
    """Return the lake; None where there is none, or the extra that reads it is not installed. Raises Unavailable."""
    try:
        source = importlib.import_module(LAKE)
    except ImportError:
        return None
    return source.LakeSource.of(folder, kept)


def _faults() -> tuple[type[Exception], ...]:
    """Return the errors of a history that can't be read, those of the lake too where what reads it is installed."""
    try:
        lake: tuple[type[Exception], ...] = importlib.import_module(LAKE).FAULTS
    except ImportError:
        lake = ()
    return OSError, pa.ArrowException, HistoryUnread, *lake


def _committed(path: Path) -> int:
    """Return the number of the last segment that the lake has; -1 if that is not known, so that all are read."""
    try:
        return int(path.read_text("ascii"))
    except (OSError, ValueError):
        return -1
