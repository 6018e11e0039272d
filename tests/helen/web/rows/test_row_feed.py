"""Tests that RowFeed keeps the rows of pages: changes, and the rows that a returning client gets."""

from __future__ import annotations

import random
from typing import Any

import pytest
from acting import Play
from fleet import Fleet
from twisted.internet.task import Clock

from helen.agents.roster import Agent, Latest
from helen.states.fleet_states import run
from helen.states.fleet_timeline import Timeline
from helen.states.model import Rule
from helen.web.rows import row_feed
from helen.web.rows.row import Row
from helen.web.rows.row_feed import GONE_SECONDS, RowFeed
from helen.web.rows.selection import Wanted

KEY = ("a", "c")


class Board:
    """Hold a feed over a timeline; `place` is the number of its present record."""

    def __init__(self, timeline: Timeline, agents: dict[str, Agent] | None = None, turn: float = 1.0) -> None:
        self.clock, self.place, self.timeline = Clock(), 1, timeline
        self.agents = agents or {}
        self.feed = RowFeed(
            self.clock, lambda: self.timeline, lambda: self.place, lambda: self.place, self.agents, self.clock.seconds,
            slice_seconds=lambda: turn,
        )  # fmt: skip
        self.feed.start()

    def look(self, seconds: float = 0.25) -> None:
        self.clock.advance(seconds)


def play(**rule: Any) -> tuple[Play, Board]:
    played = Play({"a/c": Rule(**{"attempts": 1} | rule), "a/d": Rule(attempts=1)})
    board = Board(played.timeline, {"a": Agent("a", labels={"role": "web"})})
    return played, board


def shown(row: Row) -> tuple[str, str, str]:
    return row.status, row.soft, row.marks


# ---------------------------------------------------------------------------------------------- what is a change


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["critical"], ("critical", "", "")),
        (["warning", "ack owner=anna"], ("warning", "", "A")),
        (["critical", "downtime id=d1 until=900"], ("critical", "", "D")),
        (["ok", "ok"], ("ok", "", "")),
    ],
)
def test_what_a_row_shows(given: list[str], expected: tuple[str, str, str]) -> None:
    """A row shows status, acknowledgement and holds after the next look, with the number of the record."""
    played, board = play()
    for number, each in enumerate(given):
        played.act(10.0 + number, each)
        board.place += 1
    board.look()
    assert shown(board.feed.rows[KEY]) == expected
    assert board.feed.rows[KEY].at == board.place


def test_a_soft_problem_says_how_sure_it_is() -> None:
    played, board = play(attempts=3)
    played.act(10.0, "critical")
    board.look()
    assert shown(board.feed.rows[KEY]) == ("critical", "1/3", "")


def test_an_ok_result_after_another_is_no_change() -> None:
    """An ok result after another is no change, and its time is looked up when it is asked for."""
    played, board = play()
    played.act(10.0, "ok")
    board.look()
    before, board.place = board.feed.look, 7
    played.act(20.0, "ok")
    board.agents["a"].latest["c"] = latest(20.0, "fine")
    board.look()
    assert board.feed.look == before and board.feed.rows[KEY].at < 7
    assert (board.feed.now(board.feed.rows[KEY]).heard, board.feed.rows[KEY].heard) == (20.0, None)


def test_a_summary_of_a_problem_is_news_each_ten_seconds() -> None:
    """A problem's summary changes its row at most each ten seconds."""
    played, board = play()
    told = []
    for second in range(31):
        board.place += 1
        played.act(100.0 + second, "critical")
        board.agents["a"].latest["c"] = latest(100.0 + second, f"{second} %")
        board.look()
        told.append(board.feed.rows[KEY].summary)
    assert list(dict.fromkeys(told)) == ["0 %", "10 %", "20 %", "30 %"]


def test_labels_are_a_change() -> None:
    """A change of an agent's labels changes its rows."""
    played, board = play()
    board.look()
    board.place = 9
    board.agents["a"].labels = {"role": "db"}
    played.timeline.changed.update(played.timeline.keys_of("a"))
    board.look()
    assert {row.at for row in board.feed.rows.values()} == {9}


def latest(received: float, summary: str) -> Latest:
    return Latest(check_id="c", status=2, received=received, summary=summary, metrics=(), since=received)


# ---------------------------------------------------------------------------------------------- a client


def test_rows_that_are_gone_are_told_for_a_while() -> None:
    """Rows that are gone are told for GONE_SECONDS, and a client that was away for longer reads anew."""
    played, board = play()
    board.look()
    before = board.feed.look
    board.place = 5
    run(played.timeline.forget("a"))
    board.look()
    change = board.feed.since(before)
    assert change is not None and set(change.gone) >= {KEY, ("a", "d")} and change.rows == ()
    assert sum(board.feed.counts.values()) == 0
    board.look(GONE_SECONDS + 1)
    assert board.feed.since(before) is None
    assert board.feed.since(board.feed.look) is not None


@pytest.mark.parametrize("seed", range(4))
def test_a_client_that_follows_has_what_a_new_one_gets(seed: int) -> None:
    """A client that follows changes has the rows of a new one, over random faults, windows, rollouts and absences."""
    chance = random.Random(seed)
    fleet = Fleet(seed=seed, agents=5, days=2, every=900.0)
    board = Board(Timeline())
    client: dict[Any, Row] = {}
    look = 0
    for record in fleet.records():
        for _ in record.apply(board.timeline):
            pass
        board.place += chance.randrange(2)  # one record may change rows of several looks
        if chance.random() < 0.2:
            board.look(chance.choice([0.25, 1.0]))
        if chance.random() < 0.05:
            change = board.feed.since(look)
            assert change is not None
            for key in change.gone:
                client.pop(key, None)
            client |= {row.key: row for row in change.rows}
            look = change.look
    board.look()
    change = board.feed.since(look)
    assert change is not None
    for key in change.gone:
        client.pop(key, None)
    client |= {row.key: row for row in change.rows}
    assert client == board.feed.rows
    assert client.keys() == board.timeline.states.keys()
    assert all(row.status == STATUS[board.timeline.states[key].shown.status] for key, row in client.items())
    assert board.feed.counts == {word: sum(row.status == word for row in client.values()) for word in STATUS}


STATUS = ("ok", "warning", "critical", "unknown")


@pytest.mark.parametrize("is_flooded", [False, True])
def test_a_look_takes_a_slice_of_time(monkeypatch: pytest.MonkeyPatch, is_flooded: bool) -> None:
    """A look at many changed rows takes a slice of a turn, and the rest follows in the next turns without loss."""
    if not is_flooded:
        monkeypatch.setattr(row_feed, "SLICE_SECONDS", 0.0)
    played = Play({f"a{number}/c": Rule() for number in range(300)})
    board = Board(played.timeline, turn=0.0 if is_flooded else 1.0)
    sizes, told, looks = [len(board.feed.rows)], {row.key for row in board.feed.rows.values()}, [board.feed.look]

    def follow() -> None:
        change = board.feed.since(looks[-1])
        assert change is not None
        sizes.append(len(board.feed.rows))
        told.update(row.key for row in change.rows)
        looks.append(change.look)

    board.feed.changed.subscribe(follow)
    board.look()
    assert sizes == list(range(row_feed.SLICE_KEYS, 601, row_feed.SLICE_KEYS))
    assert told == board.feed.rows.keys()
    assert len(board.feed.rows) == len(played.timeline.states) == 600
    assert not played.timeline.changed


def test_two_looks_at_one_record_are_two_changes() -> None:
    """A second look at the same record is a change of its own."""
    played, board = play()
    played.act(10.0, "critical")
    board.look()
    first = board.feed.look
    played.act(11.0, "ok")
    board.look()
    change = board.feed.since(first)
    assert change is not None and [(row.key, row.status, row.at) for row in change.rows] == [(KEY, "ok", 1)]


@pytest.mark.parametrize(("told", "expected"), [(1, "c d"), (3, "c d"), (4, "c d"), (6, "c d"), (8, "c")])
def test_who_comes_back_with_an_id_misses_nothing(told: int, expected: str) -> None:
    """A client that returns with an id gets all changes since the look before it, which may have been cut off."""
    played, board = play()
    for place, given in ((3, "a/c critical"), (5, "a/d critical"), (7, "a/c ok")):
        board.place = place
        played.act(10.0 + place, given)
        board.look()
    change = board.feed.since(board.feed.look_before(told))
    assert change is not None and sorted(row.check for row in change.rows if row.check in "cd") == expected.split()


def test_an_id_of_too_long_ago_is_not_guessed_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that returns with an id older than the kept looks reads anew."""
    monkeypatch.setattr(row_feed, "MOST_LOOKS", 2)
    played, board = play()
    for place in range(2, 8):
        board.place = place
        played.act(10.0 + place, ("critical", "ok")[place % 2])
        board.look()
    board.look()
    assert board.feed.since(board.feed.look_before(5)) is None
    assert board.feed.since(board.feed.look_before(7)) is not None


def test_a_row_that_became_well_leaves_a_board_of_problems() -> None:
    """A row that became ok is no problem any more and leaves the rows that fit."""
    played, board = play()
    played.act(10.0, "critical")
    board.look()
    assert [row.key for row in Wanted().fitting(board.feed.rows.values(), 0.0) if row.check == "c"] == [KEY]
    played.act(20.0, "ok")
    board.look()
    assert KEY not in [row.key for row in Wanted().fitting(board.feed.rows.values(), 0.0)]


# ---------------------------------------------------------------------------------------------- work at once


def flickered(agents: int, looks: int) -> Board:
    """Return a feed in which each look has changed all checks."""
    played = Play({f"a{number}/c": Rule(attempts=1) for number in range(agents)})
    board = Board(played.timeline)
    for number in range(looks):
        board.place += 1
        for agent in range(agents):
            played.act(10.0 + number, f"a{agent}/c {('critical', 'ok')[number % 2]}")
        while played.timeline.changed:
            board.look()
    return board


def test_who_is_far_behind_is_told_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client far behind gets all changes in pieces, each row once."""
    monkeypatch.setattr(row_feed, "SLICE_SECONDS", 0.0)
    board = flickered(agents=500, looks=3)
    look, told, sizes = 0, dict[Any, Row](), list[int]()
    while look < board.feed.look:
        change = board.feed.since(look)
        assert change is not None and change.look > look and not told.keys() & {row.key for row in change.rows}
        look, sizes = change.look, [*sizes, len(change.rows)]
        told |= {row.key: row for row in change.rows}
    assert told == board.feed.rows and len(told) == 1_000  # each agent has a state of its own link
    assert len(sizes) > 3 and max(sizes) <= row_feed.ROWS_A_FRAME + row_feed.SLICE_KEYS


def test_rows_that_are_gone_are_told_in_pieces_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are gone are told in pieces too, and count as changed rows do."""
    monkeypatch.setattr(row_feed, "SLICE_SECONDS", 0.0)
    monkeypatch.setattr(row_feed, "ROWS_A_FRAME", 60)
    board = flickered(agents=100, looks=1)
    look, told = board.feed.look, list[Any]()
    for agent in range(100):
        run(board.timeline.forget(f"a{agent}"))
    while board.timeline.changed:
        board.look()
    pieces = 0
    while look < board.feed.look:
        change = board.feed.since(look)
        assert change is not None and len(change.past) <= 60 + row_feed.SLICE_KEYS
        look, pieces = change.look, pieces + 1
        told += change.gone
    assert pieces > 1 and len(told) == len(set(told)) == 200


def test_who_is_too_far_behind_reads_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client more than MOST_BEHIND rows behind reads anew, which is cheaper."""
    board = flickered(agents=20, looks=1)
    monkeypatch.setattr(row_feed, "MOST_BEHIND", 39)
    assert len(board.feed.rows) == 40 and board.feed.since(0) is None
    monkeypatch.setattr(row_feed, "MOST_BEHIND", 40)
    assert board.feed.since(0) is not None


def test_a_look_has_a_name_that_is_good_in_this_process() -> None:
    """A look is found by its name in this process; a name of another Helen, of a look to come, or of none is None."""
    board, other = flickered(agents=2, looks=2), flickered(agents=2, looks=2)
    look = board.feed.look
    assert board.feed.look_of(board.feed.name_of(look)) == look > 1
    assert board.feed.look_of(board.feed.name_of(0)) == 0
    run_of = board.feed.name_of(0)[:-1]
    for name in (other.feed.name_of(1), board.feed.name_of(look + 1), "", run_of, f"{run_of}-1", f"{run_of}²",
                 f"{run_of}{'9' * 5_000}", f"{run_of}1 "):  # fmt: skip
        assert board.feed.look_of(name) is None, name
