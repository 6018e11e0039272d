"""Take the steps with which the sandbox's processes start: end with the parent, drop capabilities, receive descriptors.

Every function is safe between fork and exec in a single-threaded process; none of them logs.
"""

from __future__ import annotations

import array
import ctypes
import os
import signal
import socket
import struct
import sys

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
CODE_FOLDER = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}


def prctl(option: int, value: int) -> None:
    """Call prctl(2) with one argument. Raises OSError if the kernel refuses it."""
    if _LIBC.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)) != 0:
        fault = ctypes.get_errno()
        raise OSError(fault, f"prctl({option}): {os.strerror(fault)}")


def drop_capabilities() -> None:
    """Give up the capabilities that systemd (AmbientCapabilities=) or a container gave to this process, irrevocably.

    Raises OSError if the kernel refuses it.
    """
    prctl(_PR_CAP_AMBIENT, _AMBIENT_CLEAR_ALL)
    if _LIBC.capset(_CAPABILITY_HEADER, _NO_CAPABILITIES) != 0:
        fault = ctypes.get_errno()
        raise OSError(fault, f"capset: {os.strerror(fault)}")


def die_with_parent(parent: int) -> None:
    """Let the kernel send SIGKILL when the parent's thread ends; exit at once if the parent has ended already."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def receive(control: socket.socket, length: int, descriptors: int) -> tuple[bytes, list[int]]:
    """Receive one datagram and the descriptors beside it, which are close-on-exec.

    Return b"" if the other side has closed, even if it left a message of this side unread. socket.recv_fds would not
    do: it takes flags but does not pass them on.
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
    """Return the command line of a new interpreter that runs one module and reads no user's configuration."""
    return [sys.executable, "-s", "-P", "-m", module, *arguments]


def python_environment(*folders: os.PathLike[str]) -> dict[str, str]:
    """Return the environment of such an interpreter: where code is found, and nothing of the agent's own."""
    return ENVIRONMENT | {"PYTHONPATH": os.pathsep.join(map(str, (CODE_FOLDER, *folders)))}


def attach_standard_streams_to_nothing() -> None:
    """Open /dev/null as descriptors 0, 1 and 2."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    if nothing > 2:
        os.close(nothing)
