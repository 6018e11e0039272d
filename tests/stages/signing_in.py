"""Opens tabs of a session with chosen scopes; the link is followed once for each Helen and its scopes."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from browser import Tab, a_tab
from helen_running import Running
from playwright.sync_api import Browser

_cookies: dict[tuple[str, tuple[str, ...]], list[Any]] = {}


def signed_in(
    browser: Browser, helen: Running, scopes: tuple[str, ...], **options: Any
) -> AbstractContextManager[Tab]:  # fmt: skip
    """Yield a tab with the cookie of a session of anna's; `options` are those of a browser context."""
    origin = f"http://{helen.run['web']}"
    if (origin, scopes) not in _cookies:
        made = helen.client.post("/api/v1/sessions/links", {"scopes": list(scopes), "name": "anna"})
        with a_tab(browser, origin) as first:
            first.page.goto(made["url"])
            first.page.wait_for_url(lambda url: "login" not in url)
            _cookies[origin, scopes] = first.context.cookies()
    return a_tab(browser, origin, storage_state={"cookies": _cookies[origin, scopes], "origins": []}, **options)
