"""Fork programs for spawn.py: forking.py runs this module with FD as its argument.

The spawner forks a supervisor for each program. It has one thread, so that a fork is safe. A supervisor is the
subreaper of its program: a descendant that daemonises becomes its child and is killed with the others. Spawner and
supervisor end when the other side of their socket is closed.
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

from equus.processes.process import PR_SET_CHILD_SUBREAPER, attach_standard_streams_to_nothing, prctl, receive
from equus.processes.spawn import (
    FLOODED,
    NOT_STARTED,
    OUTPUT_FLOOD,
    REPLY,
    REQUEST_LIMIT,
    TIMED_OUT,
    TRUNCATED,
)

# Seconds of killing descendants that fork as fast as they are killed. Those left after it run on unreported until
# RLIMIT_CPU ends them.
SWEEP_SECONDS = 2.0
# Plugins open a few files and write little. These limits bound accidents; they don't stop a program run as root.
OPEN_FILES = 256
FILE_SIZE = 64 * 1_048_576
READ_SIZE = 65_536


def main() -> None:
    """Fork a supervisor for each request, until the control socket is closed."""
    control = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps supervisors; they have replied before
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
    """Run one program to its end, kill its descendants, and write the reply.

    request: {"argv", "timeout", "grace", "env", "uid", "max_output"}, as spawn.py sends it.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    out, out_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    err, err_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    fault, fault_write = os.pipe2(os.O_CLOEXEC)
    program = os.fork()
    if program == 0:
        _execute(request, out_write, err_write, fault_write)
    for end in (out_write, err_write, fault_write):
        os.close(end)
    not_started = os.read(fault, 4096)
    if not_started:
        os.waitpid(program, 0)
        errno, _, name = not_started.partition(b" ")
        reply.sendall(REPLY.pack(int(errno), NOT_STARTED, len(name), 0, 0) + name)
        return
    output = _Output(program, out, err, reply, request["max_output"])
    flags = output.until(time.monotonic() + request["timeout"])
    status = _end_program(program, output, request["grace"] if flags & TIMED_OUT else 0.0)
    stdout, stderr = output.drained()
    flags |= output.truncated
    reply.sendall(REPLY.pack(status, flags, len(stdout), len(stderr), output.stdout_bytes) + stdout + stderr)


def _execute(request: dict[str, Any], out: int, err: int, fault: int) -> None:
    """Turn this child into the program, or write errno and path to `fault`."""
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


class _Output:
    """Reads a program's two outputs until it ends, its time is over, or its caller has gone."""

    def __init__(self, program: int, out: int, err: int, reply: socket.socket, most: int) -> None:
        self._most = most
        self._texts = {out: bytearray(), err: bytearray()}
        self._out = out
        self.stdout_bytes = 0
        self._read_bytes = 0
        self.truncated = 0
        self._reply = reply.fileno()
        self.pidfd = os.pidfd_open(program)
        self._poll = select.poll()
        for descriptor in (out, err, self.pidfd):
            self._poll.register(descriptor, select.POLLIN)
        self._poll.register(self._reply, 0)  # only POLLHUP

    def until(self, deadline: float) -> int:
        """Read until the program ends or has no caller any more, and return 0.

        Return FLOODED if it writes too much before, TIMED_OUT if `deadline` (monotonic seconds) passes.
        """
        while (left := deadline - time.monotonic()) > 0:
            ready = {descriptor for descriptor, _event in self._poll.poll(left * 1000 + 1)}
            for descriptor in ready & self._texts.keys():
                self._read(descriptor)
            if self._read_bytes > OUTPUT_FLOOD:
                return FLOODED
            if self.pidfd in ready or self._reply in ready:
                return 0
        return TIMED_OUT

    def _read(self, descriptor: int) -> bool:
        """Read once. Return False if there was nothing to read."""
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
        self._read_bytes += len(part)
        self.stdout_bytes += len(part) if descriptor == self._out else 0
        if len(part) > room:
            self.truncated = TRUNCATED
        return True

    def drained(self) -> list[bytes]:
        """Return both texts, with what was left in the pipes when the program ended."""
        for descriptor in self._texts:
            while self._read_bytes <= OUTPUT_FLOOD and self._read(descriptor):
                pass
        return [bytes(text) for text in self._texts.values()]


def _end_program(program: int, output: _Output, grace: float) -> int:
    """Kill the program and its descendants; return its exit status. `grace`: seconds after a SIGTERM, 0 for none."""
    if grace:
        _signal_group(program, signal.SIGTERM)
        output.until(time.monotonic() + grace)
    status = _reaped(program)
    _signal_group(program, signal.SIGKILL)
    return kill_descendants(program, status)


def _signal_group(program: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(program, number)


def _reaped(pid: int) -> int | None:
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def kill_descendants(program: int, status: int | None) -> int:
    """Send SIGKILL to every descendant until none is left: each orphan becomes a child of this subreaper."""
    deadline = time.monotonic() + SWEEP_SECONDS
    while time.monotonic() < deadline:
        for child in children():
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


def children() -> list[int]:
    """Return the child processes, from the kernel's list of them, or by each process's parent if there is no list."""
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
