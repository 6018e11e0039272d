"""Tests who looks at a target: one at a time, the same wherever it is asked, and the next one soon when it is gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

from helen.targets.leases import HOLD_SECONDS, SETTLE_SECONDS, START_SECONDS, Presence, rank
from helen.targets.leases import choose as choose_all
from helen.targets.target_fields import Quorum

AGENTS = [f"probe-{number}" for number in range(5)]
NOW = 1_000.0


def choose(target: str, held: str | None, agents: Iterable[str], presence: Presence, now: float) -> str | None:
    """Return the one agent of a target that is looked at by one."""
    return next(iter(choose_all(target, [held] if held else [], agents, presence, now)), None)


def order(target: str, agents: list[str] = AGENTS) -> list[str]:
    """Return the agents by the place that they have for a target, the best first."""
    return sorted(agents, key=lambda name: rank(target, name), reverse=True)


def connected(*names: str, since: float = 0.0) -> Presence:
    presence = Presence()
    for name in names:
        presence.came(name, since)
    return presence


def test_the_best_of_those_that_are_there() -> None:
    """The best connected agent is chosen by a hash of both names, in whichever order agents came."""
    best, second, *_ = order("switch-1")
    assert choose("switch-1", None, AGENTS, connected(*AGENTS), NOW) == best
    assert choose("switch-1", None, reversed(AGENTS), connected(*reversed(AGENTS)), NOW) == best
    assert choose("switch-1", None, AGENTS, connected(*(name for name in AGENTS if name != best)), NOW) == second
    assert choose("switch-1", None, [], connected(*AGENTS), NOW) is None
    assert choose("switch-1", None, AGENTS, Presence(), NOW) is None


def test_leases_are_spread() -> None:
    """Each of twenty agents has about a twentieth of 2,000 targets."""
    agents = [f"probe-{number}" for number in range(20)]
    presence = connected(*agents)
    shares = Counter(choose(f"switch-{number}", None, agents, presence, NOW) for number in range(2_000))
    assert len(shares) == 20 and max(shares.values()) < 150


def test_a_short_loss_moves_nothing() -> None:
    """The lease stays for HOLD_SECONDS, then the next one has it; the first gets it back once it has settled."""
    best, second, *_ = order("switch-1")
    presence = connected(*AGENTS)
    presence.went(best, NOW)
    assert choose("switch-1", best, AGENTS, presence, NOW) == best
    assert presence.expire(NOW + HOLD_SECONDS - 0.1) == []
    assert presence.expire(NOW + HOLD_SECONDS) == [best]
    assert choose("switch-1", best, AGENTS, presence, NOW + HOLD_SECONDS) == second
    presence.came(best, NOW + 20.0)
    assert choose("switch-1", second, AGENTS, presence, NOW + 20.0 + SETTLE_SECONDS - 0.1) == second
    assert choose("switch-1", second, AGENTS, presence, NOW + 20.0 + SETTLE_SECONDS) == best


def test_the_last_one_keeps_it_when_nobody_is_left() -> None:
    """The link of the last agent holds the alerts back; the first that is there takes over at once."""
    best, second, *_ = order("switch-1")
    presence = connected(best)
    presence.went(best, NOW)
    presence.expire(NOW + 60.0)
    assert choose("switch-1", best, AGENTS, presence, NOW + 60.0) == best
    presence.came(second, NOW + 61.0)
    assert choose("switch-1", best, AGENTS, presence, NOW + 61.0) == second


def test_after_a_start_those_that_are_not_back_are_waited_for() -> None:
    """A restart moves no lease: the best agent is on its way, and another one looks meanwhile if nobody does."""
    best, second, *_ = order("switch-1")
    presence = Presence()
    for name in AGENTS:
        presence.went(name, NOW, START_SECONDS)
    assert choose("switch-1", None, AGENTS, presence, NOW) is None
    presence.came(second, NOW + 1.0)
    assert choose("switch-1", None, AGENTS, presence, NOW + 1.0) == second
    presence.came(best, NOW + 2.0)
    assert choose("switch-1", second, AGENTS, presence, NOW + 2.0) == second
    presence.expire(NOW + START_SECONDS)
    assert choose("switch-1", None, AGENTS, presence, NOW + START_SECONDS) == best


@pytest.mark.parametrize("gone", AGENTS)
def test_one_that_may_no_longer_look(gone: str) -> None:
    """The targets of such an agent go to others at once, and only its own."""
    rest = [name for name in AGENTS if name != gone]
    presence = connected(*AGENTS)
    for number in range(50):
        target = f"switch-{number}"
        held = choose(target, None, AGENTS, presence, NOW)
        after = choose(target, held, rest, presence, NOW)
        assert after in rest and (held == gone or after == held)


THREE = Quorum(2, 3)


def test_as_many_as_the_quorum_says() -> None:
    """The best by rank look; one that goes is replaced after HOLD_SECONDS, the others stay; it gets its lease back."""
    first, second, third, fourth, _ = order("switch-1")
    presence, held = connected(*AGENTS), tuple(sorted((first, second, third)))
    assert choose_all("switch-1", (), AGENTS, presence, NOW, THREE) == held
    presence.went(second, NOW)
    assert choose_all("switch-1", held, AGENTS, presence, NOW, THREE) == held
    presence.expire(NOW + HOLD_SECONDS)
    after = tuple(sorted((first, third, fourth)))
    assert choose_all("switch-1", held, AGENTS, presence, NOW + HOLD_SECONDS, THREE) == after
    presence.came(second, NOW + 20.0)
    assert choose_all("switch-1", after, AGENTS, presence, NOW + 19.9 + SETTLE_SECONDS, THREE) == after
    assert choose_all("switch-1", after, AGENTS, presence, NOW + 20.0 + SETTLE_SECONDS, THREE) == held
    assert choose_all("switch-1", held, AGENTS, presence, NOW + 90.0, Quorum(1, 1)) == (first,)


def test_fewer_than_the_quorum_says() -> None:
    """Enough agents that are there look; else those that are away fill up what is needed, for their links."""
    first, second, third, *_ = order("switch-1")
    agents, presence = [first, second, third], connected(first, second, third)
    held = choose_all("switch-1", (), agents, presence, NOW, THREE)
    for name, left in ((third, {first, second}), (second, {first, second})):
        presence.went(name, NOW)
        presence.expire(NOW + HOLD_SECONDS)
        held = choose_all("switch-1", held, agents, presence, NOW + HOLD_SECONDS, THREE)
        assert set(held) == left
    assert choose_all("switch-1", (), agents, presence, NOW, THREE) == (first,)
    presence.went(first, NOW)
    presence.expire(NOW + HOLD_SECONDS)
    assert choose_all("switch-1", held, agents, presence, NOW + HOLD_SECONDS, THREE) == held
