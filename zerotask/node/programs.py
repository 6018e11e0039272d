"""Runs programs for a node's functions, one at a time and to the end, and returns their output.

    schema = run_program(["pg_dump", "--schema-only"], context, most=1_000_000).output

The program belongs to the process of the function: it gets its signals, is killed with it at the task's time limit, and
dies when that process dies, for any reason. Its lines on standard error become the status of the task; its standard
output is returned, and has a limit. It gets no input. This module runs any program: a function must never take the name
of a program, or a word that could be an option, from a task.
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

from attrs import frozen

from zerotask import errors
from zerotask.errors import TaskFailed
from zerotask.functions import Context

CHUNK = 64 * 1024  # bytes of one read: what a pipe holds
LINE_MOST = 500  # characters of a line on standard error; a status has to be short
LAST_LINES = 20  # lines that go with a failure: the cause is in the last ones
GRACE_SECONDS = 1.0  # seconds after its end in which processes that it left may still write
TELL_SECONDS = 1.0  # between two statuses: the broker writes each to its disk
USAGE = 2  # the usual exit status for wrong arguments, which are wrong the next time as well
PR_SET_PDEATHSIG = 1

_prctl: Callable[..., int] | None = None
with contextlib.suppress(OSError, AttributeError):  # not Linux: then it ends when it next reads or writes
    _prctl = ctypes.CDLL(None).prctl


def die_with_parent(parent: int) -> None:
    """Ask the kernel to kill this process when the thread that started it ends; `parent` is the id of its process."""
    if _prctl is not None:
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it had ended before
        os._exit(1)


@frozen
class Ended:
    """Holds the standard output of a program that ended with 0, and the last lines of its standard error."""

    output: str
    said: list[str]


def run_program(words: Sequence[str], context: Context, most: int, env: Mapping[str, str] | None = None) -> Ended:
    """Run a program to its end and return its output; blocks.

    Raises TaskFailed if it cannot be started, ends with another status than 0, or writes more than `most` bytes.
    """
    parent = os.getpid()
    try:
        process = subprocess.Popen(
            words, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            preexec_fn=lambda: die_with_parent(parent),
        )  # fmt: skip
    except OSError as error:
        raise TaskFailed(errors.FUNCTION_RAISED, f"{words[0]} cannot be started: {error.strerror}") from error
    said = _StderrLines(lambda line: context.status("running", said=line))
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


def _read(process: subprocess.Popen[bytes], output: bytearray, said: _StderrLines, most: int) -> None:
    """Read both pipes until they end, or until the program has ended and nothing more comes."""
    assert process.stdout is not None and process.stderr is not None
    with selectors.DefaultSelector() as pipes:
        pipes.register(process.stdout, selectors.EVENT_READ, output.extend)
        pipes.register(process.stderr, selectors.EVENT_READ, said.add)
        while pipes.get_map():
            ready = pipes.select(GRACE_SECONDS)
            if not ready and process.poll() is not None:
                return
            for key, _ in ready:
                data = os.read(key.fd, CHUNK)
                key.data(data) if data else pipes.unregister(key.fileobj)
            if len(output) > most:
                message = f"its output has more than {most} bytes; ask for less, or have it written to a file"
                raise TaskFailed(errors.FUNCTION_RAISED, message, retry=False)


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def _failed(status: int, said: _StderrLines) -> TaskFailed:
    lines = list(said.last)
    why = next((line for line in reversed(lines) if line), "it wrote nothing to standard error")
    ended = f"exit status {status}" if status > 0 else f"signal {-status}"
    code = errors.INVALID_PARAMS if status == USAGE else errors.FUNCTION_RAISED
    return TaskFailed(code, f"{why} ({ended})", {"status": status, "said": lines}, retry=status != USAGE)


class _StderrLines:
    """Keeps the last lines of standard error, and reports at most one a second, and the very last one."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.last: deque[str] = deque(maxlen=LAST_LINES)
        self._tell = tell
        self._rest = b""
        self._told_at = 0.0
        self._is_told = True

    def add(self, data: bytes) -> None:
        """Take the bytes of one read."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._rest = self._rest[: 4 * LINE_MOST]  # of a line that does not end only the beginning is kept
        for line in lines:
            self._line(line)
        if time.monotonic() - self._told_at >= TELL_SECONDS:
            self._tell_last()

    def end(self) -> None:
        """Take a last line without a line end, and report it."""
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
