"""Give the recordings of this host to a person whose key the policy names for that: over SSH, so that Helen sees none.

The person logs in as the user `recordings`, which is no account, and runs `list` or `show NAME`; no process is started
for it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from twisted.conch.ssh import common
from twisted.conch.ssh.connection import EXTENDED_DATA_STDERR
from twisted.internet import reactor

from equus.policy.shell import AUDITOR
from equus.shell.avatar import Avatar
from equus.shell.paced_channel import PacedChannel
from equus.shell.permits import Permit
from equus.shell.recordings import listed, path_of

PIECE = 32_768  # bytes that are read at once


class Auditor(Avatar):
    """Stands for a person who may read recordings, and nothing else. `server` is server.Server."""

    login = AUDITOR

    def __init__(self, server: Any, opened: Permit, blob: bytes, folder: Path) -> None:
        super().__init__()
        self.permit, self.blob, self.folder = opened, blob, folder
        self.touched, self.note = server.touched, server.note
        self.channelLookup[b"session"] = RecordingsChannel


class RecordingsChannel(PacedChannel):
    """Sends the list, or one recording, as fast as the client takes it."""

    name = b"session"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._pieces: Iterator[bytes] | None = None
        self._is_due = False  # `_pump` is called in the next turn

    def request_exec(self, data: bytes) -> bool:
        """Begin to send what is asked for; refused a second time."""
        if self._pieces is not None:
            return False
        wanted = common.getNS(data)[0].decode("utf-8", "replace")
        self.avatar.note(f"asks for recordings: {wanted[:100]!r}")
        word, _, name = wanted.partition(" ")
        path = path_of(self.avatar.folder, name) if word == "show" else None
        if wanted == "list":
            self._begin(json.dumps(each, ensure_ascii=False).encode() + b"\n" for each in listed(self.avatar.folder))
        elif path is not None:
            self._begin(_pieces_of(path))
        else:
            self._pieces = iter(())
            self.writeExtended(EXTENDED_DATA_STDERR, f"there is no recording {name!r}\n".encode())
            self._later(lambda: self._finish(3))
        return True

    def _begin(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._pump_soon()  # behind the answer to the request

    def _later(self, call: Any) -> None:
        reactor.callLater(0, call)  # type: ignore[attr-defined]

    def _pump_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._later(self._pump)

    def startWriting(self) -> None:
        """Go on: the client takes more."""
        self._pump_soon()

    def _pump(self) -> None:
        self._is_due = False
        if self._pieces is None or self.localClosed or self.closing or not self.areWriting or self.conn.is_full:
            return
        self.avatar.touched()
        try:
            piece = next(self._pieces, None)
        except OSError as error:
            self.avatar.note(f"a recording can't be read: {error.strerror}")
            self._finish(1)
            return
        if piece is None:
            self._finish(0)
            return
        self.write(piece)
        self._pump_soon()

    def _finish(self, status: int) -> None:
        if not (self.localClosed or self.closing):
            self.conn.sendRequest(self, b"exit-status", struct.pack(">L", status))
            self.loseConnection()


def _pieces_of(path: Path) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while piece := file.read(PIECE):
            yield piece
