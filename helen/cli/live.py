"""Results as they come, a line each: what `helen quickstart` and `helen demo` show of a fleet."""

from __future__ import annotations

import time
from typing import Any

import click

from helen.cli.client import Client
from helen.cli.options import plain

COLOURS = {"ok": "green", "warning": "yellow", "critical": "red", "unknown": "magenta"}


class Live:
    """Prints each result once. `codes` keeps the hash of the code that the last one of each check came from."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._seen: dict[tuple[str, str], float] = {}
        self._began = time.monotonic()
        self.codes: dict[tuple[str, str], str | None] = {}
        self.sequences: dict[tuple[str, str], int] = {}

    def look(self) -> list[dict[str, Any]]:
        """The results that are new since the last look, printed."""
        new = []
        for agent in self._client.get("/api/v1/agents")["agents"]:
            for result in self._client.get(f"/api/v1/agents/{agent['name']}")["results"]:
                key = (agent["name"], result["check_id"])
                if self._seen.get(key) == result["received"]:
                    continue
                self._seen[key] = result["received"]
                self.codes[key] = result["code"]
                self.sequences[key] = self.sequences.get(key, 0) + 1
                new.append(result | {"agent": agent["name"]})
        for result in sorted(new, key=lambda result: result["received"]):
            self._print(result)
        return new

    def _print(self, result: dict[str, Any]) -> None:
        elapsed = f"{time.monotonic() - self._began:6.1f} s"
        status = click.style(f"{result['status']:<8}", fg=COLOURS[result["status"]])
        code = (result["code"] or "")[:8]
        where = f"{plain(result['agent'])}/{plain(result['check_id'])}"
        click.echo(f"{elapsed}  {status}  {where:<22} {code:<8}  {plain(result['summary'])[:100]}")
