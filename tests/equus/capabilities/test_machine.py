"""Test figures of the machine from recorded /proc trees and from the real one."""

import os
import struct
import time

import pytest

from equus.capabilities import machine

MEMINFO = """MemTotal:       24683656 kB
MemFree:        24393816 kB
MemAvailable:   24360388 kB
Buffers:            1736 kB
Cached:           149848 kB
SwapTotal:       2097148 kB
SwapFree:         786432 kB
Dirty:               228 kB
Shmem:              8952 kB
Slab:              52508 kB
CommitLimit:    12341828 kB
Committed_AS:      59540 kB
HugePages_Total:       0
"""


def test_memory_counts_what_is_not_available_as_used(call, plant):
    """Memory that is not available counts as used, page cache does not, and all figures are bytes."""
    assert call("mem", root=plant({"/proc/meminfo": MEMINFO})) == {
        "total_bytes": 24683656 * 1024,
        "available_bytes": 24360388 * 1024,
        "used_bytes": (24683656 - 24360388) * 1024,
        "used_percent": 1.31,
        "free_bytes": 24393816 * 1024,
        "buffers_bytes": 1736 * 1024,
        "cached_bytes": 149848 * 1024,
        "shared_bytes": 8952 * 1024,
        "slab_bytes": 52508 * 1024,
        "dirty_bytes": 228 * 1024,
        "committed_bytes": 59540 * 1024,
        "commit_limit_bytes": 12341828 * 1024,
    }


def test_memory_of_a_kernel_without_memavailable(call, plant):
    """Without MemAvailable, free memory, buffers and cache are added up instead."""
    old = "\n".join(line for line in MEMINFO.splitlines() if not line.startswith("MemAvailable"))
    answer = call("mem", root=plant({"/proc/meminfo": old}))
    assert answer["available_bytes"] == (24393816 + 1736 + 149848) * 1024


def test_swap(call, plant):
    """Swap gives its space and the pages that were moved in bytes."""
    root = plant({"/proc/meminfo": MEMINFO, "/proc/vmstat": "nr_free_pages 1\npswpin 3\npswpout 5\n"})
    page = os.sysconf("SC_PAGE_SIZE")
    assert call("swap", root=root) == {
        "total_bytes": 2097148 * 1024,
        "free_bytes": 786432 * 1024,
        "used_bytes": 1310716 * 1024,
        "used_percent": 62.5,
        "in_bytes": 3 * page,
        "out_bytes": 5 * page,
    }


def test_load(call, plant):
    """The load gives three averages, the running and all scheduling entities, and the number of processors."""
    root = plant({"/proc/loadavg": "0.25 0.10 0.03 3/90 5277\n", "/proc/stat": "cpu  1 2 3\ncpu0 1\ncpu1 1\nctxt 4\n"})
    expected = {"one": 0.25, "five": 0.1, "fifteen": 0.03, "running": 3, "total": 90, "cpus": 2}
    assert call("load", root=root) == expected


def test_uptime(call, plant):
    """The start of the machine is computed from its uptime."""
    before = time.time()
    answer = call("uptime", root=plant({"/proc/uptime": "551.23 1024.61\n"}))
    assert answer["seconds"] == 551.23
    assert before - 552 < answer["booted_at"] < time.time() - 550


def _utmp(kind: int, pid: int, user: bytes, terminal: bytes, origin: bytes, since: int) -> bytes:
    return machine._UTMP.pack(kind, pid, terminal, b"", user, origin, 0, 0, 0, since, 0, 0, 0, 0, 0)


def test_users_of_utmp(call, plant):
    """Only user processes that are alive count; other records and those that a crash left behind do not."""
    records = b"".join(
        (
            _utmp(2, 0, b"reboot", b"~", b"6.1", 1),
            _utmp(7, 41, b"ada", b"pts/0", b"192.0.2.7", 1_700_000_000),
            _utmp(7, 42, b"gone", b"pts/1", b"", 1_700_000_000),
            _utmp(8, 41, b"", b"pts/2", b"", 1_700_000_000),
        )
    )
    root = plant({"/var/run/utmp": records + b"half a record", "/proc/41/stat": ""})
    expected = [{"name": "ada", "terminal": "pts/0", "from": "192.0.2.7", "since_at": 1_700_000_000}]
    assert call("users", root=root) == expected


def test_the_two_layouts_of_utmp_are_those_of_glibc():
    """A record of utmp has 384 bytes on x86-64, and 400 on ports with wide times, as in glibc."""
    assert (machine._UTMP_OLD.size, machine._UTMP_NEW.size) == (384, 400)


def test_users_of_logind(call, plant):
    """Without utmp the users come from the files of logind, and its other classes of logins do not count."""
    root = plant(
        {
            "/run/systemd/sessions/3": "UID=1\nUSER=ada\nTTY=pts/0\nREMOTE_HOST=192.0.2.7\nCLASS=user\n"
            "REALTIME=1700000000000000\n",
            "/run/systemd/sessions/c1": "UID=2\nUSER=greeter\nCLASS=greeter\n",
            "/run/systemd/sessions/3.ref": "",
        }
    )
    expected = [{"name": "ada", "terminal": "pts/0", "from": "192.0.2.7", "since_at": 1_700_000_000.0}]
    assert call("users", root=root) == expected


@pytest.mark.parametrize(
    "name", ["mem", "swap", "load", "uptime", "users", "raid", "mail_queue", "cpu", "disk_io", "net_io"]
)
def test_a_host_without_the_facility_says_so(failure, plant, name):
    """Missing files make a call unsupported, with a sentence."""
    code, text = failure(name, root=plant({"/nothing": ""}))
    assert code == "unsupported"
    assert "this host" in text


def test_the_real_machine(call):
    """Calls on the machine that runs this test give possible figures."""
    memory, load, uptime = call("mem"), call("load"), call("uptime")
    assert 0 < memory["available_bytes"] <= memory["total_bytes"]
    assert load["cpus"] >= 1
    assert uptime["seconds"] > 0
    assert call("info")["hostname"] == os.uname().nodename
    clock = call("clock")
    assert clock["state"] in machine._CLOCK_STATES
    assert isinstance(clock["synchronized"], bool)


def test_the_kernel_fills_less_than_our_structure():
    """The agent's struct timex has at least the 208 bytes of 64-bit Linux, because the kernel fills so many."""
    assert struct.calcsize("P") != 8 or machine.ctypes.sizeof(machine._Timex) >= 208


def test_too_many_arguments(failure):
    """A call refuses too many arguments, and says how many it takes."""
    assert failure("mem", 1) == ("bad-arguments", "host.mem takes 0 arguments (), not 1")
