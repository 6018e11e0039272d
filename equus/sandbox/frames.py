"""Define the bytes between the agent, the zygote, the workers and the broker, and read and write them in children.

The functions block, so the children alone use them; the agent's side (links.py) never blocks.

    agent -> zygote   datagrams: LAUNCH with two descriptors (the worker's ends), CALLS
    zygote -> agent   datagrams: READY, STARTED with the worker's pidfd, ENDED, NOT_STARTED
    agent -> worker   one job: LENGTH, a JSON object with the lengths of what follows, source, libraries, arguments
    worker -> agent   frames: LENGTH, one byte of kind, text (of DECLARED: SECONDS, of TABLE: value_codec.py)
    worker -> broker  frames: LENGTH, CALL, the call's name, its arguments as a list (value_codec.py)
    broker -> worker  frames: LENGTH, {value = ...} or {code = ..., text = ...} (value_codec.py); one for each CALL
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from typing import Any

from equus.sandbox.job import BLOB_LIMIT

LENGTH = struct.Struct("!I")
# The argument of a zygote whose few runs are not worth a rehearsal.
COLD = "cold"

# agent -> zygote. LAUNCH: run id, bytes of address space, seconds of CPU.
LAUNCH = struct.Struct("!BQQI")
LAUNCH_KIND, CALLS_KIND = 1, 2
# zygote -> agent. READY: true if the seccomp filter works. STARTED, NOT_STARTED: run id, pid or errno.
# ENDED: run id, wait status, CPU milliseconds, peak KiB.
READY = struct.Struct("!B?")
STARTED = struct.Struct("!BQi")
ENDED = struct.Struct("!BQiII")
READY_KIND, STARTED_KIND, ENDED_KIND, NOT_STARTED_KIND = 1, 2, 3, 4
# A datagram of the control sockets: the longest is the list of calls, about 40 bytes for each of some 100.
CONTROL_LIMIT = 65_536

# worker -> agent
DECLARED, LOG, RESULT, TABLE = b"D", b"L", b"R", b"T"
# Bytes of a table: the agent reads it between two other things. An empty one is told in place of a longer one.
TABLE_LIMIT = 8192
SECONDS = struct.Struct("!d")
LOG_LINES = 20
LOG_LINE = 1024
# Between the frames of one worker: its declaration, its table, its log lines, one result.
WORKER_FRAME_LIMIT = BLOB_LIMIT + 1

# worker <-> broker: the deadline on time.monotonic(), and the length of the call's name. The longest answer is a page
# of 1 MiB, once as text and once parsed.
CALL = struct.Struct("!dB")
CALL_FRAME_LIMIT = 4 * BLOB_LIMIT


class FrameTooLarge(ValueError):
    """Reports a frame longer than its reader takes; a correct sender never writes one."""


def read_exactly(descriptor: int, length: int) -> bytes:
    """Read exactly `length` bytes. Raises EOFError if the other side has closed before."""
    data = bytearray()
    while len(data) < length:
        part = os.read(descriptor, min(length - len(data), 1 << 18))
        if not part:
            raise EOFError
        data += part
    return bytes(data)


def reader(descriptor: int) -> Callable[[int], bytes]:
    """Return a function that reads exactly so many bytes, and raises EOFError if the other side has closed before.

    It may read further, so that a job of the usual size is one system call: nothing else may read this descriptor.
    """
    ahead = os.read(descriptor, 1 << 16)

    def take(length: int) -> bytes:
        """Return the next bytes."""
        nonlocal ahead
        part, ahead = ahead[:length], ahead[length:]
        return part if len(part) == length else part + read_exactly(descriptor, length - len(part))

    return take


def read_frame(descriptor: int, limit: int) -> bytes:
    """Read one frame and return it without its length. Raises FrameTooLarge if it is longer than `limit`."""
    (length,) = LENGTH.unpack(read_exactly(descriptor, LENGTH.size))
    if length > limit:
        raise FrameTooLarge(f"a frame of {length} bytes, and {limit} is the most")
    return read_exactly(descriptor, length)


def read_lone_frame(descriptor: int, limit: int) -> bytes:
    """Read a frame that nothing follows before it is answered; most often with a single system call.

    Raises EOFError if the other side has closed, FrameTooLarge if the frame is longer than `limit` or more follows.
    """
    data = os.read(descriptor, 1 << 16)
    if len(data) < LENGTH.size:
        if not data:
            raise EOFError
        data += read_exactly(descriptor, LENGTH.size - len(data))
    (length,) = LENGTH.unpack_from(data)
    if length > limit or len(data) > LENGTH.size + length:
        raise FrameTooLarge(f"a frame of {length} bytes, {len(data) - LENGTH.size} of them at once")
    return data[LENGTH.size :] + read_exactly(descriptor, LENGTH.size + length - len(data))


def job_bytes(document: dict[str, Any], *parts: bytes) -> bytes:
    """Return the bytes of a job: the document, which says how long the parts are, and these."""
    head = json.dumps(document).encode()
    return b"".join((LENGTH.pack(len(head)), head, *parts))


def write_frame(descriptor: int, *parts: bytes) -> None:
    """Write these parts as one frame."""
    write_all(descriptor, LENGTH.pack(sum(map(len, parts))) + b"".join(parts))


def write_all(descriptor: int, data: bytes) -> None:
    """Write all bytes, in as many system calls as the kernel needs."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
