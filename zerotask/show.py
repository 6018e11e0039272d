"""Prints values, fields and tables for the commands, as text or as JSON."""

from __future__ import annotations

import json
from typing import Any

from groundwork.safe_text import safe_line
from groundwork.terminal import echo, echo_json

WIDEST = 60  # characters of one cell; longer text is cut, and --output json has all of it


def value(value: Any, as_json: bool) -> None:
    """Print one value."""
    echo_json(value) if as_json else echo(value)


def fields(found: dict[str, Any], as_json: bool) -> None:
    """Print a line for each field."""
    if as_json:
        value(found, as_json=True)
        return
    width = max(map(len, found), default=0)
    for name, content in found.items():
        echo(f"{name:<{width}}  {_cell(content)}")


def table(rows: list[dict[str, Any]], columns: list[str], as_json: bool) -> None:
    """Print these columns of rows, under a heading; as JSON, whole rows."""
    if as_json:
        value(rows, as_json=True)
        return
    cells = [columns, *([_cell(row.get(column)) for column in columns] for row in rows)]
    widths = [max(len(line[n]) for line in cells) for n in range(len(columns))]
    for line in cells:
        echo("  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip())


def _cell(content: Any) -> str:
    if content is None:
        return "-"
    if isinstance(content, str):
        text = content
    elif isinstance(content, list):
        text = ",".join(map(str, content)) or "-"
    else:
        text = json.dumps(content, ensure_ascii=False)
    text = safe_line(text)  # of a node or a client
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"
