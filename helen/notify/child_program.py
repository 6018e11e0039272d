"""Runs a program with JSON on its standard input, in a thread: no shell, a process group of its own, killed in time.

Not Twisted's spawnProcess: it makes no process group, so children of the program would outlive a kill.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from typing import IO, Any

from attrs import field, frozen
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from helen.notify.attempt import MAX_READ, Attempt, SendFailed

LOOK_SECONDS = 0.05  # between two looks at whether it has ended while a child of it still holds its output open
KEPT_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "TZ", "HOME")  # of Helen's own; the rest may hold secrets


@frozen
class Call:
    """Describes a program to run: arguments, what is added to its environment, and its standard input."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    given: bytes = field(repr=False)


async def run(attempt: Attempt, call: Call) -> str:
    """Run the program and return what it printed.

    Raises SendFailed if it can't be run, ends with another status than 0, or runs longer than the attempt's timeout.
    """
    return await _Run(attempt.reactor, call, attempt.timeout).start()


class _Run:
    """Runs one program in one thread. `timeout`: seconds."""

    def __init__(self, reactor: Any, call: Call, timeout: float) -> None:
        self._reactor, self._call = reactor, call
        self._timeout = timeout
        self._given_up = threading.Event()
        self._done: Deferred[str] = Deferred(lambda _: self._given_up.set())

    def start(self) -> Deferred[str]:
        """Begin; cancel the Deferred to have the program killed."""
        threading.Thread(target=self._run, name="helen.command", daemon=True).start()
        return self._done

    def _fire(self, result: Any) -> None:
        if not self._given_up.is_set() and not self._done.called:
            self._done.callback(result)

    def _run(self) -> None:
        result: Any
        try:
            result = self._execute()
        except SendFailed as error:
            result = Failure(error)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            result = Failure(SendFailed(f"{self._call.argv[0]} can't be run: {reason}"))
        except Exception as error:  # without an answer of the thread the attempt would never end
            result = Failure(SendFailed(f"{type(error).__name__}: {error}"))
        self._reactor.callFromThread(self._fire, result)

    def _execute(self) -> str:
        kept = {name: os.environ[name] for name in KEPT_ENVIRONMENT if name in os.environ}
        with tempfile.TemporaryFile() as given:  # not a pipe: a program that doesn't read it blocks no thread
            given.write(self._call.given)
            given.seek(0)
            process = subprocess.Popen(
                self._call.argv, stdin=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd="/",
                env={**kept, **self._call.environment}, start_new_session=True,
            )  # fmt: skip
        assert process.stdout is not None
        try:
            output, in_time = self._listen(process, process.stdout)
        finally:
            _kill(process)
        text = output.decode("utf-8", "replace").strip()
        if not in_time:
            raise SendFailed(f"not done within {self._timeout:g} s, killed" + (f": {text}" if text else ""))
        if process.returncode:
            status = process.returncode
            how = f"exit status {status}" if status > 0 else f"ended by signal {-status}"
            raise SendFailed(how + (f": {text}" if text else ""))
        return "exit status 0" + (f": {text}" if text else "")

    def _listen(self, process: subprocess.Popen[bytes], output: IO[bytes]) -> tuple[bytes, bool]:
        """Return at most MAX_READ bytes of its output, and False if it didn't end in time or was given up."""
        kept, until, is_open = bytearray(), time.monotonic() + self._timeout, True
        poll = select.poll()
        poll.register(output, select.POLLIN | select.POLLHUP)
        while time.monotonic() < until and not self._given_up.is_set():
            ended = process.poll() is not None
            if is_open and poll.poll(0 if ended else LOOK_SECONDS * 1_000):
                data = os.read(output.fileno(), MAX_READ)
                is_open = bool(data)
                kept += data[: MAX_READ - len(kept)]
            elif ended:
                return bytes(kept), True
            elif not is_open:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(LOOK_SECONDS)
        return bytes(kept), False


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill its process group, whether it has ended or not: children may be left."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
