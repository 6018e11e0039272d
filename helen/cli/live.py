"""Results as they come, a line each: what `helen quickstart` and `helen demo` show of a fleet."""

from __future__ import annotations

import time
from typing import Any

import click

from helen.cli.client import Client
from helen.cli.options import plain, styled

ASKED_SECONDS = 10.0  # that a check may take which somebody waits for
COLOURS = {"ok": "green", "warning": "yellow", "critical": "red", "unknown": "magenta"}


class Live:
    """Prints each result once. `codes` keeps the hash of the code that the last one of each check came from."""

    def __init__(self, client: Client, began: float | None = None) -> None:
        self._client = client
        self._newest = 0.0
        self._began = time.monotonic() if began is None else began
        self.codes: dict[tuple[str, str], str | None] = {}

    def look(self) -> list[dict[str, Any]]:
        """The results that are new since the last look, printed."""
        new: list[dict[str, Any]] = self._client.get(f"/api/v1/results?since={self._newest!r}")["results"]
        for result in new:
            self._newest = max(self._newest, result["received"])
            self.codes[result["agent"], result["check_id"]] = result["code"]
            self._print(result)
        return new

    def ask(self, agent: str, check: str) -> None:
        """Have it run now, and print what it says."""
        body = {"check": check, "on": [agent], "timeout": ASKED_SECONDS}
        for line in self._client.stream("/api/v1/runs", body, 2 * ASKED_SECONDS):
            result = line.get("result")
            if result is not None:
                self._print(result | {"agent": agent, "check_id": check})

    def _print(self, result: dict[str, Any]) -> None:
        elapsed = f"{time.monotonic() - self._began:6.1f} s"
        status = styled(f"{result['status']:<8}", fg=COLOURS[result["status"]])
        code = (result.get("code") or "")[:8]
        where = f"{plain(result['agent'])}/{plain(result['check_id'])}"
        click.echo(f"{elapsed}  {status}  {where:<22} {code:<8}  {plain(result.get('summary') or '')[:100]}")
