"""Tests the moments that `helen explain` accepts, and its times, which are in the reader's zone."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import click
import pytest
from click.testing import CliRunner

from helen.cli.explain import QUESTIONS, read_moment, show
from helen.cli.main import main

BERLIN, TOKYO = ZoneInfo("Europe/Berlin"), ZoneInfo("Asia/Tokyo")
NOW = datetime(2026, 11, 28, 1, 30, tzinfo=BERLIN).timestamp()


@pytest.mark.parametrize(
    ("text", "zone", "moment"),
    [
        ("1000", None, datetime.fromtimestamp(1_000, BERLIN)),
        ("2026-11-27T14:00", BERLIN, datetime(2026, 11, 27, 14, tzinfo=BERLIN)),
        ("2026-11-27 14:00+09:00", BERLIN, datetime(2026, 11, 27, 14, tzinfo=TOKYO)),
        ("01:00", BERLIN, datetime(2026, 11, 28, 1, tzinfo=BERLIN)),
        ("03:00", BERLIN, datetime(2026, 11, 27, 3, tzinfo=BERLIN)),
        ("03:00:30", TOKYO, datetime(2026, 11, 28, 3, 0, 30, tzinfo=TOKYO)),
    ],
)
def test_moments(text: str, zone: ZoneInfo | None, moment: datetime) -> None:
    """A moment is read in the zone that was asked for, and a time of day is the last such one (J10)."""
    assert read_moment(text, NOW, zone) == moment.timestamp()


@pytest.mark.parametrize(
    ("text", "why"),
    [("2026-11-28T03:00", "1 h 30 min from now: only the past"), ("2030-01-01", "d .* from now: only the past"),
     ("25:00", "is no time"), ("at three", "is no time"), ("4e9", "only the past")],
)  # fmt: skip
def test_moments_that_cannot_be_explained(text: str, why: str) -> None:
    """A moment in the future, or a text that is no time, is a usage error (J10)."""
    with pytest.raises(click.UsageError, match=why):
        read_moment(text, NOW, BERLIN)


def test_times_are_in_the_zone_of_the_reader(capsys: Any) -> None:
    """Each printed time is in the zone of the reader (J10)."""
    found = {"agent": "a", "check": "c", "at": NOW, "state": None, **{key: [] for key in QUESTIONS}}
    show({**found, "why_state": [{"at": NOW - 60, "text": "first result: ok"}]}, TOKYO)
    said = capsys.readouterr().out
    assert "a/c at 2026-11-28 09:30:00 JST" in said and "2026-11-28 09:29:00 JST" in said


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["explain", "a/c", "--zone", "Mars/Base"], "there is no zone 'Mars/Base'"),
        (["explain", "a/c", "--at", "2999-01-01"], "only the past can be explained"),
        (["downtime", "--daily", "22-6"], "--daily '22-6': write two local times, such as 22:00-06:00"),
        (["silence", "--daily", "22:00"], "write two local times"),
        (["downtime", "--for", "1h", "--zone", "Asia/Tokyo"], "--zone is for --daily"),
        (["silence", "--for", "1h", "--days", "mon"], "--days is for --daily"),
        (
            ["--state", "D", "status"],
            "--state is an option of the commands: write it behind one, `helen status --state",
        ),
        (["--url=http://x", "agents"], "--url is an option of the commands"),
        (["--nonsense", "agents"], "No such option"),
    ],
)
def test_values_that_cannot_be_used(tmp_path: Path, words: list[str], why: str) -> None:
    """A value that cannot be used is a usage error in the words of the command line, before Helen is asked (J10,
    J16)."""
    more = [] if words[0].startswith("--") else ["--state", str(tmp_path)]
    result = CliRunner().invoke(main, [*words, *more])
    assert (result.exit_code, why in result.output) == (2, True), result.output
