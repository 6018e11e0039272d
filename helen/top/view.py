"""The rows on the screen: only those lines are drawn that can be seen, so thousands cost what a screenful does."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.cells import set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from helen.cli.options import plain
from helen.cli.show import ago
from helen.top.board import LETTERS, Key, Row

STYLES = {
    "ok": Style(color="green"), "warning": Style(color="yellow"), "critical": Style(color="red", bold=True),
    "unknown": Style(color="magenta"),
}  # fmt: skip
CURSOR, HEAD = Style(reverse=True), Style(bold=True)
STATE_WIDTH, AGE_WIDTH = 7, 5
NARROW, WIDE = (18, 16), (36, 28)  # of agent and check; narrow leaves 30 of 80 columns for what the check says


def cells_of(row: Row, now: float, is_wide: bool) -> list[tuple[str, int]]:
    """Each column's text and width; the last one takes the rest of the line."""
    agent, check = WIDE if is_wide else NARROW
    state = f"{LETTERS[row.status]} {row.soft}{row.marks}".rstrip()
    cells = [(state, STATE_WIDTH), (row.agent, agent), (row.shown_check, check), (ago(now, row.since), AGE_WIDTH)]
    if is_wide:
        took = row.result.get("took_ms")
        cells += [("" if row.heard is None else ago(now, row.heard), AGE_WIDTH)]
        cells += [("" if took is None else f"{took:.0f} ms", 9), (str(row.result.get("code") or "")[:8], 8)]
    return [*cells, (row.summary, 0)]


def head_of(is_wide: bool) -> list[tuple[str, int]]:
    agent, check = WIDE if is_wide else NARROW
    cells = [("STATE", STATE_WIDTH), ("AGENT", agent), ("CHECK", check), ("SINCE", AGE_WIDTH)]
    if is_wide:
        cells += [("HEARD", AGE_WIDTH), ("TOOK", 9), ("CODE", 8)]
    return [*cells, ("WHAT IT SAYS", 0)]


def line_of(cells: Sequence[tuple[str, int]], width: int) -> str:
    """One line, exactly this wide; wide letters count twice."""
    shown = [set_cell_size(plain(text), size) if size else plain(text) for text, size in cells]
    return set_cell_size(" ".join(shown), width)


class BoardView(ScrollView, can_focus=True):
    """A list of rows with a cursor, which stays on its row when the order changes."""

    BINDINGS = [
        Binding("j,down", "move(1)", "Down", show=False),
        Binding("k,up", "move(-1)", "Up", show=False),
        Binding("g,home", "jump(0)", "First", show=False),
        Binding("G,end", "jump(-1)", "Last", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
    ]

    class Chosen(Message):
        """A row was clicked twice."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[Row] = []
        self.cursor = 0
        self.is_wide = False

    @property
    def chosen(self) -> Row | None:
        return self.rows[self.cursor] if self.rows else None

    def show_rows(self, rows: list[Row]) -> None:
        key: Key | None = self.chosen.key if self.chosen is not None else None
        self.rows = rows
        place = next((at for at, row in enumerate(rows) if row.key == key), None)
        self.cursor = min(self.cursor, max(0, len(rows) - 1)) if place is None or self.cursor == 0 else place
        self.virtual_size = Size(0, len(rows))
        self._follow()
        self.refresh()

    def widen(self) -> None:
        self.is_wide = not self.is_wide
        self.refresh()

    def render_line(self, y: int) -> Strip:
        at, width = y + self.scroll_offset.y, self.size.width
        if at >= len(self.rows):
            return Strip.blank(width, Style())
        row = self.rows[at]
        text = line_of(cells_of(row, time.time(), self.is_wide), width)
        style = STYLES[row.status]
        if at == self.cursor:
            return Strip([Segment(text, style + CURSOR)], width)
        return Strip([Segment(text[:STATE_WIDTH], style), Segment(text[STATE_WIDTH:], Style())], width)

    def action_move(self, by: int) -> None:
        self._to(self.cursor + by)

    def action_jump(self, to: int) -> None:
        self._to(to if to >= 0 else len(self.rows) - 1)

    def action_page(self, by: int) -> None:
        self._to(self.cursor + by * max(1, self.size.height - 1))

    def on_click(self, event: object) -> None:
        at = int(getattr(event, "y", 0)) + self.scroll_offset.y
        if at < len(self.rows):
            is_again = at == self.cursor
            self._to(at)
            if is_again:
                self.post_message(self.Chosen())

    def _to(self, at: int) -> None:
        self.cursor = max(0, min(at, len(self.rows) - 1))
        self._follow()
        self.refresh()

    def _follow(self) -> None:
        """Bring the cursor into sight."""
        top, height = self.scroll_offset.y, max(1, self.size.height)
        if self.cursor < top:
            self.scroll_to(y=self.cursor, animate=False)
        elif self.cursor >= top + height:
            self.scroll_to(y=self.cursor - height + 1, animate=False)
