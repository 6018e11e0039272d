"""Tests that the counts of limited callers are those of their visible rows at each moment."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from twisted.internet.task import Clock

from helen.agents.roster import Agent
from helen.agents.sight import Sight
from helen.states.fleet_timeline import Timeline
from helen.web.rows.row import Key, Row
from helen.web.rows.row_feed import RowFeed
from helen.web.rows.tallies import MOST_TALLIES, ROWS_A_STEP, UNUSED_SECONDS, Tallies, Tally

STATUSES = ("ok", "warning", "critical", "unknown")


def a_row(chance: random.Random, key: Key) -> Row:
    return Row(*key, chance.choice(STATUSES), 1.0, labels=chance.choice([{}, {"role": "web"}, {"role": "db"}]))


def counted(rows: dict[Key, Row], sight: Sight) -> dict[str, int]:
    seen = [row.status for row in rows.values() if sight.fits(row.agent, row.labels)]
    return {status: seen.count(status) for status in STATUSES}


@pytest.mark.parametrize("seed", range(5))
def test_counts_are_those_of_the_rows_that_are_seen(seed: int) -> None:
    """Kept counts equal those of the visible rows, whatever changes, for several limits at once."""
    chance = random.Random(seed)
    rows = {key: a_row(chance, key) for key in ((f"a{at % 9}", f"c{at}") for at in range(4 * ROWS_A_STEP))}
    sights, tallies = [Sight(("role=web",), {}), Sight(("a1", "role=db"), {})], Tallies()
    assert [tallies.counts(sight, rows, 0.0) for sight in sights] == [None, None]
    for _ in range(300):
        key = chance.choice([*rows, ("a1", f"c{chance.randrange(900)}")])
        row = None if chance.random() < 0.3 else a_row(chance, key)
        rows.pop(key, None)
        if row is not None:
            rows[key] = row
        tallies.renew(key, row)
        is_building = tallies.build_on()
        if not is_building:
            for sight in sights:
                assert tallies.counts(sight, rows, 0.0) == counted(rows, sight)
    assert not is_building


def test_a_step_looks_at_few_rows_of_ten_thousand() -> None:
    rows = {(f"a{at}", "c"): Row(f"a{at}", "c", "ok", 1.0) for at in range(10_000)}
    tally = Tally(Sight(("a*",), {}))
    sizes = [0, *(tally.counts["ok"] for _ in tally.build(rows))]
    assert {after - before for before, after in pairwise(sizes)} == {ROWS_A_STEP}
    assert tally.is_whole and tally.counts["ok"] == 10_000


def test_counts_that_nobody_asks_for_are_dropped() -> None:
    """Counts that are not asked for are dropped after a while, and the oldest of too many limits first."""
    tallies, rows = Tallies(), {("a", "c"): Row("a", "c", "critical", 1.0)}
    sights = [Sight((f"a{number}", "a"), {}) for number in range(MOST_TALLIES + 1)]
    for sight in sights:
        assert tallies.counts(sight, rows, 10.0) is None
        while tallies.build_on():
            pass
    tallies.drop_unused(10.0)
    assert [tallies.counts(sight, rows, 10.0) is None for sight in (sights[1], sights[0])] == [False, True]
    tallies.drop_unused(11.0 + UNUSED_SECONDS)
    assert tallies.counts(sights[1], rows, 700.0) is None


def test_a_feed_keeps_the_counts_of_a_caller() -> None:
    """A feed keeps a caller's counts once counted in turns, and follows an agent's labels with its next look."""
    clock, timeline = Clock(), Timeline()
    agents = {name: Agent(name, labels={"role": "web"}) for name in ("a", "b")}
    feed = RowFeed(clock, lambda: timeline, lambda: 1, lambda: 1, agents, clock.seconds)
    for name in agents:
        for _ in timeline.change("link", 1.0, name, None, {"event": "up"}):
            pass
    feed.start()
    sight = Sight(("role=web",), agents)
    assert feed.counts_in(sight) is None and list(feed.count(None)) == []
    assert len(list(feed.count(sight))) == 1 and list(feed.count(sight)) == []
    kept = feed.counts_in(sight)
    assert kept is not None
    told = [kept["ok"]]
    clock.advance(0.25)
    told.append(kept["ok"])
    agents["a"].labels = {"role": "db"}
    timeline.changed.update(timeline.keys_of("a"))
    clock.advance(0.25)
    assert feed.counts_in(sight) is kept
    assert [*told, kept["ok"]] == [2, 2, 1]
