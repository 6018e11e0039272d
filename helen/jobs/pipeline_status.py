"""Reads what the pipeline reports about itself, STATE/history/pipeline.json, for `helen status` and /metrics.

Another process writes it (docs/pipeline.rst), so its content is checked like a peer's: a file that is too big or
makes no sense counts as none. It also says where the lake lies.
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
class PipelineReport:
    """Holds the last report of the pipeline. Counts are since its start; `segment` is the newest that the lake has.

    `at` and `last_at` are unix seconds of the pipeline's wall clock.
    """

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
        """Return True if it should have reported since. `now`: unix seconds, wall clock."""
        return self.running and now - self.at > SILENT_SECONDS

    def to_json(self, now: float) -> dict[str, Any]:
        """Return the entry `pipeline` of GET /api/v1/status. `now`: unix seconds, wall clock."""
        return {
            "heard": self.at, "state": self.state(now), "lake": self.lake, "segment": self.segment,
            "behind": self.behind, "behind_seconds": self.seconds, "results": self.results, "batches": self.batches,
            "batch_results": self.last_results, "batch_seconds": self.last_seconds,
            "results_per_second": self.results_per_second, "error": self.error,
        }  # fmt: skip

    def state(self, now: float) -> str:
        """Return `running`, `ended`, `failed` (with an error) or `silent`. `now`: unix seconds, wall clock."""
        if self.is_silent(now):
            return "silent"
        if self.running:
            return "running"
        return "failed" if self.error else "ended"


class PipelineWatch:
    """Keeps the last report as `latest`; None: no pipeline has ever run here, or its file can't be read."""

    def __init__(self, history: Path) -> None:
        self._history = history
        self.latest: PipelineReport | None = None

    def look(self) -> Deferred[None]:
        """Read the file, in a thread."""
        return deferToThread(read, self._history / FILE).addCallback(self._take)

    def _take(self, report: PipelineReport | None) -> None:
        self.latest = report

    @property
    def lake(self) -> Path:
        """Return the folder of the lake: the one that the pipeline reports, else one in the history."""
        return self._history / "lake" if self.latest is None else Path(self.latest.lake)

    def overview(self, now: float) -> dict[str, Any] | None:
        """Return the last report as JSON, None without one. `now`: unix seconds, wall clock."""
        return None if self.latest is None else self.latest.to_json(now)


def read(path: Path) -> PipelineReport | None:
    """Return the report of a file, None if there is none that can be used. Blocks."""
    try:
        with path.open("rb") as file:
            document = json.loads(file.read(MOST_BYTES))
        return report_of(document)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def report_of(document: Mapping[str, Any]) -> PipelineReport:
    """Return the report of a JSON document.

    Raises ValueError, LookupError, TypeError or AttributeError if it is none.
    """
    last = document.get("last") or {"at": 0.0, "results": 0, "seconds": 0.0, "results_per_second": 0.0}
    error = document.get("error")
    return PipelineReport(
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
