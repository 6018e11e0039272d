"""Keep the gaps of a spool: ranges of sequences that are lost, each of which is reported in place of them.

A gap is a report (check id `equus:gap`) that stands for the sequences from `from` to `to` and has the last of them as
its own. So the sequences that Helen sees only rise, and it never waits for a lost one.
"""

from __future__ import annotations

import json
from pathlib import Path

from attrs import evolve, frozen

from equus.spool.segment import Record
from equus_protocol.result_fields import GAP_CHECK_ID
from groundwork.atomic_write import write_durably

DISK_FULL = "disk-full"  # the reason of a gap


@frozen
class Gap:
    """Describes a range of sequences that are lost and will never be sent."""

    first: int
    last: int
    reason: str

    def record(self) -> Record:
        """Return the report that is sent in their place: a result `unknown` that a person can read."""
        summary = f"results {self.first} to {self.last} of this agent's spool are lost: {self.reason}"
        lost = {"from": self.first, "to": self.last, "gap": self.reason}
        document = {"status": "unknown", "reason": "gap", "summary": summary, **lost}
        return Record(self.last, GAP_CHECK_ID, json.dumps(document).encode())


class Gaps:
    """Holds the gaps that Helen has not acknowledged, in the order of their sequences, and the file that names them."""

    def __init__(self, path: Path) -> None:
        """Read the file. One that is missing or damaged has no gaps."""
        self._path = path
        self._all = _load(path)
        self._is_changed = False  # since they were written

    @property
    def last(self) -> int:
        """Return the last sequence that is lost; 0 if none is."""
        return max((gap.last for gap in self._all), default=0)

    def holds(self, reason: str) -> bool:
        """Return True if one of them has this reason."""
        return any(gap.reason == reason for gap in self._all)

    def around(self, sequence: int) -> Gap | None:
        """Return the gap that a sequence lies in."""
        return next((gap for gap in self._all if gap.first <= sequence <= gap.last), None)

    def end_before(self, sequence: int, last: int) -> int:
        """Return the last sequence from `sequence` to `last` that no later gap begins at or before."""
        return min([last, *(gap.first - 1 for gap in self._all if gap.first > sequence)])

    def without_report(self, first: int) -> int:
        """Return how many sequences from `first` on have no report of their own: all of a gap but its last."""
        return sum(gap.last - max(gap.first, first) for gap in self._all)

    def add(self, gap: Gap) -> None:
        """Add a gap. Gaps inside it go; one that touches it and has the same reason is joined."""
        kept = [other for other in self._all if not gap.first <= other.last <= gap.last]
        for other in kept:
            if other.last + 1 == gap.first and other.reason == gap.reason:
                kept.remove(other)
                gap = evolve(gap, first=other.first)
                break
        self._all = sorted([*kept, gap], key=lambda other: other.last)
        self._is_changed = True

    def forget(self, acked: int) -> None:
        """Drop those that end at or before this sequence. The file keeps them until it is written again."""
        self._all = [gap for gap in self._all if gap.last > acked]

    def write(self) -> None:
        """Write the file if gaps were added since. Raises OSError; the same call can be made again then."""
        if self._is_changed:
            write_durably(self._path, json.dumps([[gap.first, gap.last, gap.reason] for gap in self._all]).encode())
            self._is_changed = False


def _load(path: Path) -> list[Gap]:
    try:
        return [Gap(int(first), int(last), str(reason)) for first, last, reason in json.loads(path.read_bytes())]
    except (FileNotFoundError, ValueError, TypeError):
        return []
