"""What a run says of itself: small files, each replaced whole, for whoever looks at it from outside.

    LAKE/status.json         the run and all of its histories; `helen pipeline doctor` reads it
    HISTORY/pipeline.json    the same about one history, for the Helen whose it is: `helen status`, /metrics, and where
                             her lake lies

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

from helen.pipeline.disk import write_whole
from helen.pipeline.histories import CHANGES, RESULTS, History

BEAT = 15.0  # seconds between two signs of life: two syncs of a few hundred bytes
MOST_COUNTED = 100_000  # segments that somebody may be behind; 11 days of them. Looking for so many takes 0.2 s
LAKE_FILE = "status.json"
HISTORY_FILE = "pipeline.json"


@frozen
class Batch:
    """What one batch brought, and how long that took."""

    at: float
    results: int
    changes: int
    seconds: float

    def to_json(self) -> dict[str, Any]:
        pace = round(self.results / self.seconds, 1) if self.seconds else 0.0
        return {"at": round(self.at, 3), "results": self.results, "changes": self.changes,
                "seconds": round(self.seconds, 3), "results_per_second": pace}  # fmt: skip


@frozen
class Told:
    """Since this run began. `error` is why it has ended, if not because somebody wanted it to; or what fails in it."""

    lake: Path
    trigger: float
    running: bool = True
    results: int = 0
    changes: int = 0
    batches: int = 0
    last: Batch | None = None
    error: str | None = None

    def with_batch(self, batch: Batch) -> Told:
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


def write(told: Told, histories: Mapping[int, History], published: Mapping[str, Mapping[str, int]]) -> int:
    """Both kinds of files. Returns how many segments all histories together are ahead of the lake."""
    common = told.to_json()
    behind = {helen: lag(history, published[str(helen)]) for helen, history in histories.items()}
    for helen, history in histories.items():
        write_whole(history.folder / HISTORY_FILE, json.dumps(common | behind[helen]).encode())
    folders = {str(history.folder): behind[helen] for helen, history in histories.items()}
    write_whole(told.lake / LAKE_FILE, json.dumps(common | {"helens": folders}).encode())
    return sum(each["behind"] for each in behind.values())


def lag(history: History, published: Mapping[str, int]) -> dict[str, Any]:
    """How far a history is ahead of the lake, in segments and in seconds since the oldest unpublished one."""
    reach = history.next_after(RESULTS, published[RESULTS], MOST_COUNTED)
    seconds = 0.0
    if reach is not None:
        with contextlib.suppress(FileNotFoundError):  # Helen has deleted it meanwhile
            seconds = max(0.0, time.time() - history.path(RESULTS, reach[0]).stat().st_mtime)
    return {"segment": published[RESULTS], "change": published[CHANGES],
            "behind": 0 if reach is None else reach[1] - reach[0] + 1, "seconds": round(seconds, 1)}  # fmt: skip
