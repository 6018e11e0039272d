"""Explain why a worker ended without a result, from its wait status. Pure."""

from __future__ import annotations

import os
import signal

Ending = tuple[str, str]

# lupa aborts if Lua runs out of memory inside it; a worker that aborts this near its limit is taken to have done that.
_NEARLY = 0.8


def exit_reason(status: int, peak_kib: int, memory_mib: int) -> Ending:
    """Return the reason and its sentence for the wait status of a worker that the agent has not killed."""
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
