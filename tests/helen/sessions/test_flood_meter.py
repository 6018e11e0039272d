"""Tests both sides of what makes a flood: the bytes, the messages, and the slices that ended too early."""

from __future__ import annotations

import pytest

from helen.sessions.flood_meter import FLOOD_BYTES, FLOOD_MESSAGES, FLOOD_SLICES, WINDOW_SECONDS, FloodMeter


@pytest.mark.parametrize(("octets", "is_flood"), [(FLOOD_BYTES - 1, False), (FLOOD_BYTES, True)])
def test_both_sides_of_bytes(octets: int, is_flood: bool) -> None:
    """The bytes of one slice and of what is left behind it make a flood above the limit."""
    assert FloodMeter().is_flood(1, octets, 50.0) is is_flood


@pytest.mark.parametrize(
    ("slices", "messages", "is_flood"),
    [
        (1, FLOOD_MESSAGES - 1, False), (1, FLOOD_MESSAGES, True),
        (4, FLOOD_MESSAGES // 4 - 1, False), (4, FLOOD_MESSAGES // 4, True),
        (FLOOD_SLICES - 1, 1, False), (FLOOD_SLICES, 1, True),
    ],
)  # fmt: skip
def test_both_sides_of_a_window(slices: int, messages: int, is_flood: bool) -> None:
    """Messages add up, and so do slices; the last one tells."""
    meter = FloodMeter()
    told = [meter.is_flood(messages, 100, 50.0 + number / 1_000) for number in range(slices)]
    assert told == [False] * (slices - 1) + [is_flood]


@pytest.mark.parametrize(("passed", "is_flood"), [(WINDOW_SECONDS - 0.001, True), (WINDOW_SECONDS, False)])
def test_a_window_ends(passed: float, is_flood: bool) -> None:
    """A new window forgets the counts of the one before: agents that send much once a minute don't flood."""
    meter = FloodMeter()
    assert not any(meter.is_flood(10, 100, 50.0) for _ in range(FLOOD_SLICES - 1))
    assert meter.is_flood(10, 100, 50.0 + passed) is is_flood
