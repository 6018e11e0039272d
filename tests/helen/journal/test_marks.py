"""Tests the marks of sequences, with any order, duplicates and bounds."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from helen.journal.marks import MOST_RANGES, MOST_SPOOLS, Mark, Marks, Verdict
from helen.journal.values import OWN_SPOOL

sequences = st.lists(st.integers(1, 60), max_size=120)
spans = st.tuples(st.integers(1, 60), st.integers(1, 60)).map(sorted)


@settings(deadline=None)  # a busy machine is no fault of it
@given(sequences)
def test_each_sequence_is_new_exactly_once(arrived: list[int]) -> None:
    """Each sequence is NEW the first time and SEEN afterwards, in any order, and `high` ends the run from 1."""
    mark, seen = Mark(), set()
    for sequence in arrived:
        assert mark.add(sequence) is (Verdict.SEEN if sequence in seen else Verdict.NEW)
        seen.add(sequence)
        assert mark.high == next(number for number in range(0, 100) if number + 1 not in seen)
        assert {number for number in range(1, 70) if number in mark} == seen
    assert mark.highest() == max(seen, default=0)


@settings(deadline=None)  # a busy machine is no fault of it
@given(st.lists(st.one_of(st.integers(1, 60), spans), max_size=60))
def test_spans_count_like_their_members(arrived: list) -> None:
    """A span counts as all of its sequences one by one, and ranges stay sorted with holes between."""
    mark, seen = Mark(), set()
    for item in arrived:
        if isinstance(item, int):
            mark.add(item)
            seen.add(item)
        else:
            assert mark.cover(*item)
            seen |= set(range(item[0], item[1] + 1))
        flat = [0, mark.high, *(edge for span in mark.ranges for edge in span)]
        assert flat == sorted(flat)
        assert all(low > before + 1 for (_, before), (low, _) in pairwise([(0, mark.high), *mark.ranges]))
        assert {number for number in range(1, 70) if number in mark} == seen


@settings(deadline=None)  # a busy machine is no fault of it
@given(st.dictionaries(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz")), sequences, max_size=6))
def test_a_snapshot_holds_everything(arrived: dict) -> None:
    """Marks loaded from their rows are the same marks."""
    marks = Marks()
    for (agent, spool), numbers in arrived.items():
        for at, number in enumerate(numbers):
            marks.add(agent, spool, number, at)
    again = Marks()
    again.load(marks.rows())
    assert again.rows() == marks.rows()


def test_the_number_of_holes_is_bounded() -> None:
    """Sequences that would make more than MOST_RANGES holes are refused; those that close a hole are still taken."""
    mark = Mark()
    last = 2 * MOST_RANGES + 1
    for sequence in range(3, last + 1, 2):
        assert mark.add(sequence) is Verdict.NEW
    assert len(mark.ranges) == MOST_RANGES
    assert mark.add(last + 2) is Verdict.REFUSED
    assert mark.add(last + 1) is Verdict.NEW
    assert mark.add(1) is Verdict.NEW
    assert mark.high == 1
    assert not mark.cover(last + 10, last + 20)
    assert mark.add(2) is Verdict.NEW
    assert mark.high == 3
    assert mark.add(last + 10) is Verdict.NEW


def test_sequences_begin_at_one() -> None:
    """Sequences below 1 or above an int64 are refused."""
    mark = Mark()
    assert [mark.add(number) for number in (0, -1, 2**63)] == [Verdict.REFUSED] * 3
    assert mark.add(2**63 - 1) is Verdict.NEW


def test_spools_per_agent_are_bounded() -> None:
    """Beyond MOST_SPOOLS the spool of an agent used longest ago is dropped, but never Helen's own."""
    marks = Marks()
    marks.add("a", OWN_SPOOL, 1, 0)
    for number in range(1, MOST_SPOOLS + 1):
        marks.add("a", f"s{number}", 1, number)
    assert len(marks.rows()) == MOST_SPOOLS
    assert marks.high("a", OWN_SPOOL) == 1
    assert (marks.high("a", "s1"), marks.high("a", "s2")) == (0, 1)


def test_skipping_remembers_what_was_skipped() -> None:
    """Results that another Helen acked are marked as such; skipping sequences that are here changes nothing."""
    marks = Marks()
    for number in (1, 2, 3):
        marks.add("a", "s", number, number)
    marks.skip_below("a", "s", 3, 4)
    marks.skip_below("a", "s", 10, 5)
    marks.skip_below("a", "s", 10, 6)
    assert marks.rows() == [("a", "s", 9, 6, [], [(4, 9)])]


def test_a_spool_that_nothing_was_heard_of() -> None:
    """The mark of an unknown spool has no sequences, and counts as used longest ago."""
    mark = Mark()
    assert (mark.high, mark.ranges, mark.used, mark.elsewhere) == (0, [], 0, [])
