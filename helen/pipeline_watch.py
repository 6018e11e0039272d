"""What the pipeline says of itself, for `helen status` and /metrics: STATE/history/pipeline.json, read now and then.

Another process writes it (docs/pipeline.rst), so nothing in it is believed before it has been looked at, and a file
that is too big or makes no sense counts as none. It also says where the lake lies.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

LOOK_SECONDS = 10.0  # as often as the pipeline takes something in
SILENT_SECONDS = 120.0  # without a sign of life, of which there is one each 15 s: it has died
MOST_BYTES = 65_536  # the file has some 600
MOST_TEXT = 4_096  # characters of a path, or of a sentence
FILE = "pipeline.json"


@frozen
class Said:
    """The last words of the pipeline. Numbers since its start; `segment` is the newest that the lake has."""

    at: float
    running: bool
    lake: str
    segment: int
    behind: int
    seconds: float  # since the oldest segment that the lake doesn't have
    results: int
    batches: int
    last_at: float  # when the last batch was published; 0 before the first
    last_results: int
    last_seconds: float
    results_per_second: float
    error: str | None = None

    def is_silent(self, now: float) -> bool:
        """Whether it should have said something since."""
        return self.running and now - self.at > SILENT_SECONDS

    def to_json(self, now: float) -> dict[str, Any]:
        return {
            "heard": self.at, "state": self.state(now), "lake": self.lake, "segment": self.segment,
            "behind": self.behind, "behind_seconds": self.seconds, "results": self.results, "batches": self.batches,
            "batch_results": self.last_results, "batch_seconds": self.last_seconds,
            "results_per_second": self.results_per_second, "error": self.error,
        }  # fmt: skip

    def state(self, now: float) -> str:
        """running, ended, failed (with an error), or silent."""
        if self.is_silent(now):
            return "silent"
        if self.running:
            return "running"
        return "failed" if self.error else "ended"


class PipelineWatch:
    """`latest` is what was read last; None: no pipeline has ever run here, or its file can't be read."""

    def __init__(self, history: Path) -> None:
        self._history = history
        self.latest: Said | None = None

    def look(self) -> Deferred[None]:
        """Reads the file in a thread."""
        return deferToThread(read, self._history / FILE).addCallback(self._take)

    def _take(self, said: Said | None) -> None:
        self.latest = said

    @property
    def lake(self) -> Path:
        """Where the pipeline has put it; in the history, where nobody has said otherwise."""
        return self._history / "lake" if self.latest is None else Path(self.latest.lake)

    def overview(self, now: float) -> dict[str, Any] | None:
        return None if self.latest is None else self.latest.to_json(now)


def read(path: Path) -> Said | None:
    """Blocks, shortly."""
    try:
        with path.open("rb") as file:
            document = json.loads(file.read(MOST_BYTES))
        return said_of(document)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def said_of(document: Mapping[str, Any]) -> Said:
    """Raises ValueError, LookupError, TypeError or AttributeError for what it can't be."""
    last = document.get("last") or {"at": 0.0, "results": 0, "seconds": 0.0, "results_per_second": 0.0}
    error = document.get("error")
    return Said(
        at=_number(document["at"]), running=document["running"] is True, lake=_text(document["lake"]),
        segment=_count(document["segment"]), behind=_count(document["behind"]), seconds=_number(document["seconds"]),
        results=_count(document["results"]), batches=_count(document["batches"]), last_at=_number(last["at"]),
        last_results=_count(last["results"]), last_seconds=_number(last["seconds"]),
        results_per_second=_number(last["results_per_second"]), error=None if error is None else _text(error),
    )  # fmt: skip


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ValueError(f"{value!r} is no number")
    return float(value)


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise ValueError(f"{value!r} is no count")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise ValueError(f"{value!r} is no text")
    return value[:MOST_TEXT]
