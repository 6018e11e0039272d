"""Fork a process for each act, which becomes a worker and acts as native code might, for test_native_acts.py."""

import ctypes
import json
import mmap
import os
import platform
import resource
import signal
import socket

from equus.processes.accounts import worker_user
from equus.sandbox.confinement import Confinement, confine
from equus.sandbox.interpreter import Interpreter
from equus.sandbox.seccomp import Filter
from equus.sandbox.zygote import address_space, drop_privileges

LIBC = ctypes.CDLL(None, use_errno=True)
# By the processor. aarch64 has no vfork, and clone does it.
NUMBERS_OF = {
    "x86_64": {
        "vfork": 58, "clone3": 435, "execveat": 322, "tkill": 200, "ptrace": 101, "process_vm_readv": 310,
        "pidfd_getfd": 438, "mount": 165, "unshare": 272, "bpf": 321, "io_uring_setup": 425, "keyctl": 250,
        "userfaultfd": 323, "perf_event_open": 298, "seccomp": 317, "prctl": 157, "getpid": 39, "io_pgetevents": 333,
    },
    "aarch64": {
        "vfork": 220, "clone3": 435, "execveat": 281, "tkill": 130, "ptrace": 117, "process_vm_readv": 270,
        "pidfd_getfd": 438, "mount": 40, "unshare": 97, "bpf": 280, "io_uring_setup": 425, "keyctl": 219,
        "userfaultfd": 282, "perf_event_open": 241, "seccomp": 277, "prctl": 167, "getpid": 172, "io_pgetevents": 292,
    },
}  # fmt: skip
# What kernels have learnt since; the numbers are the same on all processors.
NEWER = {
    "pidfd_open": 434, "openat2": 437, "process_madvise": 440, "mount_setattr": 442, "landlock_create_ruleset": 444,
    "memfd_secret": 447, "futex_waitv": 449, "map_shadow_stack": 453, "futex_wait": 455, "lsm_set_self_attr": 460,
    "mseal": 462, "setxattrat": 463,
}  # fmt: skip
NUMBERS = NUMBERS_OF.get(platform.machine(), NUMBERS_OF["x86_64"])  # without a filter no act is done, by any number


def syscall(number, *arguments):
    """Make a system call by libc's syscall(), which no wrapper of Python's checks."""
    answer = LIBC.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments))
    if answer == -1:
        raise OSError(ctypes.get_errno(), "syscall")
    return answer


def raise_limit():
    """Ask for more memory than the hard limit."""
    resource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40))


def executable(flags=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC):
    return mmap.mmap(-1, 4096, prot=flags)


def make_executable():
    text = mmap.mmap(-1, 4096)
    at = ctypes.addressof(ctypes.c_char.from_buffer(text))
    if LIBC.mprotect(ctypes.c_void_p(at), 4096, 5) != 0:
        raise OSError(ctypes.get_errno(), "mprotect")


PARENT = os.getpid()
ACTS = {
    "compute": lambda: sum(range(1000)),
    "open": lambda: os.open("/etc/passwd", os.O_RDONLY),
    "open to write": lambda: os.open("/tmp/equus-native-act", os.O_WRONLY | os.O_CREAT),
    "list": lambda: os.listdir("/"),
    "stat": lambda: os.stat("/"),
    "unlink": lambda: os.unlink("/tmp/equus-native-act"),
    "fork": os.fork,
    "vfork by number": lambda: syscall(NUMBERS["vfork"]),
    "clone3 by number": lambda: syscall(NUMBERS["clone3"], 0, 0),
    "exec": lambda: os.execv("/bin/true", ["/bin/true"]),
    "execveat by number": lambda: syscall(NUMBERS["execveat"], -100, 0, 0, 0, 0),
    "socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM),
    "socketpair": socket.socketpair,
    "kill the parent": lambda: os.kill(PARENT, signal.SIGKILL),
    "kill a thread": lambda: syscall(NUMBERS["tkill"], PARENT, 9),
    "ptrace": lambda: syscall(NUMBERS["ptrace"], 16, PARENT, 0, 0),
    "process_vm_readv": lambda: syscall(NUMBERS["process_vm_readv"], PARENT, 0, 0, 0, 0, 0),
    "pidfd_getfd": lambda: syscall(NUMBERS["pidfd_getfd"], 0, 0, 0),
    "setuid": lambda: os.setuid(0),
    "chroot": lambda: os.chroot("/"),
    "mount": lambda: syscall(NUMBERS["mount"], 0, 0, 0, 0, 0),
    "unshare": lambda: syscall(NUMBERS["unshare"], 0x10000000),
    "bpf": lambda: syscall(NUMBERS["bpf"], 0, 0, 0),
    "io_uring": lambda: syscall(NUMBERS["io_uring_setup"], 1, 0),
    "keyctl": lambda: syscall(NUMBERS["keyctl"], 0, 0, 0, 0, 0),
    "userfaultfd": lambda: syscall(NUMBERS["userfaultfd"], 0),
    "perf_event_open": lambda: syscall(NUMBERS["perf_event_open"], 0, 0, 0, 0, 0),
    "another seccomp": lambda: syscall(NUMBERS["seccomp"], 0, 0, 0),
    "be dumpable again": lambda: os.stat("/proc/self/mem") and syscall(NUMBERS["prctl"], 4, 1, 0, 0, 0),
    "x32 getpid": lambda: syscall(0x40000000 | NUMBERS["getpid"]),
    "executable memory": executable,
    "make memory executable": make_executable,
    "raise a limit": raise_limit,
    "limits of another": lambda: resource.prlimit(PARENT, resource.RLIMIT_CPU, (1, 1)),
    "io_pgetevents": lambda: syscall(NUMBERS["io_pgetevents"], 0, 0, 0, 0, 0, 0),
    **{name: lambda number=number: syscall(number, 0, 0, 0, 0, 0) for name, number in NEWER.items()},
    "send a descriptor": lambda: socket.send_fds(socket.socket(fileno=4), [b"x"], [0]),
}


def act(name, base):
    """Become a worker, do it, and tell what came of it by the exit status."""
    try:
        confine(Confinement(PARENT, base, Filter()), 64 * 1_048_576, 5)
        ACTS[name]()
    except PermissionError:
        os._exit(10)
    except (OSError, ValueError):
        os._exit(11)
    finally:
        os._exit(0)


def main():
    """Fork one child for each act, as the zygote forks workers, and print how each ended as JSON."""
    Interpreter()
    for end, place in zip(socket.socketpair(), (3, 4), strict=True):
        os.dup2(end.detach(), place)
    base = address_space()
    drop_privileges(*worker_user())
    found = {}
    for name in ACTS:
        pid = os.fork()
        if pid == 0:
            act(name, base)
        found[name] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.write(2, json.dumps(found).encode())


if __name__ == "__main__":
    main()
