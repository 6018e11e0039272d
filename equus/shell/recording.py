"""Record the sessions of one connection as asciicast v2, each in a file that only root can read.

An event is written before the other side gets it, so nothing is seen or done that is not in the file. A session that
can't be recorded any more, since the disk is full or its share of the room is used up, has to end.
"""

from __future__ import annotations

import codecs
import json
import os
import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from attrs import frozen

MOST_COMMAND = 4_096  # characters of a command in the head of a recording
END_ROOM = 256  # bytes that are kept for the last line, so that even a full recording says how it ended

Kind = Literal["terminal", "command", "files"]


class RecordingFailed(Exception):
    """Report that a session can't be recorded, so it must not go on; the text says why."""


@frozen
class About:
    """Says of a session who has it (`who`: key or certificate), as which user, for whom by Helen's word, and of what.

    `kind`: of a terminal the output is recorded, which shows what was typed; of a `command` without a terminal input
    and output; of `files` (SFTP) the log of the server.
    """

    who: str
    user: str
    caller: str
    kind: Kind
    command: str | None = None
    term: str = ""
    size: tuple[int, int] = (80, 24)  # columns and rows

    def head(self, began: float) -> dict[str, Any]:
        """Return the first line of a recording. `began`: unix seconds. `equus` has what asciicast has no name for."""
        columns, rows = self.size
        said = {"who": self.who, "user": self.user, "caller": self.caller, "kind": self.kind}
        head = {"version": 2, "width": columns, "height": rows, "timestamp": int(began), "equus": said}
        if self.command is not None:
            head["command"] = self.command[:MOST_COMMAND]
        return head | ({"env": {"TERM": self.term}} if self.term else {})


class Recorder:
    """Makes the recordings of one connection in a folder. `room`: bytes that they may take together.

    `wall` returns unix seconds, `steady` monotonic ones.
    """

    def __init__(self, folder: Path, room: int, wall: Callable[[], float], steady: Callable[[], float]) -> None:
        self._folder, self._wall, self.steady = folder, wall, steady
        self._room = room

    def begin(self, about: About) -> Recording:
        """Return the recording of a session that begins now. Raises RecordingFailed if there can be none."""
        now = self._wall()
        name = f"{datetime.fromtimestamp(now, UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}.cast"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            descriptor = os.open(self._folder / name, flags, 0o600)
        except OSError as error:
            raise RecordingFailed(f"this session can't be recorded: {error.strerror}") from error
        recording = Recording(self, descriptor, about.kind)
        try:
            recording.write(about.head(now))
        except RecordingFailed:
            os.close(descriptor)
            raise
        return recording

    def append(self, descriptor: int, line: bytes, keep: int) -> None:
        """Append a line, and leave `keep` bytes of the room. Raises RecordingFailed if there is no room."""
        if len(line) > self._room - keep:
            raise RecordingFailed("the recording of this session has no more room (record_mib of the policy)")
        self._room -= len(line)
        try:
            written = os.write(descriptor, line)
        except OSError as error:
            raise RecordingFailed(f"the recording of this session can't be written: {error.strerror}") from error
        if written != len(line):
            raise RecordingFailed("the recording of this session can't be written: the disk is full")


class Recording:
    """Describes one session.

    Bytes that are no UTF-8 become escapes such as `\\xff`; so no byte of a program is lost.
    """

    def __init__(self, recorder: Recorder, descriptor: int, kind: Kind) -> None:
        self._recorder, self._descriptor, self._kind = recorder, descriptor, kind
        self._began = recorder.steady()
        make = codecs.getincrementaldecoder("utf-8")
        self._texts = {
            code: make("backslashreplace") for code in ("i", "o", "e")
        }  # e: stderr, which is `o` in the file

    def write(self, line: object, keep: int = END_ROOM) -> None:
        """Append one line of JSON. Raises RecordingFailed."""
        self._recorder.append(self._descriptor, json.dumps(line, ensure_ascii=False).encode() + b"\n", keep)

    def input(self, data: bytes) -> None:
        """Record what a command is given; of a terminal and of SFTP nothing. Raises RecordingFailed."""
        if self._kind == "command":
            self._event("i", self._texts["i"].decode(data))

    def output(self, data: bytes, is_error: bool) -> None:
        """Record what a program has written; of SFTP only its log (`is_error`). Raises RecordingFailed."""
        if self._kind != "files" or is_error:
            self._event("o", self._texts["e" if is_error else "o"].decode(data))

    def resized(self, columns: int, rows: int) -> None:
        """Record another size of the terminal. Raises RecordingFailed."""
        self._event("r", f"{columns}x{rows}")

    def end(self, how: str) -> None:
        """Record how the session has ended, and close the file. Later calls do nothing; it never raises."""
        if self._descriptor < 0:
            return
        try:
            for code in ("i", "o", "e"):
                self._event("o" if code == "e" else code, self._texts[code].decode(b"", True))
            self._event("m", how[:100], 0)
        except RecordingFailed:
            pass  # the file has no end then, and is listed so
        os.close(self._descriptor)
        self._descriptor = -1

    def _event(self, code: str, text: str, keep: int = END_ROOM) -> None:
        if text and self._descriptor >= 0:
            self.write([round(self._recorder.steady() - self._began, 6), code, text], keep)
