"""Tests the rows that the page keeps: in order after any change, and held under a pointer."""

from __future__ import annotations

from typing import Any

import pytest
from browser import Tab

from helen.web.pages.assets import assets
from helen.web.rows.row import SORTS

pytestmark = pytest.mark.integration
PLAY = """async ([address, sort]) => {
    const { Rows } = await import(address);
    let seed = 7;
    const chance = (most) => { seed = (seed * 16807) % 2147483647; return Math.floor(seed / 65536) % most; };
    const made = () => {
        const [agent, check] = [`a${chance(4)}`, `c${chance(30)}`];
        return { agent, check, key: `${agent}\\n${check}`, status: ["ok", "warning", "critical", "unknown"][chance(4)],
                 since: chance(3), heard: chance(3) || null, marks: ["", "A", "F"][chance(3)], soft: "" };
    };
    const rows = new Rows(sort);
    const sorted = () => [...rows.byKey.values()].sort(rows.compare).map((row) => row.key);
    const faults = [];
    rows.replace(Array.from({ length: 50 }, made));
    for (let turn = 0; turn < 420; turn++) {
        const isHeld = turn % 40 > 30;
        const before = [...rows.order];
        const row = made();
        if (chance(3)) rows.set(row, isHeld); else rows.delete(row.key, isHeld);
        if (!isHeld && !rows.isSorted) rows.sort();
        const wanted = isHeld ? before : sorted();
        if (rows.order.join() !== wanted.join()) faults.push(turn);
    }
    return { faults, left: rows.order.length, known: rows.size };
}"""
HELD = """async ([address]) => {
    const { Rows } = await import(address);
    const row = (check, status) => ({ agent: "a", check, key: `a\\n${check}`, status, since: 1, marks: "", soft: "" });
    const rows = new Rows("problems");
    rows.replace([row("one", "warning"), row("two", "critical")]);
    const told = [];
    const tell = (moved) => told.push([moved, rows.order.map((key) => key.slice(2)).join(" "), rows.fresh.size]);
    tell(rows.set(row("two", "critical"), true));
    tell(rows.set(row("three", "critical"), true));
    tell(rows.delete("a\\ntwo", true));
    tell(rows.delete("a\\nnone", true));
    rows.sort();
    tell(rows.set(row("one", "unknown"), false));
    return told;
}"""


@pytest.mark.parametrize("sort", SORTS)
def test_rows_are_in_order_after_each_change(tab: Tab, sort: str) -> None:
    """Rows are in order after each of 420 random changes, and stay as they were while the order is held."""
    tab.open("/about")
    told: dict[str, Any] = tab.page.evaluate(PLAY, [assets().path("board-rows.js"), sort])
    assert told["faults"] == []
    assert told["left"] == told["known"] > 20


def test_a_held_order_counts_what_is_new(tab: Tab) -> None:
    """A held order counts a new row as fresh, leaves the place of one that goes empty, and counts no change without
    a move."""
    tab.open("/about")
    assert tab.page.evaluate(HELD, [assets().path("board-rows.js")]) == [
        [False, "two one", 0],
        [True, "two one", 1],
        [True, "two one", 1],
        [False, "two one", 1],
        [True, "three one", 0],
    ]
