"""Tests the walk through segments: order, places, what is left out, what is missing, and how much is in
memory at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
import pytest
from forward_stage import NOW, Stage

from equus_protocol.result_fields import GAP_CHECK_ID
from helen.forwards import segment_rows
from helen.forwards.place import Place, read_place
from helen.forwards.records import Changed, Measured, Record
from helen.forwards.segment_walk import MOST_BYTES, SegmentWalk, SeriesNames, Step
from helen.journal.values import Origin


def a_walk(stage: Stage, place: Place = Place(), most: int = 2_000) -> SegmentWalk:  # noqa: B008  # frozen
    return SegmentWalk(stage.folder / "history", place, SeriesNames(stage.folder / "history"), most)


def all_of_it(agent: str, check: str) -> bool:
    return True


def steps(stage: Stage, walk: SegmentWalk, wanted: Callable[[str, str], bool] = all_of_it) -> list[Step]:
    """Return all steps to the end of what is sealed."""
    sealed, found = stage.journal.journal.sealed, []
    while not found or found[-1].place.at < sealed.at:
        found.append(walk.step(sealed, wanted))
    return found


def records(found: list[Step]) -> list[Record]:
    return [record for step in found for record in step.records]


def filled(stage: Stage) -> Stage:
    for _ in range(4):
        stage.results(60)
        stage.transition()
    return stage


def test_results_and_changes_in_their_order(stage: Stage) -> None:
    filled(stage)
    found = records(steps(stage, a_walk(stage)))
    assert [record.at for record in found] == list(range(1, 245))
    assert [record.at for record in found if isinstance(record, Changed)] == [61, 122, 183, 244]
    first = found[0]
    assert isinstance(first, Measured) and (first.agent, first.check, first.status) == ("web-1", "disk", 0)
    assert (first.received, first.when) == (NOW + 1.25, round((NOW + 1) * 1_000))
    assert [(each.name, each.value, each.unit, each.kind) for each in first.figures] == [("used", 1.0, "B", "gauge")]
    last = found[-1]
    assert isinstance(last, Changed) and (last.status, last.was, last.kind, last.why) == (2, 0, "hard", "3 of 3")


def test_it_goes_on_from_each_place(stage: Stage) -> None:
    """A new walk from the place behind any step finds what follows, neither more nor less."""
    filled(stage)
    found = steps(stage, a_walk(stage))
    for number, step in enumerate(found[:-1]):
        assert records(steps(stage, a_walk(stage, step.place))) == records(found[number + 1 :])
    end = a_walk(stage, found[-1].place).step(stage.journal.journal.sealed, all_of_it)
    assert (end.records, end.lost, end.place) == ([], 0, found[-1].place)


def test_one_walk_sees_what_comes_later(stage: Stage) -> None:
    walk, found = a_walk(stage), []
    for count in (3, 70, 1):
        stage.results(count)
        found += [record.at for record in records(steps(stage, walk))]
    stage.transition()
    stage.results(1, "new-1", "load")
    later = records(steps(stage, walk))
    assert found == list(range(1, 75))
    named = [(record.at, record.agent, record.check) for record in later]
    assert named == [(75, "web-1", "disk"), (76, "new-1", "load")]


def test_what_is_left_out(stage: Stage) -> None:
    """Results that somebody asked for, gaps, changes that are no transitions, and unwanted records are left out."""
    stage.results(1)
    stage.results(1, origin=Origin.ASKED)
    stage.results(1, check=GAP_CHECK_ID)
    stage.journal.journal.change("ack", {"number": 1}, "web-1", "disk")
    stage.journal.journal.change("transition", {"odd": 1}, "web-1", "disk")
    stage.results(1, "db-1", origin=Origin.PASSIVE)
    stage.results(1, "nas", origin=Origin.TARGET)
    stage.sealed()
    found = records(steps(stage, a_walk(stage)))
    assert [(record.at, record.agent) for record in found] == [(1, "web-1"), (6, "db-1"), (7, "nas")]
    some = records(steps(stage, a_walk(stage), lambda agent, check: agent == "db-1"))
    assert [record.at for record in some] == [6]


def test_metrics_without_a_value_and_results_without_a_time(stage: Stage) -> None:
    metrics = [{"name": "x", "value": None}, {"name": "y", "value": 2}]
    stage.result("web-1", "disk", Origin.SCHEDULED, metrics, started=None)
    stage.result("web-1", "disk", Origin.SCHEDULED, [], started=NOW + 90.0, took_ms=1_000.0)
    stage.sealed()
    first, ahead = records(steps(stage, a_walk(stage)))
    assert isinstance(first, Measured) and [each.name for each in first.figures] == ["y"]
    assert first.when == round((NOW + 0.25) * 1_000)
    assert isinstance(ahead, Measured) and ahead.when == round((NOW + 0.25) * 1_000)  # its agent's clock is ahead


def test_a_step_is_bounded_by_metrics(stage: Stage) -> None:
    """A result with many metrics is a step of its own, and none is split."""
    for many in (3, 50, 4, 4, 4):
        metrics = [{"name": f"m{n}", "value": n, "labels": {"n": str(n)}} for n in range(many)]
        stage.result("web-1", "disk", Origin.SCHEDULED, metrics)
    stage.sealed()
    found = steps(stage, a_walk(stage, most=10))
    sizes = [[len(record.figures) for record in step.records if isinstance(record, Measured)] for step in found]
    assert [size for part in sizes for size in part] == [3, 50, 4, 4, 4]
    assert all(sum(part) <= 10 or part == [50] for part in sizes)
    last = records(found)[-1]
    assert isinstance(last, Measured) and dict(last.figures[2].labels) == {"n": "2"}


def test_a_step_is_bounded_by_bytes(stage: Stage) -> None:
    """A step has a bounded number of bytes in memory, as labels may be long; a result with more is a
    step of its own.
    """
    longs = [9, 300_000, 9, 400_000, 600_000, 1_500_000, 9, 9, 9]
    for size in longs:
        metrics = [{"name": "m", "value": 1, "labels": {"text": "x" * size}}]
        stage.result("web-1", "disk", Origin.SCHEDULED, metrics)
    stage.sealed()
    found = steps(stage, a_walk(stage))
    sizes = [
        [len(each.figures[0].labels["text"]) for each in step.records if isinstance(each, Measured)] for step in found
    ]
    assert [size for part in sizes for size in part] == longs
    assert all(sum(part) <= MOST_BYTES or part == [1_500_000] for part in sizes)


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), MemoryError(), pa.ArrowMemoryError("malloc")])
def test_what_passes_loses_no_segment(stage: Stage, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """A passing error stops the walk, and one that is made anew reads the segment."""
    filled(stage)
    real, left = pyarrow.parquet.ParquetFile, [error]

    def opened(path: Path, *more: Any, **named: Any) -> Any:
        if path.name == "seg-00000002.parquet" and left:
            raise left.pop()
        return real(path, *more, **named)

    monkeypatch.setattr("pyarrow.parquet.ParquetFile", opened)
    with pytest.raises(type(error)):
        steps(stage, a_walk(stage))
    found = steps(stage, a_walk(stage))
    assert ([record.at for record in records(found)], sum(step.lost for step in found)) == (list(range(1, 245)), 0)


@pytest.mark.parametrize("document", [
    "{", "7", "{}", '{"now": 1, "was": 2, "why": "w", "summary": "s"}',
    '{"now": {"status": "ok", "kind": 7}, "was": {"status": "ok", "kind": "hard"}, "why": "w", "summary": "s"}',
    '{"now": {"status": "odd", "kind": "hard"}, "was": {"status": "ok", "kind": "hard"}, "why": "", "summary": ""}',
])  # fmt: skip
def test_documents_of_changes_that_are_no_transitions(document: str) -> None:
    assert segment_rows._changed(1, "a", "c", NOW, document) is None


@pytest.mark.parametrize(("at", "when"), [
    ("5.5", 5_500), ("1e306", round(NOW * 1_000)), ("-1", round(NOW * 1_000)), ("null", round(NOW * 1_000)),
])  # fmt: skip
def test_times_of_changes(at: str, when: int) -> None:
    side = '{"status": "ok", "kind": "hard"}'
    document = f'{{"at": {at}, "now": {side}, "was": {side}, "why": "w", "summary": "s"}}'
    found = segment_rows._changed(1, "a", "c", NOW, document)
    assert found is not None and found.when == when


def test_segments_that_are_gone(stage: Stage) -> None:
    """Retention took them while the receiver was away: the rest is found, and it is said how many are missing."""
    filled(stage)
    found = steps(stage, a_walk(stage))
    third = found[2].place
    for kind in ("seg", "chg"):
        for path in sorted(stage.journal.segments.glob(f"{kind}-*.parquet"))[:-1]:
            path.unlink()
    files = stage.journal.journal.sealed
    later = steps(stage, a_walk(stage, third))
    assert sum(step.lost for step in later) == files.segment - third.segment + files.change - third.changes
    said = [step.fault for step in later if step.lost]
    assert said and "was deleted before it was sent" in (said[0] or "")
    assert [record.at for record in records(later)] == [record.at for record in records(found)][-len(records(later)) :]
    again = steps(stage, a_walk(stage))  # of a forward that begins at the oldest: nothing is missing for it
    assert (sum(step.lost for step in again), records(again)) == (0, records(later))


@pytest.mark.parametrize("spoiled", [b"", b"PAR1 not a file PAR1"])
def test_a_segment_that_cannot_be_read(stage: Stage, spoiled: bytes) -> None:
    filled(stage)
    (stage.journal.segments / "seg-00000002.parquet").write_bytes(spoiled)
    found = steps(stage, a_walk(stage))
    (said,) = [step.fault for step in found if step.lost]
    assert "seg-00000002.parquet can't be read" in (said or "")
    assert {record.at for record in records(found)} > {1, 61, 244}


def test_a_series_without_a_name(stage: Stage) -> None:
    """The walk waits while the file of names is missing; what no name is found for is counted, and nothing made up."""
    filled(stage)
    stage.results(30, "new-1")
    path = stage.folder / "history" / "series.parquet"
    table = pyarrow.parquet.read_table(path)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        steps(stage, a_walk(stage))
    pyarrow.parquet.write_table(table.filter(pc.not_equal(table["agent"], "new-1")), path)
    found = steps(stage, a_walk(stage))
    assert [record.at for record in records(found)] == list(range(1, 245))
    said = [step.fault or "" for step in found if step.lost]
    assert sum(int(each.split()[0]) for each in said) == 30
    assert all(each.endswith("of no series in series.parquet") for each in said)


@pytest.mark.parametrize("spoiled", [b"", b"PAR1 no file PAR1"])
def test_a_file_of_names_that_cannot_be_read(stage: Stage, spoiled: bytes) -> None:
    """Known names stay known; for any other number it is read again until it can be."""
    filled(stage)
    path = stage.folder / "history" / "series.parquet"
    sound = path.read_bytes()
    names = SeriesNames(stage.folder / "history")
    assert names.of(0) == ("web-1", "disk")
    path.write_bytes(spoiled)
    for _ in range(2):
        with pytest.raises(pa.ArrowException):
            names.of(7)
        assert names.of(0) == ("web-1", "disk")
    path.write_bytes(sound)
    os.utime(path, ns=(1, 1))
    assert (names.of(0), names.of(7)) == (("web-1", "disk"), None)


def test_places_are_read_back() -> None:
    place = Place(5, 2, 3, 40, 1, 0)
    assert read_place(place.to_text()) == place
    assert place.moved(Place(9, 8, 7)) == Place(9, 8, 7, 40, 1, 0)
    for text in (None, "", "{}", "[]", "7", place.to_text().replace("5", '"5"'), place.to_text().replace("5", "-5"),
                 place.to_text().replace("5", "5.5"), place.to_text().replace("5", "true")):  # fmt: skip
        assert read_place(text) is None
