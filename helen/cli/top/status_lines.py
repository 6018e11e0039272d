"""Write the lines above and below the rows of `helen top` from what is known of Helen."""

from __future__ import annotations

import time

from attrs import define
from rich.text import Text

from helen.cli.base.ages import ago
from helen.cli.base.options import plain
from helen.cli.top.rows import Rows
from helen.cli.top.view import STYLES
from helen.web.rows.row import LETTERS


@define
class Standing:
    """Hold what the two lines tell beside the rows. `lost`: since when Helen is silent, unix seconds, and why."""

    has_news: bool = False  # Helen has answered at least once
    is_live: bool = False  # updates come by themselves
    is_paused: bool = False
    lost: tuple[float, str] | None = None
    prompt: str = ""  # what the user is asked to write
    notice: str = ""  # the last outcome


def head_line(rows: Rows, standing: Standing, order: str, filter_text: str, fit: int) -> Text:
    """Return the line above the rows: the count of each status, then order, stream and filter, which `fit` rows fit."""
    head = Text(no_wrap=True, overflow="ellipsis")
    if not standing.has_news:
        return head.append("asking Helen ..." if standing.lost is None else "waiting for Helen")
    counts = rows.counts()
    for name in ("critical", "unknown", "warning", "ok"):
        head.append(f"{counts[name]} {LETTERS[name]} ", STYLES[name] if counts[name] else "")
    agents = rows.status["agents"]
    head.append(f" {agents['connected']}/{agents['known']} agents  by {order}")
    head.append("  PAUSED" if standing.is_paused else "  live" if standing.is_live else "")
    if filter_text:
        head.append(f"  {fit} fit {filter_text}")
    return head


def foot_line(rows: Rows, standing: Standing, filter_text: str, fit: int) -> str:
    """Return the line below the rows: what is asked, a trouble, the last outcome, or the reason for no rows."""
    if standing.prompt:
        return plain(standing.prompt)
    if standing.lost is not None:
        since, why = standing.lost
        return f"no answer from Helen for {ago(time.time(), since)}, trying again: {plain(why)}"
    for part in ("journal", "store"):
        trouble = (rows.status.get(part) or {}).get("trouble")
        if trouble:
            return f"{part}: {plain(trouble)}"
    if standing.notice:
        return plain(standing.notice)
    if standing.has_news and not fit:
        if filter_text:
            return "no row fits the filter; / changes it"
        return "No checks yet. `helen token` prints the command that makes a machine an agent."
    return ""
