"""`helen audit`: who did what, by which token, from where."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import click

from helen.cli.client import Client
from helen.cli.judgement import moment
from helen.cli.options import for_a_helen, output, print_json, table

MOST = 1_000  # entries of one answer


@click.command()
@click.option("--subject", help="Only what was done to this: an agent, a token, a window ...")
@click.option("--limit", type=click.IntRange(1, MOST), default=50, show_default=True, help="How many, the newest.")
@output
@for_a_helen
def audit(client: Client, subject: str | None, limit: int, as_json: bool) -> None:
    """List what was done, the newest first."""
    wanted: dict[str, Any] = {"limit": limit} | ({"subject": subject} if subject else {})
    found = client.get(f"/api/v1/audit?{urlencode(wanted)}")
    if as_json:
        print_json(found)
        return
    rows = [
        [moment(each["at"]), each["actor"], each["action"], each["subject"], each["address"], each["detail"]]
        for each in found["audit"]
    ]
    table(["WHEN", "WHO", "WHAT", "TO", "FROM", "MORE"], rows)
