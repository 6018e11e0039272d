"""Tests the notes of `helen agents` below its table: unused manifests and upgrades, and machines that share an
identity."""

from __future__ import annotations

from typing import Any

import pytest

from helen.cli.shown.agent_lines import notes
from helen.cli.shown.status import clock_line


def agent(**about: Any) -> dict[str, Any]:
    return {"name": "web-1", "troubles": {}, "clash": None} | about


def test_nothing_to_say() -> None:
    """An agent without problems has no notes."""
    assert notes(agent(), 1_000.0) == []


def test_a_set_that_is_not_used() -> None:
    """A manifest or an upgrade that is not used is a note with the agent's own sentence, control characters escaped."""
    troubles = {"manifest": "frozen: nobody says \x1b[2J that it is the newest", "upgrade": "undone: it did not start"}
    assert notes(agent(troubles=troubles), 1_000.0) == [
        "web-1: the newest manifest is not used: frozen: nobody says \\x1b[2J that it is the newest",
        "web-1: the newest upgrade is not used: undone: it did not start",
    ]


@pytest.mark.adversary(27)
def test_a_clone() -> None:
    """A note on a second machine with the same identity has its address and how long ago it was refused."""
    [line] = notes(agent(clash={"at": 700.0, "address": "192.0.2.7"}), 1_000.0)
    assert line == "web-1: a second machine with its identity was refused 5m ago, from 192.0.2.7: is it a clone?"


@pytest.mark.parametrize(
    ("clock", "line"),
    [
        (None, None),  # of a Helen of before
        ({"steps": {"back": 0, "ahead": 0}, "slept": 0.0, "last": None}, None),
        ({"steps": {"back": 0, "ahead": 0}, "slept": 0.0, "last": None, "held": 0.0}, None),
        (
            {"steps": {"back": 0, "ahead": 0}, "slept": 0.0, "last": None, "held": 7_200.0},
            "clock: it may be 2h ahead: nothing expires before it has stood for an hour",
        ),
        (
            {"steps": {"back": 0, "ahead": 1}, "slept": 0.0, "last": {"at": 990.0, "stepped": 7_200.0, "slept": 0.0},
             "held": 7_200.0},
            "clock: Helen's clock was set ahead by 2h, 10s ago",
        ),
    ],
)  # fmt: skip
def test_the_line_of_the_clock(clock: dict[str, Any] | None, line: str | None) -> None:
    """The note on the clock names a step rather than a doubt, and is absent without either."""
    assert clock_line(clock, 1_000.0) == line
