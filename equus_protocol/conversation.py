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
    BY_COMMAND,
    INT_MAX,
    LENGTHS,
    MAX_BLOB,
    MAX_LINE,
    STRING,
    STRINGS,
    Form,
    Role,
    describe,
    encode,
    read_error,
    read_fields,
    split_line,
)
from equus_protocol.errors import LocalProtocolError, RemoteProtocolError
from equus_protocol.legality import EQUUS_1, LEGAL, OF_TUNNELS, REMEMBERED, REPLIES, REQUESTS, State, legal_commands
from equus_protocol.open_ids import MAX_CHECKS, MAX_CHECKS_RECEIVED, MAX_ENROL_BLOB, MAX_REQUESTS, OpenIds
from equus_protocol.tunnels import Tunnels

__all__ = [
    "LEGAL",
    "MAX_CHECKS",
    "MAX_CHECKS_RECEIVED",
    "MAX_ENROL_BLOB",
    "MAX_REQUESTS",
    "Conversation",
    "Role",
    "State",
]

VERSIONS = (1, 2)
TURN_MESSAGES = 256  # taken from one peer before the others have their turn: some milliseconds of work
TURN_BYTES = 262_144  # the same for large blobs: four reads of a TLS transport


class Conversation(OpenIds):
    """Track the state of one connection, seen from `role`.

    `versions` are the protocol versions that this side speaks. `version` is 0 until hello. `outstanding` maps the ids
    of unanswered checks to their names, `requests` the ids of the agent's unanswered requests to the requests, and
    `tunnels` has the open tunnels. `trace`, if set, is called with a line for each message: `> ...` for one sent,
    `< ...` for one received.
    """

    def __init__(self, role: Role, versions: tuple[int, ...] = VERSIONS) -> None:
        self.role = role
        self.versions = versions
        self.version = 0
        self.speaks_v2 = False  # Helen has sent a command of version 2, so the agent may send such commands as well
        self.outstanding: dict[int, str] = {}
        self.requests: dict[int, m.AskManifest | m.Fetch | m.Enrol] = {}
        self.tunnels = Tunnels()
        self.trace: Callable[[str], None] | None = None
        self.more = False  # the last `turn` ended by its limits: there may be messages for another
        self._fed: list[bytes] = []  # chunks that have not been read yet
        self._buffer = b""
        self._at = 0  # where the unread part of the buffer begins
        self._form: Form | None = None  # the form of a line while its blob is still to come
        self._values: list[Any] = []
        self._length = 0
        self._blob: bytearray | None = None  # the blob so far; as long as more of it is to come, the buffer is empty
        self._failure: tuple[str, str] | None = None
        self._enter(State.WANT_HELLO)

    # ---------------------------------------------------------------------------------------------- reading

    def feed(self, data: bytes) -> None:
        """Keep bytes from the peer for `next_message`: call that until it returns None, or pause the transport."""
        if self.state is not State.CLOSED and self.state is not State.FAILED:
            self._fed.append(data)

    def next_message(self) -> m.Message | None:
        """Return the next whole message, or None until more has been fed.

        Raises RemoteProtocolError if the peer broke the protocol, and again with each further call.
        """
        if self._failure is not None:
            raise RemoteProtocolError(*self._failure)
        if self._fed:
            self._take_fed()
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
        if self._fed:
            self._take_fed()
        end = self.unread - octets
        stop = len(self._buffer) - end  # of this buffer: what is behind it is for another turn
        for _ in range(messages):
            if self._at and self._at == len(self._buffer) and self._form is None and not self._fed:
                self._buffer, self._at = b"", 0  # all of it is read, and what was read is let go
                return
            message: m.Message | None = self.take_known()
            if message is None:
                message = self.next_message()
                if message is None:
                    return
                yield message
                if self.unread <= end:
                    break
                stop = len(self._buffer) - end
            else:
                yield message
                if self._at >= stop:
                    break
        self.more = True

    def hang_up(self) -> None:
        """Close the conversation: nothing more is read, and nothing more may be sent."""
        self._end(State.CLOSED)

    @property
    def unread(self) -> int:
        """Return the number of bytes that have been fed and are in no message yet."""
        blob = 0 if self._blob is None else len(self._blob)
        fed = sum(map(len, self._fed)) if self._fed else 0
        return len(self._buffer) - self._at + blob + fed

    @property
    def unfinished(self) -> str | None:
        """Return `line` or `blob` while the peer is in the middle of one, else None; callers set a deadline by it."""
        if self._form is not None:
            return "blob"
        return "line" if self._at < len(self._buffer) else None

    @property
    def unfinished_kind(self) -> type | None:
        """Return the type of the message of which a part of the blob has come; None if there is none."""
        return None if self._form is None else self._form.kind

    def _take_fed(self) -> None:
        """Move the fed chunks to the blob that waits for them, and the rest to the buffer."""
        data = self._fed[0] if len(self._fed) == 1 else b"".join(self._fed)
        self._fed.clear()
        if self._blob is not None and (missing := self._length - len(self._blob)):
            self._blob += data[:missing]
            data = data[missing:]
        if self._at < len(self._buffer):
            data = self._buffer[self._at :] + data
        self._buffer, self._at = data, 0

    def take_known(self, chunk: bytes | None = None) -> m.Report | m.Result | None:
        """Take a whole report or result of which each word was read before: nearly all that a Helen hears.

        It is the next that is unread. With a `chunk`, which was not fed, it is that chunk, if nothing is unread and the
        message is all of it. None judges nothing: whatever is unusual is left where it is, for `next_message` to read
        from its first byte.
        """
        buffer, at = self._buffer, self._at
        if chunk is not None:
            if at < len(buffer) or self._fed:
                return None
            buffer, at = chunk, 0
        if self._form is not None or self.trace is not None:
            return None
        end = buffer.find(b"\n", at, at + MAX_LINE)
        if end < 0:
            return None
        fields = buffer[at:end].split(b" ")
        form = self._legal.get(fields[0])
        if form is None or not form.is_usual or len(fields) != form.words:
            return None
        number, length = fields[form.number_at], LENGTHS.get(fields[-1])
        if length is None or len(number) > 9 or not number.isdigit() or number[0] == 0x30:
            return None
        stop = end + 1 + length
        if stop >= len(buffer) or buffer[stop] != 0x0A or (chunk is not None and stop + 1 != len(chunk)):
            return None
        name = STRINGS.get(fields[-2])
        if name is None:
            return None
        if form.kind is m.Report:
            spool = STRINGS.get(fields[1])
            if spool is None:
                return None
            self.speaks_v2 = True  # it is legal in version 2 alone
            message: m.Report | m.Result = m.Report(spool, int(number), name, buffer[end + 1 : stop])
        else:
            asked = int(number)
            if self.outstanding.get(asked) != name:
                return None
            del self.outstanding[asked]
            message = m.Result(asked, name, buffer[end + 1 : stop])
        if chunk is None:
            self._at = stop + 1
        return message

    def _next(self) -> m.Message | None:
        """Read one message, in few calls: at thousands of reports a second each call costs."""
        form = self._form
        if form is not None:
            return self._finish(form, self._values, self._length)
        buffer, at = self._buffer, self._at
        end = buffer.find(b"\n", at, at + MAX_LINE)
        if end < 0:
            self._keep_part(buffer[at:])
            return None
        self._at = end + 1
        fields = buffer[at:end].split(b" ")
        form = self._legal.get(fields.pop(0))
        if form is None or len(fields) != len(form.readers):
            if self.role is Role.EQUUS and (error := read_error(buffer[at:end])) is not None:
                return self._heard_error(error)
            form, values = self._judge(buffer[at:end])
        else:
            try:
                values = list(map(call, form.readers, fields))
            except RemoteProtocolError:  # there may be a fault before this one; or a CR is all that is wrong
                form, values = self._judge(buffer[at:end])
        if form.kind in REMEMBERED:
            self._permit(form.kind, values)
        if form.has_blob:
            return self._finish(form, values, values.pop())
        return self._heard(form, values)

    def _keep_part(self, part: bytes) -> None:
        """Keep a line without an end, by itself, so that it doesn't hold the rest of its chunk in memory."""
        self._buffer, self._at = part, 0
        if len(part) >= MAX_LINE:
            raise RemoteProtocolError("line-too-long", f"no end after {MAX_LINE} bytes: {part[:80]!r}")

    def _judge(self, line: bytes) -> tuple[Form, list[Any]]:
        """Read a line that has a fault or a CR, step by step, so that the fault that is named is its first."""
        parts = split_line(line)
        form = BY_COMMAND[self.role.peer].get(parts[0])
        if form is None or form.version > self._newest:
            raise RemoteProtocolError("unknown-command", f"{line[:80]!r} ({self.role.peer.value}, {self.state.value})")
        values = read_fields(form, parts[1:])
        if form.command not in self._legal:
            raise RemoteProtocolError(self._illegal_now(), f"{form.command.decode()} while {self.state.value}")
        return form, values

    def _illegal_now(self) -> str:
        if self.role is Role.EQUUS:
            return "unknown-command"
        return "hello-expected" if self.state is State.WANT_HELLO else "hello-repeated"

    def _finish(self, form: Form, values: list[Any], length: int) -> m.Message | None:
        """Return the message of a line that has been read, or None until its blob is whole."""
        buffer, at = self._buffer, self._at
        if self._blob is None:
            end = at + length
            if end >= len(buffer):  # no memory is set aside for a length that was only announced
                self._form, self._values, self._length = form, values, length
                self._blob = bytearray(buffer[at:end])
                self._buffer, self._at = b"", 0
                return None
            values.append(buffer[at:end])
        else:
            end = at
            if end >= len(buffer):
                return None
            values.append(bytes(self._blob))
            self._form = self._blob = None
        if buffer[end] != 0x0A:
            raise RemoteProtocolError("bad-blob-end", f"{buffer[end : end + 1]!r} after a blob, where LF belongs")
        self._at = end + 1
        return self._heard(form, values)

    def _heard(self, form: Form, values: list[Any]) -> m.Message:
        message = form.message(*values)
        if self.trace is not None:
            self.trace(f"< {describe(message, form.sender)}")
        if form.kind in REMEMBERED:
            self._remember(message, ours=False)
        if not self.speaks_v2 and form.version == 2 and self.version == 2:
            self.speaks_v2 = True
        return message

    def _heard_error(self, error: m.Error) -> m.Error:
        if self.trace is not None:
            self.trace(f"< {describe(error, Role.HELEN)}")
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
            self._permit_ours(message)
        data = encode(message, self.role)
        if self.trace is not None:
            self.trace(f"> {describe(message, self.role)}")
        if kind in REMEMBERED:
            self._remember(message, ours=True)
        elif kind is m.Error:
            self._end(State.CLOSED)
        return data

    def ack(self, spool: str, sequence: int) -> bytes:
        """Return the bytes of an acknowledgement, as `send` does; a Helen says thousands of them a second."""
        if self.trace is not None or m.Ack not in self._ours or not 0 <= sequence <= INT_MAX:
            return self.send(m.Ack(spool, sequence))
        return b"ack %b %d\n" % (STRING.write(spool), sequence)

    def check(self, name: str, message_id: int, blob: bytes) -> bytes:
        """Return the bytes of a check, and remember it as outstanding, as `send` does it in twice as many calls."""
        is_unusual = (
            self.trace is not None or m.Check not in self._ours or len(self.outstanding) >= MAX_CHECKS
            or message_id in self.outstanding or message_id in self.tunnels.open
            or not 0 <= message_id <= INT_MAX or type(blob) is not bytes or len(blob) > MAX_BLOB
        )  # fmt: skip
        if is_unusual:
            return self.send(m.Check(name, message_id, blob))
        data = b"check %b %d %d\n%b\n" % (STRING.write(name), message_id, len(blob), blob)
        self.outstanding[message_id] = name
        return data

    # ---------------------------------------------------------------------------------------------- state

    def _remember(self, message: m.Message, ours: bool) -> None:
        """Note the effect of a message, sent (`ours`) or received, on the state."""
        if isinstance(message, OF_TUNNELS):
            self.tunnels.note(message, ours)
        elif isinstance(message, m.Check):
            self.outstanding[message.message_id] = message.name
        elif isinstance(message, m.Result):
            del self.outstanding[message.message_id]
        elif isinstance(message, m.Hello):
            self.version = message.version
            self._enter(State.READY_2 if message.version == 2 else State.READY_1)
        elif isinstance(message, REQUESTS):
            self.requests[message.message_id] = message
        elif isinstance(message, REPLIES):
            del self.requests[message.message_id]

    def _enter(self, state: State) -> None:
        self.state = state
        self._newest = self.version or max(self.versions)
        self._legal = legal_commands(self.role.peer, state, self._newest)
        self._ours = LEGAL[self.role, state]

    def _end(self, state: State) -> None:
        """End the conversation. `outstanding` stays, so that the caller can answer the checks in it."""
        self._enter(state)
        self._fed.clear()
        self._buffer, self._at, self._form, self._values, self._blob = b"", 0, None, [], None
