"""Test the route: which server is dialled next, in which version, after how long."""

import random

import pytest

from equus.link.route import BASE, CAP, LIVED, LIVED_WITH_CHOICE, MAX_RETRY_AFTER, VERSION_MEMORY, Route, retry_after
from equus.settings import parse_server

A, B, C = (parse_server(f"{name}.example:4166") for name in "abc")


class Longest(random.Random):
    """Return the most that jitter can give."""

    def uniform(self, a, b):
        return b


def test_the_wait_doubles_up_to_the_cap():
    """The ceiling of the wait doubles up to the cap; the wait itself is anywhere below it."""
    route = Route([A], rng=Longest())
    delays = []
    for _ in range(12):
        route.ended(0.0)
        delays.append(route.delay)
    assert delays == [1, 2, 4, 8, 16, 32, 64, 128, 256, CAP, CAP, CAP]


def test_jitter_is_full():
    """Waits are spread evenly from 0 on, so that half of all agents are back in half of the time."""
    first = []
    for seed in range(2_000):
        route = Route([A], rng=random.Random(seed))
        route.ended(0.0)
        first.append(route.delay)
    assert min(first) < 0.01 * BASE and max(first) > 0.99 * BASE
    assert abs(sum(first) / len(first) - BASE / 2) < 0.02


@pytest.mark.parametrize(("lived", "delay"), [(LIVED - 0.1, 8.0), (LIVED, 1.0)])
def test_a_connection_that_lived_a_minute_begins_anew(lived, delay):
    """A connection that lived for a minute resets the wait, and a shorter one is one more failure."""
    route = Route([A], rng=Longest())
    for _ in range(3):
        route.ended(0.0)
    route.ended(100.0, lived)
    assert route.delay == delay


@pytest.mark.parametrize(
    ("error", "least"),
    [
        ("overloaded;retry-after=4", 4),
        ("shutting-down;retry-after=0", 0),
        ("overloaded;retry-after=999999", MAX_RETRY_AFTER),
        ("overloaded;retry-after=99999999999999999999", 0),
        ("overloaded;retry-after=-4", 0),
        ("overloaded;retry-after=4x", 0),
        ("overloaded", 0),
        ("the quick brown fox;jumps", 0),
    ],
)
def test_retry_after_is_a_least(error, least):
    """`retry-after` is the least wait, to which the backoff is added, and nonsense counts as 0."""
    assert retry_after(error) == least
    route = Route([A], rng=Longest())
    route.ended(0.0, error=error)
    assert route.delay == least + 1.0


@pytest.mark.parametrize(
    ("error", "served", "delays"),
    [
        ("overloaded;retry-after=30", True, [31.0, 31.0, 31.0, 31.0]),
        ("overloaded;retry-after=30", False, [38.0, 46.0, 62.0, 94.0]),  # it took nothing: backoff grows
        ("overloaded", True, [8.0, 16.0, 32.0, 64.0]),  # no delay was asked for
    ],
)
def test_a_spool_that_comes_in_parts_waits_no_longer_than_helen_asks_for(error, served, delays):
    """A spool that Helen takes in parts waits only as long as Helen asks, also after failures, so that the agent never
    seems away (F52).
    """
    route = Route([A], rng=Longest())
    for _ in range(3):
        route.ended(0.0)
    found = []
    for _ in range(4):
        route.ended(0.0, 5.0, error, served=served)
        found.append(route.delay)
    assert found == delays


def test_servers_take_turns_and_the_first_is_first_again_after_a_good_connection():
    """Servers take turns, the configured ones before learnt ones, and a good connection begins with the first again."""
    route = Route([A, B], [C])
    tried = []
    for _ in range(5):
        tried.append(route.server)
        route.ended(0.0)
    assert tried == [A, B, C, A, B]
    route.ended(0.0, lived=LIVED)
    assert route.server == A


def test_learnt_servers_never_displace_ours():
    """Learnt servers come after the configured ones, and a server is tried once a round."""
    route = Route([A])
    route.learn([C, A, B])
    assert route.servers == (A, C, B)
    route.learn([])
    assert route.servers == (A,)


@pytest.mark.adversary(59)
def test_a_helen_that_refuses_version_2_is_greeted_in_version_1_at_once_and_for_a_while():
    """A Helen that refuses version 2 is greeted in version 1 at once, without a wait, and for an hour."""
    route = Route([A, B])
    assert route.version(0.0) == 2
    route.ended(0.0, error="unsupported-protocol-version")
    assert (route.server, route.delay, route.version(0.0)) == (A, 0.0, 1)
    assert route.version(VERSION_MEMORY - 1) == 1
    assert route.version(VERSION_MEMORY + 1) == 2


def test_refusing_every_version_is_no_way_to_a_storm():
    """Only the very first refusal of a version is answered at once; the later ones wait longer each time."""
    route = Route([A], rng=Longest())
    delays = []
    for _ in range(6):
        route.ended(0.0, error="unsupported-protocol-version")
        delays.append(route.delay)
    assert delays == [0.0, 1.0, 2.0, 4.0, 8.0, 16.0]


def test_coming_back_with_a_new_certificate_needs_no_wait():
    """An agent that comes back with a new certificate does not wait, because it is no failure."""
    route = Route([A, B])
    route.ended(0.0)
    route.ended(0.0, at_once=True)
    assert (route.server, route.delay, route.failures) == (B, 0.0, 0)


def test_with_several_servers_the_ceiling_grows_once_all_have_failed():
    """With several servers the ceiling grows once all have failed, and is low again after a connection of ten
    seconds.
    """
    route = Route([A, B], [C], rng=Longest())
    delays = []
    for _ in range(7):
        route.ended(0.0)
        delays.append(route.delay)
    assert delays == [1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 4.0]
    server = route.server
    route.ended(0.0, lived=LIVED_WITH_CHOICE)
    assert (route.delay, route.server != server) == (1.0, True)
    alone = Route([A], rng=Longest())
    for _ in range(3):
        alone.ended(0.0, lived=LIVED_WITH_CHOICE)
    assert alone.delay == 4.0
