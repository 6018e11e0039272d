"""Tests that a result that two Helens got is in the lake once: agents that move before their ack send results again."""

from __future__ import annotations

import contextlib
import random
from typing import Any

import pytest
from plainly import PlainBatch, refuse_once, sink_of

from helen.pipeline.ingest import dedup
from helen.pipeline.lake.lake import Lake

T = 1_790_000_100.0  # 2026-09-21 13:35:00 UTC


@pytest.fixture
def lake(tmp_path: Any) -> Lake:
    """Provide an empty lake."""
    return Lake(tmp_path / "lake")


@pytest.mark.adversary(69)
def test_an_agent_that_moves_stays_one_series(lake: Lake, histories: Any, take_in: Any) -> None:
    """An agent that moves stays one series with each result once, and results numbered by each Helen stay apart."""
    one, two = histories
    one.segment(*(one.result("web1/disk", T + n, spool="k3v9", sequence=n) for n in (1, 2, 3)))
    two.segment(two.result("web9/load", T), *(two.result("web1/disk", T + n, spool="k3v9", sequence=n) for n in (3, 4)))
    for helen in (one, two):
        helen.segment(helen.result("web1/disk", T, "critical", spool="helen", sequence=1, origin=1))
    take_in(lake, one.state, two.state)
    one.segment(*(one.result("web1/disk", T + n, spool="k3v9", sequence=n) for n in (4, 5)))
    take_in(lake, one.state, two.state)
    names = {row["series"]: row["agent"] for row in lake.rows("series")}
    rows = [row for row in lake.rows("results") if names[row["series"]] == "web1"]
    assert len({row["series"] for row in rows}) == 1
    assert sorted((row["spool"], row["sequence"]) for row in rows) == [
        ("helen", 1), ("helen", 1), ("k3v9", 1), ("k3v9", 2), ("k3v9", 3), ("k3v9", 4), ("k3v9", 5),
    ]  # fmt: skip
    checks = [row for row in lake.rows("m5") if row["metric"] == "" and names[row["series"]] == "web1"]
    assert sum(row["n"] for row in checks) == 5


def test_a_spool_that_could_not_be_noted_is_noted_later(
    lake: Lake, histories: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = histories
    one.segment(one.result("web1/load", T, spool="s", sequence=1))
    sink = sink_of(lake, one.state, other.state)
    refuse_once(monkeypatch, lake, "spools")
    with pytest.raises(OSError, match="No space"):
        sink.take(PlainBatch(sink, 9))
    sink.take(PlainBatch(sink, 9))
    other.segment(other.result("web1/load", T, spool="s", sequence=1))
    sink = sink_of(lake, one.state, other.state)
    sink.take(PlainBatch(sink, 9))
    assert sorted((row["helen"], row["spool"]) for row in lake.rows("spools")) == [(0, "s"), (1, "s")]
    assert len(lake.rows("results")) == 1
    lake.unlock()


@pytest.mark.parametrize("first", [0, 1])
def test_a_twin_that_comes_between_two_tables(lake: Lake, histories: Any, first: int) -> None:
    """A result published in m5 alone before a failure stays single when it comes from the other Helen as well."""
    one, other = histories[first], histories[1 - first]
    one.segment(one.result("web1/load", T, spool="s", sequence=1))
    left = [1]

    def reached(name: str) -> None:
        if name == "m5-published" and left:
            left.pop()
            raise OSError(28, "No space left on device")

    sink = sink_of(lake, *(each.state for each in histories), reached=reached)
    with pytest.raises(OSError, match="No space"):
        sink.take(PlainBatch(sink, 9))
    other.segment(other.result("web1/load", T, spool="s", sequence=1))
    sink.take(PlainBatch(sink, 9))
    assert ([row["helen"] for row in lake.rows("results")], sum(row["n"] for row in lake.rows("m5"))) == ([first], 1)
    lake.unlock()


@pytest.mark.parametrize("seed", range(4))
def test_agents_that_move_and_send_again(
    lake: Lake, histories: Any, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Each result is in the lake once, whatever agents that move send again, with failures and starts between."""
    rng, reads = random.Random(seed), []
    given = dedup.batches
    monkeypatch.setattr(dedup, "batches", lambda *words: reads.append(words[0]) or given(*words))
    agents = {f"web{n}": {"at": 0, "next": 1, "from": 1} for n in range(5)}
    sink, sent = sink_of(lake, *(each.state for each in histories)), 0
    for turn in range(40):
        if turn < 25 and rng.random() < 0.3:
            agent = agents[rng.choice(list(agents))]
            agent["at"] = 1 - agent["at"]
            agent["from"] = max(1, agent["next"] - rng.randrange(4))  # what had no ack yet is sent again
        for number, helen in enumerate(histories):
            rows = []
            for name, agent in agents.items():
                if agent["at"] == number and rng.random() < 0.8:
                    until = agent["next"] + rng.randrange(3)
                    rows += [helen.result(f"{name}/c", T + 9 * n, spool=f"s-{name}", sequence=n)
                             for n in range(agent["from"], until)]  # fmt: skip
                    agent["from"] = agent["next"] = until
            if rows:
                helen.segment(*rows)
                sent += len(rows)
        if rng.random() < 0.1:
            refuse_once(monkeypatch, lake, rng.choice(["m5", "results", "spools"]))
        if turn == 30:
            assert reads
            reads.clear()
        if turn < 25 and rng.random() < 0.1:
            sink = sink_of(lake, *(each.state for each in histories))
        if rng.random() < 0.7:
            with contextlib.suppress(OSError):
                sink.take(PlainBatch(sink, 99))
    for _ in range(4):
        with contextlib.suppress(OSError):
            sink.take(PlainBatch(sink, 99))
    names = {row["series"]: row["agent"] for row in lake.rows("series")}
    found = sorted((names[row["series"]], row["sequence"]) for row in lake.rows("results"))
    expected = [(name, n) for name in sorted(agents) for n in range(1, agents[name]["next"])]
    assert found == expected
    assert sum(row["n"] for row in lake.rows("m5")) == len(expected) < sent
    assert reads == []
    lake.unlock()


def test_what_has_come_since_the_batch_began_is_taken_as_well(lake: Lake, histories: Any) -> None:
    """A small batch takes segments that came since it began, and the next batch does not add them again."""
    one, other = histories
    one.segment(one.result("web1/disk", T, spool="s", sequence=1))
    sink = sink_of(lake, one.state, other.state)
    batch = PlainBatch(sink, 9)
    other.segment(other.result("web1/disk", T, spool="s", sequence=1), other.result("web1/disk", T + 1))
    assert sink.take(batch).results == 2
    again = PlainBatch(sink, 9)
    assert again.is_empty
    assert sink.take(batch).results == 0
    assert (len(lake.rows("results")), sum(row["n"] for row in lake.rows("m5"))) == (2, 2)
    assert sink.start() == {"0": {"seg": 1, "chg": 0}, "1": {"seg": 1, "chg": 0}}
    lake.unlock()
