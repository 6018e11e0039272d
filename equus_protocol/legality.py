"""Says which messages are legal in which state of a conversation: the table LEGAL, and the kinds that need memory.

The state itself, and what a message changes, is of equus_protocol/conversation.py.
"""

from __future__ import annotations

from enum import Enum
from functools import cache

from equus_protocol import messages as m
from equus_protocol.codec import BY_COMMAND, Form, Role
from equus_protocol.tunnels import KINDS as TUNNEL_KINDS


class State(Enum):
    """Name the states of a conversation by the message that is expected next."""

    WANT_HELLO = "waiting for hello"
    READY_1 = "version 1"
    READY_2 = "version 2"
    FAILED = "failed"  # by the peer; Helen may still say why
    CLOSED = "closed"

    __hash__ = object.__hash__  # for the same reason as in Role


_BEFORE = frozenset({m.Hello, m.Enrol})
EQUUS_1 = frozenset({m.Result})
_EQUUS_2 = frozenset({
    m.Result, m.Enrol, m.Ping, m.Pong, m.AskManifest, m.Fetch, m.Loaded, m.Report, m.Bytes, m.Window, m.Close
})  # fmt: skip
_HELEN_0 = frozenset({m.Error, m.Enrolled})
_HELEN_1 = frozenset({m.Error, m.Reload, m.Check})
_HELEN_2 = _HELEN_1 | {
    m.Enrolled, m.Ping, m.Pong, m.Manifest, m.File, m.Schedule, m.Ack, m.Cancel, m.Servers,
    m.Tunnel, m.Bytes, m.Window, m.Close
}  # fmt: skip

# sender, state -> the messages that may be sent. docs/protocol.rst shows the same table.
LEGAL: dict[tuple[Role, State], frozenset[type]] = {
    (Role.EQUUS, State.WANT_HELLO): _BEFORE,
    (Role.EQUUS, State.READY_1): EQUUS_1,
    (Role.EQUUS, State.READY_2): _EQUUS_2,
    (Role.EQUUS, State.FAILED): frozenset(),
    (Role.EQUUS, State.CLOSED): frozenset(),
    (Role.HELEN, State.WANT_HELLO): _HELEN_0,
    (Role.HELEN, State.READY_1): _HELEN_1,
    (Role.HELEN, State.READY_2): _HELEN_2,
    (Role.HELEN, State.FAILED): frozenset({m.Error}),
    (Role.HELEN, State.CLOSED): frozenset(),
}

ASKS = {m.AskManifest: m.Manifest, m.Fetch: m.File, m.Enrol: m.Enrolled}
ANSWERS = {answer: question for question, answer in ASKS.items()}
# Messages with a legality or an effect that depends on more than the table above.
# For isinstance: a union of types that is written there is made anew in each call.
REQUESTS = (m.AskManifest, m.Fetch, m.Enrol)
REPLIES = (m.Manifest, m.File, m.Enrolled)
OF_TUNNELS = (m.Tunnel, m.Bytes, m.Window, m.Close)
REMEMBERED = frozenset({m.Hello, m.Check, m.Result, *ASKS, *ANSWERS, *TUNNEL_KINDS})


@cache
def legal_commands(sender: Role, state: State, newest: int) -> dict[bytes, Form]:
    """Return the commands that a reader may take at once, without looking for the first fault of a line."""
    return {
        command: form
        for command, form in BY_COMMAND[sender].items()
        if form.kind in LEGAL[sender, state] and form.version <= newest
    }
