"""What the processes of the sandbox share in their first moments: dying with a parent, clean descriptors, pidfds.

Every function here is safe between fork and exec in a single-threaded process; none of them logs.
"""

from __future__ import annotations

import array
import ctypes
import os
import signal
import socket
import struct
import sys
from pathlib import Path

# Loaded once: prctl has no wrapper in the standard library.
_LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT, _AMBIENT_CLEAR_ALL = 47, 4
# struct __user_cap_header_struct (version 3, this process) and two empty __user_cap_data_struct, linux/capability.h
_CAPABILITY_HEADER = struct.pack("=Ii", 0x20080522, 0)
_NO_CAPABILITIES = bytes(24)

# The folder that holds the `equus` package: the new interpreters must run the same version as their parent.
CODE_FOLDER = Path(__file__).parents[2]
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}


def prctl(option: int, value: int) -> None:
    """prctl(2) with one argument."""
    if _LIBC.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)) != 0:
        fault = ctypes.get_errno()
        raise OSError(fault, f"prctl({option}): {os.strerror(fault)}")


def drop_capabilities() -> None:
    """What an agent was given beside its user (AmbientCapabilities= of systemd, a container's root), for good."""
    prctl(_PR_CAP_AMBIENT, _AMBIENT_CLEAR_ALL)
    if _LIBC.capset(_CAPABILITY_HEADER, _NO_CAPABILITIES) != 0:
        fault = ctypes.get_errno()
        raise OSError(fault, f"capset: {os.strerror(fault)}")


def die_with_parent(parent: int) -> None:
    """SIGKILL when the parent's thread ends; and end at once when it has ended before we could ask."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def receive(control: socket.socket, length: int, descriptors: int) -> tuple[bytes, list[int]]:
    """One datagram and the descriptors beside it, which no program that we start inherits.

    Nothing when the other side has ended, also when it ended with a message of ours unread. socket.recv_fds takes flags
    too, and does not pass them on.
    """
    numbers = array.array("i")
    room = socket.CMSG_LEN(descriptors * numbers.itemsize)
    try:
        message, ancillary, _flags, _address = control.recvmsg(length, room, socket.MSG_CMSG_CLOEXEC)
    except ConnectionResetError:
        return b"", []
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            numbers.frombytes(data[: len(data) - len(data) % numbers.itemsize])
    return message, list(numbers)


def python_module(module: str, *arguments: str) -> list[str]:
    """The command line of a new interpreter that runs one of our modules and reads no user's configuration."""
    return [sys.executable, "-s", "-P", "-m", module, *arguments]


def python_environment(*folders: Path) -> dict[str, str]:
    """Its environment: nothing of ours but where the code lies."""
    return ENVIRONMENT | {"PYTHONPATH": os.pathsep.join(map(str, (CODE_FOLDER, *folders)))}


def attach_standard_streams_to_nothing() -> None:
    """Descriptors 0, 1 and 2 become /dev/null."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    if nothing > 2:
        os.close(nothing)
