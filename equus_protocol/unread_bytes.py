"""Keep the bytes of a peer that are in no message yet: chunks, the buffer they are joined in, and an unfinished blob.

A Conversation reads lines from `buffer` at `at`, and this class gives it blobs. Its fields are public to the package:
at thousands of reports a second a call for each of them would be felt. No memory is set aside for an announced length.
"""

from __future__ import annotations

from typing import Any

from equus_protocol.codec import MAX_LINE, Form
from equus_protocol.errors import RemoteProtocolError


class UnreadBytes:
    """Hold what was fed and not read. `fed` are chunks to be joined; `at` is where the unread part of `buffer` begins.

    `form`, `values` and `length` belong to a line that was read, while its blob is still to come; `blob` is the part
    of it that has come, and as long as more of it is to come, the buffer is empty.
    """

    __slots__ = ("at", "blob", "buffer", "fed", "form", "length", "values")

    def __init__(self) -> None:
        self.fed: list[bytes] = []
        self.clear()

    def clear(self) -> None:
        """Let go of all bytes."""
        self.fed.clear()
        self.buffer, self.at = b"", 0
        self.form: Form | None = None
        self.values: list[Any] = []
        self.length = 0
        self.blob: bytearray | None = None

    @property
    def size(self) -> int:
        """Return the number of bytes that have been fed and are in no message yet."""
        blob = 0 if self.blob is None else len(self.blob)
        fed = sum(map(len, self.fed)) if self.fed else 0
        return len(self.buffer) - self.at + blob + fed

    @property
    def unfinished(self) -> str | None:
        """Return `line` or `blob` while the peer is in the middle of one, else None."""
        if self.form is not None:
            return "blob"
        return "line" if self.at < len(self.buffer) else None

    def join(self) -> None:
        """Move the fed chunks to the blob that waits for them, and the rest to the buffer."""
        data = self.fed[0] if len(self.fed) == 1 else b"".join(self.fed)
        self.fed.clear()
        if self.blob is not None and (missing := self.length - len(self.blob)):
            self.blob += data[:missing]
            data = data[missing:]
        if self.at < len(self.buffer):
            data = self.buffer[self.at :] + data
        self.buffer, self.at = data, 0

    def keep_part(self, part: bytes) -> None:
        """Keep a line without an end, by itself, so that it doesn't hold the rest of its chunk in memory.

        Raises RemoteProtocolError if no line is so long.
        """
        self.buffer, self.at = part, 0
        if len(part) >= MAX_LINE:
            raise RemoteProtocolError("line-too-long", f"no end after {MAX_LINE} bytes: {part[:80]!r}")

    def finish(self, form: Form, values: list[Any], length: int) -> bool:
        """Append the blob of a line to its values, and return True; keep the line and return False until it is whole.

        Raises RemoteProtocolError if something else than LF stands behind the blob.
        """
        buffer, at = self.buffer, self.at
        if self.blob is None:
            end = at + length
            if end >= len(buffer):  # no memory is set aside for a length that was only announced
                self.form, self.values, self.length = form, values, length
                self.blob = bytearray(buffer[at:end])
                self.buffer, self.at = b"", 0
                return False
            values.append(buffer[at:end])
        else:
            end = at
            if end >= len(buffer):
                return False
            values.append(bytes(self.blob))
            self.form = self.blob = None
        if buffer[end] != 0x0A:
            raise RemoteProtocolError("bad-blob-end", f"{buffer[end : end + 1]!r} after a blob, where LF belongs")
        self.at = end + 1
        return True
