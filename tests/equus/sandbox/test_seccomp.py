"""Test the filter program on a small interpreter: its answer to each system call, on both architectures."""

import errno
import struct

import pytest

from equus.sandbox import seccomp
from equus.sandbox.seccomp import ALLOWED, MACHINES, NEVER_EXECUTABLE, ON_ITSELF, REFUSED, build

ALLOW, EPERM, KILL = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x80000000


def answer(program: bytes, arch: int, number: int, *arguments: int) -> int:
    """Interpret classic BPF over a struct seccomp_data."""
    return interpret(program, arch, number, *arguments)[0]


def interpret(program: bytes, arch: int, number: int, *arguments: int) -> tuple[int, int]:
    """Interpret the filter program, and return its answer and the number of instructions that it took."""
    data = struct.pack("<IIQ6Q", number, arch, 0, *(*arguments, *[0] * (6 - len(arguments))))
    code = list(struct.iter_unpack("=HBBI", program))
    at = accumulator = steps = 0
    while True:
        operation, if_true, if_false, value = code[at]
        at, steps = at + 1, steps + 1
        if operation == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, value)
        elif operation == 0x06:
            return value, steps
        else:
            holds = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}[operation]
            at += if_true if holds else if_false


@pytest.fixture(params=sorted(MACHINES))
def machine(request: pytest.FixtureRequest) -> seccomp.Machine:
    return MACHINES[request.param]


@pytest.mark.adversary(34)
def test_every_number(machine: seccomp.Machine) -> None:
    """The table says which numbers up to 1023 are allowed or refused, and each other one kills the process."""
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
    """Each entry of the tables is used by a rule, and no number stands there twice."""
    assert set(machine.numbers) <= {*ALLOWED, *NEVER_EXECUTABLE, *ON_ITSELF, *REFUSED}
    assert len(set(machine.numbers.values())) == len(machine.numbers)


def test_memory_is_never_executable(machine: seccomp.Machine) -> None:
    """mmap and mprotect with PROT_EXEC are refused, whatever the other bits are."""
    program = build(machine)
    for name in NEVER_EXECUTABLE:
        for protection in range(8):
            found = answer(program, machine.audit, machine.numbers[name], 0, 4096, protection)
            assert found == (EPERM if protection & 4 else ALLOW)


def test_limits_of_oneself_only(machine: seccomp.Machine) -> None:
    """prlimit64 is allowed for the process itself, and refused for another one."""
    program = build(machine)
    assert answer(program, machine.audit, machine.numbers["prlimit64"], 0) == ALLOW
    assert answer(program, machine.audit, machine.numbers["prlimit64"], 1) == EPERM


def test_another_architecture_is_death(machine: seccomp.Machine) -> None:
    """32-bit calls and those of x32 kill the process, because their numbers mean other calls."""
    program = build(machine)
    assert answer(program, 0x40000003, machine.numbers["read"]) == KILL
    assert answer(program, machine.audit, 0x40000000 | machine.numbers["read"]) == KILL


def a_list(machine: seccomp.Machine) -> bytes:
    """Build the same filter as a list of the rules: each number is compared after the other, with its answer
    behind it.
    """

    def instruction(code: int, if_true: int, if_false: int, value: int) -> bytes:
        return struct.pack("=HBBI", code, if_true, if_false, value)

    allow, eperm, kill = (instruction(0x06, 0, 0, value) for value in (ALLOW, EPERM, KILL))
    prot = instruction(0x20, 0, 0, 32) + instruction(0x45, 0, 1, 4) + eperm + allow
    own = instruction(0x20, 0, 0, 16) + instruction(0x15, 1, 0, 0) + eperm + allow
    program = instruction(0x20, 0, 0, 4) + instruction(0x15, 1, 0, machine.audit) + kill
    program += instruction(0x20, 0, 0, 0) + instruction(0x35, 0, 1, 0x40000000) + kill
    for names, said in ((ALLOWED, allow), (REFUSED, eperm), (NEVER_EXECUTABLE, prot), (ON_ITSELF, own)):
        for name in names:
            if name in machine.numbers:
                program += instruction(0x15, 0, len(said) // 8, machine.numbers[name]) + said
    return program + kill


@pytest.mark.adversary(34)
def test_the_tree_answers_as_the_list_for_every_number(machine: seccomp.Machine) -> None:
    """The filter answers as the plain list does for all 2**32 numbers, each with every argument that a rule asks for.

    A program compares numbers with constants and looks at nothing else of them, so that all numbers between two
    constants of both programs have one answer: one of them stands for all.
    """
    tree, listed = build(machine), a_list(machine)
    constants = {value for program in (tree, listed) for _, _, _, value in struct.iter_unpack("=HBBI", program)}
    numbers = {0, 2**32 - 1, *range(1024)} | {near for value in constants for near in (value - 1, value, value + 1)}
    loads = [value for operation, _, _, value in struct.iter_unpack("=HBBI", tree) if operation == 0x20]
    assert sorted(set(loads)) == [0, 4, 16, 32]  # number, architecture, and the two arguments of the rules
    for number in sorted(number for number in numbers if 0 <= number < 2**32):
        for arch in (machine.audit, machine.audit ^ 1, 0x40000003):
            for first in (0, 1, 2**31, 2**32 - 1):
                for third in (0, 3, 4, 7, 2**32 - 5, 2**32 - 1):
                    given = (arch, number, first, 0, third)
                    assert answer(tree, *given) == answer(listed, *given), given


def test_the_program_is_short(machine: seccomp.Machine) -> None:
    """The filter program has less than 100 instructions, and at most 14 of them run for each call."""
    program = build(machine)
    assert len(program) // 8 < 100
    assert max(interpret(program, machine.audit, number)[1] for number in range(1024)) <= 14
