"""Tests helen.identity.guess_limit: both sides of each limit."""

from __future__ import annotations

import pytest

from helen.identity.guess_limit import ADDRESSES, WRONG_TRIES, GuessLimit


def guessed(address: str, *times: float) -> GuessLimit:
    tries = GuessLimit()
    for at in times:
        tries.add(address, at)
    return tries


def test_five_in_a_minute() -> None:
    """Four wrong tries are borne, five are not, until the first of them is a minute old."""
    assert not guessed("10.0.0.7", 0, 1, 2, 3).is_shut_out("10.0.0.7", 3)
    tries = guessed("10.0.0.7", 0, 1, 2, 3, 4)
    assert [tries.is_shut_out("10.0.0.7", now) for now in (4, 59.9, 60, 61)] == [True, True, False, False]


def test_a_clock_that_goes_back_locks_nobody_out() -> None:
    """Guesses of the future are none."""
    assert not guessed("10.0.0.7", 100, 101, 102, 103, 104).is_shut_out("10.0.0.7", 50)


@pytest.mark.parametrize(
    "guesser, other, together",
    [
        ("10.0.0.7", "10.0.0.8", False),
        ("2001:db8::1", "2001:db8::ffff:2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:10.0.0.7", "10.0.0.7", True),
        ("", "", True),
        ("fe80::1%eth0", "fe80::2%eth1", True),
    ],
)
def test_who_shares_the_blame(guesser: str, other: str, together: bool) -> None:
    """An IPv4 address is one guesser, an IPv6 subscriber is another however many addresses it has."""
    assert guessed(guesser, *range(WRONG_TRIES)).is_shut_out(other, 5) is together


def test_memory_is_bounded() -> None:
    """The address that guessed longest ago is forgotten when there are more than ADDRESSES."""
    tries = guessed("10.0.0.7", *range(WRONG_TRIES))
    for number in range(ADDRESSES - 1):
        tries.add(f"host-{number}", 5)
    assert tries.is_shut_out("10.0.0.7", 5)
    tries.add("one more", 5)
    assert not tries.is_shut_out("10.0.0.7", 5)
