"""Tests that the pictures of docs/pages.rst show the present pages, as a browser makes them after each change of a
page.

`./dev pictures` makes them; docs/pictures/MADE_OF holds the sum over templates, styles and scripts that they show.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from pathlib import Path

import pytest
from browser import WIDE, Tab, a_tab
from helen_running import Program, Running, pulse, wait_until
from playwright.sync_api import Browser, expect

from helen.web.pages.assets import STATIC, assets
from helen.web.pages.environment import TEMPLATES

ROOT = Path(__file__).parents[4]
PICTURES = ROOT / "docs" / "pictures"
PAGES = {
    "board": "/?all=1",
    "check": "/checks/web-1/cpu",
    "agents": "/agents",
    "author": "/author/pulse.lua",
    "windows": "/windows/new?on=web-*&check=*&for=2h",
}
MESH = "mesh"  # is of other agents than the rest
ASSIGNED = {"cpu": "2s", "memory": "2s", "uptime": "5s", "pulse": "2s", "sick": "2s", "weak": "3s"}


def made_of() -> str:
    """Return the sum over all that a picture shows, without vendored files, which have sums of their own."""
    total = hashlib.sha256()
    for path in sorted([*STATIC.glob("*.*"), *TEMPLATES.rglob("*.html")]):
        total.update(f"{path.name}\n".encode() + path.read_bytes())
    return total.hexdigest()


def test_pictures_are_not_old() -> None:
    """The pictures are made of the present templates, styles and scripts; `./dev pictures` makes them anew."""
    assert (PICTURES / "MADE_OF").read_text().strip() == made_of()


def test_the_page_shows_all_pictures() -> None:
    """Each picture stands in docs/pages.rst with words for readers who do not see it, and one in README.rst."""
    text = (ROOT / "docs" / "pages.rst").read_text()
    shown = re.findall(r"\.\. image:: pictures/(\w+)\.png\n   :alt: \S.+", text)
    assert sorted(shown) == sorted([*PAGES, MESH])
    assert all((PICTURES / f"{name}.png").read_bytes().startswith(b"\x89PNG") for name in [*PAGES, MESH])
    assert "docs/pictures/board.png" in (ROOT / "README.rst").read_text()
    assert assets().build in assets().path("pages.css")


@pytest.mark.pictures
def test_make_the_pictures(browser: Browser, tmp_path: Path) -> None:
    """Make the pictures of a Helen with two agents that run a sick and a weak check; `./dev pictures` alone runs
    this."""
    helen = Running(tmp_path)
    shutil.copytree(ROOT / "checks" / "lib", helen.checks / "lib")
    for name in ("cpu", "memory", "uptime"):
        shutil.copy(ROOT / "checks" / f"{name}.lua", helen.checks)
    (helen.checks / "pulse.lua").write_text(pulse("every link answers"))
    (helen.checks / "sick.lua").write_text(pulse("replication stopped 3 min ago").replace('"ok"', '"critical"'))
    (helen.checks / "weak.lua").write_text(pulse("certificate ends in 9 d").replace('"ok"', '"warning"'))
    agents = []
    try:
        helen.up()
        text = "\n".join(f'[[assign]]\ncheck = "{name}"\nevery = "{every}"\n' for name, every in ASSIGNED.items())
        helen.client.put("/api/v1/assignments", {"text": text})
        agents = [helen.agent(name, "role=web") for name in ("web-1", "web-2")]
        wait_until(lambda: len(helen.client.get("/api/v1/rows?all=1")["rows"]) >= 14, "rows")
        time.sleep(float(os.environ.get("PICTURES_SECONDS", "40")))  # a plot needs something to show
        for scheme in ("light",):
            link = helen.client.post("/api/v1/sessions/links", {"scopes": ["admin"], "name": "anna"})["url"]
            with a_tab(browser, f"http://{helen.run['web']}", viewport=WIDE, color_scheme=scheme) as tab:
                tab.page.goto(link)
                tab.page.wait_for_url(lambda url: "/login" not in url)
                for name, path in PAGES.items():
                    tab.open(path)
                    expect(tab.page.locator("#fresh")).to_have_attribute("data-state", "live")
                    tab.page.wait_for_timeout(2_000)
                    tab.page.screenshot(path=PICTURES / f"{name}.png")
                agents += show_mesh(helen, tab)
        (PICTURES / "MADE_OF").write_text(made_of() + "\n")
    finally:
        for agent in agents:
            agent.end()
        helen.end()


def show_mesh(helen: Running, tab: Tab) -> list[Program]:
    """Take the picture of six agents that check each other, of which one is seen badly and one is away."""
    (helen.checks / "reach.lua").write_text(
        pulse("answers in 3 ms").replace('return "ok"', 'return args.word == "edge-4" and "critical" or "ok"')
    )
    text = '[[assign]]\ncheck = "reach"\nmesh = ["role=edge"]\nevery = "2s"\nargs = { word = "{name}" }\n'
    helen.client.put("/api/v1/assignments", {"text": text})
    edges = [helen.agent(f"edge-{number}", "role=edge") for number in range(1, 7)]
    wait_until(lambda: "critical" in [each for row in seen(helen) for each in row], "mesh in which one is seen badly")
    wait_until(lambda: sum(each is None for row in seen(helen) for each in row) == 6, "whole mesh")
    edges[5].end()
    tab.open("/mesh")
    expect(tab.page.locator("#mesh tr[data-agent=edge-6] th")).to_contain_text("away")
    tab.page.wait_for_timeout(2_000)
    tab.page.screenshot(path=PICTURES / f"{MESH}.png")
    return edges


def seen(helen: Running) -> list[list[str | None]]:
    """Return the table of the first mesh."""
    meshes = helen.client.get("/api/v1/mesh")["meshes"]
    found: list[list[str | None]] = meshes[0]["seen"] if meshes else []
    return found
