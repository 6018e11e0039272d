"""Draw boxes, arrows and text as SVG, readable at the width of a page, in light and dark. Standard library alone."""

from __future__ import annotations

from html import escape

WIDTH = 720  # units, which are pixels where the page is as wide
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
MONO = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
# Widths of letters as parts of the font's size, on the safe side: DejaVu is the widest of the fonts above.
SANS_WIDTH, BOLD_WIDTH, MONO_WIDTH = 0.58, 0.65, 0.605
TITLE, TEXT, SMALL = 13, 12, 11
LINE = 16  # from one line of text to the next
PAD = 9

STYLE = f"""\
text {{ font: {TEXT}px {FONT}; fill: #1d2433; }}
.title {{ font-weight: 600; font-size: {TITLE}px; }}
.code {{ font: {SMALL}px {MONO}; fill: #4b5a78; }}
.label {{ font-size: {TEXT}px; fill: #7a3b00; }}
.page {{ fill: #ffffff; }}
.room {{ fill: #f4f6fa; stroke: #c3ccdc; }}
.box {{ fill: #ffffff; stroke: #5b6b8c; }}
.line {{ fill: none; stroke: #5b6b8c; stroke-width: 1.4; }}
.tip {{ fill: #5b6b8c; }}
@media (prefers-color-scheme: dark) {{
text {{ fill: #e6eaf2; }}
.code {{ fill: #a9b6d0; }}
.label {{ fill: #ffc58a; }}
.page {{ fill: #14181f; }}
.room {{ fill: #1c222d; stroke: #3c4860; }}
.box {{ fill: #262e3c; stroke: #8fa0c2; }}
.line {{ stroke: #8fa0c2; }}
.tip {{ fill: #8fa0c2; }}
}}
"""


class TooWide(ValueError):
    """Report text that doesn't fit into its box: it would run over the edge, which no test of bytes sees."""


class Canvas:
    """Collect the parts of one drawing, from top to bottom."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.height = 0.0
        self._parts: list[str] = []

    def text(self, x: float, y: float, line: str, kind: str = "", anchor: str = "start") -> None:
        """Write one line with its baseline at `y`."""
        classes = f' class="{kind}"' if kind else ""
        anchored = "" if anchor == "start" else f' text-anchor="{anchor}"'
        self._parts.append(f'<text x="{x:g}" y="{y:g}"{classes}{anchored}>{escape(line)}</text>')
        self._reach(y + 4)

    def room(self, x: float, y: float, width: float, height: float, title: str) -> None:
        """Draw an area that holds boxes: a machine, a process, a side of a conversation."""
        self._frame("room", x, y, width, height)
        self._fit(title, width, TITLE * BOLD_WIDTH)
        self.text(x + PAD, y + LINE + 2, title, "title")

    def box(
        self, x: float, y: float, width: float, title: str, lines: list[str], code: list[str] | None = None
    ) -> float:
        """Draw a box with a title, lines of text, and lines that name code; return its height."""
        height = box_height(lines, code or [], bool(title))
        self._frame("box", x, y, width, height)
        at = y + LINE + 1
        for kind, each, unit in (
            *(("title", line, TITLE * BOLD_WIDTH) for line in ([title] if title else [])),
            *(("", line, TEXT * SANS_WIDTH) for line in lines),
            *(("code", line, SMALL * MONO_WIDTH) for line in code or []),
        ):
            self._fit(each, width, unit)
            self.text(x + PAD, at, each, kind)
            at += LINE
        return height

    def arrow(self, points: list[tuple[float, float]], label: str = "", at: tuple[float, float] | None = None,
              anchor: str = "middle", both: bool = False) -> None:  # fmt: skip
        """Draw a line through these points with a tip at its end (or both), and a label at `at`."""
        path = " ".join(f"{'M' if number == 0 else 'L'}{x:g},{y:g}" for number, (x, y) in enumerate(points))
        self._parts.append(f'<path class="line" d="{path}"/>')
        self._tip(points[-2], points[-1])
        if both:
            self._tip(points[1], points[0])
        if label:
            (x, y), (x_end, y_end) = points[0], points[-1]
            x, y = at or ((x + x_end) / 2, (y + y_end) / 2 - 5)
            self.text(x, y, label, "label", anchor)
        self._reach(max(y for _, y in points))

    def svg(self) -> str:
        """Return the whole drawing."""
        height = self.height + 12
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img">\n'
            f"<title>{escape(self.title)}</title>\n<style>\n{STYLE}</style>\n"
            f'<rect class="page" width="{WIDTH}" height="{height:g}" rx="6"/>\n' + "\n".join(self._parts) + "\n</svg>\n"
        )

    def _frame(self, kind: str, x: float, y: float, width: float, height: float) -> None:
        self._parts.append(f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="5"/>')
        self._reach(y + height)

    def _tip(self, before: tuple[float, float], end: tuple[float, float]) -> None:
        (x, y), (x_end, y_end) = before, end
        length = ((x_end - x) ** 2 + (y_end - y) ** 2) ** 0.5
        along = (x_end - x) / length, (y_end - y) / length
        back = x_end - 8 * along[0], y_end - 8 * along[1]
        sides = [(back[0] - 4 * side * along[1], back[1] + 4 * side * along[0]) for side in (1, -1)]
        points = " ".join(f"{px:.4g},{py:.4g}" for px, py in [end, *sides])
        self._parts.append(f'<polygon class="tip" points="{points}"/>')

    def _fit(self, line: str, width: float, unit: float) -> None:
        if len(line) * unit + 2 * PAD > width:
            raise TooWide(f"{line!r} needs {len(line) * unit + 2 * PAD:.0f} of {width:g} units")

    def _reach(self, y: float) -> None:
        self.height = max(self.height, y)


def box_height(lines: list[str], code: list[str], title: bool = True) -> float:
    """Return the height of a box with so many lines."""
    return (len(lines) + len(code) + title) * LINE + 12
