"""The process that forks programs for spawn.py, with FD as its argument (forking.py starts it).

One supervisor for each program. Single-threaded, so that a fork is safe. A supervisor is the subreaper of its
program: whatever daemonises becomes its child and is killed with the rest. Both end when the other end of their
socket is gone.
"""

from __future__ import annotations

import json
import os
import pwd
import resource
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from typing import Any

from equus.sandbox.process import (
    PR_SET_CHILD_SUBREAPER,
    attach_standard_streams_to_nothing,
    prctl,
    receive,
)
from equus.sandbox.spawn import (
    NOT_STARTED,
    OUTPUT_FLOOD,
    REPLY,
    REQUEST_LIMIT,
    TERM_GRACE,
    TIMED_OUT,
    TRUNCATED,
)

# How long the sweep hunts a family that forks as fast as it is killed. The processes left are then reported by nobody,
# but RLIMIT_CPU ends them.
SWEEP_SECONDS = 2.0
# A program of ours opens a few files and writes little; these bound accidents, not a determined root.
OPEN_FILES = 256
FILE_SIZE = 64 * 1_048_576
READ_SIZE = 65_536


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # supervisors are nobody's concern once they have replied
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        request, descriptors = receive(control, REQUEST_LIMIT, 1)
        if not request:
            return
        if os.fork() == 0:
            control.close()
            with suppress(OSError):
                supervise(json.loads(request), socket.socket(fileno=descriptors[0]))
            os._exit(0)
        for descriptor in descriptors:
            os.close(descriptor)


def supervise(request: dict[str, Any], reply: socket.socket) -> None:
    """Run one program to its end, kill what is left of it, and answer."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    out, out_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    err, err_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    fault, fault_write = os.pipe2(os.O_CLOEXEC)
    program = os.fork()
    if program == 0:
        _become(request, out_write, err_write, fault_write)
    for end in (out_write, err_write, fault_write):
        os.close(end)
    not_started = os.read(fault, 4096)
    if not_started:
        os.waitpid(program, 0)
        errno, _, name = not_started.partition(b" ")
        reply.sendall(REPLY.pack(int(errno), NOT_STARTED, len(name), 0) + name)
        return
    watch = _Watch(program, out, err, reply, request["max_output"])
    flags = watch.until(time.monotonic() + request["timeout"])
    status = _end(program, watch, asked=bool(flags & TIMED_OUT))
    stdout, stderr = watch.drained()
    flags |= watch.truncated
    reply.sendall(REPLY.pack(status, flags, len(stdout), len(stderr)) + stdout + stderr)


def _become(request: dict[str, Any], out: int, err: int, fault: int) -> None:
    """Turn this child into the program, or say why not."""
    try:
        attach_standard_streams_to_nothing()
        os.set_blocking(out, True)
        os.set_blocking(err, True)
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.setsid()
        os.chdir("/")
        os.umask(0o077)
        _limit(request["timeout"])
        if request["uid"] is not None:
            _change_user(request["uid"])
        for number in range(1, signal.NSIG):
            with suppress(OSError, ValueError):
                signal.signal(number, signal.SIG_DFL)
        os.execve(request["argv"][0], request["argv"], request["env"])
    except OSError as error:
        name = error.filename if isinstance(error.filename, str) else request["argv"][0]
        os.write(fault, f"{error.errno} {name}".encode("utf-8", "replace")[:4096])
    finally:
        os._exit(127)


def _limit(timeout: float) -> None:
    seconds = int(timeout) + 2
    for kind, limit in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_FSIZE, FILE_SIZE),
    ):
        hard = resource.getrlimit(kind)[1]
        limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(kind, (limit, limit))


def _change_user(uid: int) -> None:
    try:
        group = pwd.getpwuid(uid).pw_gid
    except KeyError:
        group = uid
    os.setgroups([])
    os.setresgid(group, group, group)
    os.setresuid(uid, uid, uid)


class _Watch:
    """Reads a program's outputs, and sees it end, its time run out, and whoever asked go away."""

    def __init__(self, program: int, out: int, err: int, reply: socket.socket, most: int) -> None:
        self._most = most
        self._texts = {out: bytearray(), err: bytearray()}
        self._seen = 0
        self.truncated = 0
        self._reply = reply.fileno()
        self.pidfd = os.pidfd_open(program)
        self._poll = select.poll()
        for descriptor in (out, err, self.pidfd):
            self._poll.register(descriptor, select.POLLIN)
        self._poll.register(self._reply, 0)  # only its end

    def until(self, deadline: float) -> int:
        """TIMED_OUT, or 0 when the program has ended (or wrote too much, or nobody waits for it)."""
        while (left := deadline - time.monotonic()) > 0:
            ready = {descriptor for descriptor, _event in self._poll.poll(left * 1000 + 1)}
            for descriptor in ready & self._texts.keys():
                self._read(descriptor)
            if self.pidfd in ready or self._reply in ready or self._seen > OUTPUT_FLOOD:
                return 0
        return TIMED_OUT

    def _read(self, descriptor: int) -> bool:
        """Whether there was anything."""
        try:
            part = os.read(descriptor, READ_SIZE)
        except BlockingIOError:
            return False
        if not part:
            with suppress(KeyError):
                self._poll.unregister(descriptor)
            return False
        text = self._texts[descriptor]
        room = self._most - len(text)
        text += part[:room]
        self._seen += len(part)
        if len(part) > room:
            self.truncated = TRUNCATED
        return True

    def drained(self) -> list[bytes]:
        """Both texts, with what still lay in the pipes when the program ended."""
        for descriptor in self._texts:
            while self._seen <= OUTPUT_FLOOD and self._read(descriptor):
                pass
        return [bytes(text) for text in self._texts.values()]


def _end(program: int, watch: _Watch, asked: bool) -> int:
    """Kill what is left, politely first when it is over its time; the program's exit status."""
    if asked:
        _signal_group(program, signal.SIGTERM)
        watch.until(time.monotonic() + TERM_GRACE)
    status = _reaped(program)
    _signal_group(program, signal.SIGKILL)
    return _sweep(program, status)


def _signal_group(program: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(program, number)


def _reaped(pid: int) -> int | None:
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def _sweep(program: int, status: int | None) -> int:
    """SIGKILL every descendant until none is left: each orphan becomes our child, because we are the subreaper."""
    deadline = time.monotonic() + SWEEP_SECONDS
    while time.monotonic() < deadline:
        for child in _children():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
        try:
            pid, raw = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if pid == program:
            status = os.waitstatus_to_exitcode(raw)
        if pid == 0:
            time.sleep(0.001)
    return -signal.SIGKILL if status is None else status


def _children() -> list[int]:
    """Our children, by the kernel's list of them, or by everybody's parent where it has no such list."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as listing:
            return [int(pid) for pid in listing.read().split()]
    except OSError:
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _parent(pid) == os.getpid()]


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return int(stat.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0
