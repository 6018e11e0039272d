"""Tests past changes from the lake, segments and memory: each once and in order, wherever the borders are."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helen.evaluation.event_log import EventLog, Line
from helen.journal.values import Batch
from helen.pipeline.lake.lake import Lake
from helen.pipeline.reports import lake_changes
from helen.queries import past_changes
from helen.queries.past_changes import Page, PastChanges, Question
from helen.web.lake_reads import LakeChanges
from helen.web.problems import Problem
from helen.web.routes.changes import written
from helen.web.streaming.event_filter import EventFilter

T = 1_790_035_200.0 - 7_200  # two hours before a day begins
STEP = 600.0  # seconds between two changes
COUNT, EACH, SEALED = 48, 4, 40  # changes; in one segment; in segments at all
EPOCH = "0a1b2c3d"
LABELS = {"web-1": {"role": "web"}, "db-1": {"role": "db"}}


class Past:
    """Hold a Helen with changes in segments and in the lake, and the newest in memory."""

    def __init__(self, folder: Path, new_history: Any, take_in: Any) -> None:
        self.written = new_history(folder / "helen")
        changes = [self._change(number) for number in range(COUNT)]
        for first in range(0, SEALED, EACH):
            self.written.segment(*changes[first : first + EACH])
        self.lake = folder / "lake"
        take_in(Lake(self.lake), self.written.state, most=1)
        self.log = EventLog(EPOCH, self.written.folder, lambda: SEALED, SEALED)
        self.log.take(Batch(records=tuple(changes[SEALED:])))

    def _change(self, number: int) -> Any:
        kind = ("transition", "link", "silence")[number % 3]
        where = {"transition": ("web-1/disk", "db-1/load")[number // 3 % 2], "link": "web-1", "silence": None}[kind]
        said = {"agent": "web-1"} if kind == "link" else {}
        return self.written.change(kind, T + number * STEP, where, number=number, **said)

    def forget_segments(self, count: int) -> None:
        """Delete the oldest segments, as retention does."""
        for number in range(1, count + 1):
            (self.written.segments / f"chg-{number:08}.parquet").unlink()

    @property
    def changes(self) -> PastChanges:
        lake = LakeChanges(self.lake, self.written.folder)
        return PastChanges(self.written.folder, lake, self.log.kept_above(SEALED), SEALED, self.log.line_of)

    def pages(self, limit: int = 1_000, **more: Any) -> list[Page]:
        """Ask for page after page; `more` are other parts of the question."""
        asked = {"begin": 0.0, "end": 4e9, "fits": lambda line: True} | more
        found, after = list[Page](), None
        while not found or after is not None:
            found.append(self.changes.page(Question(limit=limit, after=after, **asked)))
            after = found[-1].next
            assert len(found) < 200
        return found

    def numbers(self, limit: int = 1_000, **more: Any) -> list[int]:
        return [said(line) for page in self.pages(limit, **more) for line in page.lines]


def said(line: Line) -> int:
    return int(json.loads(line.data)["document"]["number"])


@pytest.fixture
def past(tmp_path: Path, new_history: Any, take_in: Any) -> Past:
    return Past(tmp_path, new_history, take_in)


@pytest.mark.parametrize("forgotten", [0, 1, 4, 9, 10])
def test_each_once_and_in_order(past: Past, forgotten: int) -> None:
    """Each change comes once and in order, with pages of any size and any number of segments left (J13)."""
    past.forget_segments(forgotten)
    for limit in (1, 3, 4, 5, 7, COUNT - 1, COUNT, 1_000):
        pages = past.pages(limit)
        assert [said(line) for page in pages for line in page.lines] == list(range(COUNT))
        assert all(len(page.lines) <= limit for page in pages)
        assert {page.known_from for page in pages} == {T}


def test_segments_that_go_while_a_client_reads(past: Past) -> None:
    """A client whose segments are deleted between pages gets the rest from the lake."""
    seen, after = list[int](), None
    for forgotten in range(10):
        page = past.changes.page(Question(0.0, 4e9, 5, lambda line: True, after=after))
        seen, after = [*seen, *map(said, page.lines)], page.next
        (past.written.segments / f"chg-{forgotten + 1:08}.parquet").unlink()
    assert (seen, after) == (list(range(COUNT)), None)


@pytest.mark.parametrize("forgotten", [0, 5, 10])
def test_a_time_and_a_filter(past: Past, forgotten: int) -> None:
    """A range of times includes both ends, and filters are those of the stream of events."""
    past.forget_segments(forgotten)
    assert past.numbers(begin=T + 7 * STEP, end=T + 43 * STEP) == list(range(7, 44))
    assert past.numbers(begin=T + 7 * STEP + 1, end=T + 8 * STEP - 1) == []
    links = EventFilter(kinds=frozenset({"link"}))
    assert past.numbers(5, fits=links.fits, kinds=["link"]) == list(range(1, COUNT, 3))
    databases = EventFilter(frozenset({"transition", "link"}), ("role=db",)).with_labels(LABELS)
    assert past.numbers(2, fits=databases.fits) == list(range(3, COUNT, 6))
    assert past.numbers(3, above=14) == list(range(14, COUNT))  # numbers of changes begin at 1


def test_a_page_is_bounded(past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page is bounded by bytes, files and changes looked at, and the next page goes on there."""
    monkeypatch.setattr(past_changes, "PAGE_BYTES", 500)
    assert len(past.pages()) > 1 and past.numbers() == list(range(COUNT))
    monkeypatch.setattr(past_changes, "PAGE_BYTES", 10**6)
    monkeypatch.setattr(past_changes, "MOST_FILES", 3)
    pages = past.pages()
    assert [len(page.lines) for page in pages] == [12, 12, 12, 12]
    monkeypatch.setattr(past_changes, "MOST_FILES", 400)
    monkeypatch.setattr(past_changes, "MOST_LOOKED", 10)
    past.forget_segments(8)
    wanted: dict[str, Any] = {"fits": lambda line: said(line) in (0, 45)}
    assert past.numbers(**wanted) == [0, 45]
    assert [len(page.lines) for page in past.pages(**wanted)] == [1, 0, 0, 0, 1]


def test_the_answer_is_the_event_with_its_id(past: Past) -> None:
    """A change is answered as the event of the stream with its id, whether it comes from lake, segment or memory."""
    past.forget_segments(5)
    answer = json.loads(written(past.changes.page(Question(0.0, 4e9, 1_000, lambda line: True)), past.log.id_of, str))
    assert answer.keys() == {"changes", "from", "next"}
    assert (answer["from"], answer["next"]) == (T, None)
    for number in (0, 1, 2, 30, 31, 32, 45, 46, 47):
        agent, check = (("web-1", "disk"), ("db-1", "load"))[number // 3 % 2]
        kind = ("transition", "link", "silence")[number % 3]
        assert answer["changes"][number] == {
            "id": f"{EPOCH}.{number + 1}", "kind": kind, "received": T + number * STEP,
            "agent": {"transition": agent, "link": "web-1", "silence": None}[kind],
            "check_id": check if kind == "transition" else None,
            "document": {"number": number} | ({"agent": "web-1"} if kind == "link" else {}),
        }  # fmt: skip


def test_without_a_lake(past: Past, tmp_path: Path) -> None:
    """Without a lake the changes come from segments and memory, and `from` says since when."""
    past.lake = tmp_path / "nowhere"
    past.forget_segments(3)
    assert past.numbers(5) == list(range(12, COUNT))
    assert past.pages()[0].known_from == T + 12 * STEP


def test_another_helen_in_the_lake_is_not_shown(past: Past, new_history: Any, take_in: Any, tmp_path: Path) -> None:
    """Changes of another Helen in the lake are not shown, since its numbers are its own."""
    other = new_history(tmp_path / "other")
    other.segment(other.change("silence", T, None, number=777))
    take_in(Lake(past.lake), other.state, most=1)
    past.forget_segments(10)
    assert past.numbers() == list(range(COUNT))


def test_a_lake_that_fails_is_a_problem(past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lake's day that is too big or unreadable is a problem with a sentence."""
    past.forget_segments(10)
    monkeypatch.setattr(lake_changes, "MOST_BYTES", 10)
    with pytest.raises(Problem, match="ask for a shorter time, or for fewer kinds"):
        past.pages()
    monkeypatch.undo()
    for path in past.lake.glob("changes/day=*/*.parquet"):
        path.write_bytes(b"x")
    unreadable: Callable[[], Any] = past.pages
    with pytest.raises(Problem, match="can't be read"):
        unreadable()
