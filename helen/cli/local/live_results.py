"""Print results as they come, a line each, for `helen quickstart` and `helen demo`."""

from __future__ import annotations

import time
from typing import Any

from groundwork.terminal import echo, styled
from helen.cli.base.client import Client
from helen.cli.base.options import plain

ASKED_SECONDS = 10.0  # that a check may take which the user waits for
COLOURS = {"ok": "green", "warning": "yellow", "critical": "red", "unknown": "magenta"}


class LiveResults:
    """Print each result once. `codes` keeps the hash of the code of each check's last result.

    `began`: monotonic seconds, from which the printed times are counted.
    """

    def __init__(self, client: Client, began: float | None = None) -> None:
        self._client = client
        self._newest = 0.0
        self._began = time.monotonic() if began is None else began
        self.codes: dict[tuple[str, str], str | None] = {}

    def look(self) -> list[dict[str, Any]]:
        """Print the results since the last look, and return them."""
        new: list[dict[str, Any]] = self._client.get(f"/api/v1/results?since={self._newest!r}")["results"]
        for result in new:
            self._newest = max(self._newest, result["received"])
            self.codes[result["agent"], result["check_id"]] = result["code"]
            self._print(result)
        return new

    def ask(self, agent: str, check: str) -> None:
        """Have an agent run a check now, and print the result."""
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
        echo(f"{elapsed}  {status}  {where:<22} {code:<8}  {plain(result.get('summary') or '')[:100]}")
