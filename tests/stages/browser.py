"""Drives a real browser for tests of pages: Debian's chromium, with playwright. A machine without it fails.

A tab fails its test on a console error, on a violation of the content policy, on a request to another host, and on an
error in a script that nothing caught.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

AXE = Path(__file__).parents[1] / "helen" / "web" / "pages" / "vendor" / "axe.js"
WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 360, "height": 740}
PATIENCE = 60_000  # milliseconds; on a busy machine a page may need more than the 5 s that `expect` waits by itself
RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")


@contextlib.contextmanager
def a_browser() -> Iterator[Browser]:
    """Start Chromium without a screen, once for a process of tests."""
    program = shutil.which("chromium")
    assert program is not None, "chromium is missing: `sudo apt-get install --no-install-recommends chromium`"
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, headless=True, args=["--no-sandbox"], timeout=2 * PATIENCE
        )
        try:
            yield browser
        finally:
            browser.close()


class Tab:
    """Is one tab on a Helen; `faults` collects what must not happen."""

    def __init__(self, context: BrowserContext, origin: str) -> None:
        self.origin, self.context = origin, context
        self.faults: list[str] = []
        self.expected: tuple[str, ...] = ()  # parts of console errors that a test provokes
        context.set_default_timeout(PATIENCE)
        self.page: Page = context.new_page()
        self.page.on("console", lambda line: self._fault(f"console: {line.text}") if line.type == "error" else None)
        self.page.on("pageerror", lambda error: self._fault(f"script: {error}"))
        self.page.on("request", self._requested)

    def _requested(self, request: Any) -> None:
        where = urlsplit(request.url)
        if where.scheme in ("http", "https") and f"{where.scheme}://{where.netloc}" != self.origin:
            self._fault(f"request to {request.url}")

    def _fault(self, text: str) -> None:
        if not any(part in text for part in self.expected):
            self.faults.append(text)

    def open(self, path: str) -> Any:
        """Goes to a page of Helen; returns the response."""
        return self.page.goto(self.origin + path, wait_until="load")

    def violations(self) -> list[str]:
        """Return what axe finds wrong with the page as it is now, a line for each place."""
        self.page.evaluate(AXE.read_text() + "; null")
        found = self.page.evaluate("rules => axe.run(document, {runOnly: {type: 'tag', values: rules}})", list(RULES))[
            "violations"
        ]
        return [f"{each['id']}: {node['target']} {node['failureSummary']}" for each in found for node in each["nodes"]]


@contextlib.contextmanager
def a_tab(browser: Browser, origin: str, headers: dict[str, str] | None = None, **options: Any) -> Iterator[Tab]:
    """Yield a tab with cookies of its own; its faults fail the test at its end."""
    context = browser.new_context(**({"extra_http_headers": headers or {}} | options))
    tab = Tab(context, origin)
    try:
        yield tab
        assert tab.faults == [], tab.faults
    finally:
        context.close()
