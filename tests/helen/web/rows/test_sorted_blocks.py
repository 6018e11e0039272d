"""Tests that rows in blocks stand as sorted, and a change moves those of its own block alone."""

from __future__ import annotations

import random

import pytest

from helen.web.rows import sorted_blocks
from helen.web.rows.row import Row
from helen.web.rows.sorted_blocks import MOST_OF_BLOCK, SortedBlocks


def a_row(number: int, status: str = "ok") -> Row:
    return Row("a", f"c{number}", status, 0.0)


@pytest.mark.parametrize("seed", range(20))
def test_any_order_of_changes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """After any changes the rows are sorted, `put` and `drop` return the former row, and no block is empty or too
    long."""
    monkeypatch.setattr(sorted_blocks, "MOST_OF_BLOCK", 4)
    chance, held, blocks = random.Random(seed), dict[tuple[int, ...], Row](), SortedBlocks()
    for _ in range(400):
        place = (chance.randrange(60),)
        if chance.random() < (0.6 if len(held) < 30 else 0.4):
            row = a_row(place[0], chance.choice(("ok", "critical")))
            assert blocks.put(place, row) is held.get(place)
            held[place] = row
        else:
            assert blocks.drop(place) is held.pop(place, None)
        assert blocks.rows() == [held[each] for each in sorted(held)]
        assert all(1 <= len(each) <= 4 for each in blocks._places)


def test_nothing_in_it() -> None:
    blocks = SortedBlocks()
    assert (blocks.rows(), blocks.drop((1,))) == ([], None)
    row = a_row(1)
    blocks.put((1,), row)
    assert (blocks.drop((1,)), blocks.rows(), blocks.drop((1,))) == (row, [], None)


@pytest.mark.parametrize("is_shuffled", [False, True])
def test_a_change_moves_one_block(is_shuffled: bool) -> None:
    """A drop among 20,000 rows changes one block, whether they came in order or not."""
    numbers = list(range(20_000))
    if is_shuffled:
        random.Random(1).shuffle(numbers)
    blocks = SortedBlocks()
    for number in numbers:
        blocks.put((number,), a_row(number))
    lengths = [len(each) for each in blocks._places]
    assert max(lengths) <= MOST_OF_BLOCK and sum(lengths) == 20_000
    before = [list(each) for each in blocks._places]
    blocks.drop((7_000,))
    assert sum(one != other for one, other in zip(before, blocks._places, strict=True)) == 1
