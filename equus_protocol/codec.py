"""Translate lines to messages and back: the grammar of docs/protocol.rst, sections 2, 3 and 5.

The module holds no state and opens no sockets. It judges bytes, not text: Python's own `int` takes `+5`, `1_000` and
Arabic digits, its `str.split` splits at more than a space, and its `str.splitlines` at more than LF.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from operator import call
from typing import Any, TypeVar

from attrs import fields, frozen

from equus_protocol import messages as m
from equus_protocol.errors import LocalProtocolError, RemoteProtocolError

# The longest line of all: `report`, a spool and a check of 255 bytes each, a sequence of 10 digits, a length of 7, four
# spaces, CR and LF make 539. 1,024 leaves room for a third string, and bounds what is held before a line is known.
MAX_LINE = 1_024  # bytes, LF included
MAX_BLOB = 1_048_576  # bytes: the "1 megabyte" of the source
MAX_STRING = 255  # bytes, not characters
INT_MIN, INT_MAX = -(2**31), 2**31 - 1

K = TypeVar("K")
T = TypeVar("T")
_INT = re.compile(rb"0|-?[1-9][0-9]{0,9}")
_NOT_IN_STRINGS = re.compile(rb"[\x00-\x20\x7f]")
MAX_KNOWN = 4_096  # fields of each kind that are remembered, of at most 255 bytes: some 2 MiB of strings


class Role(Enum):
    """Name the two sides of a conversation."""

    HELEN = "helen"
    EQUUS = "equus"

    # Enum's own hash is written in Python, and tables with roles in their keys are looked up for every message.
    __hash__ = object.__hash__

    @property
    def peer(self) -> Role:
        return Role.EQUUS if self is Role.HELEN else Role.HELEN


def read_int(field: bytes) -> int:
    """Return a field as an int32; raises RemoteProtocolError `bad-int` if it is none."""
    if not _INT.fullmatch(field) or not INT_MIN <= (value := int(field)) <= INT_MAX:
        raise RemoteProtocolError("bad-int", f"{field[:40]!r} is no 32-bit decimal integer")
    return value


def read_id(field: bytes) -> int:
    """Return a field as an id or a length, an int of 0 or more; raises RemoteProtocolError `bad-int` if it is none."""
    if field.isdigit() and len(field) < 10 and (field[0] != 0x30 or len(field) == 1):  # bytes.isdigit: ASCII alone
        return int(field)
    value = read_int(field)
    if value < 0:
        raise RemoteProtocolError("bad-int", f"{value} is negative where an id or a length stands")
    return value


def read_sequence(field: bytes) -> int:
    """Return a number from 1 on, such as that of a report in its spool.

    Raises RemoteProtocolError `bad-int` if it is none.
    """
    sequence = read_id(field)
    if sequence == 0:
        raise RemoteProtocolError("bad-int", "0 where a number from 1 on stands")
    return sequence


def read_length(field: bytes) -> int:
    """Return the length of a blob; raises RemoteProtocolError `blob-too-large` before a byte of it has been kept."""
    length = read_id(field)
    if length > MAX_BLOB:
        raise RemoteProtocolError("blob-too-large", f"a blob of {length} bytes; {MAX_BLOB} is the most")
    return length


def read_string(field: bytes) -> str:
    """Return a field as text; raises RemoteProtocolError `bad-string` if it may not stand on a line.

    A string has 1 to 255 bytes of UTF-8, without spaces or control characters.
    """
    if not 1 <= len(field) <= MAX_STRING:
        raise RemoteProtocolError("bad-string", f"a string of {len(field)} bytes; it must have 1 to {MAX_STRING}")
    if _NOT_IN_STRINGS.search(field):
        raise RemoteProtocolError("bad-string", f"a space or a control character in {field!r}")
    try:
        return field.decode()
    except UnicodeDecodeError:
        raise RemoteProtocolError("bad-string", f"{field!r} is no UTF-8") from None


class Memo(dict[K, T]):
    """Remember the values of fields that a reader has accepted, or the fields of values that a writer has.

    The names of checks and spools and the lengths of results come again and again; reading them anew would cost more
    than all the rest of a line. A peer that never repeats itself only makes the memory start over.
    """

    def __init__(self, read: Callable[[K], T]) -> None:
        self._read = read

    def __missing__(self, field: K) -> T:
        value = self._read(field)
        if len(self) >= MAX_KNOWN:
            self.clear()
        self[field] = value
        return value


STRINGS = Memo(read_string)
LENGTHS = Memo(read_length)


def _write_int(value: int) -> bytes:
    if type(value) is not int or not INT_MIN <= value <= INT_MAX:
        raise LocalProtocolError(f"{value!r} is no whole number of 32 bits")
    return b"%d" % value


def _write_id(value: int) -> bytes:
    if type(value) is not int or not 0 <= value <= INT_MAX:
        raise LocalProtocolError(f"{value!r} is no id: a whole number from 0 to {INT_MAX}")
    return b"%d" % value


def _write_sequence(value: int) -> bytes:
    if value == 0:
        raise LocalProtocolError("0 is no such number: the first one is 1")
    return _write_id(value)


def _write_string(value: str) -> bytes:
    try:
        field = value.encode()
        STRINGS[field]
    except UnicodeEncodeError:
        raise LocalProtocolError(f"{value!r} has half a surrogate pair, which UTF-8 cannot hold") from None
    except RemoteProtocolError as error:
        raise LocalProtocolError(error.detail) from error
    return field


@frozen
class Kind:
    """Hold the reader and the writer of one kind of field."""

    read: Callable[[bytes], Any]
    write: Callable[[Any], bytes]


INT = Kind(read_int, _write_int)
ID = Kind(read_id, _write_id)
SEQUENCE = Kind(read_sequence, _write_sequence)
STRING = Kind(STRINGS.__getitem__, Memo(_write_string).__getitem__)


class Form:
    """Describe one command: its name, sender and first version, the fields of its line, and if a blob follows."""

    def __init__(
        self, command: bytes, message: type[m.Message], sender: Role, version: int, *kinds: Kind, has_blob: bool = False
    ) -> None:
        self.command = command
        self.message: Callable[..., m.Message] = message
        self.kind: type = message
        self.sender = sender
        self.version = version
        self.kinds = kinds
        self.has_blob = has_blob
        # A blob's length is the last field of its line.
        self.readers = (*(kind.read for kind in kinds), *((LENGTHS.__getitem__,) if has_blob else ()))
        self.attributes = tuple(attribute.name for attribute in fields(message))
        # Those that a Helen hears thousands of times a second; and where their number stands among a line's fields.
        self.is_usual = message is m.Report or message is m.Result
        self.number_at = 2 if message is m.Report else 1
        self.words = len(self.readers) + 1  # of its line, its command among them
        self.writers = tuple((name, kind.write) for name, kind in zip(self.attributes, kinds, strict=False))


_H, _E = Role.HELEN, Role.EQUUS

# The whole grammar. `error` alone is not in it: a reader takes the rest of its line (read_error).
FORMS = (
    Form(b"hello", m.Hello, _E, 1, INT, STRING),
    Form(b"result", m.Result, _E, 1, ID, STRING, has_blob=True),
    Form(b"enrol", m.Enrol, _E, 2, ID, STRING, has_blob=True),
    Form(b"ping", m.Ping, _E, 2, ID),
    Form(b"pong", m.Pong, _E, 2, ID),
    Form(b"manifest", m.AskManifest, _E, 2, ID),
    Form(b"fetch", m.Fetch, _E, 2, ID, STRING),
    Form(b"loaded", m.Loaded, _E, 2, STRING, has_blob=True),
    Form(b"report", m.Report, _E, 2, STRING, SEQUENCE, STRING, has_blob=True),
    Form(b"bytes", m.Bytes, _E, 2, ID, has_blob=True),
    Form(b"window", m.Window, _E, 2, ID, SEQUENCE),
    Form(b"close", m.Close, _E, 2, ID, STRING),
    Form(b"reload", m.Reload, _H, 1),
    Form(b"check", m.Check, _H, 1, STRING, ID, has_blob=True),
    Form(b"enrolled", m.Enrolled, _H, 2, ID, has_blob=True),
    Form(b"ping", m.Ping, _H, 2, ID),
    Form(b"pong", m.Pong, _H, 2, ID),
    Form(b"manifest", m.Manifest, _H, 2, ID, has_blob=True),
    Form(b"file", m.File, _H, 2, ID, STRING, has_blob=True),
    Form(b"schedule", m.Schedule, _H, 2, ID, has_blob=True),
    Form(b"ack", m.Ack, _H, 2, STRING, ID),
    Form(b"cancel", m.Cancel, _H, 2, ID),
    Form(b"servers", m.Servers, _H, 2, ID, has_blob=True),
    Form(b"tunnel", m.Tunnel, _H, 2, ID, STRING, ID, has_blob=True),
    Form(b"bytes", m.Bytes, _H, 2, ID, has_blob=True),
    Form(b"window", m.Window, _H, 2, ID, SEQUENCE),
    Form(b"close", m.Close, _H, 2, ID, STRING),
)

BY_COMMAND: dict[Role, dict[bytes, Form]] = {role: {f.command: f for f in FORMS if f.sender is role} for role in Role}
BY_MESSAGE: dict[Role, dict[type, Form]] = {role: {f.kind: f for f in FORMS if f.sender is role} for role in Role}


def split_line(line: bytes) -> list[bytes]:
    """Return the fields of a line without its LF; one CR at the end is tolerated.

    Raises RemoteProtocolError `bad-line` if a field is empty.
    """
    parts = line.removesuffix(b"\r").split(b" ")
    if b"" in parts:
        raise RemoteProtocolError("bad-line", f"an empty field in {line[:80]!r}")
    return parts


def read_fields(form: Form, line: list[bytes]) -> list[Any]:
    """Return the values of a line's fields, the length of a blob last; `line` is split_line's list without the command.

    Raises RemoteProtocolError if a field is bad: their number is judged first, then each from left to right, so that
    two implementations name the same fault of a line with several.
    """
    if len(line) != len(form.readers):
        detail = f"{form.command.decode()} has {len(form.readers)} fields, not {len(line)}: {b' '.join(line)[:80]!r}"
        raise RemoteProtocolError("bad-line", detail)
    return list(map(call, form.readers, line))


def read_error(line: bytes) -> m.Error | None:
    """Return an `error` line as a message, None for any other line; bytes that are no UTF-8 become \\x escapes."""
    word, _, message = line.removesuffix(b"\r").partition(b" ")
    return m.Error(message.decode("utf-8", "backslashreplace")) if word == b"error" else None


def encode(message: m.Message, sender: Role) -> bytes:
    """Return a message as one string of bytes, since many small TLS writes cost several times the CPU of one.

    Raises LocalProtocolError if the message has no legal bytes: a value out of range, or one that `sender` never says.
    """
    if isinstance(message, m.Error):
        return b"error " + _write_string(message.message) + b"\n"
    form = BY_MESSAGE[sender].get(type(message))
    if form is None:
        raise LocalProtocolError(f"{sender.value} never says {type(message).__name__}")
    parts = [form.command]
    for name, write in form.writers:
        parts.append(write(getattr(message, name)))
    if not form.has_blob:
        return b" ".join(parts) + b"\n"
    blob = getattr(message, form.attributes[-1])
    if not isinstance(blob, bytes):
        raise LocalProtocolError(f"the blob of {type(message).__name__} is {type(blob).__name__}, not bytes")
    if len(blob) > MAX_BLOB:
        raise LocalProtocolError(f"a blob of {len(blob)} bytes; {MAX_BLOB} is the most")
    return b"%b %d\n%b\n" % (b" ".join(parts), len(blob), blob)


def describe(message: m.Message, sender: Role) -> str:
    """Return a message as a line for a log: its line as on the wire, and the size of its blob instead of the blob."""
    if isinstance(message, m.Error):
        return f"error {message.message}"
    form = BY_MESSAGE[sender][type(message)]
    values = [getattr(message, name) for name in form.attributes]
    if form.has_blob:
        size = len(values.pop())
        values += [size, f"[{size} bytes]"]
    return " ".join([form.command.decode(), *map(str, values)])
