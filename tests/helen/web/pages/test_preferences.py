"""Tests that a reader's choices come with a page: it is painted in its colours at once, without a script."""

from __future__ import annotations

import pytest
from browser import Tab
from helen_running import Running
from playwright.sync_api import Browser
from signing_in import signed_in

pytestmark = pytest.mark.integration
CHOSEN = "() => [document.documentElement.dataset.theme ?? null, document.documentElement.dataset.keys ?? null]"
COUNT_QUESTIONS = """
    window.questions = [];
    for (const [owner, name] of [[window, "localStorage"], [Document.prototype, "cookie"]]) {
        const found = Object.getOwnPropertyDescriptor(owner, name);
        Object.defineProperty(owner, name, { ...found, get() { questions.push(name); return found.get.call(this); } });
    }
"""


def choose(tab: Tab, **values: str) -> None:
    given = [{"name": f"helen-{name}", "value": value, "url": tab.origin} for name, value in values.items()]
    tab.context.add_cookies(given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "chosen"),
    [
        ({}, [None, "on"]),
        ({"theme": "dark"}, ["dark", "on"]),
        ({"theme": "light", "keys": "off"}, ["light", "off"]),
        ({"theme": "Dark", "keys": "maybe"}, [None, "on"]),
        ({"theme": "%22%3E%3Cscript%3E", "keys": ""}, [None, "on"]),
    ],
)
def test_a_page_comes_as_it_was_chosen(tab: Tab, given: dict[str, str], chosen: list[str | None]) -> None:
    """A page has the chosen theme and keys in its text, whatever the cookie holds; a page without a menu has the
    theme."""
    choose(tab, **given)
    tab.expected = ("404",)
    for path in ("/about", "/login?said=out", "/nothing"):
        text = tab.open(path).text()
        head = text[: text.index("<head>")]
        theme, keys = chosen
        assert (f'data-theme="{theme}"' in head) is (theme is not None) and head.count("data-theme") <= 1, path
        assert tab.page.evaluate(CHOSEN) == [theme, keys if path == "/about" else None], path


def test_what_is_chosen_is_kept(tab: Tab) -> None:
    """A choice by key or menu counts on this page and the next ones, and replaces the one before."""
    tab.open("/about")
    tab.page.keyboard.press("t")
    assert tab.page.evaluate(CHOSEN) == ["dark", "on"]
    tab.open("/agents")
    assert tab.page.evaluate(CHOSEN) == ["dark", "on"]
    tab.page.click(".who summary")
    button = tab.page.locator("[data-act=keys]")
    assert button.get_attribute("aria-pressed") == "true"
    button.click()
    tab.page.click("[data-act=theme]")
    assert button.get_attribute("aria-pressed") == "false"
    tab.open("/about")
    assert tab.page.evaluate(CHOSEN) == ["light", "off"]
    assert tab.page.get_attribute("[data-act=keys]", "aria-pressed") == "false"
    tab.page.keyboard.press("t")
    assert tab.page.evaluate(CHOSEN) == ["light", "off"], "keys are off"


def test_a_page_asks_its_browser_for_nothing_that_it_has_stored(browser: Browser, fleet: Running) -> None:
    """A page does not read its browser's storage or cookies, since each read waits for another process."""
    with signed_in(browser, fleet, ("push",)) as tab:
        tab.page.add_init_script(COUNT_QUESTIONS)
        for path in ("/", "/agents", "/checks/web-1/pulse", "/windows"):
            tab.open(path)
            tab.page.wait_for_selector(".fresh[data-state=live]")
            assert tab.page.evaluate("() => questions") == [], path
        assert tab.page.evaluate("() => [localStorage.length, document.cookie, questions][2]") == [
            "localStorage",
            "cookie",
        ]
