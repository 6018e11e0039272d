"""Start the server of one SSH connection and end what it leaves: `python -m equus.shell.supervisor DESCRIPTOR`.

Standard input has the settings, one line, and stays open as long as the agent lives; DESCRIPTOR is the connection. As
the subreaper of all programs of the session this process finds those, too, that have left their session or their
parent. They get a grace, and then SIGKILL.

There are two of it, one the child of the other: if the inner one is killed its orphans are the children of the outer
one, and if the outer one is killed the inner one sees its pipe close.
"""

from __future__ import annotations

import importlib
import os
import resource
import select
import signal
import socket
import sys
import time
import traceback
from contextlib import suppress

from equus.processes.process import PR_SET_CHILD_SUBREAPER, PR_SET_DUMPABLE, die_with_parent, prctl
from equus.processes.spawner import children, kill_descendants

GRACE = 3.0  # seconds from the end of the server to SIGKILL
OPEN_FILES = 1_024  # of a login, until it raises that
MAX_LINE = 65_536  # bytes of the settings
ENDS = (signal.SIGTERM, signal.SIGHUP)  # what tells a supervisor to end all now


def main() -> None:
    """Run an inner supervisor in a child, wait until it or the agent ends, and leave no process behind."""
    descriptor = int(sys.argv[1])
    line = sys.stdin.buffer.readline(MAX_LINE)
    prctl(PR_SET_DUMPABLE, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    outer_lives, ours = os.pipe2(os.O_CLOEXEC)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    inner = os.fork()
    if inner == 0:
        os.close(ours)
        _supervise(line, descriptor, outer_lives)
    os.close(descriptor)
    os.close(outer_lives)
    _wait_for_end(inner)
    _end_all(inner)


def _supervise(line: bytes, descriptor: int, outer_lives: int) -> None:
    """Run the server in a child, wait until it, the agent or the outer supervisor ends, and end all. Never returns."""
    try:
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        parent = os.getpid()
        server = os.fork()
        if server == 0:
            os.close(outer_lives)
            die_with_parent(parent)
            _serve(line, descriptor)
        os.close(descriptor)
        _wait_for_end(server, outer_lives)
        _end_all(server)
    finally:
        os._exit(0)


def _wait_for_end(child: int, *more: int) -> None:
    """Wait until a child ends, the agent closes standard input, others close theirs, or a signal says so."""
    told, tells = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(tells)
    for number in ENDS:
        signal.signal(number, lambda *_: None)
    waiting = select.poll()
    for descriptor in (os.pidfd_open(child), told, 0, *more):
        waiting.register(descriptor, select.POLLIN)
    waiting.poll()


def _serve(line: bytes, descriptor: int) -> None:
    """Become the server. Never returns."""
    status = 1
    try:
        server = importlib.import_module("equus.shell.server")  # Twisted, threads and keys, in the child alone
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(nothing, 1)
        os.close(nothing)
        os.umask(0o022)
        _limit()
        server.serve(socket.socket(fileno=descriptor), server.ServerSettings.read(line))
        status = 0
    except Exception:
        traceback.print_exc()  # to the agent's log
    finally:
        os._exit(status)


def _limit() -> None:
    """Set what a login begins with: no core files, which would hold the host key, and no more open files than usual.

    These are soft limits: a person may raise them, as after any login. Limits that must hold belong to the unit or a
    cgroup.
    """
    for kind, limit in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_NOFILE, OPEN_FILES)):
        _, hard = resource.getrlimit(kind)
        resource.setrlimit(kind, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def _end_all(child: int) -> None:
    """Hang up, wait for the grace, and kill what is left. Each program hears SIGHUP once: it may be saving its work."""
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGTERM)
    told = {child}
    until = time.monotonic() + GRACE
    while time.monotonic() < until:
        for descendant in set(children()) - told:
            told.add(descendant)
            with suppress(ProcessLookupError, PermissionError):
                os.kill(descendant, signal.SIGHUP)
        with suppress(ChildProcessError):
            while reaped := os.waitpid(-1, os.WNOHANG)[0]:
                told.discard(reaped)  # its number may be another one's from now on
        if not children():
            return
        time.sleep(0.02)
    kill_descendants(child, None)


if __name__ == "__main__":
    main()
