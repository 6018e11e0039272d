"""Tests rows of states: kept ones equal fresh ones, pages have each once, the reactor has its turns."""

from __future__ import annotations

import json
import random
from types import SimpleNamespace
from typing import Any

import pytest

from helen.agents.sight import Sight
from helen.states.agent_rules import AgentRules
from helen.states.fleet_states import run
from helen.states.fleet_timeline import Timeline
from helen.states.inputs import Result
from helen.states.model import Rule
from helen.web import state_rows
from helen.web.state_rows import StateFilter, StateRows, show_state, write_states

ACK, TAKE_BACK = {"action": "set", "owner": "anna"}, {"action": "clear", "owner": "anna"}
ALL = StateFilter(statuses=frozenset(range(4)))


class Fleet:
    """Hold a timeline and its rows, with random events."""

    def __init__(self, seed: int) -> None:
        self.chance, self.timeline, self.now = random.Random(seed), Timeline(), 1_000.0
        self.judge: Any = SimpleNamespace(timeline=self.timeline)
        self.state_rows = StateRows(self.judge)

    def go_on(self) -> None:
        """Apply a few results, and at random a rule, an acknowledgement or the end of an agent."""
        for _ in range(self.chance.randrange(30)):
            self.now += 1.0
            agent, check = f"a{self.chance.randrange(6)}", f"c{self.chance.randrange(5)}"
            run(self.timeline.result(agent, check, Result(self.now, self.chance.choice((0, 0, 1, 2)))))
        agent = f"a{self.chance.randrange(6)}"
        what = self.chance.random()
        if what < 0.2:
            rules = AgentRules({}, {"c0": Rule(attempts=self.chance.randrange(1, 9))})
            run(self.timeline.set_rules(agent, rules))
        elif what < 0.3:
            run(self.timeline.forget(agent))
        elif what < 0.5:
            for key in self.timeline.keys_of(agent)[:1]:
                given = ACK if self.timeline.states[key].ack is None else TAKE_BACK
                run(self.timeline.change("ack", self.now, *key, given))

    def rows(self, wanted: StateFilter = ALL, after: Any = None) -> list[tuple[Any, Any]]:
        found = [some for some in self.state_rows.rows(wanted, after) if some is not None]
        assert all(text in (None, b",\n".join(rows)) for _, rows, text in found)
        return [(key, json.loads(row)) for keys, rows, _ in found for key, row in zip(keys, rows, strict=True)]

    def fresh(self) -> list[tuple[Any, Any]]:
        return [(key, show_state(self.judge, *key)) for key in sorted(self.timeline.states)]


@pytest.mark.parametrize("seed", range(10))
def test_rows_that_are_kept(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept rows equal rows made without keeping any, and their number is bounded."""
    monkeypatch.setattr(state_rows, "MOST_KEPT", 20)
    fleet = Fleet(seed)
    for _ in range(30):
        fleet.go_on()
        assert fleet.rows() == fleet.fresh()
        assert sum(len(block.rows) for block in fleet.state_rows._blocks.values()) == fleet.state_rows._kept <= 20


def test_agents_out_of_sight_take_turns_as_well() -> None:
    """Agents out of sight are skipped in turns as well."""
    fleet, looked, sizes = Fleet(1), list[str](), list[int]()
    for number in range(500):
        run(fleet.timeline.result(f"a{number:03}", "c", Result(1_000.0, 2)))

    class Counted(Sight):
        def __call__(self, name: str | None) -> bool:
            looked.append(name or "")
            return super().__call__(name)

    found = list[Any]()
    for some in fleet.state_rows.rows(StateFilter(statuses=frozenset(range(4)), sight=Counted(("a499",), {}))):
        if some is None:
            sizes.append(len(looked))
            looked.clear()
        else:
            found += some[0]
    most = state_rows.ROWS_A_TURN // state_rows.ROWS_OF_HIDDEN
    assert found == [("a499", "c")] and sizes[:4] == [most] * 4 and max(sizes) <= most


def test_what_shows_no_change_is_not_written_again() -> None:
    """A row without a shown change is the same object again, also after a result that changes nothing."""
    fleet = Fleet(1)
    fleet.go_on()

    def rows() -> list[bytes]:
        return [row for some in fleet.state_rows.rows(ALL) if some is not None for row in some[1]]

    first = rows()
    assert first
    assert all(one is other for one, other in zip(first, rows(), strict=True))
    for key, state in list(fleet.timeline.states.items()):
        if state.shown.status == 0 and not state.shown.attempt:
            run(fleet.timeline.result(*key, Result(fleet.now + 1.0, 0)))
            assert fleet.timeline.states[key] is not state
            break
    assert all(one is other for one, other in zip(first, rows(), strict=True))
    whole, again = ([some[2] for some in fleet.state_rows.rows(ALL) if some is not None] for _ in range(2))
    assert all(one is other for one, other in zip(whole, again, strict=True))  # nothing was heard: nothing is joined


def test_what_is_wanted() -> None:
    """A filter selects rows that are not ok, of a status, of an agent, or behind a place."""
    fleet = Fleet(3)
    for _ in range(5):
        fleet.go_on()
    rows = dict(fleet.fresh())
    well = {key for key, row in rows.items() if row["status"] == "ok" and row["kind"] == "hard" and not row["flapping"]}
    assert 0 < len(well) < len(rows)
    assert [key for key, _ in fleet.rows(StateFilter())] == sorted(rows.keys() - well)
    critical = [key for key, row in rows.items() if row["status"] == "critical"]
    assert [key for key, _ in fleet.rows(StateFilter(statuses=frozenset({2})))] == critical
    one = [key for key in rows if key[0] == "a1"]
    assert [key for key, _ in fleet.rows(StateFilter("a1", frozenset(range(4))))] == one
    assert fleet.rows(StateFilter("nobody", frozenset(range(4)))) == []
    for place in [*rows, ("a1", ""), ("zzz", "")]:
        assert [key for key, _ in fleet.rows(after=place)] == [key for key in rows if key > place]


@pytest.mark.parametrize("limit", [None, 1, 2, 7, 1_000])
def test_pages(limit: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of any size are JSON and together the whole, and the last one has no next place."""
    monkeypatch.setattr(state_rows, "ROWS_A_TURN", 3)
    monkeypatch.setattr(state_rows, "FRESH_A_TURN", 2)
    fleet = Fleet(4)
    for _ in range(5):
        fleet.go_on()
    found, after = list[Any](), None
    for _ in range(100):
        parts, places = list[bytes](), list[Any]()

        def end(place: Any, places: list[Any] = places) -> bytes:
            places.append(place)
            return b"}"

        list(write_states(fleet.state_rows.rows(ALL, after), limit, parts.append, end, lambda: False))
        found += json.loads(b"".join(parts))["states"]
        (after,) = places
        if after is None:
            break
    assert found == [row for _, row in fleet.fresh()]


def test_the_reactor_has_its_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reactor has its turns however few rows fit, and a client that hangs up ends the answer."""
    monkeypatch.setattr(state_rows, "ROWS_A_TURN", 50)
    monkeypatch.setattr(state_rows, "FRESH_A_TURN", 10)
    fleet = Fleet(5)
    for number in range(200):
        run(fleet.timeline.result(f"a{number % 2}", f"c{number}", Result(1.0, 0)))
        run(fleet.timeline.result(f"b{number}", "c", Result(1.0, 0)))
    bad = StateFilter(statuses=frozenset({2}))
    assert sum(some is None for some in fleet.state_rows.rows(bad)) == 20 + 2 + 22  # nine agents of one check each
    assert sum(some is None for some in fleet.state_rows.rows(bad)) == 6
    parts: list[bytes] = []
    list(write_states(fleet.state_rows.rows(ALL), None, parts.append, lambda place: b"}", lambda: True))
    assert not b"".join(parts).endswith(b"]}")


def test_rows_of_many_small_agents_are_written_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn writes about FRESH_A_TURN rows, however few checks each agent has."""
    written, show, sizes = [0], state_rows._show, list[int]()

    def counted(*given: Any) -> Any:
        written[0] += 1
        return show(*given)

    monkeypatch.setattr(state_rows, "_show", counted)
    fleet = Fleet(1)
    for number in range(400):
        for check in range(1 + number % 7):
            run(fleet.timeline.result(f"a{number:03}", f"c{check}", Result(1_000.0, 2)))
    for some in fleet.state_rows.rows(ALL):
        if some is None:
            sizes.append(written[0])
            written[0] = 0
    assert sum(sizes) + written[0] == len(fleet.timeline.states) > 10 * state_rows.FRESH_A_TURN
    assert max(sizes) <= 2 * state_rows.FRESH_A_TURN


@pytest.mark.parametrize("seed", range(5))
def test_two_at_a_time(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers made in turns beside each other each have the rows that stayed the same since they began."""
    monkeypatch.setattr(state_rows, "FRESH_A_TURN", 2)
    monkeypatch.setattr(state_rows, "ROWS_A_TURN", 4)
    fleet = Fleet(seed)
    open_ones: list[tuple[Any, dict[Any, Any], dict[Any, Any]]] = []
    for _ in range(600):
        if fleet.chance.random() < 0.05:
            before = dict(fleet.fresh())
            fleet.go_on()
            after = dict(fleet.fresh())
            for key in {*before, *after}:
                if after.get(key) != before.get(key):
                    for _, then, _ in open_ones:
                        then.pop(key, None)  # it may be as it was, or as it is
        if len(open_ones) < 4:
            open_ones.append((fleet.state_rows.rows(ALL), dict(fleet.fresh()), {}))
        rows, then, got = fleet.chance.choice(open_ones)
        for some in rows:
            if some is None:
                break
            got.update((key, json.loads(row)) for key, row in zip(some[0], some[1], strict=True))
        else:
            assert {key: got.get(key) for key in then} == then
            open_ones = [each for each in open_ones if each[0] is not rows]
    assert fleet.rows() == fleet.fresh()


def _many(fleet: Fleet, status: int, checks: int = 50) -> None:
    fleet.now += 60.0
    for number in range(checks):
        run(fleet.timeline.result("a", f"c{number:02}", Result(fleet.now, status)))


@pytest.mark.parametrize("rests", [1, 2, 4])
def test_an_answer_that_is_broken_off(rests: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that is broken off leaves nothing behind, and the next one has the present states."""
    monkeypatch.setattr(state_rows, "FRESH_A_TURN", 10)
    fleet = Fleet(6)
    _many(fleet, 0)
    assert fleet.rows() == fleet.fresh()
    _many(fleet, 2)
    rows = fleet.state_rows.rows(ALL)
    assert [next(rows) for _ in range(rests)] == [None] * rests
    rows.close()  # type: ignore[attr-defined]
    found = fleet.rows()
    assert found == fleet.fresh() and {row["status"] for _, row in found} == {"critical"}
    assert not fleet.state_rows._building and "a" not in fleet.timeline.touched


@pytest.mark.parametrize("which", [0, 1])
def test_one_of_two_answers_is_broken_off(which: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """If one of two answers is broken off, the other goes on, and the next one has the present states."""
    monkeypatch.setattr(state_rows, "FRESH_A_TURN", 10)
    fleet = Fleet(7)
    _many(fleet, 0)
    fleet.rows()
    both = []
    for status in (1, 2):  # between the two the states change
        _many(fleet, status)
        both.append(fleet.state_rows.rows(ALL))
        assert next(both[-1]) is None
    both[which].close()  # type: ignore[attr-defined]
    list(both[1 - which])
    found = fleet.rows()
    assert found == fleet.fresh() and {row["status"] for _, row in found} == {"critical"}


def test_an_older_answer_that_ends_after_all_rows_were_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of an older answer that ends after all rows were dropped are not kept as the newest."""
    monkeypatch.setattr(state_rows, "FRESH_A_TURN", 10)
    monkeypatch.setattr(state_rows, "MOST_KEPT", 60)
    fleet = Fleet(8)
    _many(fleet, 1)
    older = fleet.state_rows.rows(ALL)
    assert next(older) is None
    _many(fleet, 2)
    for number in range(20):
        run(fleet.timeline.result("b", f"c{number}", Result(fleet.now, 0)))
    assert fleet.rows() == fleet.fresh() and not fleet.state_rows._blocks
    list(older)
    assert fleet.rows() == fleet.fresh()
