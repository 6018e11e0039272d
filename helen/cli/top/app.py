"""Run `helen top` on the screen: what each key and command does. Textual is an extra.

rows.py orders and filters rows, view.py draws them, status_lines.py writes the lines above and below them, page.py
shows pages over them, feed.py and actions.py call Helen. Calls that block run in threads that end with the program.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import click
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.message import Message
from textual.widgets import Input, Static

from helen.cli.base.client import Client
from helen.cli.base.options import plain
from helen.cli.top import actions
from helen.cli.top.feed import Lost, Streaming, Tell
from helen.cli.top.messages import ActionDone, FeedMessage
from helen.cli.top.page import HELP, KEYS, Page
from helen.cli.top.rows import Rows
from helen.cli.top.status_lines import Standing, foot_line, head_line
from helen.cli.top.view import HEAD, RowsView, head_of, line_of
from helen.web.rows.filters import read_filter
from helen.web.rows.row import SORTS, Row

COMMAND_OF_KEY = {"a": "ack", "d": "downtime", "/": "filter", ":": ""}  # keys that open a line to write on


class Source(Protocol):
    """Name the methods of a Feed that the app calls."""

    def start(self, tell: Tell) -> None: ...

    def stop(self) -> None: ...

    def refresh(self, whole: bool = False) -> None: ...


class Top(App[None]):
    """Show all checks on all agents, and let the user act on them."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { layout: vertical; background: transparent; }
    #head, #columns, #foot { height: 1; }
    #notice { height: auto; max-height: 3; }
    RowsView { height: 1fr; background: transparent; scrollbar-size-vertical: 1; }
    Input { height: 1; border: none; padding: 0; display: none; }
    Input:focus { border: none; }
    Page { background: transparent; }
    Page VerticalScroll { background: $surface; padding: 0 1; height: 100%; }
    """
    BINDINGS = [
        Binding("q", "quit", "End", show=False),
        Binding("enter", "detail", "Detail", show=False),
        Binding("e", "why", "Why", show=False),
        Binding("r", "run", "Run", show=False),
        Binding("a", "write('a')", "Acknowledge", show=False),
        Binding("d", "write('d')", "Downtime", show=False),
        Binding("slash", "write('/')", "Filter", show=False),
        Binding("colon", "write(':')", "Command", show=False),
        Binding("s", "sort", "Sort", show=False),
        Binding("w", "wide", "Wide", show=False),
        Binding("p", "pause", "Pause", show=False),
        Binding("question_mark", "help", "Help", show=False),
        Binding("escape", "leave_line", "Leave the line", show=False),
    ]

    def __init__(self, client: Client, feed: Source, filter_text: str = "", sort: str = SORTS[0]) -> None:
        super().__init__()
        self._client, self._feed = client, feed
        self.rows = Rows()
        self.filter_text, self.sort_by = filter_text, sort
        self._fits = read_filter(filter_text)
        self.standing = Standing()
        self._writing = ""  # the key that opened the line
        self._before = ""  # the filter when the line was opened
        self._row: Row | None = None  # the row for which the line was opened

    def compose(self) -> ComposeResult:
        """Yield the widgets, from top to bottom."""
        yield Static(id="head")
        yield Static(id="columns")
        yield RowsView()
        yield Static(id="notice")
        yield Input()
        yield Static(Text(KEYS, style=HEAD), id="foot")

    def on_mount(self) -> None:
        """Start the feed, and redraw each second for the ages."""
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):  # elsewhere than in the main thread
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.exit)  # the terminal is given back
        self.view.focus()
        self.set_interval(1.0, self._draw)
        self._feed.start(lambda news: self._from_thread(FeedMessage(news)))
        self._draw()

    def on_unmount(self) -> None:
        self._feed.stop()

    @property
    def view(self) -> RowsView:
        return self.query_one(RowsView)

    def _from_thread(self, message: Message) -> None:
        if self.is_running:
            self.post_message(message)

    # ---------------------------------------------------------------------------------------------- messages

    def on_feed_message(self, message: FeedMessage) -> None:
        """Take an update into the rows, or note that Helen or its stream is gone or back."""
        news = message.news
        if isinstance(news, Streaming):
            self.standing.is_live = news.on
        elif isinstance(news, Lost):
            since = time.time() if self.standing.lost is None else self.standing.lost[0]
            self.standing.lost = since, news.why
        else:
            self.standing.lost, self.standing.has_news = None, True
            self.rows.take(news)
            if not self.standing.is_paused:
                self._arrange()
        self._draw()

    def on_action_done(self, message: ActionDone) -> None:
        """Show the outcome of an action: on a page, or below the rows."""
        if message.is_page:
            self._notify_user("")
            self.push_screen(Page(message.title, message.lines))
        else:
            self._notify_user("; ".join(message.lines))
        self._feed.refresh()

    def _arrange(self, is_own_order: bool = False) -> None:
        self.view.show_rows(self.rows.view(self._fits, self.sort_by, time.time()), is_own_order)

    def _notify_user(self, text: str) -> None:
        self.standing.notice = text
        self._draw()

    # ---------------------------------------------------------------------------------------------- drawing

    def _draw(self) -> None:
        if not self.is_mounted or not self.query("#head"):
            return
        about, fit = (self.rows, self.standing), len(self.view.rows)
        self.query_one("#head", Static).update(head_line(*about, self.sort_by, self.filter_text, fit))
        self.query_one("#columns", Static).update(
            Text(line_of(head_of(self.view.is_wide), max(1, self.size.width)), style=HEAD, no_wrap=True)
        )
        self.query_one("#notice", Static).update(Text(foot_line(*about, self.filter_text, fit)))
        self.view.refresh()

    # ---------------------------------------------------------------------------------------------- keys

    def _with_row(self, act: Callable[[Row], None]) -> None:
        row = self.view.chosen
        if row is None:
            self._notify_user(self.view.why_none)
        else:
            act(row)

    def _do(self, title: str, action: Callable[[], list[str]], is_page: bool = False) -> None:
        """Perform an action in a thread; the end of the program does not wait for it."""
        self._notify_user(f"{title} ...")

        def work() -> None:
            try:
                done = ActionDone(title, action(), is_page)
            except click.ClickException as error:
                done = ActionDone(title, [error.format_message()], False)
            self._from_thread(done)

        threading.Thread(target=work, name="helen.top.action", daemon=True).start()

    def action_detail(self) -> None:
        self._with_row(lambda row: self._open(row, actions.detail(row, time.time())))

    def on_rows_view_chosen(self) -> None:
        self.action_detail()

    def _open(self, row: Row, lines: list[str]) -> None:
        self.push_screen(Page(plain(row.name), lines))

    def action_why(self) -> None:
        self._with_row(self._why)

    def _why(self, row: Row) -> None:
        self._do(f"why {row.name}", partial(actions.why, self._client, row), True)

    def action_run(self) -> None:
        self._with_row(self._run_now)

    def _run_now(self, row: Row) -> None:
        self._do(f"running {row.name}", partial(actions.run_now, self._client, row))

    def action_sort(self) -> None:
        self._sort(SORTS[(SORTS.index(self.sort_by) + 1) % len(SORTS)])

    def _sort(self, by: str) -> None:
        if by not in SORTS:
            self._notify_user(f"sort by {', '.join(SORTS)}")
            return
        self.sort_by = by
        self._arrange(is_own_order=True)
        self._notify_user("")

    def action_wide(self) -> None:
        self.view.widen()
        self._draw()

    def action_pause(self) -> None:
        """Keep the rows in place, or let them move again."""
        self.standing.is_paused = not self.standing.is_paused
        if not self.standing.is_paused:
            self._arrange()
        self._draw()

    def action_help(self) -> None:
        self.push_screen(Page("helen top", HELP.splitlines()))

    # ---------------------------------------------------------------------------------------------- the line

    def action_write(self, key: str) -> None:
        """Open the line on which the user writes the rest of a key's command."""
        self._row = self.view.chosen
        if key in "ad" and self._row is None:
            self._notify_user(self.view.why_none)
            return
        name = "" if self._row is None else self._row.name
        self.standing.prompt = {
            "a": f"acknowledge {name}: a comment, or empty", "d": f"downtime for {name}: 30m, or 2h COMMENT",
            "/": "filter", ":": f"command for {name}" if name else "command",
        }[key]  # fmt: skip
        self._writing, self._before = key, self.filter_text
        line = self.query_one(Input)
        line.value = self.filter_text if key == "/" else ""
        line.display = True
        line.focus()
        self._draw()

    def action_leave_line(self) -> None:
        """Close the line without a command, and restore the filter of before."""
        is_filter = self._writing == "/"
        self._close_line()
        if is_filter:
            self._filter(self._before)

    def _close_line(self) -> None:
        self._writing = self.standing.prompt = ""
        self.query_one(Input).display = False
        self.view.focus()
        self._draw()

    def on_input_submitted(self, event: Any) -> None:
        """Close the line, and carry out its command."""
        key, text = self._writing, event.value.strip()
        self._close_line()
        if key:
            self.obey(f"{COMMAND_OF_KEY[key]} {text}".strip(), self._row)

    def on_input_changed(self, event: Any) -> None:
        """Apply a filter while it is written; one that can't be read yet changes nothing."""
        if self._writing == "/":
            self._filter(event.value, is_final=False)

    def _filter(self, text: str, is_final: bool = True) -> None:
        try:
            self._fits = read_filter(text)
        except ValueError as error:
            if is_final:
                self._notify_user(str(error))
            return
        self.filter_text = text.strip()
        self._arrange(is_own_order=True)
        self._notify_user("")

    def obey(self, command: str, row: Row | None) -> None:
        """Carry out a command, as `:` takes it; `row` is the one that was chosen when the line was opened."""
        name, _, rest = command.partition(" ")
        about_row: dict[str, Callable[[Row], None]] = {
            "ack": lambda it: self._do(f"ack {it.name}", partial(actions.acknowledge, self._client, it, rest)),
            "downtime": lambda it: self._do(f"downtime {it.name}", partial(actions.downtime, self._client, it, rest)),
            "why": self._why, "run": self._run_now,
        }  # fmt: skip
        without_row: dict[str, Callable[[], Any]] = {
            "filter": lambda: self._filter(rest), "sort": lambda: self._sort(rest), "help": self.action_help,
            "reload": lambda: self._feed.refresh(whole=True), "quit": self.exit, "q": self.exit, "": lambda: None,
        }  # fmt: skip
        if name in about_row:
            if row is None:
                self._notify_user(self.view.why_none)
            else:
                about_row[name](row)
        elif name in without_row:
            without_row[name]()
        else:
            commands = "filter, sort, run, ack, downtime, why, reload, help and quit"
            self._notify_user(f"{name} is no command: there are {commands}")
