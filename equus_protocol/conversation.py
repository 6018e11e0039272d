"""Follow one connection's conversation: turn bytes into messages, and refuse what is illegal in either direction.

`feed` only keeps bytes. `next_message` takes one message at a time, so that good messages before a bad line in the same
chunk are not lost. A line is judged in the order of docs/protocol.rst section 2: its length, its empty fields, its
command, the number of its fields, each field, and last its legality at this moment; all of that before a byte of its
blob is kept. One class plays both roles. The clock, the socket and the meaning of blobs belong to the caller. A failure
is final; after it, only Helen may still send its `error`.

The table LEGAL, below, says which messages are legal in which state. Two things beside it need memory: the outstanding
checks, with ids that Helen chooses, and the agent's open requests, with ids that the agent chooses. A third one, the
tunnels, has a module of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from functools import cache
from operator import call
from typing import Any

from equus_protocol import messages as m
from equus_protocol.codec import (
    BY_COMMAND,
    INT_MAX,
    LENGTHS,
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
from equus_protocol.tunnels import KINDS as TUNNEL_KINDS
from equus_protocol.tunnels import Fault, Tunnels

__all__ = ["LEGAL", "MAX_CHECKS", "MAX_ENROL_BLOB", "MAX_REQUESTS", "Conversation", "Role", "State"]

VERSIONS = (1, 2)
MAX_CHECKS = 64  # that Helen keeps outstanding on one connection: more would only wait in the agent's own queue
MAX_CHECKS_RECEIVED = 1_024  # that an agent takes from a foreign server, which may not know our figure
MAX_REQUESTS = 64  # of an agent's manifest, fetch and enrol, unanswered: each may cost Helen a megabyte
MAX_ENROL_BLOB = 65_536  # bytes from a stranger: a token and a request for a certificate take about two thousand
TURN_MESSAGES = 256  # taken from one peer before the others have their turn: some milliseconds of work
TURN_BYTES = 262_144  # the same for large blobs: four reads of a TLS transport


class State(Enum):
    """Name the states of a conversation by the message that is expected next."""

    WANT_HELLO = "waiting for hello"
    READY_1 = "version 1"
    READY_2 = "version 2"
    FAILED = "failed"  # by the peer; Helen may still say why
    CLOSED = "closed"

    __hash__ = object.__hash__  # for the same reason as in Role


_BEFORE = frozenset({m.Hello, m.Enrol})
_EQUUS_1 = frozenset({m.Result})
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
    (Role.EQUUS, State.READY_1): _EQUUS_1,
    (Role.EQUUS, State.READY_2): _EQUUS_2,
    (Role.EQUUS, State.FAILED): frozenset(),
    (Role.EQUUS, State.CLOSED): frozenset(),
    (Role.HELEN, State.WANT_HELLO): _HELEN_0,
    (Role.HELEN, State.READY_1): _HELEN_1,
    (Role.HELEN, State.READY_2): _HELEN_2,
    (Role.HELEN, State.FAILED): frozenset({m.Error}),
    (Role.HELEN, State.CLOSED): frozenset(),
}

_ASKS = {m.AskManifest: m.Manifest, m.Fetch: m.File, m.Enrol: m.Enrolled}
_ANSWERS = {answer: question for question, answer in _ASKS.items()}
# Messages with a legality or an effect that depends on more than the table above.
_REMEMBERED = frozenset({m.Hello, m.Check, m.Result, *_ASKS, *_ANSWERS, *TUNNEL_KINDS})


@cache
def _legal_commands(sender: Role, state: State, newest: int) -> dict[bytes, Form]:
    """Return the commands that a reader may take at once, without looking for the first fault of a line."""
    return {
        command: form
        for command, form in BY_COMMAND[sender].items()
        if form.kind in LEGAL[sender, state] and form.version <= newest
    }


class Conversation:
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
            message: m.Message | None = self._next_known()
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

    def _next_known(self) -> m.Report | m.Result | None:
        """Take a whole report or result of which each word was read before: nearly all that a Helen hears.

        It judges nothing. Whatever is unusual is left where it is, for `next_message` to read from its first byte.
        """
        if self._form is not None or self.trace is not None:
            return None
        buffer, at = self._buffer, self._at
        end = buffer.find(b"\n", at, at + MAX_LINE)
        if end < 0:
            return None
        fields = buffer[at:end].split(b" ")
        form = self._legal.get(fields[0])
        if form is None or not form.is_usual or len(fields) != len(form.readers) + 1:
            return None
        number, length = fields[form.number_at], LENGTHS.get(fields[-1])
        if length is None or len(number) > 9 or not number.isdigit() or number[0] == 0x30:
            return None
        stop = end + 1 + length
        if stop >= len(buffer) or buffer[stop] != 0x0A:
            return None
        name = STRINGS.get(fields[-2])
        if form.kind is m.Report:
            spool = STRINGS.get(fields[1])
            if name is None or spool is None:
                return None
            self._at, self.speaks_v2 = stop + 1, True  # it is legal in version 2 alone
            return m.Report(spool, int(number), name, buffer[end + 1 : stop])
        if name is None or self.outstanding.get(int(number)) != name:
            return None
        self._at = stop + 1
        del self.outstanding[int(number)]
        return m.Result(int(number), name, buffer[end + 1 : stop])

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
        if form.kind in _REMEMBERED:
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

    def _permit(self, kind: type, values: list[Any]) -> None:
        """Refuse a line of the remembered kinds that is illegal now; its blob isn't needed to tell."""
        if kind is m.Result:
            message_id, name, _ = values
            if self.outstanding.get(message_id) != name:
                raise RemoteProtocolError("unknown-message-id", f"no check {name!r} is outstanding as {message_id}")
        elif kind is m.Check:
            self._permit_check(*values)
        elif kind is m.Hello:
            if values[0] not in self.versions:
                raise RemoteProtocolError("unsupported-protocol-version", f"version {values[0]} is not spoken here")
        elif kind in _ASKS:
            self._permit_request(kind, values)
        elif kind in TUNNEL_KINDS:
            self._permit_tunnel(kind, values)
        elif not self._is_awaited(kind, values[0], values[1] if kind is m.File else None):
            raise RemoteProtocolError("unknown-message-id", f"{kind.__name__} {values[0]} answers no request of ours")

    def _permit_tunnel(self, kind: type, values: list[Any]) -> None:
        value = values[-2] if kind is m.Tunnel else values[-1]
        if (fault := self._tunnel_fault(kind, values[0], value, values[-1], ours=False)) is not None:
            raise RemoteProtocolError(*fault)

    def _tunnel_fault(self, kind: type, message_id: int, value: object, size: Any, ours: bool) -> Fault | None:
        if kind is m.Tunnel and message_id in self.outstanding:
            return "unknown-message-id", f"tunnel {message_id}: a check that is outstanding has this id"
        return self.tunnels.fault(kind, message_id, value, size, ours)

    def _permit_check(self, name: str, message_id: int, _: int) -> None:
        if message_id in self.outstanding or message_id in self.tunnels.open:
            raise RemoteProtocolError("unknown-message-id", f"check {name!r}: id {message_id} is still outstanding")
        if len(self.outstanding) >= MAX_CHECKS_RECEIVED:
            raise RemoteProtocolError("too-many-outstanding", f"more than {MAX_CHECKS_RECEIVED} checks at once")

    def _permit_request(self, kind: type, values: list[Any]) -> None:
        if kind is m.Enrol and values[-1] > MAX_ENROL_BLOB:
            raise RemoteProtocolError("blob-too-large", f"{values[-1]} bytes to enrol; {MAX_ENROL_BLOB} is the most")
        if values[0] in self.requests:
            raise RemoteProtocolError("unknown-message-id", f"request {values[0]} is still outstanding")
        if len(self.requests) >= MAX_REQUESTS:
            raise RemoteProtocolError("too-many-outstanding", f"more than {MAX_REQUESTS} requests at once")

    def _is_awaited(self, answer: type, message_id: int, sha256: str | None) -> bool:
        """Return True if an answer fits an open request: its kind, and for a file, its hash."""
        asked = self.requests.get(message_id)
        return type(asked) is _ANSWERS[answer] and getattr(asked, "sha256", None) == sha256

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
        if form.kind in _REMEMBERED:
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
        if self.role is Role.EQUUS and self.version == 2 and not self.speaks_v2 and kind not in _EQUUS_1:
            raise LocalProtocolError(f"{kind.__name__} before Helen has sent a command of version 2")
        if kind in _REMEMBERED:
            self._permit_ours(message)
        data = encode(message, self.role)
        if self.trace is not None:
            self.trace(f"> {describe(message, self.role)}")
        if kind in _REMEMBERED:
            self._remember(message, ours=True)
        elif kind is m.Error:
            self._end(State.CLOSED)
        return data

    def ack(self, spool: str, sequence: int) -> bytes:
        """Return the bytes of an acknowledgement, as `send` does; a Helen says thousands of them a second."""
        if self.trace is not None or m.Ack not in self._ours or not 0 <= sequence <= INT_MAX:
            return self.send(m.Ack(spool, sequence))
        return b"ack %b %d\n" % (STRING.write(spool), sequence)

    def _permit_ours(self, message: m.Message) -> None:
        """Refuse a message to the peer by the same rules that `_permit` applies to the peer's messages."""
        if isinstance(message, m.Check):
            if message.message_id in self.outstanding or message.message_id in self.tunnels.open:
                raise LocalProtocolError(f"check id {message.message_id} is still outstanding")
            if len(self.outstanding) >= MAX_CHECKS:
                raise LocalProtocolError(f"{MAX_CHECKS} checks are outstanding already")
        elif isinstance(message, m.Result):
            if self.outstanding.get(message.message_id) != message.name:
                raise LocalProtocolError(f"no check {message.name!r} is outstanding as {message.message_id}")
        elif isinstance(message, m.Hello):
            if message.version not in self.versions:
                raise LocalProtocolError(f"hello {message.version} is not one of {self.versions}")
        elif isinstance(message, m.AskManifest | m.Fetch | m.Enrol):
            self._permit_our_request(message)
        elif isinstance(message, m.Tunnel | m.Bytes | m.Window | m.Close):
            self._permit_our_tunnel(message)
        elif isinstance(message, m.Manifest | m.File | m.Enrolled):
            sha256 = message.sha256 if isinstance(message, m.File) else None
            if not self._is_awaited(type(message), message.message_id, sha256):
                raise LocalProtocolError(f"{type(message).__name__} {message.message_id} answers no request")

    def _permit_our_request(self, message: m.AskManifest | m.Fetch | m.Enrol) -> None:
        if isinstance(message, m.Enrol) and len(message.blob) > MAX_ENROL_BLOB:
            raise LocalProtocolError(f"{len(message.blob)} bytes to enrol; {MAX_ENROL_BLOB} is the most")
        if message.message_id in self.requests:
            raise LocalProtocolError(f"request id {message.message_id} is still outstanding")
        if len(self.requests) >= MAX_REQUESTS:
            raise LocalProtocolError(f"{MAX_REQUESTS} requests are outstanding already")

    def _permit_our_tunnel(self, message: m.Tunnel | m.Bytes | m.Window | m.Close) -> None:
        value, size = getattr(message, "window", getattr(message, "more", 0)), len(getattr(message, "blob", b""))
        if (fault := self._tunnel_fault(type(message), message.message_id, value, size, ours=True)) is not None:
            raise LocalProtocolError(f"{fault[0]}: {fault[1]}")

    # ---------------------------------------------------------------------------------------------- state

    def _remember(self, message: m.Message, ours: bool) -> None:
        """Note the effect of a message, sent (`ours`) or received, on the state."""
        if isinstance(message, m.Tunnel | m.Bytes | m.Window | m.Close):
            self.tunnels.note(message, ours)
        elif isinstance(message, m.Check):
            self.outstanding[message.message_id] = message.name
        elif isinstance(message, m.Result):
            del self.outstanding[message.message_id]
        elif isinstance(message, m.Hello):
            self.version = message.version
            self._enter(State.READY_2 if message.version == 2 else State.READY_1)
        elif isinstance(message, m.AskManifest | m.Fetch | m.Enrol):
            self.requests[message.message_id] = message
        elif isinstance(message, m.Manifest | m.File | m.Enrolled):
            del self.requests[message.message_id]

    def _enter(self, state: State) -> None:
        self.state = state
        self._newest = self.version or max(self.versions)
        self._legal = _legal_commands(self.role.peer, state, self._newest)
        self._ours = LEGAL[self.role, state]

    def _end(self, state: State) -> None:
        """End the conversation. `outstanding` stays, so that the caller can answer the checks in it."""
        self._enter(state)
        self._fed.clear()
        self._buffer, self._at, self._form, self._values, self._blob = b"", 0, None, [], None
