"""Ask Helen for a link that begins a session of a browser."""

from __future__ import annotations

import getpass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from helen.cli.base.client import Client


def make_link(
    client: Client, scopes: tuple[str, ...] = (), lasts: str | None = None, name: str | None = None,
    kiosk: bool = False, on: tuple[str, ...] = (),
) -> dict[str, Any]:  # fmt: skip
    """Return `{"url", "expires", "scopes"}` of a new link; behind --url it leads to the same address.

    Raises Failed if Helen has no pages, or the caller lacks a scope.
    """
    body = {"scopes": list(scopes), "for": lasts, "name": name or user(), "kiosk": kiosk, "on": list(on) or None}
    made: dict[str, Any] = client.post("/api/v1/sessions/links", body)
    if client.url is not None:
        there, page = client.url, urlsplit(made["url"])
        made["url"] = urlunsplit((there.scheme, there.netloc, "/login", "", page.fragment))
    return made


def user() -> str:
    """Return the name of the account that runs this; `browser` where it has none."""
    try:
        found = getpass.getuser()
    except (KeyError, OSError):  # of a container with a number alone
        return "browser"
    return "".join(c for c in found if c.isprintable() and c != "/")[:60] or "browser"
