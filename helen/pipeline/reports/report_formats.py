"""Renders a report as a table for people, as JSON, as CSV, or as one HTML page that needs nothing else.

Rows may be more than the memory has room for: each format reads them once."""

from __future__ import annotations

import csv
import html
import io
import itertools
import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import IO, Any

from attrs import evolve, field, frozen

from groundwork.figures import figure
from groundwork.safe_text import json_text, safe_line, safe_text
from helen.pipeline.lake.errors import PipelineError

FORMATS = ("text", "json", "csv", "html")
# Where a spreadsheet may begin a formula (OWASP): at a sign at the begin of a cell or of a line, or behind a semicolon
# or a tab, with blanks and quotes before it. Signs are full-width and small as well, and the minus of mathematics.
_SIGNS = r"=+\-@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b\u2212"
_FORMULA = re.compile(rf'\A(?=[\t\n])|(?:\A|(?<=[;\t\n]))(?=[ "]*[{_SIGNS}])')
CELLS_IN_MEMORY = 8 << 20
_FIGURES = (int, float, Decimal, date)  # and what is made of them: text of nobody
Row = Mapping[str, Any]
# What a word of a column's name says of its unit, and the columns that are in the unit of the row's metric.
UNITS = {"percent": "%", "seconds": "s", "s": "s", "ms": "ms", "kib": "KiB", "bytes": "B"}
AVAILABILITY = "% of the time"  # is told to four decimals, as docs/pipeline.rst says
OF_METRIC = frozenset(
    ("value", "usual", "now", "per_day", "limit", "mean", "min", "max", "sum", "first", "last", "increase")
)
_STYLE = """
body{font:14px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:75rem;padding:0 1rem;color:#1c2733;background:#fff}
table{border-collapse:collapse;width:100%}th,td{padding:.25rem .75rem;text-align:left;border-bottom:1px solid #dde3e9}
th{position:sticky;top:0;background:#fff}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
svg{display:block}p{color:#566573}
@media(prefers-color-scheme:dark){body,th{background:#11181f;color:#dde5ec}th,td{border-color:#2a3540}p{color:#93a1ae}}
"""


@frozen
class Report:
    """Holds the rows of a job. `plot` draws a row as SVG, for the page only.

    `units` are of columns whose names don't say theirs; `hidden` columns are in the exact formats alone.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Row]
    notes: Sequence[str] = ()
    plot: Callable[[Row], str] | None = None
    units: Mapping[str, str] = field(factory=dict)
    hidden: frozenset[str] = frozenset()

    @property
    def shown(self) -> list[str]:
        """Return the columns of the formats for people."""
        return [name for name in self.columns if name not in self.hidden]

    def cell(self, row: Row, name: str) -> str:
        """Return a value of a row for people, in its unit as far as that is known."""
        return plain(row.get(name), self.units[name] if name in self.units else unit_of(name, row))


def render(report: Report, form: str) -> str:
    """Return the report in one of FORMATS, ending with a newline. Raises PipelineError for any other format."""
    return "".join(pieces(report, form))


def pieces(report: Report, form: str, only_ascii: bool = False) -> Iterator[str]:
    """Yield the same text in pieces, so that rows which are made one by one are never all in memory.

    `only_ascii`: JSON for a terminal. Raises PipelineError for a format that is none of FORMATS.
    """
    if form == "json":
        return _json(report, only_ascii)
    if form not in _RENDERED:
        raise PipelineError(f"There is no format {form!r}: {', '.join(FORMATS)}.")
    return _RENDERED[form](report)


def unit_of(name: str, row: Row) -> str:
    """Return the unit of a column, by a word of its name, or by the `unit` of a row of a metric."""
    if name in OF_METRIC and isinstance(row.get("unit"), str):
        return str(row["unit"])
    return next((UNITS[word] for word in name.partition("_per_")[0].split("_") if word in UNITS), "")


def heading(name: str) -> str:
    """Return the heading of a column: its name without the unit, which each cell has."""
    words = name.split("_")
    return " ".join([word for word in words if word not in UNITS or word == "percent"] or words)


def plain(value: Any, unit: str = "") -> str:
    """Return a value for people, safe on a terminal: characters that could move the cursor become escapes."""
    if value is None:
        return ""
    if unit == AVAILABILITY:
        return f"{value:.4f}".rstrip("0").rstrip(".") + " %"
    if isinstance(value, float) or (isinstance(value, int) and not isinstance(value, bool)):
        return figure(value, unit)
    if isinstance(value, dict):
        return ", ".join(f"{key} {plain(item, unit)}" for key, item in value.items())
    return safe_line(value)


def bars(parts: Sequence[tuple[str, float, str]], width: int = 240, height: int = 14) -> str:
    """Draw one bar of coloured parts, (name, size, colour), with their names to be hovered over."""
    total = sum(size for _, size, _ in parts) or 1.0
    at, drawn = 0.0, []
    for name, size, colour in parts:
        wide = width * size / total
        title = f"<title>{html.escape(name)} {plain(size)}</title>"
        drawn.append(f'<rect x="{at:.2f}" width="{wide:.2f}" height="{height}" fill="{colour}">{title}</rect>')
        at += wide
    return f'<svg width="{width}" height="{height}" role="img">{"".join(drawn)}</svg>'


def line(values: Sequence[float], width: int = 240, height: int = 40) -> str:
    """Draw a curve without axes."""
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


@frozen
class _Cells:
    """Holds the cells of a report for people in a file, since columns are as wide as the widest of all rows."""

    file: IO[bytes]
    widths: Sequence[int]
    right: Sequence[bool]  # for each column: it holds numbers

    @classmethod
    def of(cls, report: Report) -> _Cells:
        """Write the cells; up to CELLS_IN_MEMORY bytes stay in memory."""
        names = report.shown
        file: IO[bytes] = tempfile.SpooledTemporaryFile(CELLS_IN_MEMORY)  # noqa: SIM115 - it is gone with its reader
        widths = [len(heading(name)) for name in names]
        some, all_of = [False] * len(names), [True] * len(names)
        for row in report.rows:
            cells = [report.cell(row, name) for name in names]
            for at, name in enumerate(names):
                value = row.get(name)
                widths[at] = max(widths[at], len(cells[at]))
                some[at] |= isinstance(value, int | float)
                all_of[at] &= isinstance(value, int | float | None)
            drawn = [report.plot(row)] if report.plot else []
            file.write(json.dumps([*cells, *drawn]).encode() + b"\n")
        file.seek(0)
        return cls(file, widths, [one and other for one, other in zip(some, all_of, strict=True)])

    def rows(self) -> Iterator[list[str]]:
        """Yield the cells of each row, and its plot behind them if there is one. Once."""
        with self.file:
            yield from map(json.loads, self.file)


def _text(report: Report) -> Iterator[str]:
    names, cells = report.shown, _Cells.of(evolve(report, plot=None))
    for row in itertools.chain([[heading(name) for name in names]], cells.rows()):
        columns = zip(row, cells.widths, cells.right, strict=True)
        yield "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width) for cell, width, to_right in columns
        ).rstrip() + "\n"  # fmt: skip
    yield from (f"{note}\n" for note in report.notes)


def _json(report: Report, only_ascii: bool) -> Iterator[str]:
    """Yield the text of json.dumps for the whole document, row by row."""

    def told(value: Any, indent: str) -> str:
        return json_text(value, only_ascii, indent=2, default=str).replace("\n", f"\n{indent}")

    yield f'{{\n  "title": {told(report.title, "  ")},\n  "rows": ['
    is_first = True
    for row in report.rows:
        yield f"{'' if is_first else ','}\n    {told(dict(row), '    ')}"
        is_first = False
    yield f'{"" if is_first else f"{chr(10)}  "}],\n  "notes": {told(list(report.notes), "  ")}\n}}\n'


def _csv(report: Report) -> Iterator[str]:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for row in itertools.chain([report.columns], ([row.get(name) for name in report.columns] for row in report.rows)):
        writer.writerow(map(cell, row))
        yield out.getvalue()
        out.seek(0)
        out.truncate()


def cell(value: Any) -> Any:
    """Return a cell. Text like a spreadsheet's formula gets a quote in front: agents choose names and summaries.

    So does what follows a semicolon, a tab or a line end in it: a spreadsheet may take them for the end of a cell. Maps
    and lists are text of agents as well.
    """
    if value is None or isinstance(value, _FIGURES):
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return _FORMULA.sub("'", safe_text(text))


def _html(report: Report) -> Iterator[str]:
    cells = _Cells.of(report)
    names = [*report.shown, *([""] if report.plot else [])]
    kinds = [*(' class="n"' if each else "" for each in cells.right), *([""] if report.plot else [])]
    head = "".join(f"<th{kind}>{html.escape(heading(name))}</th>" for name, kind in zip(names, kinds, strict=True))
    notes = "".join(f"<p>{html.escape(note)}</p>" for note in report.notes)
    title = html.escape(report.title)
    yield (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
        f"<h1>{title}</h1>{notes}<table><thead><tr>{head}</tr></thead><tbody>"
    )
    count = len(report.shown)
    for row in cells.rows():
        escaped = [*map(html.escape, row[:count]), *row[count:]]
        yield "<tr>" + "".join(f"<td{k}>{c}</td>" for k, c in zip(kinds, escaped, strict=True)) + "</tr>"
    yield "</tbody></table></html>\n"


_RENDERED: Mapping[str, Callable[[Report], Iterator[str]]] = {"text": _text, "csv": _csv, "html": _html}
