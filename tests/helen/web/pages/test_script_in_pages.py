"""Words of agents that would be scripts, in a real browser."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from browser import a_tab
from helen_running import Running, wait_until
from playwright.sync_api import Browser

pytestmark = pytest.mark.integration
SCRIPT = "<script>window.pwned=1</script><img src=x onerror=window.pwned=1>\"'--></textarea><svg/onload=pwned=1>"
CHECK = "<img/src=x/onerror=window.pwned=1>{{7*7}}"
RESULT = {
    "status": "critical", "summary": SCRIPT, "output": SCRIPT, "error": SCRIPT, "reason": "<b>x</b>", "check": CHECK,
    "code": "<i>" + "0" * 61,
    "metrics": [{"name": SCRIPT[:60], "value": 1, "unit": "<b>", "labels": {"<b>": SCRIPT[:60]}, "warn": "<i>9"}],
}  # fmt: skip


class Liar:
    """An agent without TLS that says what it is told to say."""

    def __init__(self, helen: Running) -> None:
        host, port = helen.run["agents"].split(":")
        self._socket = socket.create_connection((host, int(port)), timeout=20)
        self._socket.sendall(b"hello 2 <script>window.pwned=1</script>;name=liar\n")
        self.sequence = 0

    def report(self, check: str, document: dict[str, object]) -> None:
        self.sequence += 1
        blob = json.dumps(document).encode()
        self._socket.sendall(b"report s %d %s %d\n%s\n" % (self.sequence, check.encode(), len(blob), blob))

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def helen(tmp_path: Path) -> Iterator[Running]:
    """A Helen without TLS, for a liar that is made of raw lines."""
    running = Running(tmp_path, "--insecure-plaintext")
    try:
        yield running.up()
    finally:
        running.end()


@pytest.mark.adversary(67)
def test_text_of_agents_is_shown_as_text(helen: Running, browser: Browser) -> None:
    """Nothing of it runs, nothing breaks the content policy, and people read it to the letter."""
    agent = Liar(helen)
    try:
        for _ in range(4):  # attempts: what is broken is confirmed
            agent.report(CHECK, RESULT)
        wait_until(lambda: CHECK in json.dumps(helen.client.get("/api/v1/states")), "state")
        token = (helen.state / "web.token").read_text().strip()
        signed_in = {"authorization": f"Bearer {token}"}
        with a_tab(browser, f"http://{helen.run['web']}", signed_in) as tab:
            tab.expected = ("the server responded with a status of 404",)  # of the page that isn't there
            for path in ("/", "/?all=1", f"/checks/liar/{quote(CHECK, safe='')}", f"/{quote(SCRIPT, safe='')}"):
                tab.open(path)
                tab.page.wait_for_timeout(300)  # scripts of the page fill in what they know
                assert tab.page.evaluate("window.pwned") is None, path
                assert tab.page.locator("img[src='x'], svg[onload]").count() == 0, path
                assert "49" not in tab.page.title(), path
            tab.open(f"/checks/liar/{quote(CHECK, safe='')}")
            body = tab.page.locator("body").inner_text()
            assert SCRIPT in body
            assert CHECK in body
    finally:
        agent.close()
