"""Follow one connection's conversation: turn bytes into messages, and refuse what is illegal in either direction.

`feed` only keeps bytes. `next_message` takes one message at a time, so that good messages before a bad line in the same
chunk are not lost. A line is judged in the order of docs/protocol.rst section 2: its length, its empty fields, its
command, the number of its fields, each field, and last its legality at this moment; all of that before a byte of its
blob is kept. One class plays both roles. The clock, the socket and the meaning of blobs belong to the caller. A failure
is final; after it, only Helen may still send its `error`.

The table LEGAL (equus_protocol/legality.py) says which messages are legal in which state. Beside it three things need
memory: the outstanding checks, the agent's open requests (equus_protocol/open_ids.py) and the tunnels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import call
from typing import Any

from equus_protocol import messages as m
from equus_protocol.codec import (
    INT_MAX,
    MAX_BLOB,
    MAX_LINE,
    STRING,
    Form,
    Role,
    describe,
    encode,
    read_error,
)
from equus_protocol.errors import LocalProtocolError, RemoteProtocolError
from equus_protocol.legality import EQUUS_1, LEGAL, REMEMBERED, State, legal_commands
from equus_protocol.line_judgement import judged_line
from equus_protocol.open_ids import MAX_CHECKS, OpenIds
from equus_protocol.unread_bytes import UnreadBytes
from equus_protocol.usual_messages import UsualMessages

__all__ = ["Conversation", "Role", "State"]

VERSIONS = (1, 2)
TURN_MESSAGES = 256  # taken from one peer before the others have their turn: some milliseconds of work
TURN_BYTES = 262_144  # the same for large blobs: four reads of a TLS transport


class Conversation:
    """Track the state of one connection, seen from `role`.

    `versions` are the protocol versions that this side speaks. `version` is 0 until hello. `outstanding` maps the ids
    of unanswered checks to their names, `requests` the ids of the agent's unanswered requests to the requests, and
    `tunnels` has the open tunnels. `usual` reads the messages that come most.
    """

    def __init__(self, role: Role, versions: tuple[int, ...] = VERSIONS) -> None:
        self.role = role
        self.versions = versions
        self.version = 0
        self.speaks_v2 = False  # Helen has sent a command of version 2, so the agent may send such commands as well
        self._ids = OpenIds(versions)
        self.outstanding, self.requests, self.tunnels = self._ids.outstanding, self._ids.requests, self._ids.tunnels
        self._unread = UnreadBytes()
        self.usual = UsualMessages(self._unread, self.outstanding)
        self.more = False  # the last `turn` ended by its limits: there may be messages for another
        self._trace: Callable[[str], None] | None = None
        self._failure: tuple[str, str] | None = None
        self._enter(State.WANT_HELLO)

    def trace_to(self, trace: Callable[[str], None]) -> None:
        """Call `trace` with a line for each message from now on: `> ...` for one sent, `< ...` for one received."""
        self._trace = trace
        self.usual.legal = {}

    # ---------------------------------------------------------------------------------------------- reading

    def feed(self, data: bytes) -> None:
        """Keep bytes from the peer for `next_message`: call that until it returns None, or pause the transport."""
        if self.state is not State.CLOSED and self.state is not State.FAILED:
            self._unread.fed.append(data)

    def next_message(self) -> m.Message | None:
        """Return the next whole message, or None until more has been fed.

        Raises RemoteProtocolError if the peer broke the protocol, and again with each further call.
        """
        if self._failure is not None:
            raise RemoteProtocolError(*self._failure)
        if self._unread.fed:
            self._unread.join()
        try:
            return self._next()
        except RemoteProtocolError as failure:
            # The exception itself isn't kept: its traceback would keep every frame, and the buffers in them.
            self._failure = failure.slug, failure.detail
            self._end(State.FAILED)
            raise

    def turn(self, messages: int = TURN_MESSAGES, octets: int = TURN_BYTES) -> Iterator[m.Message]:
        """Yield as many messages as one peer may have handled before other peers get their turn.

        Afterwards `more` is true if messages may be left. Then pause the transport until the next turn, since bytes
        that are fed meanwhile are kept without a limit. Raises RemoteProtocolError behind the last good message.
        """
        self.more = False
        unread, take = self._unread, self.usual.take
        if unread.fed:
            unread.join()
        end = unread.size - octets
        stop = len(unread.buffer) - end  # of this buffer: what is behind it is for another turn
        for _ in range(messages):
            if unread.at and unread.at == len(unread.buffer) and unread.form is None and not unread.fed:
                unread.buffer, unread.at = b"", 0  # all of it is read, and what was read is let go
                return
            message: m.Message | None = take()
            if message is not None:
                yield message
                if unread.at >= stop:
                    break
                continue
            if (message := self.next_message()) is None:
                return
            yield message
            if unread.size <= end:
                break
            stop = len(unread.buffer) - end
        self.more = True

    def hang_up(self) -> None:
        """Close the conversation: nothing more is read, and nothing more may be sent."""
        self._end(State.CLOSED)

    @property
    def unread(self) -> int:
        """Return the number of bytes that have been fed and are in no message yet."""
        return self._unread.size

    @property
    def unfinished(self) -> str | None:
        """Return `line` or `blob` while the peer is in the middle of one, else None; callers set a deadline by it."""
        return self._unread.unfinished

    @property
    def unfinished_kind(self) -> type | None:
        """Return the type of the message of which a part of the blob has come; None if there is none."""
        form = self._unread.form
        return None if form is None else form.kind

    def _next(self) -> m.Message | None:
        """Read one message, in few calls: at thousands of reports a second each call costs."""
        unread = self._unread
        form, values, length = unread.form, unread.values, unread.length
        if form is None:
            buffer, at = unread.buffer, unread.at
            end = buffer.find(b"\n", at, at + MAX_LINE)
            if end < 0:
                unread.keep_part(buffer[at:])
                return None
            unread.at = end + 1
            fields = buffer[at:end].split(b" ")
            form = self._legal.get(fields.pop(0))
            if form is None or len(fields) != len(form.readers):
                if self.role is Role.EQUUS and (error := read_error(buffer[at:end])) is not None:
                    return self._heard_error(error)
                form, values = judged_line(buffer[at:end], self.role.peer, self.state, self._newest)
            else:
                try:
                    values = list(map(call, form.readers, fields))
                except RemoteProtocolError:  # there may be a fault before this one; or a CR is all that is wrong
                    form, values = judged_line(buffer[at:end], self.role.peer, self.state, self._newest)
            if form.kind in REMEMBERED:
                self._ids.permit(form.kind, values)
            if form.has_blob:
                length = values.pop()
        if form.has_blob and not unread.finish(form, values, length):
            return None
        return self._heard(form, values)

    def _heard(self, form: Form, values: list[Any]) -> m.Message:
        message = form.message(*values)
        if self._trace is not None:
            self._trace(f"< {describe(message, form.sender)}")
        if form.kind is m.Hello:
            self._greeted(values[0])
        elif form.kind in REMEMBERED:
            self._ids.note(message, ours=False)
        if form.version == 2 and form.sender is Role.HELEN and self.version == 2:
            self.speaks_v2 = True
        return message

    def _heard_error(self, error: m.Error) -> m.Error:
        if self._trace is not None:
            self._trace(f"< {describe(error, Role.HELEN)}")
        self._end(State.CLOSED)
        return error

    # ---------------------------------------------------------------------------------------------- writing

    def send(self, message: m.Message) -> bytes:
        """Return the bytes of a message to the peer, and note its effect on the state.

        Raises LocalProtocolError if the message is illegal now; then nothing has changed.
        """
        kind = type(message)
        if kind not in self._ours:
            raise LocalProtocolError(f"{self.role.value} may not say {kind.__name__} while {self.state.value}")
        if self.role is Role.EQUUS and self.version == 2 and not self.speaks_v2 and kind not in EQUUS_1:
            raise LocalProtocolError(f"{kind.__name__} before Helen has sent a command of version 2")
        if kind in REMEMBERED:
            self._ids.permit_ours(message)
        data = encode(message, self.role)
        if self._trace is not None:
            self._trace(f"> {describe(message, self.role)}")
        if isinstance(message, m.Hello):
            self._greeted(message.version)
        elif kind in REMEMBERED:
            self._ids.note(message, ours=True)
        elif kind is m.Error:
            self._end(State.CLOSED)
        return data

    def ack(self, spool: str, sequence: int) -> bytes:
        """Return the bytes of an acknowledgement, as `send` does; a Helen says thousands of them a second."""
        if self._trace is not None or m.Ack not in self._ours or not 0 <= sequence <= INT_MAX:
            return self.send(m.Ack(spool, sequence))
        return b"ack %b %d\n" % (STRING.write(spool), sequence)

    def check(self, name: str, message_id: int, blob: bytes) -> bytes:
        """Return the bytes of a check, and remember it as outstanding, as `send` does it in twice as many calls."""
        is_unusual = (
            self._trace is not None or m.Check not in self._ours or len(self.outstanding) >= MAX_CHECKS
            or message_id in self.outstanding or message_id in self.tunnels.open
            or not 0 <= message_id <= INT_MAX or type(blob) is not bytes or len(blob) > MAX_BLOB
        )  # fmt: skip
        if is_unusual:
            return self.send(m.Check(name, message_id, blob))
        data = b"check %b %d %d\n%b\n" % (STRING.write(name), message_id, len(blob), blob)
        self.outstanding[message_id] = name
        return data

    # ---------------------------------------------------------------------------------------------- state

    def _greeted(self, version: int) -> None:
        """Speak the version of a hello, sent or received, from now on."""
        self.version = version
        self._enter(State.READY_2 if version == 2 else State.READY_1)

    def _enter(self, state: State) -> None:
        self.state = state
        self._newest = self.version or max(self.versions)
        self._legal = legal_commands(self.role.peer, state, self._newest)
        self._ours = LEGAL[self.role, state]
        self.usual.legal = self._legal if self._trace is None else {}

    def _end(self, state: State) -> None:
        """End the conversation. `outstanding` stays, so that the caller can answer the checks in it."""
        self._enter(state)
        self._unread.clear()
