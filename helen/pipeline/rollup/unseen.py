"""Says which files have rows that a longer level has not seen: retention, compaction and steps of counters ask."""

from __future__ import annotations

from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.levels import Level
from helen.pipeline.lake.log_entries import File


def is_to_be_added(lake: Lake, level: Level, file: File) -> bool:
    """Return True if rows of a source only add to a level, which has not seen them: the next cascade adds them."""
    return file.adds and file.version + 1 > lake.done(level.name, f"cascade:{level.source}")


def is_unseen(lake: Lake, level: Level, file: File) -> bool:
    """Return True if a level that follows this one may not have seen what is new in a file."""
    followers = [each for each in lake.levels.values() if each.source == level.name]
    return file.fresh and any(file.version + 1 > lake.done(each.name, f"cascade:{level.name}") for each in followers)
