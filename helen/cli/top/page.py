"""Show a page of text over the rows of `helen top`: the details of a check, an answer, or the help for the keys."""

from __future__ import annotations

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from helen.cli.top.view import HEAD

KEYS = "jk move  Enter more  e why  r run  a ack  d downtime  / find  s sort  ? help  q"  # fits into 80 columns
HELP = """\
j k g G arrows PageUp PageDown   move            Enter   the check with its figures
e   why this state, and who was told             r       run it now
a   acknowledge the problem                      d       a downtime: 30m, or 2h COMMENT
/   filter: state:crit agent:web-* check:disk role=web since:1h is:open text
    state: ok warning critical unknown problem   is: open soft acked held flapping stale away
s   sort by problems, agent, check, since, heard
w   wide rows          p   pause          :   command          q   end

OK WA CR UN   ok, warning, critical, unknown     1/3     not confirmed yet
A   acknowledged       D   downtime       S   silence
P   a check that it depends on is bad     F   flapping

: filter TEXT | sort KEY | run | ack COMMENT | downtime 30m | why | reload | quit"""


class Page(ModalScreen[None]):
    """Show a page of text over the rows."""

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
