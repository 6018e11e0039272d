"""Judge one line of a peer step by step, so that the fault that is named is its first: docs/protocol.rst, section 2.

Only lines that the quick way of a Conversation can't read come here: those with a fault, or with a CR before their LF.
"""

from __future__ import annotations

from typing import Any

from equus_protocol.codec import BY_COMMAND, Form, Role, read_fields, split_line
from equus_protocol.errors import RemoteProtocolError
from equus_protocol.legality import State, legal_commands


def judged_line(line: bytes, sender: Role, state: State, newest: int) -> tuple[Form, list[Any]]:
    """Return the form and the values of a line that `sender` may say in `state`.

    `newest` is the newest version that the reader speaks. Raises RemoteProtocolError with the first fault otherwise.
    """
    parts = split_line(line)
    form = BY_COMMAND[sender].get(parts[0])
    if form is None or form.version > newest:
        raise RemoteProtocolError("unknown-command", f"{line[:80]!r} ({sender.value}, {state.value})")
    values = read_fields(form, parts[1:])
    if form.command not in legal_commands(sender, state, newest):
        raise RemoteProtocolError(_slug_of_illegal(sender, state), f"{form.command.decode()} while {state.value}")
    return form, values


def _slug_of_illegal(sender: Role, state: State) -> str:
    if sender is Role.HELEN:
        return "unknown-command"
    return "hello-expected" if state is State.WANT_HELLO else "hello-repeated"
