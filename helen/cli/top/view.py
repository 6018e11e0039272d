"""Draw the rows of `helen top`: only visible lines are drawn, so that thousands of rows cost no more than a few."""

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

from helen.cli.base.ages import ago
from helen.cli.base.options import plain
from helen.web.rows.row import LETTERS, Key, Row, shown_check

STYLES = {
    "ok": Style(color="green"), "warning": Style(color="yellow"), "critical": Style(color="red", bold=True),
    "unknown": Style(color="magenta"),
}  # fmt: skip
CURSOR, HEAD = Style(reverse=True), Style(bold=True)
STATE_WIDTH, AGE_WIDTH = 7, 5
NARROW, WIDE = (18, 16), (36, 28)  # of agent and check; narrow leaves 30 of 80 columns for what the check says


def cells_of(row: Row, now: float, is_wide: bool) -> list[tuple[str, int]]:
    """Return each column's text and width; the last one takes the rest of the line. `now` is unix time in seconds."""
    agent, check = WIDE if is_wide else NARROW
    state = f"{LETTERS[row.status]} {row.soft}{row.marks}".rstrip()
    cells = [(state, STATE_WIDTH), (row.agent, agent), (row.shown_check, check), (ago(now, row.since), AGE_WIDTH)]
    if is_wide:
        took = row.result.get("took_ms")
        cells += [("" if row.heard is None else ago(now, row.heard), AGE_WIDTH)]
        cells += [("" if took is None else f"{took:.0f} ms", 9), (str(row.result.get("code") or "")[:8], 8)]
    return [*cells, (row.summary, 0)]


def head_of(is_wide: bool) -> list[tuple[str, int]]:
    """Return each column's heading and width."""
    agent, check = WIDE if is_wide else NARROW
    cells = [("STATE", STATE_WIDTH), ("AGENT", agent), ("CHECK", check), ("SINCE", AGE_WIDTH)]
    if is_wide:
        cells += [("HEARD", AGE_WIDTH), ("TOOK", 9), ("CODE", 8)]
    return [*cells, ("SUMMARY", 0)]


def line_of(cells: Sequence[tuple[str, int]], width: int) -> str:
    """Return the cells as one line of exactly this width; wide letters count twice."""
    shown = [set_cell_size(plain(text), size) if size else plain(text) for text, size in cells]
    return set_cell_size(" ".join(shown), width)


class RowsView(ScrollView, can_focus=True):
    """Show a list of rows with a cursor, which stays on its check wherever that moves.

    Keys act on `chosen`. It is None while the cursor's check is not on the screen, so that no other one takes its place
    under the user's fingers.
    """

    BINDINGS = [
        Binding("j,down", "move(1)", "Down", show=False),
        Binding("k,up", "move(-1)", "Up", show=False),
        Binding("g,home", "jump(0)", "First", show=False),
        Binding("G,end", "jump(-1)", "Last", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
    ]

    class Chosen(Message):
        """Report that a row was clicked twice."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[Row] = []
        self.cursor = 0
        self.is_wide = False
        self._key: Key | None = None  # of the cursor's check; it is kept while the check is not in the list
        self._is_moved = False  # by the user; until then the worst rows stay in sight

    @property
    def chosen(self) -> Row | None:
        return self._own if self._is_in_sight else None

    @property
    def _own(self) -> Row | None:
        """Return the row of the cursor's check, if it is in the list."""
        row = self.rows[self.cursor] if self.cursor < len(self.rows) else None
        return row if row is not None and row.key == self._key else None

    @property
    def _is_in_sight(self) -> bool:
        return 0 <= self.cursor - self.scroll_offset.y < max(1, self.size.height)

    @property
    def why_none(self) -> str:
        """Return the reason for which no row is chosen."""
        if self._key is None:
            return "no row is chosen"
        agent, check = self._key
        name = f"{agent}/{shown_check(check)}"
        if self._own is None:
            return f"{name} is not in the list any more: choose a row"
        return f"{name} is out of sight: j or k leads to it, g to the first row"

    def show_rows(self, rows: list[Row], is_own_order: bool = False) -> None:
        """Replace the rows, and keep the cursor on its check.

        `is_own_order`: the user has filtered or sorted. Then, as at the start, the first row takes the place of a check
        that is not in the list.
        """
        is_first = not self.rows and self._key is None
        self.rows = rows
        place = next((at for at, row in enumerate(rows) if row.key == self._key), None)
        if place is None and rows and (is_own_order or is_first):
            place, self._key = 0, rows[0].key
        self.cursor = min(self.cursor, max(0, len(rows) - 1)) if place is None else place
        self.virtual_size = Size(0, len(rows))
        if self._is_moved or is_own_order:
            self._follow()
        self.refresh()

    def widen(self) -> None:
        self.is_wide = not self.is_wide
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw line `y` of the visible part."""
        at, width = y + self.scroll_offset.y, self.size.width
        if at >= len(self.rows):
            return Strip.blank(width, Style())
        row = self.rows[at]
        text = line_of(cells_of(row, time.time(), self.is_wide), width)
        style = STYLES[row.status]
        if row.key == self._key:
            return Strip([Segment(text, style + CURSOR)], width)
        return Strip([Segment(text[:STATE_WIDTH], style), Segment(text[STATE_WIDTH:], Style())], width)

    def action_move(self, by: int) -> None:
        self._to(self.cursor + by)

    def action_jump(self, to: int) -> None:
        self._to(to if to >= 0 else len(self.rows) - 1)

    def action_page(self, by: int) -> None:
        self._to(self.cursor + by * max(1, self.size.height - 1))

    def on_click(self, event: object) -> None:
        """Move the cursor to the clicked row; a second click chooses it."""
        at = int(getattr(event, "y", 0)) + self.scroll_offset.y
        if at < len(self.rows):
            is_again = self.rows[at].key == self._key
            self._to(at)
            if is_again:
                self.post_message(self.Chosen())

    def _to(self, at: int) -> None:
        self.cursor = max(0, min(at, len(self.rows) - 1))
        self._key = self.rows[self.cursor].key if self.rows else None
        self._is_moved = True
        self._follow()
        self.refresh()

    def _follow(self) -> None:
        """Scroll so that the cursor is visible."""
        top, height = self.scroll_offset.y, max(1, self.size.height)
        if self.cursor < top:
            self.scroll_to(y=self.cursor, animate=False, immediate=True)
        elif self.cursor >= top + height:
            self.scroll_to(y=self.cursor - height + 1, animate=False, immediate=True)
