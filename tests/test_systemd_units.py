"""Tests the units of deploy/systemd: what each of them gives up, and what systemd itself says of that."""

from __future__ import annotations

import functools
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

UNITS = Path(__file__).parents[1] / "deploy" / "systemd"
PAGE = UNITS.parents[1] / "docs" / "security.rst"
# The highest exposure that systemd-analyze may find; it counts from 0 (confined) to 10.
MOST_EXPOSED = {"equus": 2.5, "helen": 2.5, "helen-pipeline": 2.5}
EVERYWHERE = (
    "NoNewPrivileges=yes DynamicUser=yes UMask=0077 CapabilityBoundingSet= ProtectSystem=strict PrivateTmp=yes"
    " PrivateDevices=yes ProtectKernelTunables=yes ProtectKernelModules=yes ProtectKernelLogs=yes"
    " ProtectControlGroups=yes ProtectHostname=yes RestrictNamespaces=yes RestrictRealtime=yes RestrictSUIDSGID=yes"
    " LockPersonality=yes RemoveIPC=yes SystemCallArchitectures=native SystemCallFilter=@system-service"
    " SystemCallFilter=~@privileged SystemCallErrorNumber=EPERM"
).split()
REQUIRED = {
    "equus": ["ProtectHome=read-only", "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK",
              "SystemCallFilter=capset adjtimex clock_adjtime"],
    "helen": ["ProtectHome=yes", "ProtectProc=invisible", "ProtectClock=yes", "SystemCallFilter=capset",
              "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX"],
    "helen-pipeline": ["ProtectHome=yes", "ProtectProc=invisible", "ProtectClock=yes",
                       "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK"],
}  # fmt: skip
# What would break the program, with what it breaks: docs/security.rst says so, and the unit has no such line.
CAN_NOT_BE_HAD = {
    "equus": ["MemoryDenyWriteExecute", "ProtectClock", "ProtectProc", "ProcSubset", "PrivateNetwork", "IPAddressDeny",
              "PrivateUsers", "RootDirectory"],
    "helen": ["MemoryDenyWriteExecute", "ProcSubset", "PrivateNetwork"],
    "helen-pipeline": ["MemoryDenyWriteExecute", "PrivateNetwork"],
}  # fmt: skip


def lines_of(unit: str) -> list[str]:
    """Return the lines of a unit's [Service], without comments."""
    section = re.search(
        r"^\[Service\]$(.*?)(?:^\[|\Z)", (UNITS / f"{unit}.service").read_text(), re.DOTALL | re.MULTILINE
    )
    assert section is not None
    return [line for line in section[1].splitlines() if line and not line.startswith("#")]


def required() -> Iterator[tuple[str, str]]:
    for unit, own in REQUIRED.items():
        yield from ((unit, line) for line in (*EVERYWHERE, *own))


@pytest.mark.parametrize(("unit", "line"), list(required()))
def test_a_unit_gives_up_what_it_can(unit: str, line: str) -> None:
    """A unit has each of these directives, so that none is lost in a change (F89)."""
    assert line in lines_of(unit)


def test_every_unit_is_judged() -> None:
    """A new service has its row here."""
    services = {path.stem for path in UNITS.glob("*.service")}
    assert services == MOST_EXPOSED.keys() == REQUIRED.keys() == CAN_NOT_BE_HAD.keys()


@pytest.mark.parametrize("unit", CAN_NOT_BE_HAD)
def test_what_a_unit_can_not_have_is_said(unit: str) -> None:
    """A missing directive is told in docs/security.rst, and the unit has no such line (F89)."""
    page = PAGE.read_text()
    for name in CAN_NOT_BE_HAD[unit]:
        assert not any(line.startswith(f"{name}=") for line in lines_of(unit)), (unit, name)
        assert f"``{name}=``" in page


@pytest.mark.parametrize(("unit", "most"), sorted(MOST_EXPOSED.items()))
def test_what_systemd_says_of_it(unit: str, most: float) -> None:
    """systemd's own judgement of the file is at most this exposure, without a running systemd (F89)."""
    command = ["systemd-analyze", "security", "--offline=yes", "--no-pager", str(UNITS / f"{unit}.service")]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout
    found = re.search(rf"exposure level for {unit}\.service: ([0-9.]+) ", said)
    assert found is not None, said[-500:]
    assert float(found[1]) <= most


@functools.cache
def calls_of(group: str) -> frozenset[str]:
    """Return the system calls of a group of systemd, those of the groups in it included."""
    command = ["systemd-analyze", "syscall-filter", "--no-pager", group]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout
    words = {word for line in said.splitlines()[1:] if (word := line.partition("#")[0].strip())}
    inner = {word for word in words if word.startswith("@")}
    return frozenset(words - inner).union(*map(calls_of, inner))


def allowed(unit: str) -> set[str]:
    """Return what SystemCallFilter= lets through, in the order of its lines."""
    through = set(calls_of("@default"))
    for line in lines_of(unit):
        name, _, value = line.partition("=")
        if name == "SystemCallFilter":
            words = value.lstrip("~").split()
            calls = set().union(*(calls_of(word) if word.startswith("@") else {word} for word in words))
            through = through - calls if value.startswith("~") else through | calls
    return through


# What the sandbox of checks does on its way; without one of them no check runs, or no pushed file is judged.
NEEDED = (
    "capset prctl setrlimit prlimit64 clone clone3 execve wait4 pidfd_open pidfd_send_signal socketpair sendmsg"
    " recvmsg setsid openat2 kill getrandom"
).split()


@pytest.mark.parametrize("unit", ["equus", "helen"])
def test_the_sandbox_runs_under_the_filter_of_its_unit(unit: str) -> None:
    """The sandbox runs under the filter; without capset no file could be judged, and each push was refused (F89)."""
    assert [call for call in NEEDED if call not in allowed(unit)] == []


def test_the_agent_may_ask_the_clock() -> None:
    """The agent's unit allows the calls that the check `clock` needs, and none that changes the machine (F89)."""
    assert {"adjtimex", "clock_adjtime"} <= allowed("equus")
    assert not {"settimeofday", "clock_settime", "mount", "ptrace", "bpf", "setuid", "chown"} & allowed("equus")
