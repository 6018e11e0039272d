"""What the commands print: values, fields and tables, for people or as JSON."""

from __future__ import annotations

import json
from typing import Any

import click

WIDEST = 60  # characters of one cell; what is longer is cut, --output json has all of it


def value(value: Any, as_json: bool) -> None:
    click.echo(json.dumps(value, ensure_ascii=False) if as_json else value)


def fields(told: dict[str, Any], as_json: bool) -> None:
    """A line for each field."""
    if as_json:
        value(told, as_json=True)
        return
    width = max(map(len, told), default=0)
    for name, content in told.items():
        click.echo(f"{name:<{width}}  {_cell(content)}")


def table(rows: list[dict[str, Any]], columns: list[str], as_json: bool) -> None:
    if as_json:
        value(rows, as_json=True)
        return
    cells = [columns, *([_cell(row.get(column)) for column in columns] for row in rows)]
    widths = [max(len(line[n]) for line in cells) for n in range(len(columns))]
    for line in cells:
        click.echo("  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip())


def _cell(content: Any) -> str:
    if content is None:
        return "-"
    if isinstance(content, str):
        text = content
    elif isinstance(content, list):
        text = ",".join(map(str, content)) or "-"
    else:
        text = json.dumps(content, ensure_ascii=False)
    # What a node or a client said is hostile text: no control characters reach the terminal.
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"
