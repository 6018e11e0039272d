"""Writes the status of a run: small files, each replaced whole, for other programs and for people.

    LAKE/status.json         the run and all of its histories; `helen pipeline doctor` reads it
    HISTORY/pipeline.json    the same about one history, for its Helen: `helen status`, /metrics, and the place of the
                             lake

docs/pipeline.rst describes both. They are written after each batch and each BEAT seconds, so that a run that died can
be told from one that has nothing to do. Nothing is computed from them: the lake itself knows how far it is.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from groundwork.atomic_write import PUBLIC, write_durably
from helen.pipeline.ingest.histories import CHANGES, RESULTS, History
from helen.pipeline.lake.places import write_bytes

BEAT = 15.0  # seconds between two signs of life: two syncs of a few hundred bytes
MOST_COUNTED = 100_000  # segments that a lake may be behind; 11 days of them. Looking for so many takes 0.2 s
LAKE_FILE = "status.json"
HISTORY_FILE = "pipeline.json"


@frozen
class Batch:
    """Counts the rows of one batch, and the seconds it took; `at` is unix seconds."""

    at: float
    results: int
    changes: int
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Return {"at", "results", "changes", "seconds", "results_per_second"}."""
        pace = round(self.results / self.seconds, 1) if self.seconds else 0.0
        return {"at": round(self.at, 3), "results": self.results, "changes": self.changes,
                "seconds": round(self.seconds, 3), "results_per_second": pace}  # fmt: skip


@frozen
class RunStatus:
    """Counts since a run began. `error` is the failure that ended it, or the one that it is in now."""

    lake: Path
    trigger: float
    running: bool = True
    results: int = 0
    changes: int = 0
    batches: int = 0
    last: Batch | None = None
    error: str | None = None

    def with_batch(self, batch: Batch) -> RunStatus:
        return evolve(
            self, results=self.results + batch.results, changes=self.changes + batch.changes, batches=self.batches + 1,
            last=batch,
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        return {
            "at": round(time.time(), 3), "pid": os.getpid(), "lake": str(self.lake), "trigger": self.trigger,
            "running": self.running, "results": self.results, "changes": self.changes, "batches": self.batches,
            "last": None if self.last is None else self.last.to_json(), "error": self.error,
        }  # fmt: skip


def write(status: RunStatus, histories: Mapping[int, History], published: Mapping[str, Mapping[str, int]]) -> int:
    """Write both kinds of files. Returns how many segments all histories together are ahead of the lake."""
    common = status.to_json()
    behind = {helen: lag(history, published[str(helen)]) for helen, history in histories.items()}
    for helen, history in histories.items():
        write_durably(history.folder / HISTORY_FILE, json.dumps(common | behind[helen]).encode(), PUBLIC)
    folders = {str(history.folder): behind[helen] for helen, history in histories.items()}
    write_bytes(status.lake / LAKE_FILE, json.dumps(common | {"helens": folders}).encode())
    return sum(each["behind"] for each in behind.values())


def lag(history: History, published: Mapping[str, int]) -> dict[str, Any]:
    """Return how far a history is ahead of the lake: {"segment", "change", "behind": SEGMENTS, "seconds": AGE}."""
    reach = history.next_after(RESULTS, published[RESULTS], MOST_COUNTED)
    seconds = 0.0
    if reach is not None:
        with contextlib.suppress(FileNotFoundError):  # Helen has deleted it meanwhile
            seconds = max(0.0, time.time() - history.path(RESULTS, reach[0]).stat().st_mtime)
    return {"segment": published[RESULTS], "change": published[CHANGES],
            "behind": 0 if reach is None else reach[1] - reach[0] + 1, "seconds": round(seconds, 1)}  # fmt: skip
