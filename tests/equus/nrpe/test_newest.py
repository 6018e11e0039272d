"""Test the answers from the newest results, and those when there is no good one."""

from __future__ import annotations

import json
from typing import Any

from twisted.internet.task import Clock

from equus.nrpe import newest
from equus.nrpe.newest import NewestResults
from equus.nrpe.packets import Question
from equus.schedule.schedule import Entry

ENTRIES = (Entry("disk", "disk", 60.0, timeout=10.0), Entry("check_web", "http", 3_600.0), Entry("web", "http", 5.0))


def results(clock: Clock) -> NewestResults:
    return NewestResults("1.2", clock.seconds, lambda: ENTRIES)


def blob(**document: Any) -> bytes:
    return json.dumps({"status": "ok", "summary": "fine", **document}).encode()


def ask(held: NewestResults, command: str, *arguments: str) -> tuple[int, str]:
    return held.answer(Question(4, command, arguments))


def test_a_result_is_printed_as_a_plugin_prints_it() -> None:
    held = results(Clock())
    metrics = [{"name": "used", "value": 91.5, "unit": "%", "warn": "80", "crit": "95", "min": 0, "max": 100}]
    held.take("disk", blob(status="warning", summary="91.5 % of / | used", metrics=metrics, output="long\ntext\n"))
    expected = 1, "WARNING: 91.5 % of / ¦ used | used=91.5%;80;95;0;100\nlong\ntext"
    assert ask(held, "disk") == ask(held, "check_disk") == expected
    held.take("disk", blob())
    assert ask(held, "disk") == (0, "OK: fine")


def test_an_entrys_own_name_counts_before_the_shorter_one() -> None:
    held = results(Clock())
    held.take("check_web", blob(summary="one"))
    held.take("web", blob(summary="two"))
    assert (ask(held, "check_web"), ask(held, "web")) == ((0, "OK: one"), (0, "OK: two"))


def test_no_good_result() -> None:
    clock = Clock()
    held = results(clock)
    assert ask(held, "disk") == (3, "UNKNOWN: disk has not run since this agent started")
    assert ask(held, "other") == (3, "UNKNOWN: this agent runs no check 'other'")
    held.take("disk", blob())
    clock.advance(2 * 60 + 10 + 30)
    assert ask(held, "disk") == (0, "OK: fine")
    clock.advance(1)
    assert ask(held, "disk") == (3, "UNKNOWN: disk has no result for 161 s, and runs every 60 s")
    assert ask(held, "disk", "-w", "1")[0] == 3
    assert "arguments are never taken" in ask(held, "disk", "-w")[1]
    assert ask(held, "_NRPE_CHECK") == (0, "NRPE of Equus 1.2")


def test_results_that_are_none_or_too_great() -> None:
    held = results(Clock())
    held.take("disk", b"\xff\xfe")
    assert ask(held, "disk")[0] == 3
    held.take("disk", b"x" * (newest.MAX_DOCUMENT + 1))
    assert ask(held, "disk") == (3, "the result has more than 262,144 bytes")
    held.take("disk", blob(output="y" * 100_000))
    assert len(ask(held, "disk")[1]) <= 8_192


def test_entries_that_are_gone_are_forgotten() -> None:
    held = results(Clock())
    for at in range(newest.MAX_KEPT):
        held.take(f"gone-{at}", blob())
    held.take("disk", blob())
    assert set(held._newest) == {"disk"}
