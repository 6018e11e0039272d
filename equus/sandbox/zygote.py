"""Fork workers: equus/processes/forking.py runs this module with FD and PARENT as arguments.

The zygote has one thread and holds no secret. It has loaded everything that a worker needs, forks one for each LAUNCH,
sends its pidfd to the agent, and reports how it ended. It reads nothing that a check wrote.
"""

from __future__ import annotations

import codecs
import fcntl
import gc
import json
import os
import resource
import select
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from attrs import evolve, frozen

from equus.processes.accounts import worker_user
from equus.processes.process import (
    PR_SET_DUMPABLE,
    PR_SET_NO_NEW_PRIVS,
    die_with_parent,
    drop_capabilities,
    prctl,
    receive,
)
from equus.sandbox import frames
from equus.sandbox.confinement import Confinement, confine
from equus.sandbox.interpreter import Interpreter
from equus.sandbox.pinned_pages import pages_written_by, pin
from equus.sandbox.rehearsal import CALL, Rehearsal, RehearsalFailed, leave_not, rehearse
from equus.sandbox.seccomp import Filter
from equus.sandbox.worker import BROKER, JOB, work

# When the host runs out of memory, the kernel kills checks before the agent and before the host's own services.
OOM_SCORE = b"800"
# Bytes and seconds of CPU for the probe of the filter and for that of the pages: enough for both.
_PROBE_MEMORY = 64 * 1_048_576
_PROBE_SECONDS = 10


@frozen
class _Child:
    """Describes a worker that has not been reaped."""

    run: int
    pid: int


def main() -> None:
    """Load what workers need, drop privileges, and serve the agent."""
    control = socket.socket(fileno=int(sys.argv[1]))
    interpreter = Interpreter()
    codecs.lookup("ascii")  # as another user the process may not be able to read Python's own files
    is_warm = frames.COLD not in sys.argv[3:]
    if is_warm:
        rehearse()
    gc.collect()
    gc.freeze()
    gc.disable()  # a collection would copy every page it looks at, in each worker
    user = worker_user()  # before the address space is measured: libraries of the host's directory of users count to it
    base = address_space()
    drop_privileges(*user)
    die_with_parent(int(sys.argv[2]))  # after the change of user, which takes it back
    Zygote(control, interpreter, Confinement(os.getpid(), base, Filter()), is_warm).serve()


def address_space() -> int:
    """Return the bytes of this process's address space. Call it before the process is made undumpable."""
    with open("/proc/self/statm", "rb") as statm:
        return int(statm.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def drop_privileges(user: int, group: int) -> None:
    """Give up everything that neither the zygote nor a worker needs. Workers inherit the result.

    A zygote that was started by root changes to this user and group; any other keeps its own.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    with suppress(OSError), open("/proc/self/oom_score_adj", "wb") as score:
        score.write(OOM_SCORE)
    os.dup2(0, 1)  # stdin is /dev/null; stderr stays, for a traceback of the zygote
    if os.geteuid() == 0:
        try:
            os.setgroups([])
            os.setresgid(group, group, group)
            os.setresuid(user, user, user)
        except PermissionError:
            pass  # root without CAP_SETUID, as in some containers; the filter is the protection that counts
    drop_capabilities()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    prctl(PR_SET_DUMPABLE, 0)
    prctl(PR_SET_NO_NEW_PRIVS, 1)


class Zygote:
    """Forks workers on the agent's request, and reaps them."""

    def __init__(
        self, control: socket.socket, interpreter: Interpreter, confinement: Confinement, is_warm: bool
    ) -> None:
        self._control = control
        self._lua = interpreter
        self._children: dict[int, _Child] = {}  # by pidfd
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._confinement = confinement
        self._is_warm = is_warm
        self._pins: int | None = None
        self._peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        if not self._filter_works():
            self._confinement = evolve(confinement, filter=None)

    def _filter_works(self) -> bool:
        """Try the filter in a child: opening a file must be refused there."""
        child = os.fork()
        if child == 0:
            status = 1
            with suppress(BaseException):
                confine(self._confinement, _PROBE_MEMORY, _PROBE_SECONDS)
                try:
                    os.open("/", os.O_RDONLY)
                except PermissionError:
                    status = 0
            os._exit(status)
        return os.waitpid(child, 0)[1] == 0

    def serve(self) -> None:
        """Serve until the agent closes its end of the control socket."""
        self._send(frames.READY.pack(frames.READY_KIND, self._confinement.filter is not None))
        while True:
            for descriptor, _event in self._poll.poll():
                if descriptor in self._children:
                    self._reap(descriptor)
                elif not self._take_message():
                    self._kill_workers_and_exit()

    def _take_message(self) -> bool:
        """Carry out one message of the agent. Return False when it has closed its end."""
        message, descriptors = receive(self._control, frames.CONTROL_LIMIT, 2)
        if not message:
            return False
        try:
            if message[0] == frames.CALLS_KIND:
                for name, capability in json.loads(message[1:]).items():
                    self._lua.offer(name, capability)
                if self._is_warm:
                    self._lua.settle()
                    self._pin_pages()
            else:
                _kind, run, memory, cpu = frames.LAUNCH.unpack(message)
                self._launch(run, memory, cpu, *descriptors)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        return True

    def _pin_pages(self) -> None:
        """Pin what a worker of this zygote, as it is now, writes to in a short run."""
        if self._pins is not None:
            os.close(self._pins)
        self._pins = None
        with suppress(OSError, EOFError, RehearsalFailed), Rehearsal() as rehearsal:

            def act() -> None:
                prctl(PR_SET_DUMPABLE, 1)  # else only root may see which pages it has; it has no check but our own
                self._lua.offer(*CALL)
                self._become_worker(_PROBE_MEMORY, _PROBE_SECONDS, *rehearsal.ends, leave_not)

            self._pins = pin(pages_written_by(act, rehearsal.wait))

    def _launch(self, run: int, memory: int, cpu: int, job: int, broker: int) -> None:
        try:
            pid = os.fork()
        except OSError as fault:
            self._send(frames.STARTED.pack(frames.NOT_STARTED_KIND, run, fault.errno or 0))
            return
        if pid == 0:
            self._become_worker(memory, cpu, job, broker)
        pidfd = os.pidfd_open(pid)
        self._children[pidfd] = _Child(run, pid)
        self._poll.register(pidfd, select.POLLIN)
        self._send(frames.STARTED.pack(frames.STARTED_KIND, run, pid), pidfd)

    def _become_worker(
        self, memory: int, cpu: int, job: int, broker: int, leave: Callable[[int], NoReturn] = os._exit
    ) -> NoReturn:
        try:
            _move_descriptors(job, broker)
            os.dup2(0, 2)
            os.closerange(BROKER + 1, os.sysconf("SC_OPEN_MAX"))
            confine(self._confinement, memory, cpu)
            work(self._lua, leave)
        finally:
            os._exit(1)

    def _reap(self, pidfd: int) -> None:
        child = self._children.pop(pidfd)
        self._poll.unregister(pidfd)
        os.close(pidfd)
        _pid, status, usage = os.wait4(child.pid, 0)
        cpu = int((usage.ru_utime + usage.ru_stime) * 1000)
        self._send(frames.ENDED.pack(frames.ENDED_KIND, child.run, status, cpu, max(0, usage.ru_maxrss - self._peak)))

    def _send(self, message: bytes, *descriptors: int) -> None:
        try:
            socket.send_fds(self._control, [message], descriptors)
        except OSError:
            self._kill_workers_and_exit()

    def _kill_workers_and_exit(self) -> NoReturn:
        """Kill all workers and exit: without the agent no process would end them in time."""
        for pidfd in self._children:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        os._exit(0)


def _move_descriptors(job: int, broker: int) -> None:
    """Make these two descriptors JOB and BROKER, through numbers that collide with neither."""
    first, second = (fcntl.fcntl(descriptor, fcntl.F_DUPFD, BROKER + 1) for descriptor in (job, broker))
    os.dup2(first, JOB)
    os.dup2(second, BROKER)
