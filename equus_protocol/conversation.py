"""One connection's conversation: bytes in, messages out, and nothing illegal in either direction.

Theory of operation. `feed` only keeps bytes. `next_message` takes one message at a time, so that the good ones that
stood before a bad line in the same chunk are not lost. A line is judged in the order of docs/protocol.rst section 2:
its length, its empty fields, its command, the number of its fields, each field, and last whether it is legal now; all
of that before a byte of its blob is kept. One class plays both roles. The clock, the socket and the meaning of blobs
are other people's business. An error is final.

What is legal when is the table LEGAL, below. Two things beside it need memory: which checks are outstanding (their ids
are Helen's), and which of the agent's own requests are (theirs are the agent's).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from equus_protocol import messages as m
from equus_protocol.codec import BY_WORD, MAX_LINE, Form, Role, encode, read_error, read_fields, split_line
from equus_protocol.errors import LocalProtocolError, RemoteProtocolError

__all__ = ["MAX_CHECKS", "MAX_ENROL_BLOB", "MAX_REQUESTS", "Conversation", "Role", "State"]

VERSIONS = (1, 2)
MAX_CHECKS = 64  # that Helen keeps outstanding on one connection: more would only wait in the agent's own queue
MAX_CHECKS_HEARD = 1_024  # that an agent takes from a foreign Helen, who may not know our figure
MAX_REQUESTS = 64  # of an agent's manifest, fetch and enrol, unanswered: each may cost Helen a megabyte
MAX_ENROL_BLOB = 65_536  # bytes from a stranger: a token and a request for a certificate take about two thousand


class State(Enum):
    """Named for what is expected."""

    WANT_HELLO = "waiting for hello"
    READY_1 = "version 1"
    READY_2 = "version 2"
    CLOSED = "closed"


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
    (Role.HELEN, State.WANT_HELLO): _HELEN_0,
    (Role.HELEN, State.READY_1): _HELEN_1,
    (Role.HELEN, State.READY_2): _HELEN_2,
    (Role.EQUUS, State.CLOSED): frozenset(),
    (Role.HELEN, State.CLOSED): frozenset(),
}

_ASKS = {m.AskManifest: m.Manifest, m.Fetch: m.File, m.Enrol: m.Enrolled}
_ANSWERS = {answer: question for question, answer in _ASKS.items()}
# Those whose legality or effect hangs on more than the table above.
_REMEMBERED = frozenset({m.Hello, m.Check, m.Result, *_ASKS, *_ANSWERS})
# What a reader may take at once, without asking which fault is the first: (sender, state) -> word -> form.
_AT_ONCE = {
    (sender, state): {word: form for word, form in BY_WORD[sender].items() if form.kind in kinds}
    for (sender, state), kinds in LEGAL.items()
}


class Conversation:
    """The state of one connection, seen from `role`.

    `versions` are those that we speak. `version` is 0 until hello. `outstanding` maps the ids of unanswered checks to
    their names, `requests` the ids of the agent's unanswered requests to the kind of message that answers them.
    `trace`, if set, is called with a line for each message: `> ...` for ours, `< ...` for the peer's.
    """

    def __init__(self, role: Role, versions: tuple[int, ...] = VERSIONS) -> None:
        self.role = role
        self.versions = versions
        self.state = State.WANT_HELLO
        self.version = 0
        self.speaks_v2 = False  # a version 2 command of Helen's has been read, so an agent may use them too
        self.outstanding: dict[int, str] = {}
        self.requests: dict[int, type] = {}
        self.trace: Callable[[str], None] | None = None
        self._at_once = _AT_ONCE[role.peer, self.state]
        self._buffer = b""
        self._at = 0
        self._form: Form | None = None  # of a line whose blob is still to come
        self._values: list[Any] = []
        self._length = 0
        self._blob: bytearray | None = None  # what has come of it, once it is known to be unfinished
        self._failure: RemoteProtocolError | None = None

    # ---------------------------------------------------------------------------------------------- reading

    def feed(self, data: bytes) -> None:
        """Take bytes from the peer. Call `next_message` until it returns None before feeding on, to keep this small."""
        if self.state is State.CLOSED:
            return
        if self._blob is not None and self._at >= len(self._buffer):
            taken = min(self._length - len(self._blob), len(data))
            self._blob += data[:taken]
            self._buffer, self._at = data, taken
        elif self._at >= len(self._buffer):
            self._buffer, self._at = data, 0
        else:
            self._buffer, self._at = self._buffer[self._at :] + data, 0

    def next_message(self) -> m.Message | None:
        """The next whole message, or None until more has been fed. Raises RemoteProtocolError, again and again."""
        if self._failure is not None:
            raise self._failure
        if self.state is State.CLOSED:
            return None
        try:
            return self._next()
        except RemoteProtocolError as failure:
            self._failure = failure
            self._forget()
            raise

    def hang_up(self) -> None:
        """The connection is over, whoever ended it: nothing more is heard, nothing more may be said."""
        self._forget()

    @property
    def unfinished(self) -> str | None:
        """`line` or `blob` while the peer is in the middle of one, else None: what a deadline is for."""
        if self._form is not None:
            return "blob"
        return "line" if self._at < len(self._buffer) else None

    def _next(self) -> m.Message | None:
        form = self._form
        if form is None:
            line = self._take_line()
            if line is None:
                return None
            parts = line.split(b" ")
            form = self._at_once.get(parts[0])
            if form is None or b"" in parts or line[-1] == 0x0D:
                if self.role is Role.EQUUS and parts[0].removesuffix(b"\r") == b"error":
                    return self._heard_error(line)
                parts = split_line(line)
                form = self._judge(parts)
            values, length = read_fields(form, parts)
            self._permit(form, values, length)
            if length is None:
                return self._heard(form, values)
            self._form, self._values, self._length = form, values, length
        blob = self._take_blob(self._length)
        if blob is None:
            return None
        self._form = None
        self._values.append(blob)
        return self._heard(form, self._values)

    def _take_line(self) -> bytes | None:
        buffer, at = self._buffer, self._at
        end = buffer.find(b"\n", at, at + MAX_LINE)
        if end < 0:
            if len(buffer) - at >= MAX_LINE:
                raise RemoteProtocolError("line-too-long", f"no end after {MAX_LINE} bytes: {buffer[at : at + 80]!r}")
            return None
        self._at = end + 1
        return buffer[at:end]

    def _judge(self, parts: list[bytes]) -> Form:
        """The form of a line that is not legal at once, or has a CR; raises for a word that nobody has here."""
        form = BY_WORD[self.role.peer].get(parts[0])
        if form is None or form.version > (self.version or 2):
            shown = b" ".join(parts)[:80]
            raise RemoteProtocolError("unknown-command", f"{shown!r} ({self.role.peer.value}, {self.state.value})")
        return form

    def _permit(self, form: Form, values: list[Any], length: int | None) -> None:
        """Whether a line is legal now; all of it can be said before its blob has come."""
        kind = form.kind
        if form.word not in self._at_once:
            if self.role is Role.EQUUS:
                raise RemoteProtocolError("unknown-command", f"{kind.__name__} while {self.state.value}")
            slug = "hello-expected" if self.state is State.WANT_HELLO else "hello-repeated"
            raise RemoteProtocolError(slug, f"{kind.__name__} while {self.state.value}")
        if kind not in _REMEMBERED:
            return
        if kind is m.Result:
            message_id, name = values
            if self.outstanding.get(message_id) != name:
                raise RemoteProtocolError("unknown-message-id", f"nobody waits for {name!r} under {message_id}")
        elif kind is m.Check:
            self._permit_check(*values)
        elif kind is m.Hello and values[0] not in self.versions:
            raise RemoteProtocolError("unsupported-protocol-version", f"version {values[0]} is not spoken here")
        elif kind is m.Enrol and length is not None and length > MAX_ENROL_BLOB:
            raise RemoteProtocolError("blob-too-large", f"{length} bytes to enrol; {MAX_ENROL_BLOB} is the most")
        if kind in _ASKS:
            self._permit_request(values[0])
        elif kind in _ANSWERS and self.requests.get(values[0]) is not kind:
            raise RemoteProtocolError("unknown-message-id", f"{kind.__name__} {values[0]} answers no request")

    def _permit_check(self, name: str, message_id: int) -> None:
        if message_id in self.outstanding:
            raise RemoteProtocolError("unknown-message-id", f"check {name!r}: id {message_id} is still outstanding")
        if len(self.outstanding) >= MAX_CHECKS_HEARD:
            raise RemoteProtocolError("too-many-outstanding", f"more than {MAX_CHECKS_HEARD} checks at once")

    def _permit_request(self, message_id: int) -> None:
        if message_id in self.requests:
            raise RemoteProtocolError("unknown-message-id", f"request {message_id} is still outstanding")
        if len(self.requests) >= MAX_REQUESTS:
            raise RemoteProtocolError("too-many-outstanding", f"more than {MAX_REQUESTS} requests at once")

    def _take_blob(self, length: int) -> bytes | None:
        buffer, at = self._buffer, self._at
        if self._blob is None:
            end = at + length
            if end >= len(buffer):  # unfinished; from here on its bytes go straight to where they belong
                self._blob = bytearray(buffer[at:end])
                self._at = len(buffer)
                return None
            blob = buffer[at:end]
        else:
            end = at
            if len(self._blob) < length or end >= len(buffer):
                return None
            blob, self._blob = bytes(self._blob), None
        if buffer[end] != 0x0A:
            raise RemoteProtocolError("bad-blob-end", f"{buffer[end : end + 1]!r} after a blob, where LF belongs")
        self._at = end + 1
        return blob

    def _heard_error(self, line: bytes) -> m.Error:
        error = read_error(line)
        self._note("<", error)
        self._forget()
        return error

    def _heard(self, form: Form, values: list[Any]) -> m.Message:
        message = form.message(*values)
        if self.trace is not None:
            self._note("<", message)
        if form.kind in _REMEMBERED:
            self._remember(message)
        if not self.speaks_v2 and form.version == 2 and self.version == 2:
            self.speaks_v2 = True
        return message

    def _remember(self, message: m.Message) -> None:
        """What a message changes, whoever has said it."""
        kind = type(message)
        if isinstance(message, m.Check):
            self.outstanding[message.message_id] = message.name
        elif isinstance(message, m.Result):
            del self.outstanding[message.message_id]
        elif isinstance(message, m.Hello):
            self._agree(message.version)
        elif kind in _ASKS:
            self.requests[message.message_id] = _ASKS[kind]  # type: ignore[union-attr]  # each of them has one
        elif kind in _ANSWERS:
            del self.requests[message.message_id]  # type: ignore[union-attr]

    # ---------------------------------------------------------------------------------------------- writing

    def send(self, message: m.Message) -> bytes:
        """The bytes of a message of ours. Raises LocalProtocolError if it is illegal now; then nothing has changed."""
        self._permit_ours(message)
        data = encode(message, self.role)
        if self.trace is not None:
            self._note(">", message)
        kind = type(message)
        if kind in _REMEMBERED:
            self._remember(message)
        elif kind is m.Error:
            self._forget()
        return data

    def _permit_ours(self, message: m.Message) -> None:
        kind = type(message)
        if kind not in LEGAL[self.role, self.state]:
            raise LocalProtocolError(f"{self.role.value} may not say {kind.__name__} while {self.state.value}")
        if isinstance(message, m.Hello) and message.version not in self.versions:
            raise LocalProtocolError(f"hello {message.version} is not one of {self.versions}")
        if self.role is Role.EQUUS and self.version == 2 and not self.speaks_v2 and kind not in _EQUUS_1:
            raise LocalProtocolError(f"{kind.__name__} before Helen has said a word of version 2")
        if kind not in _REMEMBERED:
            return
        if isinstance(message, m.Check):
            if message.message_id in self.outstanding:
                raise LocalProtocolError(f"check id {message.message_id} is still outstanding")
            if len(self.outstanding) >= MAX_CHECKS:
                raise LocalProtocolError(f"{MAX_CHECKS} checks are outstanding already")
        elif isinstance(message, m.Result):
            if self.outstanding.get(message.message_id) != message.name:
                raise LocalProtocolError(f"nobody asked for {message.name!r} under {message.message_id}")
        elif isinstance(message, m.AskManifest | m.Fetch | m.Enrol):
            if message.message_id in self.requests or len(self.requests) >= MAX_REQUESTS:
                raise LocalProtocolError(f"request id {message.message_id} is taken, or {MAX_REQUESTS} are outstanding")
        elif kind in _ANSWERS and self.requests.get(message.message_id) is not kind:  # type: ignore[union-attr]
            raise LocalProtocolError(f"{message!r} answers no request")

    # ---------------------------------------------------------------------------------------------- state

    def _agree(self, version: int) -> None:
        self.version = version
        self.state = State.READY_2 if version == 2 else State.READY_1
        self._at_once = _AT_ONCE[self.role.peer, self.state]

    def _forget(self) -> None:
        """Over. `outstanding` stays, so that whoever waits can be told."""
        self.state = State.CLOSED
        self._at_once = {}
        self._buffer, self._at, self._form, self._blob = b"", 0, None, None

    def _note(self, arrow: str, message: m.Message) -> None:
        if self.trace is not None:
            self.trace(f"{arrow} {describe(message)}")


def describe(message: m.Message) -> str:
    """One message as a line for people: its header as on the wire, and the size of its blob."""
    sender = Role.HELEN if type(message) in _HELEN_2 | {m.Error} else Role.EQUUS
    try:
        header, _, rest = encode(message, sender).partition(b"\n")
    except LocalProtocolError:
        return repr(message)
    return header.decode() + (f" [{len(rest) - 1} bytes]" if rest else "")
