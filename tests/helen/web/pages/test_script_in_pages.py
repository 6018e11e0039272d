"""Tests texts of agents that would be scripts, in a real browser."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from helen_running import Running, wait_until
from playwright.sync_api import Browser, expect
from signing_in import signed_in

pytestmark = pytest.mark.integration
SCRIPT = "<script>window.pwned=1</script><img src=x onerror=window.pwned=1>\"'--></textarea><svg/onload=pwned=1>"
CHECK = "<img/src=x/onerror=window.pwned=1>{{7*7}}"
RESULT = {
    "status": "critical", "summary": SCRIPT, "output": SCRIPT, "error": SCRIPT, "reason": "<b>x</b>", "check": CHECK,
    "code": "<i>" + "0" * 61,
    "metrics": [{"name": SCRIPT[:60], "value": 1, "unit": "<b>", "labels": {"<b>": SCRIPT[:60]}, "warn": "<i>9"}],
}  # fmt: skip

LOAD = {
    "files": {SCRIPT: {"sha256": SCRIPT, "state": "refused", "error": SCRIPT}},
    "labels": {"role": SCRIPT, "<b>": SCRIPT},
    "host": {"os": SCRIPT, "kernel": SCRIPT, "arch": SCRIPT, "cpus": SCRIPT, "memory": SCRIPT, "<i>": SCRIPT},
    "equus": SCRIPT, "isolation": SCRIPT, "policy": SCRIPT, "manifest": {"reason": SCRIPT, "text": SCRIPT},
    "labels-from": SCRIPT, "upgrade": {"reason": SCRIPT, "text": SCRIPT}, "schedule": [SCRIPT], "tunnels": [SCRIPT],
}  # fmt: skip
ESCAPES = "\x1b[2J\x1b]0;x\x07\u202egnp.exe\u2028\x9b31m\u200b"
SHOWN = "\\x1b[2J\\x1b]0;x\\x07\\u202egnp.exe\\u2028\\x9b31m\\u200b"
PAGES = ("/", "/?all=1", "/?all=1&group=role", "/agents", "/agents/liar?links=1", "/checks", "/rollouts", "/windows",
         "/windows/new?on=liar&check=*&for=2h", "/ask?on=liar", "/mesh", "/about")  # fmt: skip
LONG = 1_000_000


class Liar:
    """Play an agent without TLS that says any text."""

    def __init__(self, helen: Running) -> None:
        host, port = helen.run["agents"].split(":")
        self._socket = socket.create_connection((host, int(port)), timeout=60)
        self._socket.sendall(b"hello 2 <script>window.pwned=1</script>;name=liar\n")
        self.sequence = 0

    def confirm(self, document: dict[str, object], check: str = CHECK) -> None:
        """Report a result so often that it is confirmed."""
        for _ in range(4):
            self.report(check, document)

    def report(self, check: str, document: dict[str, object]) -> None:
        self.sequence += 1
        blob = json.dumps(document).encode()
        self._socket.sendall(b"report s %d %s %d\n%s\n" % (self.sequence, check.encode(), len(blob), blob))

    def load(self, document: dict[str, object]) -> None:
        blob = json.dumps(document).encode()
        self._socket.sendall(b"loaded none %d\n%s\n" % (len(blob), blob))

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def helen(tmp_path: Path) -> Iterator[Running]:
    """Provide a Helen without TLS, for an agent made of raw lines."""
    running = Running(tmp_path, "--insecure-plaintext")
    try:
        yield running.up()
    finally:
        running.end()


@pytest.mark.adversary(67)
def test_text_of_agents_is_shown_as_text(helen: Running, browser: Browser) -> None:
    """Texts of agents are shown to the letter, and neither run nor break the content policy."""
    agent = Liar(helen)
    try:
        agent.load(LOAD)
        agent.confirm(RESULT)
        wait_until(lambda: CHECK in json.dumps(helen.client.get("/api/v1/states")), "state")
        wait_until(lambda: SCRIPT in helen.client.get("/api/v1/agents/liar")["host"].values(), "what it says of itself")
        own = f"/checks/liar/{quote(CHECK, safe='')}"
        with signed_in(browser, helen, ("operate",)) as tab:
            tab.expected = ("the server responded with a status of 404",)  # of the page that isn't there
            for path in (*PAGES, own, f"{own}/why", f"/{quote(SCRIPT, safe='')}"):
                tab.open(path)
                tab.page.wait_for_timeout(300)  # scripts of the page fill in what they know
                assert tab.page.evaluate("window.pwned") is None, path
                assert tab.page.locator("img[src='x'], svg[onload]").count() == 0, path
                assert "49" not in tab.page.title(), path
            tab.open(own)
            body = tab.page.locator("body").inner_text()
            assert SCRIPT in body
            assert CHECK in body
            tab.open("/agents/liar")
            assert SCRIPT in tab.page.locator("main").inner_text()
    finally:
        agent.close()


@pytest.mark.adversary(67)
def test_what_is_not_printable_is_shown_as_an_escape(helen: Running, browser: Browser) -> None:
    """Unprintable characters are shown as escapes, in HTML and by scripts alike."""
    agent = Liar(helen)
    try:
        agent.confirm(RESULT | {"summary": ESCAPES, "output": ESCAPES, "error": ESCAPES, "reason": ESCAPES}, "odd")
        wait_until(lambda: "odd" in json.dumps(helen.client.get("/api/v1/states")), "state")
        with signed_in(browser, helen, ("operate",)) as tab:
            for path in ("/", "/agents/liar", "/checks/liar/odd", "/checks/liar/odd/why"):
                tab.open(path)
                html = tab.page.evaluate("() => fetch(location.href).then((answer) => answer.text())")
                tab.page.wait_for_timeout(300)
                for text in (html, tab.page.content()):
                    assert [letter for letter in "\x1b\x07\u202e\u2028\x9b\u200b" if letter in text] == [], path
                expect(tab.page.locator("main"), path).to_contain_text(SHOWN, use_inner_text=True)
            tab.open("/")
            agent.confirm(RESULT | {"summary": ESCAPES}, "later")
            row = tab.page.locator("tr[data-check=later] .said")  # which the script has made
            expect(row).to_have_text(SHOWN)
            assert row.get_attribute("title") == SHOWN
    finally:
        agent.close()


def test_a_summary_of_a_megabyte_is_cut(helen: Running, browser: Browser) -> None:
    """A summary of a megabyte is cut in its row, and more of it is on its check's page with its length."""
    agent = Liar(helen)
    try:
        agent.confirm({"status": "critical", "summary": "x" * LONG}, "long")
        wait_until(lambda: "long" in json.dumps(helen.client.get("/api/v1/states")), "state")
        wait_until(lambda: helen.client.get("/api/v1/rows")["rows"], "row")
        rows = helen.client.get("/api/v1/rows")["rows"]
        assert [set(row[5]) for row in rows] == [{"x"}] and len(rows[0][5]) <= 200
        with signed_in(browser, helen, ("operate",)) as tab:
            for path in ("/", "/agents/liar", "/checks/liar/long", "/checks/liar/long/why"):
                tab.open(path)
                tab.page.wait_for_timeout(300)
                assert len(tab.page.content()) < 100_000, path
                assert tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
            tab.open("/checks/liar/long")
            assert "the first 4,000 of 1,000,000 letters" in tab.page.locator("main").inner_text()
    finally:
        agent.close()
