"""Run something that the kernel may never finish, and wait for it only so long.

A statvfs on a dead NFS server sleeps where no signal reaches it. The thread that hangs is left behind; what is
bounded is how many there are, and no second thread goes after a thing on which one already hangs.
"""

import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from equus.capabilities.calls import CallFailed

Answer = TypeVar("Answer")

# Each hung thread costs a stack of 8 MiB address space (some KiB real); a host with more dead mounts has other
# troubles.
MOST_THREADS = 16

_lock = threading.Lock()
# What was given up on and has not come back yet, with the number of threads that hang there.
_hung: dict[str, int] = {}


def within(seconds: float, what: str, act: Callable[[], Answer]) -> Answer:
    """The answer of `act`, or its exception; CallFailed("timeout") when it takes longer. `what` names the thing."""
    with _lock:
        if what in _hung or sum(_hung.values()) >= MOST_THREADS:
            raise CallFailed("timeout", f"{what} did not answer an earlier call yet")
    answers: queue.SimpleQueue[tuple[Answer | None, BaseException | None]] = queue.SimpleQueue()
    given_up = threading.Event()

    def run() -> None:
        try:
            answers.put((act(), None))
        except BaseException as fault:  # handed to the caller, whatever it is
            answers.put((None, fault))
        with _lock:
            if given_up.is_set():
                _came_back(what)

    threading.Thread(target=run, name="bounded call", daemon=True).start()
    try:
        answer, fault = answers.get(timeout=seconds)
    except queue.Empty:
        answer, fault = _last_look(answers, given_up, what, seconds)
    if fault is not None:
        raise fault
    return answer  # type: ignore[return-value]


def _last_look(
    answers: "queue.SimpleQueue[Any]", given_up: threading.Event, what: str, seconds: float
) -> tuple[Any, BaseException | None]:
    """Give up, unless the answer came between the time limit and the lock."""
    with _lock:
        if not answers.empty():
            answer, fault = answers.get()
            return answer, fault
        given_up.set()
        _hung[what] = _hung.get(what, 0) + 1
    return None, CallFailed("timeout", f"{what} did not answer within {seconds:g} s")


def _came_back(what: str) -> None:
    _hung[what] -= 1
    if not _hung[what]:
        del _hung[what]
