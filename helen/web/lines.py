"""Answers in lines of JSON, for as long as the client reads them: queries and jobs that are followed."""

from __future__ import annotations

import json
from collections.abc import Mapping

from helen.sessions.unsent_bytes import unsent
from helen.web.request import ApiRequest
from helen.web.route import LINES

MAX_UNREAD = 64 * 1024 * 1024  # bytes of lines that wait for a client that doesn't read; then it is cut off


class Lines:
    """Writes lines to one client. `is_gone`: it has hung up."""

    def __init__(self, request: ApiRequest) -> None:
        self.is_gone = False
        self._request = request
        self._written = 0
        request.setHeader("content-type", LINES)
        request.notifyFinish().addErrback(self._hung_up)

    def _hung_up(self, _: object) -> None:
        self.is_gone = True

    def write(self, document: Mapping[str, object]) -> None:
        """Write a document as one line."""
        self.write_line(json.dumps(document, ensure_ascii=False).encode("utf-8", "replace") + b"\n")

    def write_line(self, line: bytes) -> None:
        """Write one line; a client that leaves too much unread is cut off."""
        if self.is_gone:
            return
        self._written += len(line)
        if self._written > MAX_UNREAD:
            self._written = unsent(self._request.transport, self._written - len(line)) + len(line)
            if self._written > MAX_UNREAD:
                self._request.cut()
                return
        self._request.write(line)
