"""Test acts of native code inside a worker: the kernel refuses each of them, or ends the process."""

import json
import os
import platform
import runpy
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from equus.processes.process import python_environment
from equus.sandbox.seccomp import MACHINES

SCRIPT = Path(__file__).parent / "native_acts.py"
REFUSED, FAILED = 10, 11
DEAD = -signal.SIGSYS
# What is expected of each act; two answers where Python itself may refuse first.
EXPECTED = {
    "compute": {0},
    "open": {REFUSED},
    "open to write": {REFUSED},
    "list": {REFUSED},
    "stat": {REFUSED},
    "unlink": {DEAD},
    "fork": {DEAD},
    "vfork by number": {DEAD},
    "clone3 by number": {DEAD},
    "exec": {DEAD},
    "execveat by number": {DEAD},
    "socket": {REFUSED},
    "socketpair": {DEAD},
    "kill the parent": {DEAD},
    "kill a thread": {DEAD},
    "ptrace": {DEAD},
    "process_vm_readv": {DEAD},
    "pidfd_getfd": {DEAD},
    "setuid": {DEAD},
    "chroot": {DEAD},
    "mount": {DEAD},
    "unshare": {DEAD},
    "bpf": {DEAD},
    "io_uring": {DEAD},
    "keyctl": {DEAD},
    "userfaultfd": {DEAD},
    "perf_event_open": {DEAD},
    "another seccomp": {DEAD},
    "be dumpable again": {REFUSED},
    "x32 getpid": {DEAD},
    "executable memory": {REFUSED},
    "make memory executable": {REFUSED},
    "raise a limit": {REFUSED, FAILED},
    "limits of another": {REFUSED},
    "io_pgetevents": {DEAD},
    **{name: {DEAD} for name in (
        "pidfd_open", "openat2", "process_madvise", "mount_setattr", "landlock_create_ruleset", "memfd_secret",
        "futex_waitv", "map_shadow_stack", "futex_wait", "lsm_set_self_attr", "mseal", "setxattrat",
    )},
    "send a descriptor": {DEAD},
}  # fmt: skip


@pytest.mark.adversary(34)
def test_every_act_is_refused() -> None:
    """Each act is refused with EPERM, or ends the worker by SIGSYS.

    On a processor that has no filter nothing is done at all: the worker does not become one.
    """
    command = [sys.executable, str(SCRIPT)]
    done = subprocess.run(command, env=python_environment(), capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    found = json.loads(done.stderr)
    assert found.keys() == EXPECTED.keys()
    expected = EXPECTED if platform.machine() in MACHINES else {name: {FAILED} for name in EXPECTED}
    assert {name: status for name, status in found.items() if status not in expected[name]} == {}
    assert not os.path.exists("/tmp/equus-native-act")


@pytest.mark.parametrize("machine", MACHINES)
def test_the_numbers_of_each_processor(machine: str) -> None:
    """The filter of each processor has acts of its own; of their calls it knows two, which it refuses or which do no
    harm.
    """
    numbers_of = runpy.run_path(str(SCRIPT))["NUMBERS_OF"]
    assert numbers_of.keys() == MACHINES.keys()
    known, acts = MACHINES[machine].numbers, numbers_of[machine]
    assert {name: number for name, number in acts.items() if number in known.values()} == {
        name: known[name] for name in ("prctl", "getpid")
    }
