"""Lines to messages and back: the grammar of docs/protocol.rst, sections 2, 3 and 5. No state, no sockets.

Everything is judged on bytes. Python's own `int` takes `+5`, `1_000` and Arabic digits, its `str.split` splits at more
than a space, and its `str.splitlines` at more than LF.
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

T = TypeVar("T")
_INT = re.compile(rb"0|-?[1-9][0-9]{0,9}")
_NOT_IN_STRINGS = re.compile(rb"[\x00-\x20\x7f]")
MAX_KNOWN = 4_096  # fields of each kind that are remembered, of at most 255 bytes: some 2 MiB of strings


class Role(Enum):
    """The two sides of a conversation."""

    HELEN = "helen"
    EQUUS = "equus"

    # Enum's own is written in Python, and tables with roles in their keys are asked for every message.
    __hash__ = object.__hash__

    @property
    def peer(self) -> Role:
        return Role.EQUUS if self is Role.HELEN else Role.HELEN


def read_int(field: bytes) -> int:
    """Any int32; raises RemoteProtocolError `bad-int`."""
    if not _INT.fullmatch(field) or not INT_MIN <= (value := int(field)) <= INT_MAX:
        raise RemoteProtocolError("bad-int", f"{field[:40]!r} is no 32-bit decimal integer")
    return value


def read_id(field: bytes) -> int:
    """An id or a length: an int of 0 or more."""
    if field.isdigit() and len(field) < 10 and (field[0] != 0x30 or len(field) == 1):  # of bytes: ASCII alone
        return int(field)
    value = read_int(field)
    if value < 0:
        raise RemoteProtocolError("bad-int", f"{value} is negative where an id or a length stands")
    return value


def read_length(field: bytes) -> int:
    """The length of a blob; raises RemoteProtocolError `blob-too-large` before a byte of it has been kept."""
    length = read_id(field)
    if length > MAX_BLOB:
        raise RemoteProtocolError("blob-too-large", f"a blob of {length} bytes; {MAX_BLOB} is the most")
    return length


def read_string(field: bytes) -> str:
    """1 to 255 bytes of UTF-8 without spaces or control characters."""
    if not 1 <= len(field) <= MAX_STRING:
        raise RemoteProtocolError("bad-string", f"a string of {len(field)} bytes; it must have 1 to {MAX_STRING}")
    if _NOT_IN_STRINGS.search(field):
        raise RemoteProtocolError("bad-string", f"a space or a control character in {field!r}")
    try:
        return field.decode()
    except UnicodeDecodeError:
        raise RemoteProtocolError("bad-string", f"{field!r} is no UTF-8") from None


class Memo(dict[bytes, T]):
    """A reader that remembers the fields that were good.

    The names of checks and spools and the lengths of results come again and again; reading them anew would cost more
    than all the rest of a line. A peer that never repeats itself only makes the memory start over.
    """

    def __init__(self, read: Callable[[bytes], T]) -> None:
        self._read = read

    def __missing__(self, field: bytes) -> T:
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
    """How one field is read and written."""

    read: Callable[[bytes], Any]
    write: Callable[[Any], bytes]


INT = Kind(read_int, _write_int)
ID = Kind(read_id, _write_id)
STRING = Kind(STRINGS.__getitem__, _write_string)


class Form:
    """One command: its word, who says it, since which version, the fields of its line, and whether a blob follows."""

    def __init__(
        self, word: bytes, message: type[m.Message], sender: Role, version: int, *kinds: Kind, has_blob: bool = False
    ) -> None:
        self.word = word
        self.message: Callable[..., m.Message] = message
        self.kind: type = message
        self.sender = sender
        self.version = version
        self.kinds = kinds
        self.has_blob = has_blob
        # A blob's length is the last field of its line.
        self.readers = (*(kind.read for kind in kinds), *((LENGTHS.__getitem__,) if has_blob else ()))
        self.attributes = tuple(attribute.name for attribute in fields(message))
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
    Form(b"report", m.Report, _E, 2, STRING, ID, STRING, has_blob=True),
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
)

BY_WORD: dict[Role, dict[bytes, Form]] = {role: {f.word: f for f in FORMS if f.sender is role} for role in Role}
BY_MESSAGE: dict[Role, dict[type, Form]] = {role: {f.kind: f for f in FORMS if f.sender is role} for role in Role}


def split_line(line: bytes) -> list[bytes]:
    """The fields of a line without its LF; one CR at the end is tolerated. Raises `bad-line` for an empty field."""
    parts = line.removesuffix(b"\r").split(b" ")
    if b"" in parts:
        raise RemoteProtocolError("bad-line", f"an empty field in {line[:80]!r}")
    return parts


def read_fields(form: Form, line: list[bytes]) -> list[Any]:
    """The values of a line's fields, the length of a blob last. `line` is what split_line gave, without the word.

    Their number is judged first, then each from left to right.
    """
    if len(line) != len(form.readers):
        detail = f"{form.word.decode()} has {len(form.readers)} fields, not {len(line)}: {b' '.join(line)[:80]!r}"
        raise RemoteProtocolError("bad-line", detail)
    return list(map(call, form.readers, line))


def read_error(line: bytes) -> m.Error | None:
    """The message of an `error` line, spaces and all, or None for any other; what is no UTF-8 becomes \\x escapes."""
    word, _, message = line.removesuffix(b"\r").partition(b" ")
    return m.Error(message.decode("utf-8", "backslashreplace")) if word == b"error" else None


def encode(message: m.Message, sender: Role) -> bytes:
    """One message as one string of bytes: many small TLS writes cost several times the CPU of one.

    Raises LocalProtocolError for what has no legal bytes.
    """
    if isinstance(message, m.Error):
        return b"error " + _write_string(message.message) + b"\n"
    form = BY_MESSAGE[sender].get(type(message))
    if form is None:
        raise LocalProtocolError(f"{sender.value} never says {type(message).__name__}")
    parts = [form.word]
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
    """One message as a line for people: its line as on the wire, and the size of its blob instead of the blob."""
    if isinstance(message, m.Error):
        return f"error {message.message}"
    form = BY_MESSAGE[sender][type(message)]
    values = [getattr(message, name) for name in form.attributes]
    if form.has_blob:
        size = len(values.pop())
        values += [size, f"[{size} bytes]"]
    return " ".join([form.word.decode(), *map(str, values)])
