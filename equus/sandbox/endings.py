"""What the end of a worker means that gave no result. Pure."""

from __future__ import annotations

import os
import signal

Ending = tuple[str, str]

# lupa can only abort when Lua is out of memory at the wrong moment; a worker that aborts this near its limit did that.
_NEARLY = 0.8


def ending_of(status: int, peak_kib: int, memory_mib: int) -> Ending:
    """Reason and sentence for a wait status of a worker that we have not killed ourselves."""
    if not os.WIFSIGNALED(status):
        return "crashed", f"the worker ended with status {os.WEXITSTATUS(status)} and no result"
    number = os.WTERMSIG(status)
    if number == signal.SIGKILL:
        return "killed", "the worker was killed from outside, or the host ran out of memory"
    if number == signal.SIGXCPU:
        return "cpu", "the check used up its CPU time"
    if number == signal.SIGSYS:
        return "denied", "the worker made a system call that is not allowed"
    if number in (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS) and peak_kib >= memory_mib * 1024 * _NEARLY:
        return "memory", "the check used up its memory"
    return "crashed", f"the worker ended by {signal.Signals(number).name}"
