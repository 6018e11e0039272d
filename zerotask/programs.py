"""Programs that a node's function runs: one at a time, to the end, with what they print.

    schema = run_program(["pg_dump", "--schema-only"], context, most=1_000_000).output

The program belongs to the process of the function: it gets its signals, is killed with it at the task's time limit, and
dies when that process dies however that comes. What it writes to standard error becomes the status of the task, line by
line; what it writes to standard output is its output, which has a limit. It gets no input. Nothing here judges which
program is run: that is for the function, which must never take the name of a program, or a word that could be an
option, out of a task.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import selectors
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import IO

from attrs import frozen

from zerotask import errors
from zerotask.errors import TaskFailed
from zerotask.functions import Context

CHUNK = 64 * 1024  # bytes of one read: what a pipe holds
LINE_MOST = 500  # characters of a line on standard error; a status has to be short
LAST_LINES = 20  # that go with a failure, where its cause is
GRACE_SECONDS = 1.0  # after its end in which those that it left behind may still write: then nobody listens
TELL_SECONDS = 1.0  # between two statuses, each of which is a write of the broker's
USAGE = 2  # the exit status of wrong words, by custom: they will not be right the next time
PR_SET_PDEATHSIG = 1

try:
    _prctl = ctypes.CDLL(None).prctl
except (OSError, AttributeError):  # no Linux: then it ends when it next reads or writes
    _prctl = None


def die_with_parent(parent: int) -> None:
    """Ask the kernel to kill this process when the thread that started it ends; `parent` is the process it is of."""
    if _prctl is not None:
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it was gone before we asked
        os._exit(1)


@frozen
class Ended:
    """A program that ended with 0: its standard output, and the last lines of its standard error."""

    output: str
    said: list[str]


def run_program(words: Sequence[str], context: Context, most: int, env: Mapping[str, str] | None = None) -> Ended:
    """TaskFailed if it ends with anything but 0, or writes more than `most` bytes."""
    parent = os.getpid()
    try:
        process = subprocess.Popen(
            words, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            preexec_fn=lambda: die_with_parent(parent),
        )  # fmt: skip
    except OSError as error:
        raise TaskFailed(errors.FUNCTION_RAISED, f"{words[0]} cannot be started: {error.strerror}") from error
    said = _Said(lambda line: context.status("running", said=line))
    output = bytearray()
    try:
        _read(process, output, said, most)
        status = process.wait()
    finally:
        _end(process)
    said.end()
    if status:
        raise _failed(status, said)
    return Ended(output.decode("utf-8", "replace"), list(said.last))


def _read(process: subprocess.Popen[bytes], output: bytearray, said: _Said, most: int) -> None:
    """Both pipes until their ends, or until the program has ended and nothing more comes."""
    assert process.stdout is not None and process.stderr is not None
    with selectors.DefaultSelector() as pipes:
        pipes.register(process.stdout, selectors.EVENT_READ, output.extend)
        pipes.register(process.stderr, selectors.EVENT_READ, said.add)
        while pipes.get_map():
            ready = pipes.select(GRACE_SECONDS)
            if not ready and process.poll() is not None:
                return
            for key, _ in ready:
                pipe: IO[bytes] = key.fileobj  # type: ignore[assignment]
                data = os.read(pipe.fileno(), CHUNK)
                key.data(data) if data else pipes.unregister(pipe)
            if len(output) > most:
                said_so = f"its output has more than {most} bytes; ask for less, or have it written to a file"
                raise TaskFailed(errors.FUNCTION_RAISED, said_so, retry=False)


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def _failed(status: int, said: _Said) -> TaskFailed:
    lines = list(said.last)
    why = next((line for line in reversed(lines) if line), "it said nothing")
    ended = f"exit status {status}" if status > 0 else f"signal {-status}"
    code = errors.INVALID_PARAMS if status == USAGE else errors.FUNCTION_RAISED
    return TaskFailed(code, f"{why} ({ended})", {"status": status, "said": lines}, retry=status != USAGE)


class _Said:
    """Lines of standard error: the last ones are kept, one a second is told, and the very last one always."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.last: deque[str] = deque(maxlen=LAST_LINES)
        self._tell = tell
        self._rest = b""
        self._told_at = 0.0
        self._is_told = True

    def add(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._rest = self._rest[: 4 * LINE_MOST]  # a line without end is as good as its beginning
        for line in lines:
            self._line(line)
        if time.monotonic() - self._told_at >= TELL_SECONDS:
            self._tell_last()

    def end(self) -> None:
        if self._rest:
            self._line(self._rest)
        self._tell_last()

    def _line(self, line: bytes) -> None:
        self.last.append(line.decode("utf-8", "replace").rstrip()[:LINE_MOST])
        self._is_told = False

    def _tell_last(self) -> None:
        if not self._is_told:
            self._is_told, self._told_at = True, time.monotonic()
            self._tell(self.last[-1])
