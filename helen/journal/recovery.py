"""Recovers a journal at a start: WALs without segment, torn tails, damaged records, lost marks.

It blocks, and runs before any thread of the journal. Afterwards every sound result is in exactly one segment, except
where the disk is full: then the WALs stay and are sealed by the sealing thread.
"""

from __future__ import annotations

from collections import deque

import pyarrow as pa
from attrs import define, evolve, field

from equus_protocol.result_fields import GAP_CHECK_ID
from groundwork.counts import count as count_of
from groundwork.counts import is_or_are
from groundwork.target_ids import source_of
from helen.journal import lazy_parquet as pq
from helen.journal import segments
from helen.journal import snapshot as snapshots
from helen.journal.counting import count
from helen.journal.disk import PASSING
from helen.journal.folder import Folder
from helen.journal.limits import Limits
from helen.journal.marks import Marks, Verdict
from helen.journal.rows import Rows
from helen.journal.sealing import ClosedWal, seal
from helen.journal.series import Series
from helen.journal.series import load as load_series
from helen.journal.snapshot import Snapshot
from helen.journal.stored import stored_result
from helen.journal.unread import demand_content
from helen.journal.values import Change, Entry, Floor, Origin, Recovery, StoredChange, StoredResult
from helen.journal.wal import Damage, LeftWal


@define
class State:
    """Holds the state that the threads start from."""

    snapshot: Snapshot
    marks: Marks
    series: Series
    at: int
    wal: int
    unsealed: list[ClosedWal] = field(factory=list)


def recover(folder: Folder, limits: Limits) -> tuple[State, Recovery]:
    """Do all of `Journal.open` on disk, after the lock was taken.

    Raises JournalDamaged if only an operator can help, OSError if the disk fails.
    """
    folder.sweep()
    return _Recovery(folder, limits).run()


class _Recovery:
    def __init__(self, folder: Folder, limits: Limits) -> None:
        self._folder = folder
        found = snapshots.load(folder)
        self._snapshot, self._damaged_marks, self._sentences = found.snapshot, found.damaged, found.sentences()
        self._series = load_series(folder.series)
        self._series.most = limits.series_per_agent
        self._marks = Marks()
        self._marks.load(self._snapshot.marks)
        self._at = self._snapshot.at
        self._records: deque[StoredResult | StoredChange] = deque(maxlen=limits.recovered_records)
        self._damage: list[Damage] = []
        self._unsealed: list[ClosedWal] = []
        self._results = 0
        self._changes = 0

    def run(self) -> tuple[State, Recovery]:
        """Recover; return the state that the threads start from, and the report."""
        left = self._folder.wal_numbers()
        self._catch_up(set(left))
        self._replace_damaged_marks()
        self._report_holes()
        last = self._snapshot.wal
        for number in left:
            if number <= last:
                self._folder.disk.remove(self._folder.wal(number))
            else:
                self._report_missing(last + 1, number)
                self._replay(number)
                last = number
        state = State(self._snapshot, self._marks, self._series, self._at, last + 1, self._unsealed)
        self._sentences += [damage.sentence for damage in self._damage]
        harmless = {damage.sentence for damage in self._damage if damage.kept is None}
        if self._results or self._changes:
            self._sentences.append(
                f"{count_of(self._results, 'result')} and {count_of(self._changes, 'change')} were durable and in no"
                f" segment yet; they are {'in one' if not self._unsealed else 'kept until there is space for one'} now."
            )
            harmless |= {self._sentences[-1]} if not self._unsealed else set()
        kept = [damage for damage in self._damage if damage.kept]
        cut = sum(damage.size for damage in self._damage if not damage.kept)
        return state, Recovery(
            tuple(self._sentences), tuple(self._records), self._results, self._changes, len(kept), cut,
            frozenset(harmless),
        )  # fmt: skip

    # ------------------------------------------------------------------------------------------- WALs

    def _replay(self, number: int) -> None:
        """Read one WAL into marks and rows, then seal it."""
        rows = Rows(self._series)
        for sound in LeftWal(self._folder.wal(number), self._folder, self._damage):
            self._at = max(self._at, sound.at)
            if count(self._marks, sound.value, sound.at) is not Verdict.NEW:
                continue
            record = self._stored(sound.at, sound.value)
            if record is not None:
                rows.add(record)
                self._records.append(record)
        self._results += rows.results
        self._changes += rows.changes
        rows.finish()
        closed = ClosedWal(number, self._at, self._marks.rows(), self._series.take_changes(), None)
        if self._unsealed:
            self._unsealed.append(closed)
            return
        try:
            self._snapshot = seal(self._folder, self._snapshot, closed, rows)
        except OSError as error:
            if error.errno not in PASSING:
                raise
            self._unsealed.append(closed)

    def _stored(self, at: int, value: Entry | Change | Floor) -> StoredResult | StoredChange | None:
        if isinstance(value, Entry):
            return stored_result(at, value)
        return StoredChange(at, value) if isinstance(value, Change) else None

    def _report_missing(self, first: int, number: int) -> None:
        if first < number:
            names = ", ".join(self._folder.wal(one).name for one in range(first, min(number, first + 5)))
            missing = f"{count_of(number - first, 'WAL')} before {self._folder.wal(number).name}"
            self._sentences.append(
                f"{missing} {is_or_are(number - first)} missing ({names}): what was acknowledged in them is lost."
                " Restore them from a backup if they were removed by hand."
            )

    # ------------------------------------------------------------------------------------------- segments

    def _catch_up(self, left: set[int]) -> None:
        """Add the records of segments that the snapshot lacks: it was damaged, or a crash came before it was written.

        A segment isn't counted while its WAL is still there: sealing that WAL again finds it.
        """
        if not self._snapshot.wal and self._folder.segment_numbers():
            self._sentences.append("There is no marks.json: what was acknowledged is read from the segments.")
        wals = [self._snapshot.wal]
        segment, change = self._snapshot.segment, self._snapshot.change
        for number in _newer(self._folder.segment_numbers(), segment):
            wal = segments.wal_of(self._folder.segment(number))
            if wal in left:
                break
            segment = number
            wals.append(wal or 0)
            self._read_marks(number)
        for number in _newer(self._folder.change_numbers(), change):
            wal = segments.wal_of(self._folder.changes(number))
            if wal in left:
                break
            change = number
            wals.append(wal or 0)
            self._read_change_ats(number)
        segment = max(segment, self._folder.committed("committed") or 0)
        change = max(change, self._folder.committed("committed-changes") or 0)
        self._snapshot = evolve(
            self._snapshot, wal=max(wals), segment=segment, change=change, at=self._at, marks=self._marks.rows()
        )

    def _replace_damaged_marks(self) -> None:
        """Replace damaged files before anything is sealed: none of them may be kept as the last sound one."""
        if self._damaged_marks:
            for path in self._damaged_marks:
                self._folder.disk.replace(path, self._folder.quarantine / path.name)
            snapshots.save(self._folder, self._snapshot)

    def _read_marks(self, number: int) -> None:
        path = self._folder.segment(number)
        try:
            rows = pq.read_table(path, columns=["at", "series_id", "spool", "sequence", "reason", "raw"])
        except (OSError, pa.ArrowException) as error:
            demand_content(path, error)
            self._sentences.append(f"{path} can't be read ({error}); restore it from a backup.")
            return
        names = self._series.names()
        for row in rows.to_pylist():
            agent, check_id = names[row["series_id"]]
            entry_at = row["at"]
            self._at = max(self._at, entry_at)
            raw = row["raw"] if check_id == GAP_CHECK_ID else b""
            agent, spool = source_of(agent, row["spool"])  # a target's result is one of its agent's spool
            value = Entry(agent, check_id, None, spool, row["sequence"], Origin.SCHEDULED, 0.0, raw)
            count(self._marks, value, entry_at)

    def _read_change_ats(self, number: int) -> None:
        path = self._folder.changes(number)
        try:
            ats = pq.read_table(path, columns=["at"])["at"].to_pylist()
        except (OSError, pa.ArrowException) as error:
            demand_content(path, error)
            self._sentences.append(f"{path} can't be read ({error}); restore it from a backup.")
            return
        self._at = max([self._at, *ats])

    def _report_holes(self) -> None:
        for kind, numbers in (("seg", self._folder.segment_numbers()), ("chg", self._folder.change_numbers())):
            if numbers and len(numbers) != numbers[-1] - numbers[0] + 1:
                missing = sorted(set(range(numbers[0], numbers[-1])) - set(numbers))
                shown = ", ".join(f"{kind}-{number:08}" for number in missing[:5])
                self._sentences.append(
                    f"{count_of(len(missing), 'segment is', 'segments are')} missing in {self._folder.segments}"
                    f" ({shown}): restore them from a backup; the pipeline stops there."
                )


def _newer(numbers: list[int], known: int) -> list[int]:
    return [number for number in numbers if number > known]
