"""The system calls that a worker may make, as a seccomp filter. The program is data; `install` hands it to the kernel.

Three answers: allowed; EPERM for what libc or Python may try by the way (opening, looking at files); death by SIGSYS
for the rest, since only code that has broken out of Lua gets there. Memory can never be both written and executed.
x86_64 and aarch64; elsewhere there is no filter, and the isolation is `weak`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Mapping

from attrs import frozen

# linux/seccomp.h, linux/filter.h
_RET_KILL_PROCESS = 0x80000000
_RET_ERRNO = 0x00050000
_RET_ALLOW = 0x7FFF0000
_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
# Offsets in struct seccomp_data; the low half of an argument comes first on both (little-endian) machines.
_AT_NUMBER, _AT_ARCH, _AT_ARGUMENTS = 0, 4, 16
_PROT_EXEC = 4
_X32_BIT = 0x40000000
_PR_SET_SECCOMP, _MODE_FILTER = 22, 2

# What CPython, lupa and malloc need for computing, telling the time, and talking on descriptors they have already.
ALLOWED = (
    "read write close lseek poll ppoll brk munmap mremap madvise futex clock_gettime clock_nanosleep nanosleep"
    " gettimeofday getrusage rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack getpid gettid getuid geteuid getgid"
    " getegid getrandom sched_yield restart_syscall exit exit_group rseq set_robust_list membarrier"
).split()
# Allowed unless the third argument (prot) asks for executable memory, which answers EPERM.
NEVER_EXECUTABLE = ("mmap", "mprotect")
# Allowed for the process itself only: raising its own soft limits up to the hard ones, which it can't pass.
ON_ITSELF = ("prlimit64",)
REFUSED = (
    "open openat openat2 creat stat fstat lstat newfstatat statx access faccessat faccessat2 readlink readlinkat"
    " getcwd chdir getdents64 ioctl fcntl uname sysinfo time prctl sched_getaffinity getpriority dup dup2 dup3 pipe"
    " pipe2 statfs fstatfs getrlimit tgkill socket connect unlink unlinkat mkdir mkdirat rename renameat renameat2"
    " chmod fchmodat chown fchownat truncate ftruncate"
).split()

_X86_64 = {
    "read": 0, "write": 1, "open": 2, "close": 3, "stat": 4, "fstat": 5, "lstat": 6, "poll": 7, "lseek": 8, "mmap": 9,
    "mprotect": 10, "munmap": 11, "brk": 12, "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15, "ioctl": 16,
    "access": 21, "pipe": 22, "sched_yield": 24, "mremap": 25, "madvise": 28, "dup": 32, "dup2": 33, "nanosleep": 35,
    "getpid": 39, "socket": 41, "connect": 42, "exit": 60, "uname": 63, "fcntl": 72, "truncate": 76, "ftruncate": 77,
    "getcwd": 79, "chdir": 80, "rename": 82, "mkdir": 83, "creat": 85, "unlink": 87, "readlink": 89, "chmod": 90,
    "chown": 92, "gettimeofday": 96, "getrlimit": 97, "getrusage": 98, "sysinfo": 99, "getuid": 102, "getgid": 104,
    "geteuid": 107, "getegid": 108, "sigaltstack": 131, "statfs": 137, "fstatfs": 138, "getpriority": 140, "prctl": 157,
    "gettid": 186, "time": 201, "futex": 202, "sched_getaffinity": 204, "getdents64": 217, "restart_syscall": 219,
    "clock_gettime": 228, "clock_nanosleep": 230, "exit_group": 231, "tgkill": 234, "openat": 257, "mkdirat": 258,
    "fchownat": 260, "newfstatat": 262, "unlinkat": 263, "renameat": 264, "readlinkat": 267, "fchmodat": 268,
    "faccessat": 269, "ppoll": 271, "set_robust_list": 273, "dup3": 292, "pipe2": 293, "prlimit64": 302,
    "renameat2": 316, "getrandom": 318, "membarrier": 324, "statx": 332, "rseq": 334, "openat2": 437, "faccessat2": 439,
}  # fmt: skip
_AARCH64 = {
    "getcwd": 17, "dup": 23, "dup3": 24, "fcntl": 25, "ioctl": 29, "mkdirat": 34, "unlinkat": 35, "renameat": 38,
    "statfs": 43, "fstatfs": 44, "truncate": 45, "ftruncate": 46, "faccessat": 48, "chdir": 49, "fchmodat": 53,
    "fchownat": 54, "openat": 56, "close": 57, "pipe2": 59, "getdents64": 61, "lseek": 62, "read": 63, "write": 64,
    "ppoll": 73, "readlinkat": 78, "newfstatat": 79, "fstat": 80, "exit": 93, "exit_group": 94, "futex": 98,
    "set_robust_list": 99, "nanosleep": 101, "clock_gettime": 113, "clock_nanosleep": 115, "sched_getaffinity": 123,
    "sched_yield": 124, "restart_syscall": 128, "tgkill": 131, "sigaltstack": 132, "rt_sigaction": 134,
    "rt_sigprocmask": 135, "rt_sigreturn": 139, "getpriority": 141, "uname": 160, "getrlimit": 163, "getrusage": 165,
    "prctl": 167, "gettimeofday": 169, "getpid": 172, "getuid": 174, "geteuid": 175, "getgid": 176, "getegid": 177,
    "gettid": 178, "sysinfo": 179, "socket": 198, "connect": 203, "brk": 214, "munmap": 215, "mremap": 216, "mmap": 222,
    "mprotect": 226, "madvise": 233, "prlimit64": 261, "renameat2": 276, "getrandom": 278, "membarrier": 283,
    "statx": 291, "rseq": 293, "openat2": 437, "faccessat2": 439,
}  # fmt: skip


@frozen
class Machine:
    """An architecture: its name for the kernel (linux/audit.h) and its numbers of system calls."""

    audit: int
    numbers: Mapping[str, int]


MACHINES = {"x86_64": Machine(0xC000003E, _X86_64), "aarch64": Machine(0xC00000B7, _AARCH64)}


def build(machine: Machine) -> bytes:
    """The filter program for a machine, one instruction in 8 bytes."""
    eperm = _RET_ERRNO | errno.EPERM
    program = [_load(_AT_ARCH), _unless_equal(machine.audit, _RET_KILL_PROCESS), _load(_AT_NUMBER)]
    # x32 (32-bit pointers) shares our architecture's name and has numbers of its own; none are that large elsewhere.
    program.append(_instruction(_JUMP_AT_LEAST, 0, 1, _X32_BIT) + _return(_RET_KILL_PROCESS))
    numbers = machine.numbers
    for name in NEVER_EXECUTABLE:
        check = _load(_AT_ARGUMENTS + 2 * 8) + _instruction(_JUMP_BITS, 0, 1, _PROT_EXEC) + _return(eperm)
        program.append(_when(numbers[name], check + _return(_RET_ALLOW)))
    for name in ON_ITSELF:
        check = _load(_AT_ARGUMENTS) + _unless_equal(0, eperm)
        program.append(_when(numbers[name], check + _return(_RET_ALLOW)))
    for names, answer in ((ALLOWED, _RET_ALLOW), (REFUSED, eperm)):
        program += [_when(numbers[name], _return(answer)) for name in names if name in numbers]
    return b"".join(program) + _return(_RET_KILL_PROCESS)


def _instruction(code: int, if_true: int, if_false: int, value: int) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _load(offset: int) -> bytes:
    return _instruction(_LOAD, 0, 0, offset)


def _return(answer: int) -> bytes:
    return _instruction(_RETURN, 0, 0, answer)


def _unless_equal(value: int, answer: int) -> bytes:
    return _instruction(_JUMP_EQUAL, 1, 0, value) + _return(answer)


def _when(value: int, then: bytes) -> bytes:
    """Skip `then` unless the accumulator has this value; `then` always returns, so the accumulator stays as it was."""
    return _instruction(_JUMP_EQUAL, 0, len(then) // 8, value) + then


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


class Filter:
    """The filter of this machine, built once; `install` is all that a worker does with it."""

    def __init__(self) -> None:
        self.machine = MACHINES.get(platform.machine())
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._text = b"" if self.machine is None else build(self.machine)
        self._program = _Program(len(self._text) // 8, self._text)

    def install(self) -> None:
        """For this process, for good. Needs no-new-privs, which the caller has set. Raises OSError without a filter."""
        if self.machine is None:
            raise OSError(errno.ENOSYS, f"no seccomp filter for {platform.machine()}")
        if self._libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(self._program), 0, 0) != 0:
            fault = ctypes.get_errno()
            raise OSError(fault, f"seccomp: {os.strerror(fault)}")
