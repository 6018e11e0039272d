"""Run a check of our own in the zygote before it forks, so that what runs later finds everything as it needs it.

Python 3.11 rewrites code while it runs: each function that is called some times gets instructions for the types that it
meets, and caches. A worker that did so would have the kernel copy the pages of that code, every time anew. Here it is
done once, by the worker's own code, on an interpreter that no check ever sees.
"""

from __future__ import annotations

import json
import os
import socket
import time
from contextlib import suppress
from typing import Any, NoReturn

from equus.sandbox import frames
from equus.sandbox.interpreter import Interpreter
from equus.sandbox.value_codec import encode
from equus.sandbox.worker import JOB, Outside, Worker, read_job

# Runs after which Python rewrites hardly anything more: it begins with a function after 8 calls.
TIMES = 30
SOURCE = b"""
local check = { summary = "a rehearsal", needs = { "host" }, every = "1m", timeout = "5s", args = {
  warn = { type = "range", default = "80" }, path = { type = "string", default = "/" }, n = { type = "integer" } } }
function check.run(args, host)
  local used = host.rehearse(args.path, 1)
  host.metric("used", used.percent, { unit = "%", warn = args.warn, crit = "90", labels = { path = args.path } })
  host.metric("count", 3)
  print("one line")
  if args.n then return "ok", args.n .. " at " .. host.now() end
end
return check
"""
# The one host call of this check, and what it needs for that.
CALL = "rehearse", "host"
ANSWER = encode({"value": {"percent": 41.5, "bytes": 2**40, "names": ["a", "b"]}})


class RehearsalFailed(Exception):
    """Reports that the rehearsal had another result than it should: the sandbox does not work here."""


class _Over(BaseException):
    """Ends a rehearsal where a worker would exit."""


def rehearse(times: int = TIMES) -> None:
    """Run the check so many times, now with a known table and now without. Raises RehearsalFailed on a wrong result."""
    interpreter = Interpreter()
    for number in range(times):
        _judge(rehearse_with(interpreter, b'{"n": 7}' if number % 2 else b"{}", is_known=number % 4 > 1))


def _judge(result: bytes) -> None:
    document = json.loads(result)
    if document["status"] != "ok" or len(document["metrics"]) != 2:
        raise RehearsalFailed(f"the sandbox's own check gave {document}")


class Rehearsal:
    """Holds the sockets of a worker that runs the check: its job is there already, and so is the answer to its call.

    ends: the worker's descriptors, of its job and of its calls. is_known: the table is, as in most runs of an agent.
    """

    def __init__(self, args: bytes = b"{}", is_known: bool = True) -> None:
        self._job, its_job = socket.socketpair()
        self._calls, its_calls = socket.socketpair()
        self._theirs = its_job, its_calls
        self.ends = its_job.fileno(), its_calls.fileno()
        self._job.sendall(_job(args, is_known))
        self._calls.sendall(frames.LENGTH.pack(len(ANSWER)) + ANSWER)

    def __enter__(self) -> Rehearsal:
        return self

    def __exit__(self, *_fault: object) -> None:
        for each in (self._job, self._calls, *self._theirs):
            each.close()

    def result(self) -> bytes:
        """Return the result document that the worker has written. Raises EOFError if it ended without one."""
        while True:
            frame = frames.read_frame(self._job.fileno(), frames.WORKER_FRAME_LIMIT)
            if frame[:1] != frames.TABLE:
                return frame[1:]

    def wait(self) -> None:
        """Wait for a worker in another process, until it has written its result and comes to `leave_not`.

        Raises RehearsalFailed if the result is wrong, EOFError or ConnectionError if there is none.
        """
        for end in self._theirs:
            end.close()
        _judge(self.result())
        frames.read_exactly(self._job.fileno(), 1)


def leave_not(_status: int) -> NoReturn:
    """Stay, where a worker would exit, until this process is killed: what it wrote to can be seen meanwhile."""
    os.write(JOB, b".")
    while True:
        time.sleep(60)


def rehearse_with(interpreter: Interpreter, args: bytes = b"{}", is_known: bool = True) -> bytes:
    """Run the check once and return its result document. No other check may get this interpreter afterwards."""
    interpreter.offer(*CALL)
    with Rehearsal(args, is_known) as rehearsal:
        outside = Outside(*rehearsal.ends, _no_limit, _leave)
        with suppress(_Over):
            Worker(interpreter, outside).begin(read_job(rehearsal.ends[0]))
        return rehearsal.result()


def _job(args: bytes, is_known: bool) -> bytes:
    if is_known:
        args = encode({"warn": "80", "path": "/", **json.loads(args)})
    document: dict[str, Any] = {
        "mode": "run",
        "check": "rehearsal",
        "source": len(SOURCE),
        "libraries": {},
        "args": len(args),
        "known": {"timeout": 5.0, "needs": ["host"]} if is_known else None,
        "timeout": 5.0,
        "timeout_max": 300.0,
        "began": float("inf"),
        "cpu": 7,
        "cpu_max": 300.0,
        "log": True,
        "now": None,
        "pushed": True,
    }
    return frames.job_bytes(document, SOURCE, args)


def _no_limit(_soft: int, _hard: int) -> None:
    """Limit nothing: the zygote goes on."""


def _leave(_status: int) -> NoReturn:
    raise _Over
