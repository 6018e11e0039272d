"""Tests the frame, assets, headers and errors that all pages share."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from browser import NARROW, WIDE, Tab
from helen_running import Running
from playwright.sync_api import Browser, expect
from signing_in import signed_in
from web_client import Web

from helen.journal.values import CHANGE_KINDS
from helen.web.pages import assets as assets_module
from helen.web.pages.assets import STATIC, assets
from helen.web.pages.environment import TEMPLATES, segment, span

pytestmark = pytest.mark.integration
ROOT = Path(__file__).parents[4]
VENDOR = STATIC / "vendor"
LIVE_PAGES = (
    "/", "/agents", "/agents/web-1", "/checks", "/checks/web-1/pulse", "/checks/web-1/pulse/why", "/author/pulse.lua",
    "/rollouts", "/windows", "/windows/new", "/ask", "/mesh", "/about",
)  # fmt: skip
FOREIGN = re.compile(rb"(?:https?:)?//(?!\s)[a-z0-9.-]+\.[a-z]{2,}", re.IGNORECASE)


# ---------------------------------------------------------------------------------------------- assets


def test_vendored_files_are_those_that_were_written_down() -> None:
    """Each vendored file has its sum, its packages and its licence, and there is no other."""
    listed = tomllib.loads((VENDOR / "VENDOR.toml").read_text())
    for name, file in listed["file"].items():
        folder = ROOT / file["folder"]
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == file["sha256"], name
        licence = (folder / f"LICENSE.{Path(name).stem}").read_text()
        assert all(f"== {package}\n" in licence for package in file["packages"]), name
        assert all(listed["package"][package]["integrity"].startswith("sha512-") for package in file["packages"])
        assert set(file["licences"]) <= {"MIT", "0BSD", "MPL-2.0"}
    there = {path.name for path in VENDOR.iterdir() if path.suffix in (".js", ".css")}
    assert there == {name for name, file in listed["file"].items() if (ROOT / file["folder"]) == VENDOR}


def test_no_asset_of_ours_names_another_host() -> None:
    """No asset names another host, since pages ask only Helen."""
    for path in [*STATIC.glob("*.*"), *TEMPLATES.rglob("*.html")]:
        found = [each for each in FOREIGN.findall(path.read_bytes()) if each != b"http://www.w3.org"]
        assert found == [], path.name


@pytest.mark.adversary(67)
def test_no_template_has_inline_code() -> None:
    """No template has inline code, which the content policy would refuse."""
    inline = re.compile(r"<style|\sstyle=|\son[a-z]+=|<script(?![^>]*\ssrc=)|javascript:", re.IGNORECASE)
    for path in TEMPLATES.rglob("*.html"):
        assert inline.findall(path.read_text()) == [], path.name


def test_an_asset_is_kept_for_a_year_and_packed(fleet: Running) -> None:
    """An asset is packed and kept for a year at the address of its build, and not kept under another build."""
    web = Web(fleet)
    address = assets().path("pages.css")
    connection = http.client.HTTPConnection(web.host, web.port, timeout=60)
    connection.request("GET", address, headers={"accept-encoding": "gzip"})
    answer = connection.getresponse()
    body = answer.read()
    assert (answer.status, answer.headers["content-encoding"]) == (200, "gzip")
    assert gzip.decompress(body) == (STATIC / "pages.css").read_bytes()
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    connection.request("GET", "/s/000000000000/pages.css")
    answer = connection.getresponse()
    assert (answer.read(), answer.headers["cache-control"]) == ((STATIC / "pages.css").read_bytes(), "no-cache")
    connection.request("GET", f"/s/{assets().build}/../../../etc/passwd", headers={"accept": "text/html"})
    answer = connection.getresponse()
    assert answer.status == 404 and b"root:" not in answer.read()
    connection.close()


def test_the_build_changes_with_any_asset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The build changes with any asset, so that a browser asks for the new ones."""
    for path in STATIC.glob("*.js"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(assets_module, "STATIC", tmp_path)
    builds = []
    for body in (b"a", b"b"):
        (tmp_path / "x.css").write_bytes(body)
        builds.append(assets_module.assets.__wrapped__().build)
    assert len(set(builds)) == 2 and all(re.fullmatch("[0-9a-f]{12}", build) for build in builds)


# ---------------------------------------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("text", "written"),
    [("a/b", "a%2Fb"), ("..", "%2E%2E"), (".", "%2E"), ("ä ?#", "%C3%A4%20%3F%23"), ("v1.2", "v1.2")],
)
def test_a_name_is_one_segment_of_a_path(text: str, written: str) -> None:
    assert segment(text) == written


SECONDS = (-3.0, 0.0, 0.4567, 61.0, 179.6, 180.0, 754.0, 3_599.6, 3_600.0, 93_784.0, 172_799.0, 273_600.0, 4e7)


def test_spans_are_written_alike_by_server_and_page(tab: Tab) -> None:
    """Server and page write spans of time alike, since a page goes on writing those that it was sent."""
    tab.open("/about")
    source = f"async times => times.map((await import('{assets().path('time.js')}')).span)"
    assert tab.page.evaluate(source, list(SECONDS)) == [span(seconds) for seconds in SECONDS]


# ---------------------------------------------------------------------------------------------- live


def test_pages_ask_for_kinds_of_events_that_there_are() -> None:
    """Pages ask only for existing kinds of events, since an unknown one has the browser's whole stream refused."""
    asked = set[str]()
    for path in TEMPLATES.rglob("*.html"):
        asked |= {kind for kinds in re.findall(r'data-live="([^"]*)"', path.read_text()) for kind in kinds.split()}
    for path in STATIC.glob("*.js"):
        for kinds in re.findall(r"listen\(\{ kinds: \[([^\]]*)\]", path.read_text()):
            asked |= {kind.strip(' "') for kind in kinds.split(",")}
    assert len(asked) >= 10 and asked <= set(CHANGE_KINDS)


def test_each_page_is_live(browser: Browser, fleet: Running) -> None:
    """The stream of each live page begins, which a refused kind of events would prevent."""
    with signed_in(browser, fleet, ("push",)) as tab:
        for path in LIVE_PAGES:
            tab.open(path)
            expect(tab.page.locator("#fresh"), path).to_have_attribute("data-state", "live")


# ---------------------------------------------------------------------------------------------- headers and errors


@pytest.mark.adversary(67)
def test_headers_of_a_page(tab: Tab) -> None:
    """The headers of a page forbid foreign and inline content, frames, guessed types and caching."""
    headers = tab.open("/about").headers
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'" and policy["script-src"] == policy["style-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "same-origin")
    assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", ["/nothing", "/agents/none/none/none", "/about/"])
def test_a_page_that_is_not_there(tab: Tab, path: str) -> None:
    """A missing page gives a browser a sentence and a link."""
    tab.expected = ("404",)
    assert tab.open(path).status == 404
    assert tab.page.inner_text("h1") == "Not found"
    assert tab.page.get_attribute("main a", "href") == "/"


def test_a_page_for_a_program_without_html(fleet: Running) -> None:
    """A missing page gives a program the problem as JSON."""
    assert Web(fleet).ask("GET", "/nothing").problem[:2] == (404, "not found")


def test_without_a_credential_one_is_led_to_the_login(new_tab: Any) -> None:
    """A browser without a credential is led to the login, which keeps the path."""
    with new_tab(extra_http_headers={}) as tab:
        tab.expected = ("401",)
        tab.open("/about?tz=UTC")
        tab.page.wait_for_url("**/login?to=%2Fabout%3Ftz%3DUTC")
        assert tab.page.input_value("input[name=to]") == "/about?tz=UTC"


# ---------------------------------------------------------------------------------------------- for everybody


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("path", ["/about", "/login", "/nothing"])
def test_axe_finds_nothing(new_tab: Any, path: str, size: dict[str, int], scheme: str) -> None:
    """axe finds no violation on the shared pages, and nothing is wider than the screen."""
    with new_tab(viewport=size, color_scheme=scheme) as tab:
        tab.expected = ("404",)
        tab.open(path)
        assert tab.violations() == []
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= size["width"]
