"""The first ring of a push, under a clock of our own."""

import pytest

from helen.rollout import HOLD_SECONDS, PATIENCE_SECONDS, Ring, choose, read_fraction

MEMBERS = frozenset({"a", "b"})


def ring() -> Ring:
    return Ring(5, "digest", MEMBERS, 100.0)


def test_shares() -> None:
    """More than nothing and at most all."""
    assert [read_fraction(text) for text in ("1%", "0.5 %", "100%")] == [0.01, 0.005, 1.0]
    for bad in ("0%", "101%", "1", "x%", "-1%"):
        with pytest.raises(ValueError, match="is no share of the agents"):
            read_fraction(bad)


def test_who_is_in_it() -> None:
    """At least one, as many as asked for, always the same ones; none of none."""
    fleet = [f"host-{n}" for n in range(200)]
    assert [len(choose(fleet, share)) for share in (0.001, 0.01, 0.5, 1.0)] == [1, 2, 100, 200]
    assert choose(fleet, 0.01) == choose(reversed(fleet), 0.01)
    assert choose([], 0.5) == frozenset()


def test_promoted_once_all_are_well_for_a_while() -> None:
    """HOLD_SECONDS after the last confirmation, not a moment before."""
    it = ring()
    it.heard("a", "digest", {}, 101.0)
    assert it.tick(MEMBERS, 101.0 + HOLD_SECONDS) is None
    it.heard("b", "digest", {}, 103.0)
    assert it.tick(MEMBERS, 103.0 + HOLD_SECONDS - 0.1) is None
    assert it.tick(MEMBERS, 103.0 + HOLD_SECONDS) == "promote"
    assert it.why == "2 of 2 confirmed"


def test_a_member_that_is_away_is_not_waited_for() -> None:
    """Somebody has to confirm, though."""
    it = ring()
    assert it.tick([], 100.0 + HOLD_SECONDS) is None
    it.heard("a", "digest", {}, 101.0)
    assert it.tick(["a", "z"], 101.0 + HOLD_SECONDS) == "promote"


def test_a_member_that_vanishes_after_its_confirmation() -> None:
    """New code may have ended it: no promotion without it, and in the end the way back."""
    it = ring()
    it.heard("a", "digest", {}, 101.0)
    it.heard("b", "digest", {}, 101.0)
    assert it.tick(["a"], 101.0 + HOLD_SECONDS) is None
    assert it.tick(["a"], 100.0 + PATIENCE_SECONDS) == "undo"
    assert it.why == "not there and well within 600 s: b"


def test_a_file_that_a_member_cannot_use() -> None:
    """It ends the ring at once, whatever comes after."""
    it = ring()
    it.heard("a", "digest", {"disk.lua": "line 3: no"}, 101.0)
    it.heard("b", "digest", {}, 101.0)
    assert (it.tick(MEMBERS, 101.0), it.why) == ("undo", "a can't use disk.lua: line 3: no")


def test_silence() -> None:
    """A ring that nobody confirms goes back."""
    it = ring()
    assert it.tick(MEMBERS, 100.0 + PATIENCE_SECONDS - 0.1) is None
    assert it.tick(MEMBERS, 100.0 + PATIENCE_SECONDS) == "undo"
    assert it.why == "not there and well within 600 s: a, b"


def test_words_that_do_not_count() -> None:
    """Another set's, and those of agents outside the ring."""
    it = ring()
    it.heard("a", "older", {"x.lua": "broken"}, 101.0)
    it.heard("z", "digest", {"x.lua": "broken"}, 101.0)
    assert (it.confirmed, it.verdict) == (set(), None)
