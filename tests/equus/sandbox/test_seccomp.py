"""The filter program, run on a small machine of our own: what it answers to each system call, on both architectures."""

import errno
import struct

import pytest

from equus.sandbox import seccomp
from equus.sandbox.seccomp import ALLOWED, MACHINES, NEVER_EXECUTABLE, ON_ITSELF, REFUSED, build

ALLOW, EPERM, KILL = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x80000000


def answer(program: bytes, arch: int, number: int, *arguments: int) -> int:
    """Interpret classic BPF over a struct seccomp_data."""
    data = struct.pack("<IIQ6Q", number, arch, 0, *(*arguments, *[0] * (6 - len(arguments))))
    code = list(struct.iter_unpack("=HBBI", program))
    at = accumulator = 0
    while True:
        operation, if_true, if_false, value = code[at]
        at += 1
        if operation == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, value)
        elif operation == 0x06:
            return value
        else:
            holds = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}[operation]
            at += if_true if holds else if_false


@pytest.fixture(params=sorted(MACHINES))
def machine(request: pytest.FixtureRequest) -> seccomp.Machine:
    return MACHINES[request.param]


@pytest.mark.adversary(34)
def test_every_number(machine: seccomp.Machine) -> None:
    """All numbers up to 1023: the table says which are allowed or refused, all others are death."""
    program = build(machine)
    names = {number: name for name, number in machine.numbers.items()}
    for number in range(1024):
        name = names.get(number)
        found = answer(program, machine.audit, number)
        if name in (*ALLOWED, *NEVER_EXECUTABLE, *ON_ITSELF):
            assert found == ALLOW, name
        else:
            assert found == (EPERM if name in REFUSED else KILL), (number, name)


def test_every_name_is_used(machine: seccomp.Machine) -> None:
    """The tables hold nothing that no rule speaks of, and no number twice."""
    assert set(machine.numbers) <= {*ALLOWED, *NEVER_EXECUTABLE, *ON_ITSELF, *REFUSED}
    assert len(set(machine.numbers.values())) == len(machine.numbers)


def test_memory_is_never_executable(machine: seccomp.Machine) -> None:
    """mmap and mprotect with PROT_EXEC are refused, whatever else is asked for."""
    program = build(machine)
    for name in NEVER_EXECUTABLE:
        for protection in range(8):
            found = answer(program, machine.audit, machine.numbers[name], 0, 4096, protection)
            assert found == (EPERM if protection & 4 else ALLOW)


def test_limits_of_oneself_only(machine: seccomp.Machine) -> None:
    """prlimit64 of another process is refused."""
    program = build(machine)
    assert answer(program, machine.audit, machine.numbers["prlimit64"], 0) == ALLOW
    assert answer(program, machine.audit, machine.numbers["prlimit64"], 1) == EPERM


def test_another_architecture_is_death(machine: seccomp.Machine) -> None:
    """32-bit calls, and those of x32, have other numbers: they are never compared with ours."""
    program = build(machine)
    assert answer(program, 0x40000003, machine.numbers["read"]) == KILL
    assert answer(program, machine.audit, 0x40000000 | machine.numbers["read"]) == KILL


def test_the_program_is_short(machine: seccomp.Machine) -> None:
    """The kernel compiles it in each worker, and jumps reach 255 instructions."""
    assert len(build(machine)) // 8 < 100
