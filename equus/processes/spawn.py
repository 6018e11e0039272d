"""Run one program of the host for a capability: no shell, bounded time and output, no descendant left afterwards.

`run_program` may be called from any thread. The fork itself happens in a single-threaded process (spawner.py),
because it is not safe in a Python with threads, and because only a process of its own can be the subreaper that
catches daemonised descendants.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import threading
from collections.abc import Mapping, Sequence

from attrs import frozen

from equus.processes.process import python_environment, python_module

# Bytes, as NRPE has it: people read the first lines of a plugin.
DEFAULT_OUTPUT = 65_536
# Bytes of output above which the program is killed.
OUTPUT_FLOOD = 4 * 1_048_576
# One datagram of the control socket; the kernel's default buffer is 208 KiB.
REQUEST_LIMIT = 131_072
# Seconds from SIGTERM to SIGKILL, for a program that is over its time.
TERM_GRACE = 0.5
# Seconds that the supervisor may take beyond that; more only if it was stopped or killed from outside.
SUPERVISOR_GRACE = 5.0
# Exit status (signed), flags, lengths of what follows, length of the uncut output.
REPLY = struct.Struct("!iBIII")
TIMED_OUT, TRUNCATED, NOT_STARTED, FLOODED = 1, 2, 4, 8


@frozen
class Finished:
    """Describes how a program ended. exit_status is negative for a signal, as in subprocess."""

    exit_status: int
    stdout: bytes
    stderr: bytes
    timed_out: bool
    truncated: bool
    flooded: bool = False  # it was killed because it wrote more than OUTPUT_FLOOD
    stdout_bytes: int = 0  # what the program wrote, as far as it was read: more than stdout has if that is cut


def run_program(
    argv: Sequence[str],
    timeout: float,
    env: Mapping[str, str],
    uid: int | None = None,
    max_output: int = DEFAULT_OUTPUT,
) -> Finished:
    """Run argv[0] (an absolute path) with exactly this environment; stdin is empty, the folder is `/`.

    Each of the two outputs is cut after max_output bytes (`truncated`); a program that writes OUTPUT_FLOOD is killed.
    After `timeout` seconds it gets SIGTERM, then SIGKILL. Its descendants are killed when it ends. uid: run as that
    user (the agent must be root). Raises OSError if it can't be started, ValueError if an argument is wrong.
    """
    request = _request(argv, timeout, env, uid, max_output)
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            _SPAWNER.send(request, theirs.fileno())
        ours.settimeout(timeout + TERM_GRACE + SUPERVISOR_GRACE)
        try:
            return _read_reply(ours)
        except (TimeoutError, EOFError):
            return Finished(-9, b"", b"", timed_out=True, truncated=False)


def _request(argv: Sequence[str], timeout: float, env: Mapping[str, str], uid: int | None, max_output: int) -> bytes:
    if not argv or not os.path.isabs(argv[0]):
        raise ValueError("a program is named by its absolute path")
    if any("\0" in text for text in (*argv, *env, *env.values())):
        raise ValueError("NUL in an argument or in the environment of a program")
    if any(name.startswith("LD_") for name in env):
        raise ValueError("LD_* changes which code a program runs and is never set")
    if not 0 < timeout <= 3600:
        raise ValueError("a program runs for at most an hour")
    document = {"argv": list(argv), "timeout": timeout, "env": dict(env), "uid": uid, "max_output": max_output}
    document["grace"] = TERM_GRACE
    request = json.dumps(document).encode()
    if len(request) > REQUEST_LIMIT:
        raise ValueError(f"arguments and environment of a program are at most {REQUEST_LIMIT} bytes")
    return request


def _read_reply(reply: socket.socket) -> Finished:
    status, flags, out, err, written = REPLY.unpack(_read_exactly(reply, REPLY.size))
    stdout, stderr = _read_exactly(reply, out), _read_exactly(reply, err)
    if flags & NOT_STARTED:
        raise OSError(status, os.strerror(status), stdout.decode("utf-8", "replace"))
    timed_out, truncated, flooded = (bool(flags & flag) for flag in (TIMED_OUT, TRUNCATED, FLOODED))
    return Finished(status, stdout, stderr, timed_out, truncated, flooded, written)


def _read_exactly(reply: socket.socket, length: int) -> bytes:
    parts = bytearray()
    while len(parts) < length:
        part = reply.recv(length - len(parts))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)


class _Spawner:
    """Owns the process that forks programs: starts it at the first call, and again after its end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def send(self, request: bytes, reply: int) -> None:
        """Hand a request, and the descriptor for its reply, to the process. Raises OSError if that fails twice."""
        with self._lock:
            for attempt in range(2):
                if self._control is None:
                    self._start()
                try:
                    socket.send_fds(self._control, [request], [reply])
                    return
                except (BrokenPipeError, ConnectionError):
                    self._forget()
                    if attempt:
                        raise

    def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                python_module("equus.processes.forking", "equus.processes.spawner", str(theirs.fileno())),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=python_environment(),
                cwd="/",
                start_new_session=True,
            )
        self._control = ours

    def _forget(self) -> None:
        """Close the socket and reap the process."""
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._control = self._process = None

    close = _forget


_SPAWNER = _Spawner()


def close_spawner() -> None:
    """End the spawner, in a process that goes on without it (tests, command lines)."""
    _SPAWNER.close()
