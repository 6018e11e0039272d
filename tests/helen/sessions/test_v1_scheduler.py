"""Tests that version 1 agents are asked by Helen's clock: stable phases, no burst, nothing forgotten or asked twice."""

from collections import Counter
from typing import Any

import pytest
from helen_parts import FakeLink

from helen.assignments.schedule import ScheduleEntry, phase
from helen.sessions import v1_scheduler
from helen.sessions.v1_scheduler import V1Scheduler, next_due

NOW = 1_800_000_000.0


def entry(check: str = "cpu", every: float = 10.0, offset: float = 3.0) -> ScheduleEntry:
    return ScheduleEntry(check, check, every, offset, 5.0, {})


class Asked:
    """Holds a V1Scheduler, and what it asked when."""

    def __init__(self) -> None:
        self.now = NOW
        self.log: list[tuple[float, str, str]] = []
        self.ids = iter(range(1, 1_000_000))
        self.deaf: set[str] = set()
        self.v1_scheduler = V1Scheduler(self.ask)

    def ask(self, link: FakeLink, what: ScheduleEntry) -> int | None:
        if link.name in self.deaf:
            return None
        self.log.append((self.now - NOW, link.name, what.id))
        return next(self.ids)

    def run_until(self, seconds: float, answer: FakeLink | None = None) -> None:
        """Run the scheduler as the reactor does: sleep until the next run is due."""
        while (due := self.v1_scheduler.due()) is not None and due <= NOW + seconds:
            self.now = max(self.now, due)
            self.v1_scheduler.run(self.now)
            if answer is not None:
                for n in range(1, 1_000):
                    self.v1_scheduler.answered(answer, n)
        self.now = NOW + seconds

    def times(self) -> list[float]:
        return [at for at, _, _ in self.log]


@pytest.fixture
def asked() -> Asked:
    return Asked()


@pytest.mark.parametrize(("now", "due"), [(0.0, 3.0), (2.9, 3.0), (3.0, 13.0), (12.0, 13.0), (-8.0, -7.0)])
def test_the_next_moment(now: float, due: float) -> None:
    """The next moment is the first one after now that has the phase."""
    assert next_due(entry(), now) == pytest.approx(due)


def test_asked_at_its_phase(asked: Asked) -> None:
    """A check is asked at its phase again and again, and never at once."""
    link = FakeLink()
    asked.v1_scheduler.take(link, [entry()], NOW)
    asked.run_until(35.0, link)
    assert asked.times() == [3.0, 13.0, 23.0, 33.0]


def test_an_unanswered_run_is_skipped(asked: Asked) -> None:
    """An unanswered run is skipped and counted; after the answer it is asked again."""
    link = FakeLink()
    asked.v1_scheduler.take(link, [entry()], NOW)
    asked.run_until(25.0)
    assert (asked.times(), asked.v1_scheduler.skipped) == ([3.0], 2)
    assert asked.v1_scheduler.answered(link, 1) == entry()
    assert asked.v1_scheduler.answered(link, 1) is None
    asked.run_until(35.0)
    assert asked.times() == [3.0, 33.0]


def test_the_same_schedule_again_changes_nothing(asked: Asked) -> None:
    """An entry that did not change keeps its place: it is asked as before, once each time."""
    link = FakeLink()
    asked.v1_scheduler.take(link, [entry(), entry("disk", 10.0, 5.0)], NOW)
    asked.run_until(4.0, link)
    asked.v1_scheduler.take(link, [entry(), entry("disk", 10.0, 5.0)], asked.now)
    asked.run_until(16.0, link)
    assert asked.log == [
        (3.0, "web-1", "cpu"), (5.0, "web-1", "disk"), (13.0, "web-1", "cpu"), (15.0, "web-1", "disk")
    ]  # fmt: skip


def test_a_changed_schedule(asked: Asked) -> None:
    """An entry that is gone is asked no more, and a new one at its own phase."""
    link = FakeLink()
    asked.v1_scheduler.take(link, [entry(), entry("disk", 10.0, 5.0)], NOW)
    asked.v1_scheduler.take(link, [entry("disk", 20.0, 6.0)], NOW)
    asked.run_until(27.0, link)
    assert asked.log == [(6.0, "web-1", "disk"), (26.0, "web-1", "disk")]


def test_an_agent_that_goes(asked: Asked) -> None:
    """Nobody is asked any more."""
    link = FakeLink()
    asked.v1_scheduler.take(link, [entry()], NOW)
    asked.v1_scheduler.drop(link)
    asked.v1_scheduler.drop(link)
    asked.run_until(25.0)
    assert asked.log == []


def test_a_connection_that_cannot_be_asked(asked: Asked) -> None:
    """A link with 64 outstanding checks is skipped and counted."""
    asked.deaf.add("web-1")
    asked.v1_scheduler.take(FakeLink(), [entry()], NOW)
    asked.run_until(15.0)
    assert (asked.log, asked.v1_scheduler.skipped) == ([], 2)


def test_no_burst_after_a_mass_reconnect(asked: Asked) -> None:
    """No second asks more than 40 of a minute's 1,000 agents, which all came at once with the same check."""
    for n in range(1_000):
        name = f"web-{n}"
        asked.v1_scheduler.take(FakeLink(name), [entry("cpu", 60.0, phase(name, "cpu", 60.0))], NOW)
    asked.run_until(59.99)
    seconds = Counter(int(at) for at in asked.times())
    assert (len(asked.log), len(seconds)) == (1_000, 60)
    assert max(seconds.values()) < 40


def test_no_burst_after_the_clock_jumps_ahead(asked: Asked) -> None:
    """A check that is late by half its interval waits for its next moment after an hour asleep; a day's check still
    runs.
    """
    links = [FakeLink(f"web-{n}") for n in range(100)]
    for link in links:
        asked.v1_scheduler.take(link, [entry("cpu", 60.0, phase(link.name, "cpu", 60.0))], NOW)
    asked.v1_scheduler.take(FakeLink("slow"), [entry("daily", 86_400.0, NOW % 86_400 + 100)], NOW)
    asked.now = NOW + 3_600.0
    asked.v1_scheduler.run(asked.now)
    at_once = {name for _, name, _ in asked.log}
    assert "slow" in at_once
    assert len(at_once) < 70
    asked.log.clear()
    asked.run_until(3_660.0)
    assert {name for _, name, _ in asked.log} >= {link.name for link in links} - at_once


def test_the_clock_goes_back(asked: Asked) -> None:
    """A clock that goes back an hour makes nobody wait for an hour."""
    link = FakeLink()
    asked.v1_scheduler.take(link, [entry()], NOW)
    asked.run_until(14.0, link)
    asked.log.clear()
    asked.now = NOW - 3_600.0
    asked.v1_scheduler.run(asked.now)
    due: Any = asked.v1_scheduler.due()
    assert due - asked.now <= 10.0


def test_what_goes_leaves_no_litter(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """The heap stays as great as the schedules are, while an agent comes and goes all day."""
    monkeypatch.setattr(v1_scheduler, "STALE_MOST", 10)
    for n in range(500):
        link = FakeLink(f"w{n}")
        asked.v1_scheduler.take(link, [entry("daily", 86_400.0), entry("hourly", 3_600.0)], NOW)
        if n > 2:
            asked.v1_scheduler.drop(link)
    assert len(asked.v1_scheduler._heap) <= 2 * 8 + 10
    asked.run_until(3_600.0)
    assert Counter(name for _, name, _ in asked.log).keys() == {"w0", "w1", "w2"}
