"""Acts as if native code had been won inside a worker: each is refused by the kernel, or the end of the process."""

import json
import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from equus.sandbox.process import python_environment

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
    "send a descriptor": {DEAD},
}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers in native_acts.py are those of x86_64")
def test_every_act_is_refused() -> None:
    """Opening is EPERM; forking, executing, killing, tracing and all that is unknown is death by SIGSYS."""
    command = [sys.executable, str(SCRIPT)]
    done = subprocess.run(command, env=python_environment(), capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    found = json.loads(done.stderr)
    assert found.keys() == EXPECTED.keys()
    assert {name: status for name, status in found.items() if status not in EXPECTED[name]} == {}
    assert not os.path.exists("/tmp/equus-native-act")
