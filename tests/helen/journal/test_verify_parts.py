"""Tests the parts of the history check: spans and holes, lists of acks, where a spool begins, several histories
together."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from journal_running import blob, entry

from helen.journal import verify, verify_many
from helen.journal.counting import count, gap_span
from helen.journal.disk import Disk
from helen.journal.folder import Folder
from helen.journal.marks import MOST_SEQUENCE, Mark, Marks, Verdict
from helen.journal.retention import DAY, MOST_AT_ONCE, Retention, SegmentFile, deletable
from helen.journal.values import Ack, Change, Floor
from helen.journal.verify import Check, Spool, holes, read_acked, span_text
from helen.journal.verify_many import CombinedReport, _differences, _missing

# ------------------------------------------------------------------------------------------------ spans


@given(st.integers(0, 12), st.sets(st.integers(1, 30)), st.integers(1, 20), st.integers(0, 32))
def test_holes(high: int, present: set[int], first: int, last: int) -> None:
    """`holes` gives all missing sequences from the first to the last, in spans that do not touch."""
    mark = Mark(high)
    for sequence in sorted(present):
        mark.add(sequence)
    found = list(holes(mark, first, last))
    missing = [number for number in range(first, last + 1) if number > high and number not in present]
    assert [number for low, up in found for number in range(low, up + 1)] == missing
    assert all(later[0] > earlier[1] + 1 for earlier, later in pairwise(found))


def test_spans_in_words() -> None:
    """A span in words is singular for one sequence and plural for several."""
    assert [span_text(3, 3), span_text(3, 4)] == ["sequence 3 is", "sequences 3 to 4 are"]


@pytest.mark.parametrize(("text", "acks"), [
    ("", []), ("a s 1", []), ("a s 1\n", [Ack("a", "s", 1)]),
    ("\n \na s 12\nb t 3\n", [Ack("a", "s", 12), Ack("b", "t", 3)]),
])  # fmt: skip
def test_lists_of_acks(tmp_path: Path, text: str, acks: list[Ack]) -> None:
    """A list of acks is read without a last line that was being written."""
    (tmp_path / "acked").write_text(text)
    assert list(read_acked(tmp_path / "acked")) == acks


@pytest.mark.parametrize(("text", "line"), [
    ("a s\n", 1), ("a s 1 2\n", 1), ("a s x\n", 1), ("a s -1\n", 1), ("a s 1\n\na s \u0663\n", 3), ("a s 1.5\n", 1),
])  # fmt: skip
def test_no_list_of_acks(tmp_path: Path, text: str, line: int) -> None:
    """A malformed list of acks raises ValueError with the number of the line, from 1 on."""
    (tmp_path / "acked").write_text(text)
    with pytest.raises(ValueError, match=f"acked, line {line}: expected `agent spool sequence`, got"):
        list(read_acked(tmp_path / "acked"))


def check(tmp_path: Path) -> Check:
    made = Check(Folder(tmp_path / "journal", tmp_path / "history", Disk()))
    assert (made.is_cut_off, made.high_of(("a", "s")), made.gaps_of(("a", "s"))) == (False, 0, [])
    return made


def test_what_is_counted_of_a_spool(tmp_path: Path) -> None:
    """The check counts each result of a spool, reports duplicates and uncountable ones, and lets gap records explain
    holes."""
    one = check(tmp_path)
    gap = entry(5, check_id="equus:gap", content=blob(**{"from": 2, "to": 4}))
    for each in (entry(1), entry(1), gap, entry(0)):
        one._take("here", each)
    assert one._results == 4
    assert one._problems == [
        "here: web1 s1 1 is there twice.", "here: web1 s1 0 stands behind too many holes to follow.",
    ]  # fmt: skip
    assert one.gaps_of(("web1", "s1")) == [(2, 4)]
    spool = one._spools["web1", "s1"]
    assert (spool.present.high, spool.present.ranges, spool.explained([]).high) == (1, [(5, 5)], 5)
    assert spool.explained([(6, 9)]).high == 9
    assert (spool.present.high, Spool().gaps) == (1, [])


@pytest.mark.parametrize(("cut_off", "high", "ranges", "first"), [
    (False, 0, [], 1), (False, 0, [(5, 9)], 1), (True, 3, [(5, 9)], 1), (True, 0, [(5, 9), (12, 13)], 5),
    (True, 0, [], None),
])  # fmt: skip
def test_where_a_spool_begins(tmp_path: Path, cut_off: bool, high: int, ranges: list[Any], first: int | None) -> None:
    """A spool begins at 1, or where retention left it; nothing is expected of a spool that is gone."""
    one = check(tmp_path)
    one.is_cut_off = cut_off
    assert one._first(Spool(Mark(high, ranges))) == first


@pytest.mark.parametrize(("present", "high", "elsewhere", "acked", "problems"), [
    ([1, 2, 3], 3, [], 3, []), ([1, 2, 3], 3, [], 0, []),
    ([1, 3], 1, [], 0, ["sequence 2 is missing without a gap record"]),
    ([1, 3], 1, [], 2, ["sequence 2 is acknowledged and lost"]),
    ([1, 3], 3, [], 0, ["sequence 2 is acknowledged and lost"]),
    ([1], 1, [], 4, ["sequences 2 to 4 are acknowledged and lost"]), ([4], 4, [(1, 3)], 0, []),
    ([], 2, [], 0, ["sequences 1 to 2 are acknowledged and lost"]), ([1, 3, 5], 2, [], 0,
     ["sequence 2 is acknowledged and lost", "sequence 4 is missing without a gap record"]),
])  # fmt: skip
def test_what_is_lost(
    tmp_path: Path, present: list[int], high: int, elsewhere: list[Any], acked: int, problems: list[str]
) -> None:
    """An acknowledged result that is missing is lost, by Helen's marks or the list; another hole needs a gap record."""
    one, marks = check(tmp_path), Marks()
    marks.load([("web1", "s1", high, 0, [], elsewhere)])
    for number in present:
        one._take("here", entry(number))
    one._compare(marks, [Ack("web1", "s1", acked), Ack("web1", "s1", 0)])
    assert one._problems == [f"web1 s1: {problem}." for problem in problems]


def test_the_number_of_problems_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check lists at most MOST_PROBLEMS problems."""
    (tmp_path / "journal").mkdir()
    (tmp_path / "history" / "segments").mkdir(parents=True)
    for most, shown in ((2, 2), (9, 3)):
        monkeypatch.setattr(verify, "MOST_PROBLEMS", most)
        acked = [Ack("web1", f"s{number}", 1) for number in range(3)]
        report = verify.check_history(tmp_path, acked)
        assert (len(report.problems), report.results, report.changes, report.segments, report.wals) == (
            shown,
            0,
            0,
            0,
            0,
        )


# ------------------------------------------------------------------------------------------------ several histories


def test_what_two_helens_have_differently() -> None:
    """The same sequence with another content in any two Helens is a difference."""
    held = [{1: b"a", 2: b"b"}, {2: b"b", 3: b"c"}, {2: b"x", 3: b"y", 1: b"a"}]
    assert _differences(("web1", "s1"), held) == [
        f"web1 s1 {number} is another thing with each of two Helens." for number in (2, 2, 3)
    ]
    assert _differences(("web1", "s1"), [{1: b"a"}, {2: b"b"}]) == []


def helen(high: int = 0, gaps: tuple[Any, ...] = (), cut_off: bool = False) -> Any:
    return SimpleNamespace(high_of=lambda name: high, gaps_of=lambda name: list(gaps), is_cut_off=cut_off)


@pytest.mark.parametrize(("found", "present", "acked", "lost"), [
    ([helen(3)], {1, 2, 3}, 0, []), ([helen(3)], {1, 3}, 0, ["sequence 2 is"]),
    ([helen(), helen(4)], {1}, 0, ["sequences 2 to 4 are"]),
    ([helen()], {1}, 2, ["sequence 2 is"]), ([helen()], {1, 4}, 0, ["sequences 2 to 3 are"]),
    ([helen(gaps=((2, 3),))], {1, 4}, 0, []), ([helen(), helen(cut_off=True)], {7, 9}, 0, ["sequence 8 is"]),
    ([helen()], {7}, 0, ["sequences 1 to 6 are"]), ([helen(2, cut_off=True)], set(), 0, ["sequences 1 to 2 are"]),
])  # fmt: skip
def test_what_no_history_has(found: list[Any], present: set[int], acked: int, lost: list[str]) -> None:
    """A result up to the highest mark of any Helen is missing, unless a gap record explains it or retention deleted
    it."""
    assert _missing(("web1", "s1"), found, present, acked) == [
        f"web1 s1: {span} acknowledged, and in no history." for span in lost
    ]


def test_a_report_of_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The report of several Helens says results and problems without control characters, and its exit status is 1
    with any."""
    for problems, status, end in (((), 0, "nothing lost"), (("a\x1b",), 1, "1 problem")):
        report = CombinedReport(5, 2, problems)
        monkeypatch.setattr(verify_many, "check_together", lambda states, report=report: report)
        assert verify_many.main([str(tmp_path), str(tmp_path)]) == status
        said = capsys.readouterr().out.splitlines()
        assert said[-1] == f"5 results of agents with 2 Helens, 2 of them with more than one: {end}."
        assert len(said) == 1 + len(problems) and "\x1b" not in "".join(said)


# ------------------------------------------------------------------------------------------------ counting


@pytest.mark.parametrize(("content", "sequence", "span"), [
    (b'{"from": 2, "to": 4}', 9, (2, 4)), (b'{"from": 2, "to": 40}', 9, (2, 9)), (b'{"from": 9, "to": 9}', 9, (9, 9)),
    (b'{"from": 1, "to": 1}', 9, (1, 1)), (b'{"from": 0, "to": 4}', 9, None), (b'{"from": 5, "to": 4}', 9, None),
    (b'{"from": 10, "to": 12}', 9, None), (b'{"from": 2}', 9, None), (b"x", 9, None),
    (b'{"from": "2", "to": 4}', 9, None),
])  # fmt: skip
def test_gap_records(content: bytes, sequence: int, span: tuple[int, int] | None) -> None:
    """A gap record gives a span from 1 on, up to the record's own sequence, and otherwise none."""
    assert gap_span(entry(sequence, check_id="equus:gap", content=content)) == span


def test_counting() -> None:
    """A new gap record covers the sequences that it names, and a floor those below it; changes have no sequence."""
    marks = Marks()
    gap = entry(5, check_id="equus:gap", content=b'{"from": 1, "to": 3}')
    assert [count(marks, each, at) for at, each in enumerate((gap, gap, entry(4), entry(0)), 1)] == [
        Verdict.NEW, Verdict.SEEN, Verdict.NEW, Verdict.REFUSED,
    ]  # fmt: skip
    assert marks.high("web1", "s1") == 5
    other = entry(3, spool="s2", content=b'{"from": 1, "to": 2}')
    assert (count(marks, other, 5), marks.high("web1", "s2")) == (Verdict.NEW, 0), "only a gap record writes off"
    assert count(marks, Change("link", 1.0, None, None, b""), 6) is Verdict.NEW
    assert (count(marks, Floor("web1", "s3", 9), 7), marks.high("web1", "s3")) == (Verdict.NEW, 8)
    assert {row[1]: row[3] for row in marks.rows()} == {"s1": 4, "s2": 5, "s3": 7}


def test_marks_at_the_edges_of_a_number() -> None:
    """Marks take sequences from 1 to the largest that a column holds, and cut spans and floors beyond it."""
    marks = Marks()
    assert marks.cover("a", "s", -5, 3, 1) and marks.high("a", "s") == 3
    assert marks.cover("a", "t", MOST_SEQUENCE, 2**70, 2)
    assert marks.rows()[1] == ("a", "t", 0, 2, [(MOST_SEQUENCE, MOST_SEQUENCE)], [])
    marks.skip_below("a", "u", 2**70, 3)
    assert marks.high("a", "u") == MOST_SEQUENCE - 1
    marks.skip_below("a", "v", 1, 4)
    marks.skip_below("a", "w", 2, 5)
    assert [row[2:] for row in marks.rows()[3:]] == [(0, 4, [], []), (1, 5, [], [(1, 1)])]
    assert (marks.high("b", "s"), marks.high("a", "x"), marks.own_sequences()) == (0, 0, {})
    marks.add("a", "helen", 1, 6)
    marks.add("a", "helen", 7, 7)
    assert (marks.own_sequences(), len(list(marks.items()))) == ({"a": 7}, 6)


@pytest.mark.parametrize(("first", "last", "ranges", "high"), [
    (5, 6, [(5, 6), (9, 10)], 2), (7, 7, [(7, 7), (9, 10)], 2), (8, 8, [(8, 10)], 2), (11, 12, [(9, 12)], 2), (12, 12,
     [(9, 10), (12, 12)], 2), (3, 3, [(9, 10)], 3), (3, 8, [], 10), (4, 7, [(4, 7), (9, 10)], 2), (1, 2, [(9, 10)], 2),
    (9, 10, [(9, 10)], 2), (6, 12, [(6, 12)], 2),
])  # fmt: skip
def test_spans_that_touch(first: int, last: int, ranges: list[Any], high: int) -> None:
    """Spans that touch become one, and those with a hole between stay two."""
    mark = Mark(2, [(9, 10)])
    assert mark.cover(first, last)
    assert (mark.ranges, mark.high, mark.highest()) == (ranges, high, ranges[-1][1] if ranges else high)


# ------------------------------------------------------------------------------------------------ retention


NOW = 1_000 * DAY


def files(*ages: float, size: int = 10) -> list[SegmentFile]:
    return [SegmentFile(number, size, NOW - age * DAY) for number, age in enumerate(ages, 1)]


@pytest.mark.parametrize(("ages", "committed", "rule", "gone"), [
    ((8, 8, 1), 9, Retention(), [1, 2]), ((7, 7, 1), 9, Retention(), []), ((8, 8, 8), 9, Retention(), [1, 2]),
    ((8, 8, 8), 1, Retention(), [1]), ((8, 8, 8), 0, Retention(), []), ((8, 1, 8, 8), 9, Retention(), [1]),
    ((91, 91, 1), None, Retention(), [1, 2]), ((90, 90, 1), None, Retention(), []), ((8, 8, 1), None, Retention(), []),
    ((1, 1, 1), None, Retention(most_bytes_alone=29), [1]), ((1, 1, 1), None, Retention(most_bytes_alone=30), []),
    ((1, 1, 1, 1), None, Retention(most_bytes_alone=20), [1, 2]), ((1, 1), None, Retention(most_bytes_alone=0), [1]),
    ((8,) * 12, 99, Retention(), list(range(1, MOST_AT_ONCE + 1))), ((8,), 9, Retention(), []),
    ((), None, Retention(), []),
    ((3, 3, 1), 9, Retention(keep_days=2.0), [1, 2]), ((8, 8, 1), 9, Retention(most_bytes_alone=0), [1, 2]),
])  # fmt: skip
def test_what_retention_deletes(
    ages: tuple[float, ...], committed: int | None, rule: Retention, gone: list[int]
) -> None:
    """Retention deletes the oldest segments first, never the newest, a bounded number at once, and stops at one that
    must stay."""
    assert deletable(files(*ages), committed, NOW, rule) == gone
    assert Retention() == Retention(7.0, 90.0, 50 * 1024**3)
