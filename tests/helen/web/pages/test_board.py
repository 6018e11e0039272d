"""Tests the page of all checks in a real browser: many rows, live changes, acting on many, a lost stream, no script."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import pytest
from browser import NARROW, WIDE, Tab, a_tab
from crowd import CHECKS, HOSTS, SICK, Crowd, CrowdTab, a_crowd
from helen_running import Running, pulse
from playwright.sync_api import Browser, expect

from helen.web.pages.board import FIRST_ROWS

pytestmark = pytest.mark.integration
NewTab = Callable[..., AbstractContextManager[Tab]]


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crowd]:
    made = a_crowd(tmp_path_factory.mktemp("crowd"))
    yield made
    made.helen.end()


@pytest.fixture
def new_tab(browser: Browser, crowd: Crowd) -> NewTab:
    """Provide new_tab(...), which opens a tab signed in by a link with the scope `operate`."""
    return partial(CrowdTab, browser, crowd)


@pytest.fixture
def tab(new_tab: NewTab) -> Iterator[Tab]:
    with new_tab() as made:
        yield made


def rows(tab: Tab) -> Any:
    return tab.page.locator("#board tbody tr[data-agent]")


def live(tab: Tab) -> None:
    expect(tab.page.locator("#fresh")).to_have_attribute("data-state", "live")


# ---------------------------------------------------------------------------------------------- many rows


def test_the_worst_stand_first_and_text_of_checks_is_text(tab: Tab) -> None:
    tab.open("/")
    expect(rows(tab)).to_have_count(HOSTS * SICK)
    assert tab.page.inner_text("#shown") == f"{HOSTS * SICK} of {HOSTS * CHECKS} checks"
    assert "disk 0 <b>of</b> 0" in tab.page.inner_text("#board")
    assert tab.page.locator("#board b").count() == 0


def test_many_rows_are_a_window_of_elements(tab: Tab) -> None:
    """Most of 750 rows have no element; their number is told, and the last can be scrolled to."""
    tab.open("/?all=1&sort=check")
    expect(tab.page.locator("#board")).to_have_attribute("aria-rowcount", str(HOSTS * CHECKS + 1))
    assert rows(tab).count() < 150
    tab.page.evaluate("scrollTo(0, document.body.scrollHeight)")
    expect(tab.page.locator("tr[data-check='c-249'][data-agent=h2]")).to_be_visible()
    assert rows(tab).count() < 150
    tab.page.keyboard.press("g")
    expect(tab.page.locator("tr[data-check='c-000'][data-agent=h0]")).to_be_visible()


WATCH = """() => {
    window.moved = [];
    const names = (nodes) => [...nodes].map((each) => each.dataset.check ?? "gap");
    new MutationObserver((list) => {
        for (const { addedNodes, removedNodes } of list) moved.push(...names(addedNodes), ...names(removedNodes));
    }).observe(document.querySelector("#board tbody"), { childList: true });
}"""


def test_a_change_moves_no_row_but_its_own(tab: Tab, crowd: Crowd) -> None:
    """A change moves no row of 750 but its own, in sight or out of it."""
    tab.open("/?all=1&sort=agent")
    live(tab)
    expect(tab.page.locator("#board")).to_have_attribute("aria-rowcount", str(HOSTS * CHECKS + 1))
    tab.page.evaluate(WATCH)
    crowd.report([("h2", "c-240", 1, "out of sight"), ("h0", "c-020", 1, "in sight")])
    expect(tab.page.locator("tr[data-check='c-020'][data-agent=h0] .how")).to_contain_text("warning")
    crowd.report([("h2", "c-240", 0, "fine"), ("h0", "c-020", 0, "fine")])
    expect(tab.page.locator("tr[data-check='c-020'][data-agent=h0] .how")).to_contain_text("ok")
    assert tab.page.evaluate("() => moved") == []
    tab.open("/?all=1")
    live(tab)
    expect(tab.page.locator("#board")).to_have_attribute("aria-rowcount", str(HOSTS * CHECKS + 1))
    tab.page.evaluate(WATCH)
    crowd.report([("h0", "c-240", 2, "the newest of the worst")])
    expect(tab.page.locator("#board tbody tr[data-agent]").first).to_have_attribute("data-check", "c-240")
    moved = tab.page.evaluate("() => moved")
    assert "c-240" in moved and len(moved) <= 4
    crowd.report([("h0", "c-240", 0, "fine")])
    expect(tab.page.locator("#board tbody tr[data-agent]").first).not_to_have_attribute("data-check", "c-240")


def test_a_filter_is_the_address(tab: Tab, new_tab: NewTab) -> None:
    """A filter narrows the list as it is typed, and its address shows the same in another browser."""
    tab.open("/")
    live(tab)
    tab.page.fill("[data-filter]", "role=db state:crit")
    expect(rows(tab)).to_have_count(SICK)
    tab.page.wait_for_url(re.compile("q=role%3Ddb"))
    with new_tab() as other:
        other.open(tab.page.url.removeprefix(tab.origin))
        expect(rows(other)).to_have_count(SICK)
    tab.page.fill("[data-filter]", "state:green")
    expect(tab.page.locator("#fault")).to_contain_text("state:green: there are ok, warning, critical, unknown")


def test_groups_are_tiles_that_filter(tab: Tab) -> None:
    tab.open("/?group=role")
    tiles = tab.page.locator("#tiles .chip")
    assert [each.split()[0] for each in tiles.all_inner_texts()] == ["web", "db"]
    tiles.nth(1).click()
    expect(tab.page.locator("[data-filter]")).to_have_value("role=db")


# ---------------------------------------------------------------------------------------------- live


def test_a_change_is_seen_and_order_holds_under_the_pointer(tab: Tab, crowd: Crowd) -> None:
    """A row appears and recovers by itself; under the pointer the order stays, and a button says how many rows are
    new."""
    tab.open("/")
    live(tab)
    crowd.report([("h0", "c-100", 1, "getting full")])
    expect(tab.page.locator("tr[data-check='c-100'] .how")).to_contain_text("warning")
    expect(tab.page.locator("[data-count=warning]")).to_have_text("1")
    tab.page.hover("tr[data-check='c-003'][data-agent=h1]")
    crowd.report([("h0", "c-101", 2, "full"), ("h0", "c-100", 0, "fine")])
    expect(tab.page.locator("#fresh-rows")).to_have_text("1 new: show")
    assert tab.page.locator("tr[data-check='c-101']").count() == 0
    tab.page.click("#fresh-rows")
    tab.page.mouse.move(0, 0)
    expect(tab.page.locator("tr[data-check='c-101']")).to_be_visible()
    expect(tab.page.locator("tr[data-check='c-100']")).to_have_count(0)
    crowd.report([("h0", "c-101", 0, "fine")])
    expect(tab.page.locator("tr[data-check='c-101']")).to_have_count(0)


def test_what_was_missed_is_there_after_a_cut(tab: Tab, crowd: Crowd) -> None:
    """After a cut of the stream the missed row is there once, and later changes arrive."""
    tab.expected = ("ERR_INTERNET_DISCONNECTED",)
    tab.open("/")
    live(tab)
    tab.context.set_offline(True)
    crowd.report([("h1", "c-120", 2, "while away")])
    tab.context.set_offline(False)
    expect(tab.page.locator("tr[data-check='c-120']")).to_be_visible(timeout=30_000)
    assert tab.page.locator("tr[data-check='c-120']").count() == 1
    crowd.report([("h1", "c-120", 0, "fine")])
    expect(tab.page.locator("tr[data-check='c-120']")).to_have_count(0)


def test_a_silent_helen_is_never_shown_as_good(new_tab: NewTab) -> None:
    """After 40 s without a word the page shows a banner, hatched states, and a question mark in its title."""
    with new_tab() as tab:
        tab.page.clock.install()
        tab.open("/")
        live(tab)
        assert tab.page.title().startswith(f"({HOSTS * SICK}) ")
        tab.page.clock.fast_forward(41_000)
        expect(tab.page.locator("body")).to_have_class(re.compile("old"))
        expect(tab.page.locator("#banner")).to_contain_text("Helen is not heard")
        assert tab.page.title().startswith("(?) ")


# ---------------------------------------------------------------------------------------------- acting


def test_all_that_fit_are_acknowledged(tab: Tab, crowd: Crowd) -> None:
    """All rows that fit are acknowledged by keys, after a line on the number of checks, and are marked by the
    stream."""
    tab.open("/?q=agent:h2%20state:critical")
    live(tab)
    expect(rows(tab)).to_have_count(SICK)
    tab.page.keyboard.press("*")
    assert tab.page.inner_text("#chosen") == f"{SICK} chosen"
    tab.page.keyboard.press("a")
    dialog = tab.page.locator("dialog[open]")
    expect(dialog.get_by_role("status")).to_have_text(f"Would be {SICK} checks acknowledged.")
    dialog.get_by_label("Comment").fill("disks ordered")
    tab.page.keyboard.press("Enter")
    expect(dialog).to_have_count(0)
    expect(tab.page.locator("#board abbr[title=acknowledged]")).to_have_count(SICK)
    states = crowd.helen.client.get("/api/v1/states?agent=h2")["states"]
    assert sum(each["acknowledged"] is not None for each in states) == SICK
    owners = {each["acknowledged"]["owner"] for each in states if each["acknowledged"]}
    assert owners == {"operator/anna"}


def test_a_downtime_of_two_chosen_rows_is_of_two_checks(tab: Tab, crowd: Crowd) -> None:
    tab.open("/?q=state:critical&sort=check")
    live(tab)
    expect(rows(tab)).to_have_count(HOSTS * SICK)
    for agent, check in (("h0", "c-001"), ("h1", "c-002")):
        tab.page.check(f"tr[data-agent={agent}][data-check='{check}'] input")
    tab.page.click("#acts [data-do=downtime]")
    dialog = tab.page.locator("dialog[open]")
    expect(dialog.get_by_role("status")).to_contain_text("It covers 2 checks on 2 agents; not ok now: 2.")
    dialog.get_by_label("Why").fill("move")
    dialog.get_by_role("button", name="Open").click()
    expect(tab.page.locator("#board abbr[title=downtime]")).to_have_count(2)


def test_a_reader_is_told_what_would_open_more(new_tab: NewTab) -> None:
    with new_tab(scopes=("read",)) as tab:
        tab.open("/")
        expect(rows(tab)).to_have_count(HOSTS * SICK)
        tab.page.check("tr[data-agent=h0] input >> nth=0")
        assert tab.page.locator("[data-do=ack]").count() == 0
        assert "helen open --scope operate" in tab.page.inner_text("#acts")


# ---------------------------------------------------------------------------------------------- for everybody


def test_it_is_read_without_a_script(new_tab: NewTab, crowd: Crowd) -> None:
    """Without a script the first rows are shown with a link to more, and the filter is a form."""
    with new_tab(java_script_enabled=True) as signed:
        cookies = signed.context.cookies()
    with a_tab(new_tab.args[0], f"http://{crowd.helen.run['web']}", java_script_enabled=False) as tab:  # type: ignore[attr-defined]
        tab.context.add_cookies(cookies)
        tab.open("/?all=1&sort=check")
        assert rows(tab).count() == FIRST_ROWS
        tab.page.click("text=More")
        assert (rows(tab).count(), tab.page.locator("tr[data-check='c-000']").count()) == (FIRST_ROWS, 0)
        tab.page.fill("[data-filter]", "agent:h1 state:crit")
        tab.page.click("text=Show")
        assert rows(tab).count() == SICK


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_axe_finds_nothing(new_tab: NewTab, size: dict[str, int], scheme: str) -> None:
    """axe finds no violation on the page of rows in any state, and nothing is wider than the screen."""
    with new_tab(viewport=size, color_scheme=scheme) as tab:
        for path in ("/?q=agent:h0&group=role", "/?q=nothing-like-it", "/?q=state:green", "/?kiosk=1"):
            tab.open(path)
            live(tab)
            assert tab.violations() == [], path
            assert tab.page.evaluate("document.documentElement.scrollWidth") <= size["width"], path
        tab.open("/")
        live(tab)
        tab.page.check("tr[data-agent=h0] input >> nth=0")
        tab.page.click("#acts [data-do=ack]")
        expect(tab.page.locator("dialog[open]")).to_be_visible()
        assert tab.violations() == []


def test_an_empty_fleet_says_what_to_do(browser: Browser, tmp_path: Any) -> None:
    """An empty fleet shows the command that makes an agent, and the first agent appears without a reload."""
    helen = Running(tmp_path)
    (tmp_path / "checks" / "pulse.lua").write_text(pulse())
    agent = None
    try:
        helen.up()
        link = helen.client.post("/api/v1/sessions/links", {"name": "anna"})["url"]
        with a_tab(browser, f"http://{helen.run['web']}") as tab:
            tab.page.goto(link)
            tab.page.wait_for_url(lambda url: "/login" not in url)
            expect(tab.page.locator("main")).to_contain_text("helen token web-1")
            tab.open("/?all=1")
            live(tab)
            agent = helen.agent("web-1")
            expect(tab.page.locator("tr[data-agent='web-1'][data-check=pulse]")).to_be_visible(timeout=60_000)
    finally:
        if agent is not None:
            agent.end()
        helen.end()
