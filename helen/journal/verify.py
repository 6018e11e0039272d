"""Checks a history: everything that was acknowledged must be in it, once.

    python -m helen.journal.verify STATE [--acked FILE]

Reads segments and WALs and changes nothing; Helen may run meanwhile. FILE has lines `agent spool sequence`, each an
ack: everything of that spool up to the sequence must be there. Spools are named as stored (Helen's own is `helen`). The
marks of Helen itself are checked in the same way. A hole is right only where a gap record, or an agent that came from
another Helen, says so. Exit status 0: all is well; 1: the problems are on stdout; 2: wrong arguments.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
from attrs import define, field, frozen

from equus_protocol.result_fields import GAP_CHECK_ID
from groundwork.counts import count as count_of
from groundwork.safe_text import safe_line
from groundwork.target_ids import source_of
from helen.journal import lazy_parquet as pq
from helen.journal import segments, series, snapshot
from helen.journal.counting import count, gap_span
from helen.journal.disk import Disk
from helen.journal.folder import Folder
from helen.journal.marks import Mark, Marks, Span, Verdict
from helen.journal.record import HEADER_SIZE, Bad, BadRecord, Sound, Tail, scan
from helen.journal.values import Ack, Change, Entry, JournalDamaged, Origin

MOST_PROBLEMS = 1000  # enough to see what is wrong; a lost segment alone would give 20,000


@frozen
class Report:
    """Reports the findings. `problems` is empty where all is well."""

    results: int
    changes: int
    segments: int
    wals: int
    problems: tuple[str, ...]


@define
class Spool:
    """Holds the sequences that the history has of one spool."""

    present: Mark = field(factory=Mark)
    gaps: list[Span] = field(factory=list)

    def explained(self, elsewhere: Iterable[Span]) -> Mark:
        """Return the sequences that are present, or known to be missing."""
        mark = Mark(self.present.high, self.present.ranges)
        for first, last in (*self.gaps, *elsewhere):
            mark.cover(first, last)
        return mark


def check_history(state: Path, acked: Iterable[Ack] = ()) -> Report:
    """Check STATE/journal and STATE/history. `acked` is read first, so that a running Helen can only be ahead of it."""
    return Check(Folder(state / "journal", state / "history", Disk())).run(list(acked))


class Check:
    """Checks one history; `run` may be called once."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._spools: dict[tuple[str, str], Spool] = defaultdict(Spool)
        self._problems: list[str] = []
        self._results = 0
        self._changes = 0
        self.is_cut_off = False  # retention has taken what came first
        self._marks = Marks()

    def run(self, acked: list[Ack]) -> Report:
        """Read everything and return the report. Raises OSError if a folder can't be read."""
        wals = {number: self._read_wal(number) for number in self._folder.wal_numbers()}
        found = snapshot.load(self._folder)
        known = found.snapshot
        self._problems += [f"{path} is damaged." for path in found.damaged]
        marks = self._marks = Marks()
        marks.load(known.marks)
        results_of, changes_of = self._read_segments(), self._read_changes()
        left = {number: records for number, records in wals.items() if number > known.wal}
        for number, records in left.items():
            self._take_wal(number, records, marks, number in results_of, number in changes_of)
        self._compare(marks, acked)
        return Report(
            self._results, self._changes, len(self._folder.segment_numbers()), len(left),
            tuple(self._problems[:MOST_PROBLEMS]),
        )  # fmt: skip

    def high_of(self, name: tuple[str, str]) -> int:
        """Return the sequence up to which this Helen counts a spool as acknowledged."""
        return self._marks.high(*name)

    def gaps_of(self, name: tuple[str, str]) -> list[Span]:
        """Return the spans that will never come, as the agent has said."""
        return list(self._spools[name].gaps) if name in self._spools else []

    # ------------------------------------------------------------------------------------------- reading

    def _read_wal(self, number: int) -> list[Sound | Bad | Tail]:
        try:
            data = self._folder.wal(number).read_bytes()
        except FileNotFoundError:  # sealed since the folder was listed
            return []
        if len(data) < HEADER_SIZE or not data.strip(b"\0"):  # made, and not written yet
            return []
        try:
            return list(scan(data))
        except BadRecord as error:
            self._problems.append(f"{self._folder.wal(number).name}: {error}.")
            return []

    def _take_wal(
        self, number: int, records: list[Sound | Bad | Tail], marks: Marks, has_segment: bool, has_changes: bool
    ) -> None:
        """Count a WAL that isn't sealed, or only half: a crash may come between its two segments."""
        name = self._folder.wal(number).name
        for part in records:
            if isinstance(part, Sound):
                count(marks, part.value, part.at)
                if isinstance(part.value, Entry) and not has_segment:
                    self._take(name, part.value)
                self._changes += isinstance(part.value, Change) and not has_changes
            elif isinstance(part, Bad) or not part.torn:
                self._problems.append(f"{name}: {part.end - part.start} damaged bytes at offset {part.start}.")

    def _read_segments(self) -> set[int]:
        names = self._series_names()
        numbers = self._folder.segment_numbers()
        self.is_cut_off = bool(numbers) and numbers[0] > 1
        sealed = set()
        for path, table in self._tables(numbers, "seg"):
            sealed.add(segments.wal_of(path) or 0)
            columns = [table[name].to_pylist() for name in ("series_id", "spool", "sequence", "raw")]
            for series_id, spool, sequence, raw in zip(*columns, strict=True):
                if series_id not in names:
                    self._problems.append(f"{path.name}: series {series_id} is not in {self._folder.series.name}.")
                    continue
                agent, check_id = names[series_id]
                self._take(path.name, Entry(agent, check_id, None, spool, sequence, Origin.SCHEDULED, 0.0, raw))
        return sealed

    def _read_changes(self) -> set[int]:
        sealed = set()
        for path, table in self._tables(self._folder.change_numbers(), "chg"):
            sealed.add(segments.wal_of(path) or 0)
            self._changes += table.num_rows
        return sealed

    def _tables(self, numbers: list[int], kind: str) -> Iterator[tuple[Path, pa.Table]]:
        """Yield each segment of one kind, after a check of its number and of the order of its rows."""
        for before, number in pairwise(numbers):
            if number != before + 1:
                self._problems.append(f"{kind}-{before + 1:08} to {kind}-{number - 1:08} are missing.")
        last = 0
        for number in numbers:
            path = self._folder.segment(number) if kind == "seg" else self._folder.changes(number)
            try:
                table = pq.read_table(path)
            except FileNotFoundError:  # deleted by retention since the folder was listed
                continue
            except (OSError, pa.ArrowException) as error:
                self._problems.append(f"{path.name} can't be read: {error}")
                continue
            ats = table["at"].to_pylist()
            if any(later <= earlier for earlier, later in zip([last, *ats], ats, strict=False)):
                self._problems.append(f"{path.name}: `at` does not rise.")
            last = max([last, *ats])
            yield path, table

    def _series_names(self) -> dict[int, tuple[str, str]]:
        try:
            return dict(enumerate(series.load(self._folder.series).names()))
        except JournalDamaged as error:
            self._problems.append(str(error))
            return {}

    def _take(self, where: str, entry: Entry) -> None:
        spool = self._spools[source_of(entry.agent, entry.spool)]  # a target's result is one of its agent's spool
        self._results += 1
        verdict = spool.present.add(entry.sequence)
        if verdict is not Verdict.NEW:
            what = "is there twice" if verdict is Verdict.SEEN else "stands behind too many holes to follow"
            self._problems.append(f"{where}: {entry.agent} {entry.spool} {entry.sequence} {what}.")
        span = gap_span(entry) if entry.check_id == GAP_CHECK_ID else None
        if span is not None:
            spool.gaps.append(span)

    # ------------------------------------------------------------------------------------------- judging

    def _compare(self, marks: Marks, acked: list[Ack]) -> None:
        elsewhere = {name: mark.elsewhere for name, mark in marks.items()}
        needed: dict[tuple[str, str], int] = {name: mark.high for name, mark in marks.items()}
        for ack in acked:
            name = (ack.agent, ack.spool)
            needed[name] = max(needed.get(name, 0), ack.sequence)
        for name in sorted(needed.keys() | self._spools.keys()):
            spool = self._spools[name]
            explained = spool.explained(elsewhere.get(name, ()))
            first = self._first(spool)
            if first is None:
                continue
            for low, high in holes(explained, first, max(needed.get(name, 0), explained.highest())):
                verb = "acknowledged and lost" if low <= needed.get(name, 0) else "missing without a gap record"
                self._problems.append(f"{name[0]} {name[1]}: {span_text(low, high)} {verb}.")

    def _first(self, spool: Spool) -> int | None:
        """Return where a spool's history begins: at 1, or where retention left it; None: it left nothing."""
        if not self.is_cut_off:
            return 1
        if spool.present.high:
            return 1
        return spool.present.ranges[0][0] if spool.present.ranges else None


def holes(mark: Mark, first: int, last: int) -> Iterator[Span]:
    """Yield the spans of first..last that `mark` doesn't have."""
    at = max(first, mark.high + 1)
    for low, high in mark.ranges:
        if at < low and at <= last:
            yield at, min(low - 1, last)
        at = max(at, high + 1)
    if at <= last:
        yield at, last


def span_text(first: int, last: int) -> str:
    """Return the subject of a sentence about some sequences."""
    return f"sequence {first} is" if first == last else f"sequences {first} to {last} are"


def read_acked(path: Path) -> Iterator[Ack]:
    """Read lines `agent spool sequence`; a last line without its newline was being written and doesn't count.

    Raises ValueError for a line of another form, OSError if the file can't be read.
    """
    for number, line in enumerate(path.read_text().split("\n")[:-1], 1):
        fields = line.split()
        if not fields:
            continue
        if len(fields) != 3 or not fields[2].isascii() or not fields[2].isdigit():
            raise ValueError(f"{path}, line {number}: expected `agent spool sequence`, got {line!r}")
        yield Ack(fields[0], fields[1], int(fields[2]))


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m helen.journal.verify", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("state", type=Path, help="Helen's state folder")
    parser.add_argument("--acked", type=Path, help="a file of lines `agent spool sequence`")
    options = parser.parse_args(arguments)
    try:
        report = check_history(options.state, read_acked(options.acked) if options.acked else ())
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for problem in report.problems:
        print(safe_line(problem))
    print(
        f"{count_of(report.results, 'result')} and {count_of(report.changes, 'change')} in"
        f" {count_of(report.segments, 'segment')}"
        f" and {count_of(report.wals, 'open WAL')}:"
        f" {count_of(len(report.problems), 'problem') if report.problems else 'nothing lost, nothing twice'}."
    )
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
