"""Tests pages of long lists: nothing twice and nothing missing, whatever comes and goes between them."""

from __future__ import annotations

import base64
import json
import random
from types import SimpleNamespace
from typing import Any

import pytest

from helen.web.cursors import MOST, read_page
from helen.web.problems import Problem


def asked(**arguments: Any) -> Any:
    return SimpleNamespace(args={name.encode(): [str(value).encode()] for name, value in arguments.items()})


@pytest.mark.parametrize("seed", range(20))
def test_what_stays_is_shown_once(seed: int) -> None:
    """Rows that stay over all pages are each shown once and in order, while others come and go."""
    chance = random.Random(seed)
    rows = sorted({f"{chance.randrange(300):03}" for _ in range(80)})
    staying = set(chance.sample(rows, 40))
    shown: list[str] = []
    cursor = None
    for _ in range(200):
        given = {"limit": chance.randrange(1, 9)} | ({} if cursor is None else {"cursor": cursor})
        page, cursor = read_page(asked(**given), "rows", (str,)).cut(rows, lambda row: (row,))
        shown += page
        if cursor is None:
            break
        kept = [row for row in rows if row in staying or chance.random() < 0.7]
        rows = sorted({*kept, *(f"{chance.randrange(300):03}" for _ in range(10))})
    assert cursor is None
    assert [row for row in shown if row in staying] == sorted(staying)
    assert shown == sorted(set(shown))


def test_everything_without_a_limit() -> None:
    """A list without a limit is one page, and no cursor follows the last page, even a full one."""
    rows = ["a", "b", "c"]
    assert read_page(asked(), "rows", (str,)).cut(rows, lambda row: (row,)) == (rows, None)
    assert read_page(asked(limit=3), "rows", (str,)).cut(rows, lambda row: (row,)) == (rows, None)
    assert read_page(asked(limit=3), "rows", (str,)).cut([], lambda row: (row,)) == ([], None)


GOOD = read_page(asked(limit=1), "rows", (str, float), ["x"]).next(("a", 1.5))


def forged(*place: Any) -> str:
    mark = json.loads(base64.urlsafe_b64decode(GOOD + "=="))[0]
    return base64.urlsafe_b64encode(json.dumps([mark, *place]).encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    ("arguments", "filters", "said"),
    [
        ({"limit": 0}, ["x"], "`limit` is a number from 1"),
        ({"limit": MOST + 1}, ["x"], "`limit`"),
        ({"limit": "-1"}, ["x"], "`limit`"),
        ({"limit": "\u0661"}, ["x"], "`limit`"),
        ({"cursor": "x"}, ["x"], "none of ours"),
        ({"cursor": ""}, ["x"], "none of ours"),
        ({"cursor": "ü"}, ["x"], "none of ours"),
        ({"cursor": "A" * 5_000}, ["x"], "none of ours"),
        ({"cursor": GOOD}, ["y"], "of other filters"),
        ({"cursor": forged("a")}, ["x"], "none of ours"),
        ({"cursor": forged(1, 1.5)}, ["x"], "none of ours"),
        ({"cursor": forged("a", True)}, ["x"], "none of ours"),
        ({"cursor": forged("a", "b")}, ["x"], "none of ours"),
    ],
)
def test_what_is_refused(arguments: dict[str, Any], filters: list[str], said: str) -> None:
    """A wrong limit or cursor is refused with 400 and a sentence."""
    with pytest.raises(Problem, match=said) as caught:
        read_page(asked(**arguments), "rows", (str, float), filters)
    assert caught.value.status == 400


def test_a_cursor_is_taken() -> None:
    """A cursor is accepted, with a whole number where a place is a time."""
    assert read_page(asked(cursor=GOOD), "rows", (str, float), ["x"]).after == ("a", 1.5)
    assert read_page(asked(cursor=forged("a", 2)), "rows", (str, float), ["x"]).after == ("a", 2)
