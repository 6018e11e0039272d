"""Test that the zygote is warm before it forks: Python has specialised its code, and pages that workers write are
pinned.
"""

import ctypes
import json
import mmap
import os
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from equus.policy.policy import Limits
from equus.processes.process import python_environment
from equus.sandbox import pinned_pages, rehearsal
from equus.sandbox.blocking import Sandbox
from equus.sandbox.interpreter import Interpreter
from equus.sandbox.job import Job
from equus.sandbox.pinned_pages import PAGE, pages_written_by, pin
from equus.sandbox.rehearsal import Rehearsal, RehearsalFailed, rehearse
from equus.sandbox.run import Run, encode_job
from equus.sandbox.spares import SPARES

PATIENCE = 60.0  # seconds for anything on a busy machine

Outcome = Callable[..., dict[str, Any]]

REWRITTEN = """
import dis, sys, types
from equus.sandbox import check_table, document, frames, interpreter, metrics, rehearsal, text, value_codec, worker
def codes():
    for module in (check_table, document, frames, interpreter, metrics, text, value_codec, worker):
        for value in vars(module).values():
            for each in (vars(value).values() if isinstance(value, type) else [value]):
                each = getattr(each, "__func__", each)
                if isinstance(each, types.FunctionType) and each.__module__ == module.__name__:
                    yield each.__code__
known = list(codes())
def seen():
    return [[each.opname for each in dis.get_instructions(code, adaptive=True)] for code in known]
cold = seen()
rehearsal.rehearse()
warm = seen()
rehearsal.rehearse_with(interpreter.Interpreter())
again = seen()
print(sum(map(list.__ne__, cold, warm)), sum(map(list.__ne__, warm, again)))
"""


def test_python_has_rewritten_what_it_rewrites() -> None:
    """The rehearsal changes the instructions of most functions that a run calls, and one run more hardly any."""
    done = subprocess.run(
        [sys.executable, "-c", REWRITTEN], env=python_environment(), capture_output=True, timeout=60, check=True
    )
    first, more = map(int, done.stdout.split())
    assert first >= 40
    assert more * 4 < first


def test_the_rehearsal_has_a_job_like_any_other() -> None:
    """The job of the rehearsal has each field that the agent writes, because workers would otherwise run code that was
    never warm.
    """
    run = Run(None, 1, Job("t", b""), lambda blob: None, "run", None, None)  # type: ignore[arg-type]
    real, own = encode_job(run, Limits(), True, 0.0), rehearsal._job(b"{}", True)
    documents = [json.loads(text[4 : 4 + int.from_bytes(text[:4], "big")]) for text in (real, own)]
    assert documents[0].keys() == documents[1].keys()


def test_a_sandbox_that_gives_wrong_results_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rehearsal with a wrong result fails before any check runs, and says which result it had."""
    rehearse(2)
    monkeypatch.setattr(rehearsal, "SOURCE", rehearsal.SOURCE.replace(b"warn = args.warn", b'warn = "10"'))
    with pytest.raises(RehearsalFailed, match="'status': 'warning'"):
        rehearse(1)


def test_a_cold_sandbox_runs_checks_as_well(new_sandbox: Callable[..., Sandbox], job: Callable[..., Job]) -> None:
    """A cold sandbox rehearses, pins and keeps ready nothing, and gives the same results and isolation."""
    with new_sandbox(warm=False) as sandbox:
        assert json.loads(sandbox.run(job("return 'ok', host.echo('x')[1]")))["summary"] == "x"
        assert (sandbox.runner.isolation, sandbox.runner.spare, sandbox.runner._spares._waiting) == ("strong", 0, {})
        held = [os.readlink(link) for link in Path(f"/proc/{sandbox.processes.zygote.pid}/fd").iterdir()]
        assert [name for name in held if "io_uring" in name] == []


def test_a_check_sees_nothing_of_it(outcome: Outcome) -> None:
    """A check sees nothing of the rehearsal, neither its host call nor its arguments."""
    assert outcome("return 'ok', tostring(host.rehearse) .. tostring(args.warn)")["summary"] == "nilnil"


# ------------------------------------------------------------------------------------------------ pages


@pytest.fixture
def memory():
    """Yield sixteen pages of this process and the address of the first."""
    with mmap.mmap(-1, 16 * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as held:
        for page in range(16):
            held[page * PAGE] = 1
        view = ctypes.c_char.from_buffer(held)
        yield held, ctypes.addressof(view)
        del view


def pages(ranges: list[tuple[int, int]]) -> set[int]:
    return {at for first, length in ranges for at in range(first, first + length, PAGE)}


def test_the_pages_that_a_fork_writes(memory) -> None:
    """The pages that a fork writes are found, and no others; the fork changes nothing in this process."""
    held, first = memory
    reading, writing = os.pipe()

    def act() -> None:
        held[3 * PAGE] = held[7 * PAGE] = held[8 * PAGE] = 2
        os.write(writing, b".")
        signal.pause()

    def wait() -> None:
        os.read(reading, 1)
        held[11 * PAGE] = 2  # this process leaves a page to its fork, which has not written to it

    found = pages_written_by(act, wait)
    os.close(reading)
    os.close(writing)
    assert {at for at in pages(found) if first <= at < first + 16 * PAGE} == {first + n * PAGE for n in (3, 7, 8)}
    assert all(length % PAGE == 0 for _, length in found)
    assert (first + 7 * PAGE, 2 * PAGE) in found
    assert (held[3 * PAGE], held[11 * PAGE]) == (1, 2)


def test_forks_are_gone_when_the_pages_are_known_or_not() -> None:
    """Both forks end when the pages are known, and also if the fork never does what is waited for."""

    def fail() -> None:
        raise RehearsalFailed

    before = children()
    with pytest.raises(RehearsalFailed):
        pages_written_by(signal.pause, fail)
    assert children() == before
    assert pin([]) is None


def test_a_worker_that_dies_before_its_result_is_noticed() -> None:
    """The death of a worker before its result is noticed, because no other process holds its sockets open."""
    before = children()
    with Rehearsal() as held, pytest.raises((EOFError, ConnectionResetError)):
        held._job.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", 20, 0))  # a fault, not a hang
        pages_written_by(lambda: os._exit(1), held.wait)
    assert children() == before


def test_no_fork_outlives_this_process() -> None:
    """A zygote that is killed while it looks at pages leaves no fork."""
    reading, writing = os.pipe()
    killed = os.fork()
    if killed == 0:
        try:
            pages_written_by(lambda: os._exit(0), lambda: _tell_and_end(writing))
        finally:
            os._exit(1)
    os.close(writing)
    os.waitpid(killed, 0)
    pids = [int(each) for each in os.read(reading, 1_000).split()]
    os.close(reading)
    assert len(pids) == 2
    for pid in pids:
        with suppress(ProcessLookupError):  # it is gone, and somebody has waited for it
            descriptor = os.pidfd_open(pid)
            ended, _, _ = select.select([descriptor], [], [], 20)
            os.close(descriptor)
            assert ended


def _tell_and_end(writing: int) -> None:
    os.write(writing, " ".join(children()).encode())
    os.kill(os.getpid(), signal.SIGKILL)


def children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def test_pinned_is_what_a_run_writes(new_sandbox: Callable[..., Sandbox], job: Callable[..., Job]) -> None:
    """The zygote pins the pages that a run writes, and the process that it tried them with is gone."""
    with new_sandbox() as sandbox:
        sandbox.run(job("return 'ok'"))
        zygote = sandbox.processes.zygote.pid
        held = [os.readlink(link) for link in Path(f"/proc/{zygote}/fd").iterdir()]
        status = Path(f"/proc/{zygote}/status").read_text()
        pinned = int(status.partition("VmPin:")[2].split()[0])
        sandbox.loop.until(lambda: not sandbox.runner.running, PATIENCE)
        sandbox.loop.until(lambda: sandbox.runner.spare == SPARES, PATIENCE)
        assert len(Path(f"/proc/{zygote}/task/{zygote}/children").read_text().split()) == SPARES
    # KiB: some 370 pages. A probe that looks at itself adds 150.
    assert any("io_uring" in name for name in held) == (pinned > 0)
    assert pinned == 0 or 1200 <= pinned <= 2600


def test_no_run_makes_the_table_of_strings_grow() -> None:
    """No run makes Lua's table of strings grow, because some runs in all workers would then copy 100 pages."""
    interpreter = Interpreter()
    for number in range(60):
        interpreter.offer(f"call_{number}", "host")
    interpreter.settle()
    before = interpreter._runtime.eval(b"collectgarbage('count')")
    interpreter._runtime.execute(b"for number = 1, 200 do local _ = 'own' .. number end")
    grown = interpreter._runtime.eval(b"collectgarbage('count')") - before
    assert grown < 200 * 40 / 1024 + 2  # KiB: the strings alone. The next table has 16 KiB


def shared_after_fork(addresses: list[int]) -> list[bool]:
    """Tell for each page if a fork of this process still shares it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with open("/proc/self/pagemap", "rb", buffering=0) as pagemap:
            for address in addresses:
                pagemap.seek(address // PAGE * 8)
                (entry,) = struct.unpack("=Q", pagemap.read(8))
                os.write(writing, b"\0" if entry >> 56 & 1 else b"\1")
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as answer:
        told = answer.read()
    os.waitpid(child, 0)
    return [bool(each) for each in told]


def test_a_fork_has_its_own_copy_of_what_is_pinned(memory) -> None:
    """A fork has its own copy of pinned pages with the same content, and shares them until then or where the kernel
    pins nothing.
    """
    held, first = memory
    addresses = [first + number * PAGE for number in range(4)]
    assert shared_after_fork(addresses) == [True] * 4
    held[PAGE] = 5
    pins = pin([(first + PAGE, 2 * PAGE)])
    is_pinned = pins is not None
    assert shared_after_fork(addresses) == [True, not is_pinned, not is_pinned, True]
    if pins is not None:
        os.close(pins)
    assert held[PAGE] == 5


def test_a_kernel_that_pins_nothing(memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel without io_uring, or with one that is forbidden, pins nothing, and no descriptor stays open."""
    _, first = memory
    before = len(os.listdir("/proc/self/fd"))
    for name, number in (("_SETUP", 100_000), ("_REGISTER", 100_000)):
        with monkeypatch.context() as kernel:
            kernel.setattr(pinned_pages, name, number)
            assert pin([(first, PAGE)]) is None
    assert pin([(first, PAGE)] * (pinned_pages.MOST_RANGES + 1)) is None
    assert pin([(first, (pinned_pages.MOST_PAGES + 1) * PAGE)]) is None
    assert len(os.listdir("/proc/self/fd")) <= before
