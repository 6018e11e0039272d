"""Runs a Helen with some hundred checks that report from outside, for tables with more rows than fit the screen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from browser import Tab, a_tab
from helen_running import Running, wait_until
from playwright.sync_api import Browser
from web_client import Web

HOSTS, CHECKS = 3, 250
SICK = 12  # of each host
PASSIVE = "".join(
    f'[hosts.h{number}]\nlabels = {{ role = "{"web" if number else "db"}" }}\n'
    f'[[check]]\nhost = "h{number}"\nid = "c-*"\nattempts = 1\n'
    for number in range(HOSTS)
)


class Crowd:
    """Runs a Helen with some hundred checks that report from outside; `report` changes some of them."""

    def __init__(self, helen: Running) -> None:
        self.helen, self.web = helen, Web(helen)

    def report(self, results: list[tuple[str, str, int, str]]) -> None:
        """Submit results to Helen, each as host, check, status and summary."""
        listed = [
            {"checkresult": {"type": "service"}, "hostname": host, "servicename": check, "state": str(status),
             "output": text}
            for host, check, status, text in results
        ]  # fmt: skip
        form = {"cmd": "submitcheck", "token": self.web.token, "JSONDATA": json.dumps({"checkresults": listed})}
        answer = self.web.ask(
            "POST", "/nrdp/", urlencode(form).encode(), content_type="application/x-www-form-urlencoded"
        )
        assert answer.status == 200, answer.raw

    def link(self, *scopes: str) -> str:
        asked = {"scopes": list(scopes) or ["operate"], "name": "anna"}
        return str(self.helen.client.post("/api/v1/sessions/links", asked)["url"])


def a_crowd(folder: Path) -> Crowd:
    """Start it; each host has SICK checks that are critical, and all others are well."""
    (folder / "state").mkdir(mode=0o700)
    (folder / "state" / "passive.toml").write_text(PASSIVE)
    helen = Running(folder).up()
    made = Crowd(helen)
    try:
        for host in range(HOSTS):
            made.report([
                (f"h{host}", f"c-{number:03}", 2 if number < SICK else 0, f"disk {number} <b>of</b> {host}")
                for number in range(CHECKS)
            ])  # fmt: skip
        wait_until(lambda: len(helen.client.get("/api/v1/rows?all=1")["rows"]) >= HOSTS * CHECKS, "rows")
    except BaseException:
        helen.end()
        raise
    return made


class CrowdTab:
    """Opens a tab that is signed in by a link, with the scope `operate` or those that are given."""

    def __init__(self, browser: Browser, crowd: Crowd, scopes: tuple[str, ...] = (), **options: Any) -> None:
        self._tab = a_tab(browser, f"http://{crowd.helen.run['web']}", **options)
        self._link = crowd.link(*scopes)

    def __enter__(self) -> Tab:
        tab = self._tab.__enter__()
        tab.page.goto(self._link)
        tab.page.wait_for_url(lambda url: "/login" not in url)
        return tab

    def __exit__(self, *raised: Any) -> None:
        self._tab.__exit__(*raised)
