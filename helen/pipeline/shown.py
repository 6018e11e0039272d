"""Rows of a report as a table for people, as JSON, as CSV, or as one HTML page that needs nothing else. Pure."""

from __future__ import annotations

import csv
import html
import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import frozen

from helen.pipeline.errors import PipelineError

FORMATS = ("text", "json", "csv", "html")
Row = Mapping[str, Any]
_STYLE = """
body{font:14px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:75rem;padding:0 1rem;color:#1c2733;background:#fff}
table{border-collapse:collapse;width:100%}th,td{padding:.25rem .75rem;text-align:left;border-bottom:1px solid #dde3e9}
th{position:sticky;top:0;background:#fff}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
svg{display:block}p{color:#566573}
@media(prefers-color-scheme:dark){body,th{background:#11181f;color:#dde5ec}th,td{border-color:#2a3540}p{color:#93a1ae}}
"""


@frozen
class Report:
    """What a job found. `plot` draws a row as SVG, for the page only."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Row]
    notes: Sequence[str] = ()
    plot: Callable[[Row], str] | None = None


def render(report: Report, form: str) -> str:
    """The report in one of FORMATS, ending with a newline."""
    if form not in _RENDERED:
        raise PipelineError(f"There is no format {form!r}: {', '.join(FORMATS)}.")
    return _RENDERED[form](report)


def plain(value: Any) -> str:
    """A value for people, safe on a terminal: what could move the cursor is shown as an escape."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4f}".rstrip("0").rstrip(".") if abs(value) < 1e15 else f"{value:g}"
    if isinstance(value, dict):
        return ", ".join(f"{key} {plain(item)}" for key, item in value.items())
    text = str(value)
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def bars(parts: Sequence[tuple[str, float, str]], width: int = 240, height: int = 14) -> str:
    """One bar of coloured parts, (name, size, colour), with their names to be hovered over."""
    total = sum(size for _, size, _ in parts) or 1.0
    at, drawn = 0.0, []
    for name, size, colour in parts:
        wide = width * size / total
        title = f"<title>{html.escape(name)} {plain(size)}</title>"
        drawn.append(f'<rect x="{at:.2f}" width="{wide:.2f}" height="{height}" fill="{colour}">{title}</rect>')
        at += wide
    return f'<svg width="{width}" height="{height}" role="img">{"".join(drawn)}</svg>'


def line(values: Sequence[float], width: int = 240, height: int = 40) -> str:
    """A curve without axes."""
    if len(values) < 2:
        return ""
    low, high = min(values), max(values)
    scale = (height - 2) / (high - low) if high > low else 0.0
    points = " ".join(
        f"{width * at / (len(values) - 1):.1f},{height - 1 - (value - low) * scale:.1f}"
        for at, value in enumerate(values)
    )
    curve = f'<polyline points="{points}" fill="none" stroke="#2b6cb0" stroke-width="1.5"/>'
    title = f"<title>{plain(low)} to {plain(high)}</title>"
    return f'<svg width="{width}" height="{height}" role="img">{title}{curve}</svg>'


def _text(report: Report) -> str:
    cells = [[plain(row.get(name)) for name in report.columns] for row in report.rows]
    heads = [name.replace("_", " ") for name in report.columns]
    widths = [max(len(row[at]) for row in [heads, *cells]) for at in range(len(heads))]
    right = _right(report)
    lines = [
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in [heads, *cells]
    ]  # fmt: skip
    return "\n".join([*lines, *report.notes]) + "\n"


def _json(report: Report) -> str:
    document = {"title": report.title, "rows": [dict(row) for row in report.rows], "notes": list(report.notes)}
    return json.dumps(document, ensure_ascii=False, indent=2, default=str) + "\n"


def _csv(report: Report) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(report.columns)
    for row in report.rows:
        writer.writerow([_cell(row.get(name)) for name in report.columns])
    return out.getvalue()


def _cell(value: Any) -> Any:
    """A text that a spreadsheet would take for a formula gets a quote in front: agents choose names and summaries."""
    if isinstance(value, dict):
        return json.dumps(value)
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return "'" + value
    return value


def _html(report: Report) -> str:
    right = _right(report)
    names = [*report.columns, *([""] if report.plot else [])]
    kinds = [*(' class="n"' if each else "" for each in right), *([""] if report.plot else [])]
    head = "".join(
        f"<th{kind}>{html.escape(name.replace('_', ' '))}</th>" for name, kind in zip(names, kinds, strict=True)
    )
    body = []
    for row in report.rows:
        cells = [html.escape(plain(row.get(name))) for name in report.columns]
        cells += [report.plot(row)] if report.plot else []
        body.append("<tr>" + "".join(f"<td{k}>{c}</td>" for k, c in zip(kinds, cells, strict=True)) + "</tr>")
    notes = "".join(f"<p>{html.escape(note)}</p>" for note in report.notes)
    title = html.escape(report.title)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
        f"<h1>{title}</h1>{notes}<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></html>\n"
    )


def _right(report: Report) -> list[bool]:
    """Whether a column holds numbers."""
    return [
        any(isinstance(row.get(name), int | float) for row in report.rows)
        and all(isinstance(row.get(name), int | float | None) for row in report.rows)
        for name in report.columns
    ]


_RENDERED: Mapping[str, Callable[[Report], str]] = {"text": _text, "json": _json, "csv": _csv, "html": _html}
