"""Take whole reports and results of which each word was read before: nearly all that a Helen hears.

One call reads such a message; a Conversation needs four times as many, since it judges each field. Nothing is judged
here: whatever is unusual stays where it is, and the Conversation reads it from its first byte.
"""

from __future__ import annotations

from collections.abc import Mapping

from equus_protocol import messages as m
from equus_protocol.codec import LENGTHS, MAX_LINE, STRINGS, Form
from equus_protocol.unread_bytes import UnreadBytes


class UsualMessages:
    """Read the short way from `unread`. `legal` are the commands that may come now, none where each must be traced.

    `outstanding` maps the ids of unanswered checks to their names; a result takes its own out of it.
    """

    __slots__ = ("_outstanding", "_unread", "legal")

    def __init__(self, unread: UnreadBytes, outstanding: dict[int, str]) -> None:
        self._unread, self._outstanding = unread, outstanding
        self.legal: Mapping[bytes, Form] = {}

    def take(self, chunk: bytes | None = None) -> m.Report | m.Result | None:
        """Return the next unread message if it is whole and usual, else None.

        With a `chunk`, which was not fed, it is that chunk, if nothing is unread and the message is all of it. It is
        one long function because a second call for each result would be felt.
        """
        unread = self._unread
        buffer, at = unread.buffer, unread.at
        if chunk is not None:
            if at < len(buffer) or unread.fed:
                return None
            buffer, at = chunk, 0
        if unread.form is not None or (end := buffer.find(b"\n", at, at + MAX_LINE)) < 0:
            return None
        fields = buffer[at:end].split(b" ")
        form = self.legal.get(fields[0])
        if form is None or not form.is_usual or len(fields) != form.words:
            return None
        number, length, name = fields[form.number_at], LENGTHS.get(fields[-1]), STRINGS.get(fields[-2])
        if length is None or name is None or len(number) > 9 or not number.isdigit() or number[0] == 0x30:
            return None
        stop = end + 1 + length
        if stop >= len(buffer) or buffer[stop] != 0x0A or (chunk is not None and stop + 1 != len(chunk)):
            return None
        if form.kind is m.Report:
            if (spool := STRINGS.get(fields[1])) is None:
                return None
            message: m.Report | m.Result = m.Report(spool, int(number), name, buffer[end + 1 : stop])
        else:
            asked = int(number)
            if self._outstanding.get(asked) != name:
                return None
            del self._outstanding[asked]
            message = m.Result(asked, name, buffer[end + 1 : stop])
        if chunk is None:
            unread.at = stop + 1
        return message
