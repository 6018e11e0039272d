"""Provide fixtures of the tests of pages: one browser for all, and a tab on the fleet of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import pytest
from browser import Tab, a_browser, a_tab
from helen_running import Running, wait_until
from playwright.sync_api import Browser
from trio import Trio


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with a_browser() as running:
        yield running


@pytest.fixture
def new_tab(browser: Browser, fleet: Running) -> Callable[..., AbstractContextManager[Tab]]:
    """Provide new_tab(**options of a browser context), which opens a tab signed in by STATE/web.token."""
    token = (fleet.state / "web.token").read_text().strip()
    return partial(a_tab, browser, f"http://{fleet.run['web']}", {"authorization": f"Bearer {token}"})


@pytest.fixture
def tab(new_tab: Any) -> Iterator[Tab]:
    with new_tab() as made:
        yield made


@pytest.fixture(scope="session")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    made = Trio(tmp_path_factory.mktemp("trio"))
    try:
        wait_until(lambda: len([name for name in made.told() if "equus:" not in name]) == 6, "six messages")
        yield made
    finally:
        made.end()


@pytest.fixture
def visit(browser: Browser, trio: Trio) -> Callable[..., AbstractContextManager[Tab]]:
    """Provide visit(*scopes, **options of a browser context), which opens a tab on the trio signed in by a link."""

    @contextmanager
    def signed_in(*scopes: str, **options: Any) -> Iterator[Tab]:
        asked = {"scopes": list(scopes) or ["operate"], "name": "anna"}
        link = trio.helen.client.post("/api/v1/sessions/links", asked)["url"]
        with a_tab(browser, f"http://{trio.helen.run['web']}", **options) as tab:
            tab.page.goto(link)
            tab.page.wait_for_url(lambda url: "/login" not in url)
            yield tab

    return signed_in
