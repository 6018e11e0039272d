"""Tests `helen open`: a link that begins a session, for this Helen or one behind a URL, and the browser that gets
it."""

from __future__ import annotations

import json
import webbrowser
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner
from helen_running import Running
from web_client import Web, ask

from helen.cli.access import open as module
from helen.cli.base import session_link
from helen.cli.main import main

pytestmark = pytest.mark.integration


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Provide the addresses that a browser was told to show, on a machine with a desktop."""
    urls: list[str] = []
    monkeypatch.setattr(webbrowser, "open", urls.append)
    monkeypatch.setattr(module, "has_browser", lambda: True)
    return urls


def log_in(fleet: Running, url: str) -> dict[str, object]:
    """Follow a link, return the listed session, and end it."""
    key = urlsplit(url).fragment
    origin = f"http://{fleet.run['web']}"
    assert Web(fleet).ask("POST", "/login", json.dumps({"key": key}).encode(), origin=origin).status == 200
    session: dict[str, object] = ask(fleet, "GET", "/api/v1/sessions").json["sessions"][-1]
    assert ask(fleet, "POST", f"/api/v1/sessions/{session['id']}/end", {}).status == 200
    return session


def test_open_here(fleet: Running, opened: list[str]) -> None:
    """`helen open` prints one line, a link that the browser gets as well and that begins an operator's session."""
    result = CliRunner().invoke(main, ["open", "--state", str(fleet.state), "--name", "anna"])
    assert (result.exit_code, opened) == (0, [result.output.strip()])
    assert result.output.startswith(f"http://{fleet.run['web']}/login#")
    session = log_in(fleet, opened[0])
    assert (session["name"], session["parent"], session["scopes"]) == ("anna", "operator", ["operate"])


def test_print_and_kiosk(fleet: Running, opened: list[str]) -> None:
    """--print opens no browser, and --kiosk makes a session that reads for a year."""
    words = ["open", "--state", str(fleet.state), "--print", "--kiosk", "--for", "365d", "--name", "hall"]
    session = log_in(fleet, CliRunner().invoke(main, words).output.strip())
    assert (session["kiosk"], session["scopes"], opened) == (True, ["read"], [])
    assert round(float(session["expires"]) - float(session["created"])) == 365 * 86_400  # type: ignore[arg-type]


def test_open_behind_a_url(fleet: Running, opened: list[str]) -> None:
    """With --url the link leads to that address, such as the end of a tunnel, and the session is the token's child."""
    web = Web(fleet)
    url = f"http://localhost:{web.port}"
    words = ["open", "--url", url, "--token", web.token, "--scope", "push", "--output", "json"]
    made = json.loads(CliRunner().invoke(main, words).output)
    assert made["url"].startswith(f"{url}/login#")
    session = log_in(fleet, made["url"])
    assert (session["parent"], session["scopes"], session["name"]) == ("token:web.token", ["push"], session_link.user())
    assert opened == []


@pytest.mark.parametrize(
    ("more", "status", "said"),
    [
        (["--scope", "root"], 2, "'root' is not one of"),
        (["--for", "8d"], 2, "at most 7 days"),
        (["--for", "soon"], 2, "`for`"),
        (["--kiosk", "--scope", "push"], 2, "a kiosk looks and does nothing"),
        (["--name", "a/b"], 2, "no slash"),
    ],
)
def test_what_can_not_be_opened(fleet: Running, opened: list[str], more: list[str], status: int, said: str) -> None:
    """An option that cannot be used is refused by a sentence that names it, and no browser is opened."""
    result = CliRunner().invoke(main, ["open", "--state", str(fleet.state), *more])
    assert (result.exit_code, said in result.output, opened) == (status, True, []), result.output
