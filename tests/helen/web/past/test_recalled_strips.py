"""Tests that strips have the journal's statuses of the twelve hours before a start."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helen_running import Running, wait_until
from twisted.internet.defer import Deferred, ensureDeferred, execute
from twisted.internet.task import Clock
from web_client import ask

from helen.evaluation.event_log import Line
from helen.queries.past_changes import Page, Question
from helen.web.past import recalled_strips
from helen.web.past.recalled_strips import HOUR, MOST_PAGES, RecalledStrips, statuses_of
from helen.web.problems import Problem
from helen.web.rows.strips import NOTHING, QUARTER, QUARTERS, Strips

STARTED = 10_000 * QUARTER
KEY = ("a", "c")


def condition(status: str, since: float, reason: str | None = None) -> dict[str, Any]:
    return {"status": status, "since": since, "reason": reason, "attempt": 0, "kind": "hard"}


def line(at: int, ago: float, was: str, now: str, before: float = 0.0, reason: str | None = None) -> Line:
    """Return a transition `ago` seconds before the start, from a status that began `before` seconds earlier."""
    when = STARTED - ago
    document = {"was": condition(was, when - before), "now": condition(now, when, reason)}
    said = json.dumps({"kind": "transition", "agent": KEY[0], "check_id": KEY[1], "document": document})
    return Line(at, "transition", *KEY, b"id: x\nevent: transition\ndata: %b\n\n" % said.encode(), when)


class Journal:
    """Answer questions from lines, `most` a page; `known_from` is when it begins."""

    def __init__(self, lines: list[Line], most: int = 1_000, known_from: float | None = 0.0) -> None:
        self.lines, self.most, self.known_from = lines, most, known_from
        self.asked: list[tuple[float, float]] = []
        self.troubles: list[Problem] = []

    async def page(self, question: Question) -> Page:
        if self.troubles:
            raise self.troubles.pop(0)
        self.asked.append(((STARTED - question.begin) / HOUR, (STARTED - question.end) / HOUR))
        fitting = [each for each in self.lines if question.begin <= each.received < question.end
                   and each.at > question.seen and question.fits(each)]  # fmt: skip
        taken = fitting[: self.most]
        return Page(taken, (taken[-1].at, 0) if len(fitting) > self.most else None, self.known_from)


@pytest.fixture
def recall(monkeypatch: pytest.MonkeyPatch) -> Callable[[Journal], Strips]:
    """Return a function that lets strips recall from a journal, and returns them."""
    monkeypatch.setattr(recalled_strips, "deferToThread", execute)

    async def all_at_once(steps: Any) -> None:
        for _ in steps:
            pass

    monkeypatch.setattr(recalled_strips, "take_turns", all_at_once)

    def act(journal: Journal) -> Strips:
        clock, strips = Clock(), Strips(STARTED)
        strips.note(KEY, 0, STARTED - 60.0, True)
        feed: Any = SimpleNamespace(strips=strips, has_looked=False)
        done: Deferred[None] = ensureDeferred(RecalledStrips(clock, feed, journal.page).read())
        clock.advance(5.0)
        assert journal.asked == []  # before there are rows
        feed.has_looked = True
        clock.pump([1.0] * 300)
        assert done.called
        done.addErrback(lambda failure: failure.trap(Problem) and None)
        return strips

    return act


def test_twelve_hours_are_read_the_newest_first(recall: Callable[[Journal], Strips]) -> None:
    """Twelve hours are read from the newest to the oldest, and a quarter of an hour shows its worst status."""
    journal = Journal([line(1, 10 * HOUR, "ok", "critical", 3 * HOUR), line(2, 9 * HOUR, "critical", "ok"),
                       line(3, 2 * HOUR, "ok", "warning"), line(4, 60.0, "warning", "ok")])  # fmt: skip
    strips = recall(journal)
    assert journal.asked == [(hour + 1.0, float(hour)) for hour in range(12)]
    # 13 h ago it was ok; critical for four quarters; ok; a warning for two hours, but for its last minute.
    assert strips.strip(KEY, STARTED + 1.0) == "0" * 7 + "2" * 4 + "2" + "0" * 27 + "1" * 8 + "0"
    assert strips.since == STARTED - QUARTERS * QUARTER


def test_an_hour_of_many_changes_is_several_pages(recall: Callable[[Journal], Strips]) -> None:
    lines = [line(2 * n + at, 3000.0 - 100 * n - 10 * at, *("ok", "unknown") if at else ("unknown", "ok"))
             for n in range(20) for at in (0, 1)]  # fmt: skip
    whole, paged = recall(Journal(lines)), Journal(lines, most=7)
    strips = recall(paged)
    assert strips.strip(KEY, STARTED) == whole.strip(KEY, STARTED)
    assert strips.strip(KEY, STARTED)[-6:] == "433330"
    assert paged.asked.count((1.0, 0.0)) == 6


def test_a_journal_that_is_younger_ends_it(recall: Callable[[Journal], Strips]) -> None:
    """A journal that begins later ends the reading, and strips say since when they know all."""
    other = Line(2, "notice", *KEY, b"id: x\ndata: {}\n\n", STARTED - 900.0)
    journal = Journal([line(1, 1_000.0, "unknown", "ok", 500.0), other], known_from=STARTED - 1_500.0)
    strips = recall(journal)
    assert (len(journal.asked), strips.since) == (1, STARTED - 1_500.0)
    assert recall(Journal([], known_from=None)).since == STARTED


def test_no_more_pages_are_read_than_some(recall: Callable[[Journal], Strips]) -> None:
    """At most MOST_PAGES pages are read, and an hour that is not read to its end is left out as a whole."""
    lines = [line(number, 2 * HOUR - 10.0 - number, "ok", "critical") for number in range(1, MOST_PAGES + 2)]
    journal = Journal([*lines, line(1_000, 100.0, "warning", "ok", 20.0)], most=1)
    strips = recall(journal)
    assert len(journal.asked) == MOST_PAGES
    assert strips.since == STARTED - HOUR
    assert strips.strip(KEY, STARTED)[-5:] == "44410"


@pytest.mark.parametrize(("status", "tries"), [(503, 12), (500, 0)])
def test_a_journal_that_is_busy_is_asked_again(recall: Callable[[Journal], Strips], status: int, tries: int) -> None:
    """A journal that is busy is asked again, and any other trouble ends the reading."""
    journal = Journal([line(1, 1_000.0, "critical", "ok", 500.0)])
    journal.troubles = [Problem(status, "not now", "come again")] * 3
    strips = recall(journal)
    assert len(journal.asked) == tries
    assert strips.strip(KEY, STARTED)[-3:] == ("200" if tries else "400")


def test_statuses_of_lines() -> None:
    """A check's first line gives the status before it too, a time without results has none, and other changes are
    ignored."""
    other = Line(9, "transition", "a", None, b"id: x\ndata: {}\n\n")
    found = statuses_of([line(1, 90.0, "ok", "unknown", 10.0, "stale"), other, line(2, 50.0, "unknown", "critical")])
    assert found == {KEY: [(STARTED - 100.0, 0), (STARTED - 90.0, NOTHING), (STARTED - 50.0, 2)]}


@pytest.mark.integration
def test_a_strip_is_longer_than_the_process(tmp_path: Path) -> None:
    """A problem that was over before Helen started again is in the strip of its check."""
    text = '[hosts.nas]\n[[check]]\nhost = "nas"\nid = "smart"\nattempts = 1\n'
    for is_first in (True, False):
        helen = Running(tmp_path).up()
        try:
            ask(helen, "PUT", "/api/v1/passive", {"text": text})
            wait_until(lambda: _row(helen) is not None, "row of the check")  # noqa: B023
            if is_first:
                _post(helen, "critical")
                wait_until(lambda: "2" in _row(helen)["strip"], "problem in the strip")  # noqa: B023
                _post(helen, "ok")
            wait_until(lambda: "2" in _row(helen)["strip"] and _row(helen)["status"] == 0, "past problem")  # noqa: B023
        finally:
            helen.end()


def _post(helen: Running, status: str) -> None:
    said = {"host": "nas", "check": "smart", "status": status, "summary": "said"}
    assert ask(helen, "POST", "/api/v1/passive/results", said).status == 201


def _row(helen: Running) -> Any:
    found = ask(helen, "GET", "/api/v1/rows?all=1&strips=1").json
    return next((dict(zip(found["fields"], row, strict=True)) for row in found["rows"] if row[1] == "smart"), None)
