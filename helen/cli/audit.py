"""Implement `helen audit`, which lists changes with their actor, their subject and the address they came from."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import click

from helen.cli.base.client import Client
from helen.cli.base.options import for_a_helen, output, print_json, table
from helen.cli.downtimes import moment

MOST = 1_000  # entries of one answer


@click.command()
@click.option("--subject", metavar="NAME", help="Only changes to this agent, token, window ...")
@click.option("--limit", type=click.IntRange(1, MOST), default=50, show_default=True, help="Number of entries.")
@output
@for_a_helen
def audit(client: Client, subject: str | None, limit: int, as_json: bool) -> None:
    """List the changes that operators, tokens and agents have made, the newest first."""
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
