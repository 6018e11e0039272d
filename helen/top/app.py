"""`helen top` on the screen: keys, lines above and below the rows, and what is asked of Helen. Textual is an extra.

The rows' order and filters are board.py's, drawing is view.py's, asking is feed.py's and deeds.py's. Whatever blocks is
done in threads that end with the program.
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
from textual.containers import VerticalScroll
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from helen.cli.client import Client
from helen.cli.options import plain
from helen.cli.show import ago
from helen.top import deeds
from helen.top.board import LETTERS, SORTS, Board, Row, Update, read_filter
from helen.top.feed import Live, Lost, Tell
from helen.top.view import HEAD, STYLES, BoardView, head_of, line_of

KEYS = "jk move  Enter more  e why  r run  a ack  d downtime  / find  s sort  ? help  q"  # fits into 80 columns
HELP = """\
j k g G arrows PageUp PageDown   move            Enter   the check with its figures
e   why this state, and who was told             r       run it now
a   take the problem over                        d       a downtime: 30m, or 2h and why
/   filter: state:crit agent:web-* check:disk role=web since:1h is:open text
    state: ok warning critical unknown problem   is: open soft acked held flapping stale away
s   sort by problems, agent, check, since, heard
w   wide rows          p   pause          :   command          q   end

OK WA CR UN   ok, warning, critical, unknown     1/3     not confirmed yet
A   acknowledged       D   downtime       S   silence
P   what it depends on is broken          F   flapping

: filter TEXT | sort KEY | run | ack COMMENT | downtime 30m | why | reload | quit"""
NEEDS_WORDS = {"a": "ack", "d": "downtime", "/": "filter", ":": ""}  # keys that open a line to write on


class Source(Protocol):
    """What a Feed is to the app."""

    def start(self, tell: Tell) -> None: ...

    def stop(self) -> None: ...

    def refresh(self, whole: bool = False) -> None: ...


class Heard(Message):
    """Something of the feed's, brought into the app's own thread."""

    def __init__(self, told: Update | Lost | Live) -> None:
        super().__init__()
        self.told = told


class Done(Message):
    """What came of something that was asked of Helen."""

    def __init__(self, title: str, lines: list[str], is_page: bool) -> None:
        super().__init__()
        self.title, self.lines, self.is_page = title, lines, is_page


class Page(ModalScreen[None]):
    """A page of text over the board."""

    BINDINGS = [Binding("escape,q,enter", "close", "Back", show=False)]

    def __init__(self, title: str, lines: list[str]) -> None:
        super().__init__()
        self._title, self.lines = title, lines

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(Text(self._title, style=HEAD))
            yield Static(Text("\n".join(["", *self.lines, "", "Esc leads back"])))

    def action_close(self) -> None:
        self.dismiss()


class Top(App[None]):
    """The board."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { layout: vertical; background: transparent; }
    #head, #columns, #foot { height: 1; }
    #said { height: auto; max-height: 3; }
    BoardView { height: 1fr; background: transparent; scrollbar-size-vertical: 1; }
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
        self.board = Board()
        self.filter_text, self.sort_by = filter_text, sort
        self._fits = read_filter(filter_text)
        self.is_paused = self.is_live = False
        self.lost: tuple[float, str] | None = None
        self._has_heard = False
        self.said = ""
        self._writing = ""  # the key that opened the line
        self._before = ""  # the filter when the line was opened
        self._row: Row | None = None  # whose line it is

    def compose(self) -> ComposeResult:
        yield Static(id="head")
        yield Static(id="columns")
        yield BoardView()
        yield Static(id="said")
        yield Input()
        yield Static(Text(KEYS, style=HEAD), id="foot")

    def on_mount(self) -> None:
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):  # elsewhere than in the main thread
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.exit)  # the terminal is given back
        self.view.focus()
        self.set_interval(1.0, self._draw)
        self._feed.start(lambda told: self._from_thread(Heard(told)))
        self._draw()

    def on_unmount(self) -> None:
        self._feed.stop()

    @property
    def view(self) -> BoardView:
        return self.query_one(BoardView)

    def _from_thread(self, message: Message) -> None:
        if self.is_running:
            self.post_message(message)

    # ---------------------------------------------------------------------------------------------- what is heard

    def on_heard(self, message: Heard) -> None:
        told = message.told
        if isinstance(told, Live):
            self.is_live = told.on
        elif isinstance(told, Lost):
            self.lost = self.lost or (time.time(), "")
            self.lost = (self.lost[0], told.why)
        else:
            self.lost, self._has_heard = None, True
            self.board.take(told)
            if not self.is_paused:
                self._arrange()
        self._draw()

    def on_done(self, message: Done) -> None:
        if message.is_page:
            self.push_screen(Page(message.title, message.lines))
        else:
            self._say("; ".join(message.lines))
        self._feed.refresh()

    def _arrange(self) -> None:
        self.view.show_rows(self.board.view(self._fits, self.sort_by, time.time()))

    def _say(self, text: str) -> None:
        self.said = text
        self._draw()

    # ---------------------------------------------------------------------------------------------- drawing

    def _draw(self) -> None:
        if not self.is_mounted or not self.query("#head"):
            return
        self.query_one("#head", Static).update(self._head())
        self.query_one("#columns", Static).update(
            Text(line_of(head_of(self.view.is_wide), max(1, self.size.width)), style=HEAD, no_wrap=True)
        )
        self.query_one("#said", Static).update(Text(self._below()))
        self.view.refresh()

    def _head(self) -> Text:
        """One line: how many of what, and what is done to the rows."""
        head = Text(no_wrap=True, overflow="ellipsis")
        status, counts = self.board.status, self.board.counts()
        if not self._has_heard:
            return head.append("asking Helen ..." if self.lost is None else "waiting for Helen")
        for word in ("critical", "unknown", "warning", "ok"):
            head.append(f"{counts[word]} {LETTERS[word]} ", STYLES[word] if counts[word] else "")
        agents = status["agents"]
        head.append(f" {agents['connected']}/{agents['known']} agents  by {self.sort_by}")
        head.append("  PAUSED" if self.is_paused else "  live" if self.is_live else "")
        if self.filter_text:
            head.append(f"  {len(self.view.rows)} fit {self.filter_text}")
        return head

    def _below(self) -> str:
        """What is wrong comes first, then what was said last, then why nothing is shown."""
        if self.lost is not None:
            since, why = self.lost
            return f"Helen is gone for {ago(time.time(), since)}, it is tried again: {plain(why)}"
        for part in ("journal", "store"):
            trouble = (self.board.status.get(part) or {}).get("trouble")
            if trouble:
                return f"{part}: {plain(trouble)}"
        if self.said:
            return plain(self.said)
        if self._has_heard and not self.view.rows:
            if self.filter_text:
                return "nothing fits the filter; / changes it"
            return "No checks yet. `helen token` prints the line that makes a machine an agent."
        return ""

    # ---------------------------------------------------------------------------------------------- keys

    def _with_row(self, act: Callable[[Row], None]) -> None:
        row = self.view.chosen
        if row is None:
            self._say("there is no row to do that to")
        else:
            act(row)

    def _do(self, title: str, deed: Callable[[], list[str]], is_page: bool = False) -> None:
        """In a thread; the end of the program does not wait for it."""
        self._say(f"{title} ...")

        def work() -> None:
            try:
                done = Done(title, deed(), is_page)
            except click.ClickException as error:
                done = Done(title, [error.format_message()], False)
            self._from_thread(done)

        threading.Thread(target=work, name="helen.top.deed", daemon=True).start()

    def action_detail(self) -> None:
        self._with_row(lambda row: self._open(row, deeds.detail(row, time.time())))

    def on_board_view_chosen(self) -> None:
        self.action_detail()

    def _open(self, row: Row, lines: list[str]) -> None:
        self.push_screen(Page(plain(f"{row.agent}/{row.shown_check}"), lines))

    def action_why(self) -> None:
        self._with_row(
            lambda row: self._do(f"why {row.agent}/{row.shown_check}", partial(deeds.why, self._client, row), True)
        )

    def action_run(self) -> None:
        self._with_row(
            lambda row: self._do(f"running {row.agent}/{row.shown_check}", partial(deeds.run_now, self._client, row))
        )

    def action_sort(self) -> None:
        self._sort(SORTS[(SORTS.index(self.sort_by) + 1) % len(SORTS)])

    def _sort(self, by: str) -> None:
        if by not in SORTS:
            self._say(f"sort by {', '.join(SORTS)}")
            return
        self.sort_by = by
        self._arrange()
        self._say("")

    def action_wide(self) -> None:
        self.view.widen()
        self._draw()

    def action_pause(self) -> None:
        self.is_paused = not self.is_paused
        if not self.is_paused:
            self._arrange()
        self._draw()

    def action_help(self) -> None:
        self.push_screen(Page("helen top", HELP.splitlines()))

    # ---------------------------------------------------------------------------------------------- the line

    def action_write(self, key: str) -> None:
        """Open the line for what a key needs words for."""
        self._row = self.view.chosen
        if key in "ad" and self._row is None:
            self._say("there is no row to do that to")
            return
        self._writing, self._before = key, self.filter_text
        line = self.query_one(Input)
        line.value = self.filter_text if key == "/" else ""
        line.placeholder = {"a": "a comment, or nothing", "d": "30m, or 2h and why", "/": "filter", ":": "command"}[key]
        line.display = True
        line.focus()

    def action_leave_line(self) -> None:
        """As if it had never been opened."""
        is_filter = self._writing == "/"
        self._close_line()
        if is_filter:
            self._filter(self._before)

    def _close_line(self) -> None:
        self._writing = ""
        self.query_one(Input).display = False
        self.view.focus()

    def on_input_submitted(self, event: Any) -> None:
        key, text = self._writing, event.value.strip()
        self._close_line()
        if key:
            self.obey(f"{NEEDS_WORDS[key]} {text}".strip(), self._row)

    def on_input_changed(self, event: Any) -> None:
        """A filter shows at once what it does; what can't be read yet changes nothing."""
        if self._writing == "/":
            self._filter(event.value, is_final=False)

    def _filter(self, text: str, is_final: bool = True) -> None:
        try:
            self._fits = read_filter(text)
        except ValueError as error:
            if is_final:
                self._say(str(error))
            return
        self.filter_text = text.strip()
        self._arrange()
        self._say("")

    def obey(self, command: str, row: Row | None) -> None:
        """A command, as `:` takes it."""
        word, _, rest = command.partition(" ")
        plainly: dict[str, Callable[[], Any]] = {
            "filter": lambda: self._filter(rest), "sort": lambda: self._sort(rest), "why": self.action_why,
            "run": self.action_run, "help": self.action_help, "reload": lambda: self._feed.refresh(whole=True),
            "quit": self.exit, "q": self.exit, "": lambda: None,
        }  # fmt: skip
        if word in ("ack", "downtime") and row is not None:
            deed = deeds.acknowledge if word == "ack" else deeds.downtime
            self._do(f"{word} {row.agent}/{row.shown_check}", partial(deed, self._client, row, rest))
        elif word in plainly:
            plainly[word]()
        else:
            self._say(f"{word}: there are filter, sort, run, ack, downtime, why, reload, help and quit")
