"""Tests that the filter language means the same on the server and in the page, by one table of cases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from browser import Tab

from helen.web.pages.assets import assets
from helen.web.rows.filters import read_filter
from helen.web.rows.row import SORT_KEYS, SORTS, Row
from helen.web.rows.selection import place_of

TABLE: dict[str, Any] = json.loads((Path(__file__).parents[1] / "rows" / "filters.json").read_text())
ROWS = [Row(**{"heard": None, **each}) for each in TABLE["rows"]]


@pytest.mark.parametrize(("text", "expected"), TABLE["cases"], ids=lambda value: str(value)[:30])
def test_on_the_server(text: str, expected: list[int]) -> None:
    fits = read_filter(text)
    assert [number for number, row in enumerate(ROWS) if fits(row, TABLE["now"])] == expected


@pytest.mark.parametrize("text", TABLE["faults"])
def test_what_the_server_refuses(text: str) -> None:
    with pytest.raises(ValueError, match=text.split(":")[0]):
        read_filter(text)


@pytest.mark.integration
def test_in_the_page(tab: Tab) -> None:
    """The page's filter gives the rows of the table for all cases."""
    tab.open("/about")
    found = tab.page.evaluate(
        """async ([address, table]) => {
            const { readFilter } = await import(address);
            return table.cases.map(([text]) => {
                const fits = readFilter(text);
                return table.rows.map((row, at) => (fits(row, table.now) ? at : -1)).filter((at) => at >= 0);
            });
        }""",
        [assets().path("filters.js"), TABLE],
    )
    told = {text: got for (text, _), got in zip(TABLE["cases"], found, strict=True)}
    assert told == dict(TABLE["cases"])


@pytest.mark.integration
def test_what_the_page_refuses(tab: Tab) -> None:
    tab.open("/about")
    said = tab.page.evaluate(
        """async ([address, faults]) => {
            const { readFilter } = await import(address);
            const said = (text) => { try { readFilter(text); return ""; } catch (error) { return error.message; } };
            return faults.map(said);
        }""",
        [assets().path("filters.js"), TABLE["faults"]],
    )
    assert [text for text, words in zip(TABLE["faults"], said, strict=True) if not words] == []


@pytest.mark.integration
def test_orders_are_those_of_the_server(tab: Tab) -> None:
    tab.open("/about")
    rows = [{**each, "heard": 50.0 - number} for number, each in enumerate(TABLE["rows"])]
    held = [Row(**each) for each in rows]
    found = tab.page.evaluate(
        """async ([address, rows, sorts]) => {
            const { ORDERS } = await import(address);
            const placed = rows.map((row, at) => ({ ...row, place: at }));
            return sorts.map((sort) => [...placed].sort(ORDERS[sort]).map((row) => row.place));
        }""",
        [assets().path("filters.js"), rows, list(SORTS)],
    )
    expected = [sorted(range(len(held)), key=lambda at, sort=sort: place_of(sort, held[at])) for sort in SORTS]
    assert dict(zip(SORTS, found, strict=True)) == dict(zip(SORTS, expected, strict=True))
    assert set(SORT_KEYS) == set(SORTS)
