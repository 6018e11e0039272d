"""Build the seccomp filter of a worker, as data, and install it in the kernel.

A system call is allowed; or answered with EPERM if libc or Python may try it in passing (opening files); or else the
process is killed by SIGSYS, since only code that has broken out of Lua gets there. No memory can be both written and
executed. There are filters for x86_64 and aarch64; elsewhere the isolation is `weak`.
"""

from __future__ import annotations

import ctypes
import errno
import os
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
_PR_SET_SECCOMP, _MODE_FILTER = 22, 2

# The calls that CPython, lupa and malloc need to compute, read clocks, and use descriptors that are open already.
ALLOWED = (
    "read write close lseek poll ppoll brk munmap mremap madvise futex clock_gettime clock_nanosleep nanosleep"
    " gettimeofday getrusage rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack getpid gettid getuid geteuid getgid"
    " getegid getrandom sched_yield restart_syscall exit exit_group rseq set_robust_list membarrier"
).split()
# Allowed unless the third argument (prot) asks for executable memory, which answers EPERM.
NEVER_EXECUTABLE = ("mmap", "mprotect")
# Allowed for the process itself only: it raises its own soft limits, up to the hard ones at most.
ON_ITSELF = ("prlimit64",)
REFUSED = (
    "open openat stat fstat lstat newfstatat statx access faccessat readlink readlinkat getcwd getdents64 ioctl fcntl"
    " uname sysinfo prctl tgkill socket"
).split()

_X86_64 = {
    "read": 0, "write": 1, "open": 2, "close": 3, "stat": 4, "fstat": 5, "lstat": 6, "poll": 7, "lseek": 8, "mmap": 9,
    "mprotect": 10, "munmap": 11, "brk": 12, "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15, "ioctl": 16,
    "access": 21, "sched_yield": 24, "mremap": 25, "madvise": 28, "nanosleep": 35, "getpid": 39, "socket": 41,
    "exit": 60, "uname": 63, "fcntl": 72, "getcwd": 79, "readlink": 89, "gettimeofday": 96, "getrusage": 98,
    "sysinfo": 99, "getuid": 102, "getgid": 104, "geteuid": 107, "getegid": 108, "sigaltstack": 131, "prctl": 157,
    "gettid": 186, "futex": 202, "getdents64": 217, "restart_syscall": 219, "clock_gettime": 228,
    "clock_nanosleep": 230, "exit_group": 231, "tgkill": 234, "openat": 257, "newfstatat": 262, "readlinkat": 267,
    "faccessat": 269, "ppoll": 271, "set_robust_list": 273, "prlimit64": 302, "getrandom": 318, "membarrier": 324,
    "statx": 332, "rseq": 334,
}  # fmt: skip
_AARCH64 = {
    "getcwd": 17, "fcntl": 25, "ioctl": 29, "faccessat": 48, "openat": 56, "close": 57, "getdents64": 61, "lseek": 62,
    "read": 63, "write": 64, "ppoll": 73, "readlinkat": 78, "newfstatat": 79, "fstat": 80, "exit": 93,
    "exit_group": 94, "futex": 98, "set_robust_list": 99, "nanosleep": 101, "clock_gettime": 113,
    "clock_nanosleep": 115, "sched_yield": 124, "restart_syscall": 128, "tgkill": 131, "sigaltstack": 132,
    "rt_sigaction": 134, "rt_sigprocmask": 135, "rt_sigreturn": 139, "uname": 160, "getrusage": 165, "prctl": 167,
    "gettimeofday": 169, "getpid": 172, "getuid": 174, "geteuid": 175, "getgid": 176, "getegid": 177, "gettid": 178,
    "sysinfo": 179, "socket": 198, "brk": 214, "munmap": 215, "mremap": 216, "mmap": 222, "mprotect": 226,
    "madvise": 233, "prlimit64": 261, "getrandom": 278, "membarrier": 283, "statx": 291, "rseq": 293,
}  # fmt: skip


@frozen
class Machine:
    """Describes an architecture: its number in linux/audit.h, and its numbers of system calls."""

    audit: int
    numbers: Mapping[str, int]


MACHINES = {"x86_64": Machine(0xC000003E, _X86_64), "aarch64": Machine(0xC00000B7, _AARCH64)}


def build(machine: Machine) -> bytes:
    """Return the filter program for a machine, 8 bytes for each instruction.

    It is a tree: each comparison halves the numbers that are left, until all of them have the same answer. The kernel
    runs a new filter for each number of its table, in each worker, to learn which are always allowed: six comparisons
    each, where a list would take up to 71.
    """
    eperm, forbid, allow = _return(_RET_ERRNO | errno.EPERM), _return(_RET_KILL_PROCESS), _return(_RET_ALLOW)
    not_executable = _load(_AT_ARGUMENTS + 2 * 8) + _instruction(_JUMP_BITS, 0, 1, _PROT_EXEC) + eperm + allow
    on_itself = _load(_AT_ARGUMENTS) + _instruction(_JUMP_EQUAL, 1, 0, 0) + eperm + allow
    rules = ((ALLOWED, allow), (REFUSED, eperm), (NEVER_EXECUTABLE, not_executable), (ON_ITSELF, on_itself))
    answers = {machine.numbers[name]: answer for names, answer in rules for name in names if name in machine.numbers}
    # x32 (32-bit pointers) shares our architecture's name. Its numbers are larger than all of these, so they are
    # forbidden as every number is that none of the rules names.
    return (
        _load(_AT_ARCH)
        + _instruction(_JUMP_EQUAL, 1, 0, machine.audit)
        + forbid
        + _load(_AT_NUMBER)
        + _tree(_ranges(answers, forbid))
    )


def _ranges(answers: Mapping[int, bytes], otherwise: bytes) -> list[tuple[int, bytes]]:
    """Return each number from which on there is another answer, with that answer. The first number is 0."""
    ranges = [(0, answers.get(0, otherwise))]
    for number in sorted({*answers, *(number + 1 for number in answers)}):
        answer = answers.get(number, otherwise)
        if answer != ranges[-1][1]:
            ranges.append((number, answer))
    return ranges


def _tree(ranges: list[tuple[int, bytes]]) -> bytes:
    """Return the instructions that find the answer for the number in the accumulator, and give it.

    The comparisons come first, then each answer once; a jump reaches 255 instructions, and there are fewer.
    """
    comparisons: list[tuple[int, int | bytes, int | bytes]] = []  # number, and what follows: a comparison or an answer

    def halve(part: list[tuple[int, bytes]]) -> int | bytes:
        if len(part) == 1:
            return part[0][1]
        at, middle = len(comparisons), len(part) // 2
        comparisons.append((part[middle][0], b"", b""))
        below = halve(part[:middle])
        comparisons[at] = (part[middle][0], halve(part[middle:]), below)
        return at

    halve(ranges)
    places: dict[int | bytes, int] = {at: at for at in range(len(comparisons))}
    end = len(comparisons)
    for answer in dict.fromkeys(answer for _number, answer in ranges):
        places[answer] = end
        end += len(answer) // 8
    told = [
        _instruction(_JUMP_AT_LEAST, places[above] - at - 1, places[below] - at - 1, number)
        for at, (number, above, below) in enumerate(comparisons)
    ]
    return b"".join([*told, *(answer for answer in places if isinstance(answer, bytes))])


def _instruction(code: int, if_true: int, if_false: int, value: int) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _load(offset: int) -> bytes:
    return _instruction(_LOAD, 0, 0, offset)


def _return(answer: int) -> bytes:
    return _instruction(_RETURN, 0, 0, answer)


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


class Filter:
    """Holds the filter of this machine. The zygote builds it once, each worker installs it."""

    def __init__(self) -> None:
        self.machine = MACHINES.get(os.uname().machine)
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._text = b"" if self.machine is None else build(self.machine)
        self._program = _Program(len(self._text) // 8, self._text)

    def install(self) -> None:
        """Install the filter in this process, irrevocably. The zygote has set no-new-privs, which the kernel demands.

        Raises OSError if there is no filter for this machine, or the kernel refuses it.
        """
        if self.machine is None:
            raise OSError(errno.ENOSYS, f"no seccomp filter for {os.uname().machine}")
        if self._libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(self._program), 0, 0) != 0:
            fault = ctypes.get_errno()
            raise OSError(fault, f"seccomp: {os.strerror(fault)}")
