"""Run a check of our own in the zygote before it forks, so that what runs later finds everything as it needs it.

Python 3.11 rewrites code while it runs: each function that is called some times gets instructions for the types that it
meets, and caches. A worker that did so would have the kernel copy the pages of that code, every time anew. Here it is
done once, by the worker's own code, on an interpreter that no check ever sees.
"""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from typing import Any, NoReturn

from equus.sandbox import frames
from equus.sandbox.interpreter import Interpreter
from equus.sandbox.value_codec import encode
from equus.sandbox.worker import Outside, Worker, read_job

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
ANSWER = encode({"value": {"percent": 41.5, "bytes": 2**40, "names": ["a", "b"]}})


class RehearsalFailed(Exception):
    """Reports that the rehearsal had another result than it should: the sandbox does not work here."""


class _Over(BaseException):
    """Ends a rehearsal where a worker would exit."""


def rehearse(times: int = TIMES) -> None:
    """Run the check so many times. Raises RehearsalFailed if its result is wrong."""
    interpreter = Interpreter()
    for number in range(times):
        document = json.loads(rehearse_with(interpreter, b'{"n": 7}' if number % 2 else b"{}"))
        if document["status"] != "ok" or len(document["metrics"]) != 2:
            raise RehearsalFailed(f"the sandbox's own check gave {document}")


def rehearse_with(interpreter: Interpreter, args: bytes = b"{}") -> bytes:
    """Run the check once and return its result document. No other check may get this interpreter afterwards."""
    interpreter.offer("rehearse", "host")
    job, its_job = socket.socketpair()
    calls, its_calls = socket.socketpair()
    with job, its_job, calls, its_calls:
        job.sendall(_job(args))
        calls.sendall(frames.LENGTH.pack(len(ANSWER)) + ANSWER)
        outside = Outside(its_job.fileno(), its_calls.fileno(), _no_limit, _leave)
        with suppress(_Over):
            Worker(interpreter, outside).begin(read_job(its_job.fileno()))
        return frames.read_frame(job.fileno(), frames.WORKER_FRAME_LIMIT)[1:]


def _job(args: bytes) -> bytes:
    document: dict[str, Any] = {
        "mode": "run",
        "check": "rehearsal",
        "source": len(SOURCE),
        "libraries": {},
        "args": len(args),
        "timeout": 5.0,
        "timeout_max": 300.0,
        "began": float("inf"),
        "cpu": 7,
        "cpu_max": 300.0,
        "log": True,
        "now": None,
        "pushed": True,
    }
    head = encode(document)
    return frames.LENGTH.pack(len(head)) + head + SOURCE + args


def _no_limit(_soft: int, _hard: int) -> None:
    """Limit nothing: the zygote goes on."""


def _leave(_status: int) -> NoReturn:
    raise _Over
