"""Runs a node's functions in a process of its own, which `worker_processes` starts:

    python -m zerotask.node.worker_process --module NAME ...

It reads work from descriptor 0 and writes answers to descriptor 3, each as a length and JSON, one piece of work at a
time. A function's prints go to the node's standard error. The process leads a process group of its own, so that
processes that a function started die with it. It ends when its node does, also in the middle of work.
"""

from __future__ import annotations

import argparse
import os
import queue
import signal
import struct
import sys
import threading
from collections.abc import Callable
from typing import Any, BinaryIO

import msgspec

from zerotask import errors
from zerotask.errors import TaskFailed
from zerotask.functions import Context, LoadError, Served, load, perform
from zerotask.node.programs import die_with_parent
from zerotask.wire.jsonrpc import encode
from zerotask.wire.methods import MAX_BODY

ANSWERS = 3  # descriptor
HEAD = struct.Struct(">I")  # the length of the JSON behind it


def main() -> None:
    """Load the functions, then run them until the node closes the pipe."""
    arguments = argparse.ArgumentParser(prog="python -m zerotask.node.worker_process")
    arguments.add_argument("--module", action="append", default=[])
    arguments.add_argument("--entry-points", action="store_true")
    chosen = arguments.parse_args()
    # A process group of its own; and the kernel ends the process if the node is killed while a function blocks it.
    os.setsid()
    die_with_parent(os.getppid())
    answers = os.fdopen(ANSWERS, "wb", buffering=0)
    work = _reader(os.fdopen(os.dup(0), "rb"))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.path.insert(0, os.getcwd())  # as for `python -m`: modules beside the user are found
    try:
        served = load(chosen.module, chosen.entry_points)
    except LoadError as error:
        _put(answers, {"trouble": str(error)})
        return
    _put(answers, {"functions": {method: one.policy for method, one in served.items()}})
    while (piece := work()) is not None:
        _put(answers, _outcome(served, piece, answers))


def _reader(source: BinaryIO) -> Callable[[], dict[str, Any] | None]:
    """Return a function that returns the next piece of work, None at the end of the node.

    A thread reads ahead, so that the end of the node is noticed while a function runs; then it kills the whole group.
    """
    pieces: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    busy = threading.Event()

    def read() -> None:
        """Put each piece of work into the queue."""
        while (head := source.read(HEAD.size)) and len(head) == HEAD.size:
            (size,) = HEAD.unpack(head)
            busy.set()
            pieces.put(msgspec.json.decode(source.read(size)))
        if busy.is_set():
            os.killpg(0, signal.SIGKILL)
        pieces.put(None)

    def take() -> dict[str, Any] | None:
        """Wait for the next piece of work."""
        if pieces.empty():
            busy.clear()
        return pieces.get()

    threading.Thread(target=read, daemon=True).start()
    return take


def _outcome(served: dict[str, Served], piece: dict[str, Any], answers: BinaryIO) -> dict[str, Any]:
    def tell(status: Any, detail: dict[str, Any]) -> None:
        _put(answers, {"status": status, "detail": detail})

    try:
        one = served.get(piece["method"])
        if one is None:
            raise TaskFailed(errors.UNKNOWN_METHOD, f"this node has no function {piece['method']}", retry=False)
        value = perform(one, piece["params"], Context(piece["id"], piece["attempt"], tell))
        return {"result": msgspec.Raw(_encoded(value))}
    except TaskFailed as failed:
        error = {"code": failed.code, "message": failed.message}
        if failed.data is not None:
            error["data"] = failed.data
        return {"error": error, "retry": failed.retry}


def _encoded(value: Any) -> bytes:
    try:
        text = encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise TaskFailed(errors.FUNCTION_RAISED, f"the result is not JSON: {error}", retry=False) from None
    if len(text) > MAX_BODY:
        message = f"a result of {len(text)} bytes, more than {MAX_BODY}; store it elsewhere and return where it is"
        raise TaskFailed(errors.FUNCTION_RAISED, message, retry=False)
    return text


def _put(answers: BinaryIO, message: dict[str, Any]) -> None:
    text = msgspec.json.encode(message)
    frame = memoryview(HEAD.pack(len(text)) + text)
    while frame:
        frame = frame[answers.write(frame) :]


if __name__ == "__main__":
    main()
