"""Wait a bounded time for a system call that the kernel may never finish.

A statvfs on a dead NFS server sleeps where no signal reaches it. The hung thread is left behind. Each kind of call has
a pool of its own, so that a dead name server takes nothing from the calls on files. The number of threads that hang is
bounded in each pool, and for each entry of the schedule; no second one is started for what one hangs on already.
"""

import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from attrs import define, field

from equus.capabilities.calls import CallFailed

Answer = TypeVar("Answer")

# Each hung thread costs a stack of 8 MiB of address space, some KiB of it real. A host has hardly more dead mounts.
MOST_THREADS = 16
# Of these one entry of the schedule takes so many: the places of the others stay free for other checks.
MOST_OF_ENTRY = 2


@define(eq=False)
class Pool:
    """Counts the threads that hang in one kind of call: by the path or name that they wait for, and by entry."""

    kind: str  # in the plural, for sentences
    most: int = MOST_THREADS
    most_of_entry: int = MOST_OF_ENTRY
    _lock: threading.Lock = field(factory=threading.Lock, repr=False)
    _hung: dict[str, list[str]] = field(factory=dict)  # entries with hung threads, by what these wait for

    def refusal(self, what: str, entry: str) -> CallFailed | None:
        """Return the failure of a call that is not even tried, or None."""
        with self._lock:
            if what in self._hung:
                return CallFailed("timeout", f"{what} did not answer an earlier call yet")
            hung = [one for entries in self._hung.values() for one in entries]
        if len(hung) >= self.most:
            return CallFailed("failed", f"{what} was not tried: {len(hung)} {self.kind} hang, and that is the most")
        if hung.count(entry) >= self.most_of_entry:
            most = self.most_of_entry
            return CallFailed("failed", f"{what} was not tried: {most} {self.kind} of this check hang, its most")
        return None

    def give_up(self, what: str, entry: str, answers: "queue.SimpleQueue[Any]", given_up: threading.Event) -> bool:
        """Count a thread as hung and return True, unless its answer came between the time limit and the lock."""
        with self._lock:
            if not answers.empty():
                return False
            given_up.set()
            self._hung.setdefault(what, []).append(entry)
            return True

    def came_back(self, what: str, entry: str, given_up: threading.Event) -> None:
        """Forget a thread that has ended, if it was counted as hung."""
        with self._lock:
            if given_up.is_set():
                self._hung[what].remove(entry)
                if not self._hung[what]:
                    del self._hung[what]


def within(pool: Pool, seconds: float, what: str, entry: str, act: Callable[[], Answer]) -> Answer:
    """Call `act` in a thread, and return its value or raise its exception. `what` names the path or name it waits for.

    Raises CallFailed("timeout") if it takes more than `seconds` seconds, or an earlier call still hangs there;
    CallFailed("failed") if too many calls of this kind hang, or too many of this entry of the schedule.
    """
    refusal = pool.refusal(what, entry)
    if refusal is not None:
        raise refusal
    answers: queue.SimpleQueue[tuple[Answer | None, BaseException | None]] = queue.SimpleQueue()
    given_up = threading.Event()

    def run() -> None:
        """Call `act`, and pass its value or exception on."""
        try:
            answers.put((act(), None))
        except BaseException as fault:  # raised in the caller
            answers.put((None, fault))
        pool.came_back(what, entry, given_up)

    threading.Thread(target=run, name=f"bounded call: {pool.kind}", daemon=True).start()
    try:
        answer, fault = answers.get(timeout=seconds)
    except queue.Empty:
        if pool.give_up(what, entry, answers, given_up):
            raise CallFailed("timeout", f"{what} did not answer within {seconds:g} s") from None
        answer, fault = answers.get()
    if fault is not None:
        raise fault
    return answer  # type: ignore[return-value]
