"""Tests that orders have the rows of a feed sorted at each moment, and answers are picked in short steps."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest
from attrs import evolve

from helen.agents.roster import Agent
from helen.agents.sight import Sight
from helen.web.rows.orders import ROWS_A_STEP, UNUSED_SECONDS, Order, Orders
from helen.web.rows.row import SORT_KEYS, SORTS, Key, Row, is_unwell
from helen.web.rows.selection import FIELDS, WORST, Choice, Wanted, encode, group_of, place_of, values_of

STATUSES = ("ok", "warning", "critical", "unknown")


def a_row(chance: random.Random, key: Key) -> Row:
    """Return a row of any kind; many of them have the same times, so that names decide."""
    labels = {"role": chance.choice(["web", "db"])} if key[0] != "a0" else {}
    return Row(
        *key, chance.choice(STATUSES), float(chance.randrange(4)), chance.choice([None, 1.0, 2.0]),
        chance.choice(["disk full", "fine"]), None, chance.choice(["", "", "1/3"]), chance.choice(["", "A", "F", "R"]),
        labels,
    )  # fmt: skip


def some_rows(chance: random.Random, number: int) -> dict[Key, Row]:
    keys = [(f"a{at % 7}", f"c{at}") for at in range(number)]
    chance.shuffle(keys)
    return {key: a_row(chance, key) for key in keys}


def sorted_rows(rows: dict[Key, Row], sort: str, is_narrow: bool) -> list[Row]:
    held = [row for row in rows.values() if not is_narrow or is_unwell(row)]
    return sorted(held, key=lambda row: place_of(sort, row))


def counted(rows: Sequence[Row]) -> dict[str, int]:
    return {status: sum(row.status == status for row in rows) for status in STATUSES}


def change(chance: random.Random, rows: dict[Key, Row], orders: Sequence[Any]) -> None:
    """Let one row come, change or go."""
    key = chance.choice([*rows, ("a1", f"c{chance.randrange(1_000)}")])
    before = rows.pop(key, None)
    row = None if chance.random() < 0.2 else a_row(chance, key)
    if row is not None:
        rows[key] = row
    for order in orders:
        order.renew(before, row)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("is_narrow", [True, False])
def test_an_order_is_what_sorting_gives(sort: str, is_narrow: bool, seed: int) -> None:
    """An order equals sorting at each moment, whatever rows come, change and go, also while it is built."""
    chance = random.Random(seed)
    rows = some_rows(chance, 5 * ROWS_A_STEP)
    order = Order(sort, is_narrow, is_whole=False)
    for _ in zip(order.build(rows), order.build(rows), strict=False):
        change(chance, rows, [order])
    for _ in order.build(rows):
        change(chance, rows, [order])
    assert order.is_whole
    for _ in range(100):
        change(chance, rows, [order])
        assert order.rows == sorted_rows(rows, sort, is_narrow)
    assert order.counts == counted(order.rows)


@pytest.mark.parametrize("sort", SORTS)
def test_an_order_is_that_of_the_times_that_are_shown(sort: str) -> None:
    """An order uses times in milliseconds as shown, so that a page's script sorts rows as the server did."""
    chance = random.Random(sort)
    rows = {}
    for number in range(300):
        times = [1e9 + chance.randrange(5) * 0.001 + chance.uniform(-4e-4, 4e-4) for _ in range(2)]
        row = Row(f"a{chance.randrange(20)}", f"c{number}", "critical", *times)
        rows[row.key] = row
    ours = [row.key for row in sorted_rows(rows, sort, True)]
    told = [dict(zip(FIELDS, values_of(row), strict=True)) for row in rows.values()]
    shown = [Row(each["agent"], each["check_id"], "critical", each["since"], each["heard"]) for each in told]
    assert [row.key for row in sorted(shown, key=SORT_KEYS[sort])] == ours


def test_an_order_that_nobody_asks_for_is_dropped() -> None:
    """An unused order is dropped, except that of problems, which is kept from the start."""
    orders = Orders()
    held = orders.of("since", False, 10.0)
    assert (
        not held.is_whole and orders.of("problems", False, 0.0).is_whole and orders.of("problems", True, 0.0).is_whole
    )
    orders.drop_unused(10.0 + UNUSED_SECONDS)
    assert orders.of("since", False, 20.0) is held
    orders.drop_unused(20.1 + UNUSED_SECONDS)
    assert orders.of("since", False, 700.0) is not held
    orders.renew(None, Row("a", "c", "critical", 1.0))
    assert len(orders.of("problems", True, 700.0).rows) == 1


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "wanted",
    [
        Wanted(text="disk", all=True),
        Wanted(text="state:crit,unknown role=web"),
        Wanted(all=True, group="role"),
        Wanted(group="agent"),
        Wanted(all=True, sight=Sight(("a1", "role=db"), {"a3": Agent("a3", labels={"role": "db"})})),
    ],
    ids=lambda wanted: f"{wanted.text or 'all'}-{wanted.group}",
)
def test_a_choice_is_what_fits_in_its_order(wanted: Wanted, seed: int) -> None:
    """A choice has the rows, counts and groups of a filter over all rows."""
    chance = random.Random(seed)
    rows = sorted_rows(some_rows(chance, 300), wanted.sort, wanted.is_narrow)
    choice = Choice(wanted, 5.0)
    assert not choice.takes_all
    for _ in choice.steps(rows):
        pass
    found, expected = choice.selection(), wanted.fitting(rows, 5.0)
    assert list(found.rows) == expected and expected
    assert found.counts == counted(expected)
    groups = {group_of(row, wanted.group) for row in expected} if wanted.group else set()
    told = {each["name"]: each["counts"] for each in found.groups}
    assert told == {name: counted([row for row in expected if group_of(row, wanted.group) == name]) for name in groups}
    worst = [tuple(-each["counts"][word] for word in WORST) for each in found.groups]
    assert worst == sorted(worst)


def test_a_filter_of_no_sense_is_told_before_any_row_is_looked_at() -> None:
    with pytest.raises(ValueError, match="state:green: there are ok"):
        Choice(Wanted(text="state:green"), 0.0)


def test_rows_are_written_as_json() -> None:
    """Rows are written as JSON whatever texts agents put into them, with strips behind the values."""
    row = Row('a"b', "c\n", "critical", 1.23456, None, "<b>\u2028 ü" + "x" * 300, "stale", "1/3", "AF", at=7)
    read = json.loads(f"[{encode([row, evolve(row, heard=2.0)], ['4' * 48, '0' * 48])}]")
    assert [len(each) for each in read] == [len(FIELDS) + 1] * 2
    assert read[0] == ['a"b', "c\n", 2, 1.235, None, row.summary[:200], "stale", "1/3", "AF", 7, "4" * 48]
    assert (read[1][FIELDS.index("heard")], encode([])) == (2.0, "")


# ---------------------------------------------------------------------------------------------- work of a turn


class Counted(dict[Key, Row]):
    """Count how many rows are looked up."""

    looked = 0

    def get(self, key: Key, default: Any = None) -> Any:
        self.looked += 1
        return super().get(key, default)


def test_a_step_looks_at_few_rows_of_ten_thousand() -> None:
    """A step of building an order, or of picking rows for a limited caller, looks at ROWS_A_STEP rows."""
    chance = random.Random(1)
    rows = Counted(some_rows(chance, 10_000))
    order = Order("heard", False, is_whole=False)
    assert work_of(order.build(rows), lambda: rows.looked) == [ROWS_A_STEP] * (10_000 // ROWS_A_STEP)
    seen = list[str | None]()

    class Noting(Sight):
        def __call__(self, name: str | None) -> bool:
            seen.append(name)
            return super().__call__(name)

    choice = Choice(Wanted(text="disk", sight=Noting(("a1",), {})), 0.0)
    assert work_of(choice.steps(order.rows), lambda: len(seen)) == [ROWS_A_STEP] * (10_000 // ROWS_A_STEP)


def work_of(steps: Iterator[None], done: Any) -> list[int]:
    """Return how much was done in each step."""
    return [after - before for before, after in pairwise([0, *(done() for _ in steps)])]
