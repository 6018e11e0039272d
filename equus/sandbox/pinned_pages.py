"""Have the kernel copy the pages that each worker writes when it forks, and not later, one fault for each.

A fork shares its parent's memory until one of the two writes to a page; then the kernel stops the writer and copies the
page. A worker of Python writes to some 500 pages, the same ones each time, since to look at an object is to count a
reference to it. Such faults are half of what a short check costs. A page that is pinned for I/O is never shared with a
fork: the kernel copies it at once, in the fork itself. So the zygote finds the pages once, and registers them as
buffers of an io_uring that never does any I/O.

Where io_uring is missing or forbidden nothing is pinned, and all works as before, at the old price.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import NoReturn

from equus.processes.process import die_with_parent

PAGE = os.sysconf("SC_PAGE_SIZE")
# The numbers are the same on all machines; glibc has no functions for them. linux/io_uring.h
_SETUP, _REGISTER, _REGISTER_BUFFERS = 425, 427, 0
_PARAMETERS = 120  # bytes of struct io_uring_params
# Bits of an entry in /proc/self/pagemap: there is a page, it belongs to a file, no other process maps it.
_PRESENT, _OF_FILE, _EXCLUSIVE = 1 << 63, 1 << 61, 1 << 56
MOST_RANGES = 1024  # an older kernel registers no more buffers at once
MOST_PAGES = 4096  # 16 MiB: more than that is no set of pages that a small check writes

Range = tuple[int, int]  # first address and length, in bytes
_LIBC = ctypes.CDLL(None, use_errno=True)


def pages_written_by(act: Callable[[], None], wait: Callable[[], None]) -> list[Range]:
    """Return the memory that a fork of this process wrote to while it ran `act`, which must never return.

    `wait` is called here, and returns when the fork has done what is to be seen; the fork is killed then. It is looked
    at from outside, since to look is to write as well. A third process holds what this one writes meanwhile: else pages
    of the fork would be its own only because this process has left them. The list is empty if /proc does not tell.
    """
    with _forked(partial(_sleep, os.getpid())), _forked(act) as child:
        wait()
        return _own_ranges(child)


@contextmanager
def _forked(act: Callable[[], None]) -> Iterator[int]:
    """Run `act` in a fork of this process, which is killed in the end; the value is its pid."""
    child = os.fork()
    if child == 0:
        try:
            act()
        finally:
            os._exit(0)
    try:
        yield child
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _sleep(parent: int) -> NoReturn:
    """Hold memory and nothing else, until this process is killed or its parent ends.

    A socket of `act` that was open here as well would keep `wait` from noticing that `act` has ended.
    """
    die_with_parent(parent)
    os.closerange(0, os.sysconf("SC_OPEN_MAX"))
    while True:
        time.sleep(60)


def _packed(ranges: list[Range]) -> bytes:
    return b"".join(struct.pack("=QQ", first, length) for first, length in ranges)


def _own_ranges(process: int) -> list[Range]:
    """Return the writable memory of a process that it shares with no other."""
    found: list[Range] = []
    with suppress(OSError), open(f"/proc/{process}/pagemap", "rb", buffering=0) as pagemap:
        for first, end in _writable_mappings(process):
            pagemap.seek(first // PAGE * 8)
            entries = pagemap.read((end - first) // PAGE * 8)
            for number, (entry,) in enumerate(struct.iter_unpack("=Q", entries[: len(entries) // 8 * 8])):
                if entry & _PRESENT and entry & _EXCLUSIVE and not entry & _OF_FILE:
                    _add_page(found, first + number * PAGE)
    return found


def _add_page(found: list[Range], address: int) -> None:
    if found and sum(found[-1]) == address:
        found[-1] = (found[-1][0], found[-1][1] + PAGE)
    else:
        found.append((address, PAGE))


def _writable_mappings(process: int) -> list[Range]:
    """Return first address and end of each private, writable mapping but the stack, which differs from call to call."""
    with open(f"/proc/{process}/maps", encoding="utf-8", errors="replace") as maps:
        rows = [line.split() for line in maps]
    ends = [row[0].split("-") for row in rows if row[1].startswith("rw-p") and row[-1] != "[stack]"]
    return [(int(first, 16), int(end, 16)) for first, end in ends]


def pin(ranges: Iterable[Range]) -> int | None:
    """Pin this memory of this process, and return the descriptor that holds it. None: nothing is pinned.

    Forks inherit the descriptor, and close it; the pins are this process's alone.
    """
    wanted = list(ranges)
    if not wanted or len(wanted) > MOST_RANGES or sum(length for _, length in wanted) > MOST_PAGES * PAGE:
        return None
    ring = _LIBC.syscall(ctypes.c_long(_SETUP), ctypes.c_long(1), ctypes.create_string_buffer(_PARAMETERS))
    if ring < 0:
        return None
    vectors = ctypes.create_string_buffer(_packed(wanted))
    numbers = map(ctypes.c_long, (_REGISTER, ring, _REGISTER_BUFFERS))
    if _LIBC.syscall(*numbers, vectors, ctypes.c_long(len(wanted))) != 0:
        os.close(ring)
        return None
    return int(ring)
