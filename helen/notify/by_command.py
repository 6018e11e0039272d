"""Runs a program with JSON on its standard input, in a thread: no shell, a process group of its own, killed in time.

Twisted's spawnProcess puts nobody into a group of his own, and then children of the program would outlive it.
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

from helen.notify.attempt import MOST_READ, SendFailed

LOOK_SECONDS = 0.05  # between two looks whether it has ended while something of it still holds its output open
KEPT_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "TZ", "HOME")  # of ours; the rest may hold secrets of others


@frozen
class Call:
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    given: bytes = field(repr=False)


async def run(reactor: Any, call: Call, timeout: float) -> str:
    """What it printed; raises SendFailed when it ends with another status than 0, or not in time."""
    errand = _Errand(reactor, call, timeout)
    return await errand.start()


class _Errand:
    """One run in one thread."""

    def __init__(self, reactor: Any, call: Call, timeout: float) -> None:
        self._reactor, self._call = reactor, call
        self._timeout = timeout
        self._given_up = threading.Event()
        self._done: Deferred[str] = Deferred(lambda _: self._given_up.set())

    def start(self) -> Deferred[str]:
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
        except Exception as error:  # the thread must answer, whatever it is
            result = Failure(SendFailed(f"{type(error).__name__}: {error}"))
        self._reactor.callFromThread(self._fire, result)

    def _execute(self) -> str:
        kept = {name: os.environ[name] for name in KEPT_ENVIRONMENT if name in os.environ}
        with tempfile.TemporaryFile() as given:  # not a pipe: whoever doesn't read it hinders nobody
            given.write(self._call.given)
            given.seek(0)
            process = subprocess.Popen(
                self._call.argv, stdin=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd="/",
                env={**kept, **self._call.environment}, start_new_session=True,
            )  # fmt: skip
        assert process.stdout is not None
        try:
            said, in_time = self._listen(process, process.stdout)
        finally:
            _kill(process)
        words = said.decode("utf-8", "replace").strip()
        if not in_time:
            raise SendFailed(f"not done within {self._timeout:g} s, killed" + (f": {words}" if words else ""))
        if process.returncode:
            status = process.returncode
            how = f"exit status {status}" if status > 0 else f"ended by signal {-status}"
            raise SendFailed(how + (f": {words}" if words else ""))
        return "exit status 0" + (f": {words}" if words else "")

    def _listen(self, process: subprocess.Popen[bytes], output: IO[bytes]) -> tuple[bytes, bool]:
        """What it prints, as much as we keep, until it has ended; False: it had to be stopped."""
        said, until, is_open = bytearray(), time.monotonic() + self._timeout, True
        poll = select.poll()
        poll.register(output, select.POLLIN | select.POLLHUP)
        while time.monotonic() < until and not self._given_up.is_set():
            ended = process.poll() is not None
            if is_open and poll.poll(0 if ended else LOOK_SECONDS * 1_000):
                data = os.read(output.fileno(), MOST_READ)
                is_open = bool(data)
                said += data[: MOST_READ - len(said)]
            elif ended:
                return bytes(said), True
            elif not is_open:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(LOOK_SECONDS)
        return bytes(said), False


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Whatever is left of its group, and itself."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
