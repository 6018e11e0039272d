"""One connection's conversation: bytes in, messages out, and nothing illegal in either direction.

Theory of operation. `feed` only keeps bytes. `next_message` takes one message at a time, so that the good ones that
stood before a bad line in the same chunk are not lost. A line is judged in the order of docs/protocol.rst section 2:
its length, its empty fields, its command, the number of its fields, each field, and last whether it is legal now; all
of that before a byte of its blob is kept. One class plays both roles. The clock, the socket and the meaning of blobs
are other people's business. A failure is final; all that is left to say then is Helen's `error`.

What is legal when is the table LEGAL, below. Two things beside it need memory: which checks are outstanding (their ids
are Helen's), and which of the agent's own requests are (theirs are the agent's).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from functools import cache
from operator import call
from typing import Any

from equus_protocol import messages as m
from equus_protocol.codec import BY_WORD, MAX_LINE, Form, Role, describe, encode, read_error, read_fields, split_line
from equus_protocol.errors import LocalProtocolError, RemoteProtocolError

__all__ = ["LEGAL", "MAX_CHECKS", "MAX_ENROL_BLOB", "MAX_REQUESTS", "Conversation", "Role", "State"]

VERSIONS = (1, 2)
MAX_CHECKS = 64  # that Helen keeps outstanding on one connection: more would only wait in the agent's own queue
MAX_CHECKS_HEARD = 1_024  # that an agent takes from a foreign Helen, who may not know our figure
MAX_REQUESTS = 64  # of an agent's manifest, fetch and enrol, unanswered: each may cost Helen a megabyte
MAX_ENROL_BLOB = 65_536  # bytes from a stranger: a token and a request for a certificate take about two thousand
TURN_MESSAGES = 256  # taken from one peer before the others have their turn: some milliseconds of work
TURN_BYTES = 262_144  # the same for great blobs: four reads of a TLS transport


class State(Enum):
    """Named for what is expected."""

    WANT_HELLO = "waiting for hello"
    READY_1 = "version 1"
    READY_2 = "version 2"
    FAILED = "failed"  # by the peer; Helen may still say why
    CLOSED = "closed"

    __hash__ = object.__hash__  # for the same reason as that of Role


_BEFORE = frozenset({m.Hello, m.Enrol})
_EQUUS_1 = frozenset({m.Result})
_EQUUS_2 = frozenset({m.Result, m.Enrol, m.Ping, m.Pong, m.AskManifest, m.Fetch, m.Loaded, m.Report})
_HELEN_0 = frozenset({m.Error, m.Enrolled})
_HELEN_1 = frozenset({m.Error, m.Reload, m.Check})
_HELEN_2 = _HELEN_1 | {
    m.Enrolled, m.Ping, m.Pong, m.Manifest, m.File, m.Schedule, m.Ack, m.Cancel, m.Servers
}  # fmt: skip

# sender, state -> what may be said. docs/protocol.rst shows the same table.
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
# Those whose legality or effect hangs on more than the table above.
_REMEMBERED = frozenset({m.Hello, m.Check, m.Result, *_ASKS, *_ANSWERS})


@cache
def _legal_words(sender: Role, state: State, newest: int) -> dict[bytes, Form]:
    """What a reader may take at once, without asking which fault of a line is the first."""
    return {
        word: form
        for word, form in BY_WORD[sender].items()
        if form.kind in LEGAL[sender, state] and form.version <= newest
    }


class Conversation:
    """The state of one connection, seen from `role`.

    `versions` are those that we speak. `version` is 0 until hello. `outstanding` maps the ids of unanswered checks to
    their names, `requests` the ids of the agent's unanswered requests to them. `trace`, if set, is called with a line
    for each message: `> ...` for ours, `< ...` for the peer's.
    """

    def __init__(self, role: Role, versions: tuple[int, ...] = VERSIONS) -> None:
        self.role = role
        self.versions = versions
        self.version = 0
        self.speaks_v2 = False  # a version 2 command of Helen's has been read, so an agent may use them too
        self.outstanding: dict[int, str] = {}
        self.requests: dict[int, m.AskManifest | m.Fetch | m.Enrol] = {}
        self.trace: Callable[[str], None] | None = None
        self.more = False  # the last `turn` ended by its limits: there may be messages for another
        self._fed: list[bytes] = []  # and not looked at
        self._buffer = b""
        self._at = 0  # where the part of the buffer begins that nobody has looked at
        self._form: Form | None = None  # of a line whose blob is still to come
        self._values: list[Any] = []
        self._length = 0
        self._blob: bytearray | None = None  # what has come of it; as long as more is to come, the buffer is empty
        self._failure: tuple[str, str] | None = None
        self._enter(State.WANT_HELLO)

    # ---------------------------------------------------------------------------------------------- reading

    def feed(self, data: bytes) -> None:
        """Keep bytes from the peer for `next_message`: call that until it returns None, or pause the transport."""
        if self.state is not State.CLOSED and self.state is not State.FAILED:
            self._fed.append(data)

    def next_message(self) -> m.Message | None:
        """The next whole message, or None until more has been fed. Raises RemoteProtocolError, again and again."""
        if self._failure is not None:
            raise RemoteProtocolError(*self._failure)
        if self._fed:
            self._take_fed()
        try:
            return self._next()
        except RemoteProtocolError as failure:
            # Not the exception itself: its traceback would keep every frame, and the buffers in them.
            self._failure = failure.slug, failure.detail
            self._end(State.FAILED)
            raise

    def turn(self, messages: int = TURN_MESSAGES, octets: int = TURN_BYTES) -> Iterator[m.Message]:
        """As many messages as one peer may have before the others; `more` says afterwards whether to come again.

        Raises RemoteProtocolError behind the last good message. If there is more, pause the transport until the next
        turn: what is fed meanwhile is kept, without a limit.
        """
        self.more = False
        end = self.unread - octets
        for _ in range(messages):
            message = self.next_message()
            if message is None:
                return
            yield message
            if self.unread <= end:
                break
        self.more = True

    def hang_up(self) -> None:
        """The connection is over, whoever ended it: nothing more is heard, nothing more may be said."""
        self._end(State.CLOSED)

    @property
    def unread(self) -> int:
        """How many bytes have been fed that are in no message yet."""
        blob = 0 if self._blob is None else len(self._blob)
        return len(self._buffer) - self._at + blob + sum(map(len, self._fed))

    @property
    def unfinished(self) -> str | None:
        """`line` or `blob` while the peer is in the middle of one, else None: what a deadline is for."""
        if self._form is not None:
            return "blob"
        return "line" if self._at < len(self._buffer) else None

    def _take_fed(self) -> None:
        """Move what has been fed to its place: a blob that waits for it, and the buffer."""
        data = self._fed[0] if len(self._fed) == 1 else b"".join(self._fed)
        self._fed.clear()
        if self._blob is not None and (missing := self._length - len(self._blob)):
            self._blob += data[:missing]
            data = data[missing:]
        if self._at < len(self._buffer):
            data = self._buffer[self._at :] + data
        self._buffer, self._at = data, 0

    def _next(self) -> m.Message | None:
        """The path of every message: few calls, since at thousands of reports a second each of them is felt."""
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
        """A line without an end; the rest of its chunk is not kept for its sake."""
        self._buffer, self._at = part, 0
        if len(part) >= MAX_LINE:
            raise RemoteProtocolError("line-too-long", f"no end after {MAX_LINE} bytes: {part[:80]!r}")

    def _judge(self, line: bytes) -> tuple[Form, list[Any]]:
        """Read a line that has a fault or a CR, step by step, so that its first fault is the one that is named."""
        parts = split_line(line)
        form = BY_WORD[self.role.peer].get(parts[0])
        if form is None or form.version > self._newest:
            raise RemoteProtocolError("unknown-command", f"{line[:80]!r} ({self.role.peer.value}, {self.state.value})")
        values = read_fields(form, parts[1:])
        if form.word not in self._legal:
            raise RemoteProtocolError(self._illegal_now(), f"{form.word.decode()} while {self.state.value}")
        return form, values

    def _illegal_now(self) -> str:
        if self.role is Role.EQUUS:
            return "unknown-command"
        return "hello-expected" if self.state is State.WANT_HELLO else "hello-repeated"

    def _permit(self, kind: type, values: list[Any]) -> None:
        """Whether a line of the remembered kinds is legal now; all of it can be said before its blob has come."""
        if kind is m.Result:
            message_id, name, _ = values
            if self.outstanding.get(message_id) != name:
                raise RemoteProtocolError("unknown-message-id", f"nobody waits for {name!r} under {message_id}")
        elif kind is m.Check:
            self._permit_check(*values)
        elif kind is m.Hello:
            if values[0] not in self.versions:
                raise RemoteProtocolError("unsupported-protocol-version", f"version {values[0]} is not spoken here")
        elif kind in _ASKS:
            self._permit_request(kind, values)
        elif not self._is_awaited(kind, values[0], values[1] if kind is m.File else None):
            raise RemoteProtocolError("unknown-message-id", f"{kind.__name__} {values[0]} answers no request of ours")

    def _permit_check(self, name: str, message_id: int, _: int) -> None:
        if message_id in self.outstanding:
            raise RemoteProtocolError("unknown-message-id", f"check {name!r}: id {message_id} is still outstanding")
        if len(self.outstanding) >= MAX_CHECKS_HEARD:
            raise RemoteProtocolError("too-many-outstanding", f"more than {MAX_CHECKS_HEARD} checks at once")

    def _permit_request(self, kind: type, values: list[Any]) -> None:
        if kind is m.Enrol and values[-1] > MAX_ENROL_BLOB:
            raise RemoteProtocolError("blob-too-large", f"{values[-1]} bytes to enrol; {MAX_ENROL_BLOB} is the most")
        if values[0] in self.requests:
            raise RemoteProtocolError("unknown-message-id", f"request {values[0]} is still outstanding")
        if len(self.requests) >= MAX_REQUESTS:
            raise RemoteProtocolError("too-many-outstanding", f"more than {MAX_REQUESTS} requests at once")

    def _is_awaited(self, answer: type, message_id: int, sha256: str | None) -> bool:
        """Whether an answer is to a request that is open: of its kind, and for a file, of that file."""
        asked = self.requests.get(message_id)
        return type(asked) is _ANSWERS[answer] and getattr(asked, "sha256", None) == sha256

    def _finish(self, form: Form, values: list[Any], length: int) -> m.Message | None:
        """The message of a line that has been read, if its blob is whole."""
        buffer, at = self._buffer, self._at
        if self._blob is None:
            end = at + length
            if end >= len(buffer):  # what comes goes straight to its place; nothing is set aside for what may not
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
            self._remember(message)
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
        """The bytes of a message of ours. Raises LocalProtocolError if it is illegal now; then nothing has changed."""
        kind = type(message)
        if kind not in self._ours:
            raise LocalProtocolError(f"{self.role.value} may not say {kind.__name__} while {self.state.value}")
        if self.role is Role.EQUUS and self.version == 2 and not self.speaks_v2 and kind not in _EQUUS_1:
            raise LocalProtocolError(f"{kind.__name__} before Helen has said a word of version 2")
        if kind in _REMEMBERED:
            self._permit_ours(message)
        data = encode(message, self.role)
        if self.trace is not None:
            self.trace(f"> {describe(message, self.role)}")
        if kind in _REMEMBERED:
            self._remember(message)
        elif kind is m.Error:
            self._end(State.CLOSED)
        return data

    def _permit_ours(self, message: m.Message) -> None:
        """What `_permit` asks of the peer, we ask of ourselves."""
        if isinstance(message, m.Check):
            if message.message_id in self.outstanding:
                raise LocalProtocolError(f"check id {message.message_id} is still outstanding")
            if len(self.outstanding) >= MAX_CHECKS:
                raise LocalProtocolError(f"{MAX_CHECKS} checks are outstanding already")
        elif isinstance(message, m.Result):
            if self.outstanding.get(message.message_id) != message.name:
                raise LocalProtocolError(f"nobody asked for {message.name!r} under {message.message_id}")
        elif isinstance(message, m.Hello):
            if message.version not in self.versions:
                raise LocalProtocolError(f"hello {message.version} is not one of {self.versions}")
        elif isinstance(message, m.AskManifest | m.Fetch | m.Enrol):
            self._permit_our_request(message)
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

    # ---------------------------------------------------------------------------------------------- state

    def _remember(self, message: m.Message) -> None:
        """What a message changes, whoever has said it."""
        if isinstance(message, m.Check):
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
        self._legal = _legal_words(self.role.peer, state, self._newest)
        self._ours = LEGAL[self.role, state]

    def _end(self, state: State) -> None:
        """Over. `outstanding` stays, so that whoever waits can be told."""
        self._enter(state)
        self._fed.clear()
        self._buffer, self._at, self._form, self._values, self._blob = b"", 0, None, [], None
