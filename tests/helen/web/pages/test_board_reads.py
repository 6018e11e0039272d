"""Tests the reads of the page of rows: rows once, then only changes, however late its stream begins."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from browser import NARROW, WIDE, Tab
from crowd import HOSTS, SICK, Crowd, CrowdTab, a_crowd
from helen_running import wait_until
from playwright.sync_api import Browser, expect

from helen.web.pages.assets import assets
from helen.web.pages.board import FIRST_ROWS

pytestmark = pytest.mark.integration

COUNT_WORK = """
    const done = { formats: 0, moved: 0, made: 0, measured: 0 };
    const count = (owner, name, what, isMeant = () => true) => {
        const original = owner[name];
        owner[name] = function (...given) {
            if (isMeant(this)) done[what] += 1;
            return new.target ? Reflect.construct(original, given) : original.apply(this, given);
        };
    };
    count(Intl, "DateTimeFormat", "formats");
    count(Number.prototype, "toLocaleString", "formats");
    count(Node.prototype, "insertBefore", "moved", (node) => node.localName === "tbody");
    count(Document.prototype, "createElement", "made");
    count(Document.prototype, "createElementNS", "made");
    count(Element.prototype, "getBoundingClientRect", "measured");
    const mark = performance.mark;
    performance.mark = function (name, ...more) {
        if (name === "rows") window.untilRows = { ...done };
        return mark.call(this, name, ...more);
    };
"""
WATCH_SHIFTS = """
    const shifted = window.shifted = new Set();
    const nameOf = (node) => {
        const element = node?.nodeType === Node.ELEMENT_NODE ? node : node?.parentElement;
        return element ? element.closest("[id]")?.id || element.localName : "gone";
    };
    new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) for (const { node } of entry.sources) shifted.add(nameOf(node));
    }).observe({ type: "layout-shift", buffered: true });
"""
A_ROW = 20  # elements that a script makes of one
WITHOUT_WORKER = "delete window.SharedWorker"
WORKER = """async ([address, look]) => {
    await import(address);
    const told = {};
    const connect = (name, since) => {
        const channel = new MessageChannel();
        told[name] = [];
        channel.port1.onmessage = ({ data }) => {
            if (data.type === "event" && ["rows", "reset"].includes(data.kind)) told[name].push(data);
        };
        window.onconnect({ ports: [channel.port2] });
        channel.port1.postMessage({ type: "wants", wants: [{}, { rows: "all", since }] });
    };
    window.told = told;
    window.connectTab = connect;
    connect("first", look);
}"""


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crowd]:
    made = a_crowd(tmp_path_factory.mktemp("crowd"))
    yield made
    made.helen.end()


def asked(tab: Tab, path: str) -> list[str]:
    """Note the addresses that a tab asks for under a path, from now on."""
    found = list[str]()
    tab.page.on("request", lambda request: found.append(request.url) if path in request.url else None)
    return found


@pytest.mark.parametrize("path", ["/", "/?all=1", "/?q=state%3Acritical+h1", "/?sort=since&group=role"])
def test_rows_are_read_once(browser: Browser, crowd: Crowd, path: str) -> None:
    """Rows are requested once, by the page while it loads."""
    with CrowdTab(browser, crowd) as tab:
        found = asked(tab, "/api/v1/rows")
        tab.open(path)
        expect(tab.page.locator("#fresh")).to_have_attribute("data-state", "live")
        tab.page.wait_for_function("() => performance.getEntriesByName('rows').length")
        tab.page.wait_for_timeout(500)
        assert len(found) == 1, found


def test_rows_wait_for_few_requests(browser: Browser, crowd: Crowd) -> None:
    """Rows wait for three files alone, since each request takes milliseconds of the browser's CPU."""
    with CrowdTab(browser, crowd) as tab:
        tab.open("/about")
        found = asked(tab, "/")
        tab.open("/")
        tab.page.wait_for_function("() => performance.getEntriesByName('rows').length")
        until = (
            "() => performance.getEntriesByType('resource').filter((each) => each.startTime < "
            "performance.getEntriesByName('rows')[0].startTime).map((each) => each.name)"
        )
        names = [url.partition("?")[0].rpartition("/")[2] for url in tab.page.evaluate(until)]
        names = sorted(name for name in names if name != "icon.svg")  # the browser's own, for its tab
        assert names == ["board-page.js", "pages.css", "pages.js", "rows"], found


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("path", ["/", "/?all=1", "/?sort=since"])
def test_nothing_moves_once_it_is_painted(browser: Browser, crowd: Crowd, path: str, size: dict[str, int]) -> None:
    """Nothing but the words on freshness moves once rows are painted."""
    with CrowdTab(browser, crowd, viewport=size) as tab:
        tab.page.add_init_script(WATCH_SHIFTS)
        tab.open(path)
        expect(tab.page.locator("#fresh")).to_have_attribute("data-state", "live")
        tab.page.wait_for_function("() => performance.getEntriesByName('rows').length")
        tab.page.wait_for_timeout(300)
        assert set(tab.page.evaluate("() => [...shifted]")) <= {"fresh"}


@pytest.mark.parametrize("path", ["/", "/?all=1"])
def test_rows_that_are_there_cost_no_work(browser: Browser, crowd: Crowd, path: str) -> None:
    """Rows that come with the page are not made, moved or formatted again, and are measured once. This was most of
    the time until rows were shown."""
    with CrowdTab(browser, crowd) as tab:
        tab.page.add_init_script(COUNT_WORK + WITHOUT_WORKER)
        tab.page.route("**/api/v1/events?*", lambda route: None)  # on a slow machine it might begin before
        tab.open(path)
        tab.page.wait_for_function("() => window.untilRows")
        work, shown = tab.page.evaluate("() => [untilRows, document.querySelectorAll('#board tbody tr').length]")
        is_long = path == "/?all=1"
        lacking = shown - is_long - FIRST_ROWS  # a long list has a gap below
        assert 0 < lacking <= 12, "the page comes with nearly all that a screen shows"
        assert work["moved"] <= lacking + is_long, work
        assert work["made"] <= A_ROW * lacking + 10, work
        assert work["measured"] <= 2 * is_long and work["formats"] == 0, work
        tab.page.unroute_all(behavior="ignoreErrors")


def test_the_moment_of_an_age_is_told_to_who_points_at_it(browser: Browser, crowd: Crowd) -> None:
    with CrowdTab(browser, crowd, timezone_id="Asia/Kathmandu") as tab:
        tab.open("/")
        tab.page.wait_for_function("() => performance.getEntriesByName('rows').length")
        age = tab.page.locator("#board tbody time").first
        age.hover()
        expect(age).to_have_attribute("title", re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d GMT\+5:45$"))


def test_what_changes_before_the_stream_begins_is_shown(browser: Browser, crowd: Crowd) -> None:
    """Changes between the rows and the stream are shown by the stream, without a second read of rows."""
    with CrowdTab(browser, crowd) as tab:
        tab.page.add_init_script(WITHOUT_WORKER)
        held = list[Any]()
        tab.page.route("**/api/v1/events?*", lambda route: held.append(route))
        found = asked(tab, "/api/v1/rows")
        tab.open("/")
        expect(tab.page.locator("#board tbody tr[data-agent]")).to_have_count(HOSTS * SICK)
        wait_until(lambda: bool(held or tab.page.wait_for_timeout(50)), "the stream")
        crowd.report([("h0", "c-200", 2, "in between"), ("h1", "c-000", 0, "well again")])
        wait_until(lambda: row_of(crowd, "h0", "c-200")[2] == 2 and row_of(crowd, "h1", "c-000")[2] == 0, "both")
        assert tab.page.locator("tr[data-check='c-200']").count() == 0 and "rows_since=" in held[0].request.url
        held[0].continue_()
        expect(tab.page.locator("tr[data-check='c-200']")).to_be_visible(timeout=30_000)
        expect(tab.page.locator("tr[data-agent=h1][data-check='c-000']")).to_have_count(0)
        assert len(found) == 1
        tab.page.unroute_all(behavior="ignoreErrors")
    crowd.report([("h0", "c-200", 0, "fine"), ("h1", "c-000", 2, "bad")])
    wait_until(lambda: row_of(crowd, "h1", "c-000")[2] == 2, "as before")


def row_of(crowd: Crowd, agent: str, check: str) -> list[Any]:
    rows: list[list[Any]] = crowd.helen.client.get(f"/api/v1/rows?all=1&filter=agent:{agent}%20check:{check}")["rows"]
    return rows[0]


def test_a_second_tab_gets_what_its_page_has_not(browser: Browser, crowd: Crowd) -> None:
    """A second tab gets the frames that its page lacks from the browser's one stream, or reads anew."""
    with CrowdTab(browser, crowd) as tab:
        tab.open("/about")
        look = str(crowd.helen.client.get("/api/v1/rows")["look"])
        tab.page.evaluate(WORKER, [assets().path("stream-worker.js"), look])
        crowd.report([("h2", "c-210", 1, "later")])
        tab.page.wait_for_function(f"() => {HAS}('first', 'c-210')")
        newest = tab.page.evaluate("() => told.first.at(-1).data.look")
        for name, since in (("second", look), ("third", newest), ("strange", "ffffffff.1")):
            tab.page.evaluate("([name, since]) => connectTab(name, since)", [name, since])
        tab.page.wait_for_function(f"() => {HAS}('second', 'c-210') && told.strange.length")
        crowd.report([("h2", "c-210", 0, "fine")])
        tab.page.wait_for_function("() => told.third.length")
        kinds = tab.page.evaluate("() => [told.strange[0].kind, told.second[0].kind, told.third[0].kind]")
        assert kinds == ["reset", "rows", "rows"]
        assert tab.page.evaluate(f"() => {HAS}('third', 'c-210') && told.third[0].data.look !== '{newest}'")


HAS = "((name, check) => told[name].some((each) => each.data.rows?.some((row) => row[1] === check)))"
