"""Tests what the kernel tells of a thread: read as it is written, and nothing where it tells nothing."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from helen.processor_wait import MOST_BYTES, ProcessorWait, ThreadTimes, parse


@pytest.mark.parametrize(
    ("contents", "times"),
    [
        (b"61155579 8026659 32\n", ThreadTimes(0.061155579, 0.008026659)),  # Linux 6.18, as all that are no fault
        (b"426413969 43827590 132\n", ThreadTimes(0.426413969, 0.04382759)),
        (b"1234567890123456789 0 4294967295\n", ThreadTimes(1234567890.123456789, 0.0)),
        (b"18446744073709551615 18446744073709551615 18446744073709551615\n", ThreadTimes(2**64 / 1e9, 2**64 / 1e9)),
        (b"0 0 1\n", ThreadTimes(0.0, 0.0)),
        (b"0 0 0\n", None),  # a kernel that counts nothing
        (b"", None),  # a thread that has ended, and sandboxes
        (b"\n", None),
        (b"61155579 8026659\n", None),
        (b"61155579 8026659 32 7\n", None),
        (b"61155579 -8026659 32\n", None),
        (b"61155579 8026659.5 32\n", None),
        (b"0x10 2 3\n", None),
        ("61155579 ٣ 32\n".encode(), None),
        (b"\xff\xfe \x00 1\n", None),
        (b"run 1 wait 2 turns 3\n", None),
    ],
)
def test_what_schedstat_says(contents: bytes, times: ThreadTimes | None) -> None:
    assert parse(contents) == times


def test_the_greatest_numbers_are_read_whole() -> None:
    assert len(b"18446744073709551615 18446744073709551615 18446744073709551615\n") <= MOST_BYTES


def test_no_file_is_no_figure(tmp_path: Path) -> None:
    """A file that is missing gives None again and again, and may be closed."""
    kernel = ProcessorWait(str(tmp_path / "schedstat"))
    assert (kernel.times(), kernel.times()) == (None, None)
    kernel.close()


@pytest.mark.parametrize("bad", [OSError(3, "No such process"), b"0 0 0\n"])
def test_a_failure_to_read_is_final(tmp_path: Path, bad: OSError | bytes) -> None:
    """The file is closed then, and no figure comes back without what happened meanwhile."""
    (tmp_path / "schedstat").write_bytes(b"1 2 3\n")
    files, answers = list[int](), [b"1000 2000 3\n", bad, b"9000 9000 9\n"]

    def read(file: int, size: int, offset: int) -> bytes:
        files.append(file)
        answer = answers[len(files) - 1]
        if isinstance(answer, OSError):
            raise answer
        return answer

    kernel = ProcessorWait(str(tmp_path / "schedstat"), read)
    assert [kernel.times() for _ in range(3)] == [ThreadTimes(0.000001, 0.000002), None, None]
    assert len(files) == 2
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(files[0])


def compute_with(kernel: ProcessorWait, seconds: float) -> tuple[ThreadTimes, ThreadTimes]:
    """Compute until the kernel has counted so much run time; return the figures before and after."""
    before = now = kernel.times()
    while before is not None and now is not None and now.ran < before.ran + seconds:
        sum(range(5_000))
        now = kernel.times()
    assert before is not None
    assert now is not None
    return before, now


def test_a_thread_that_computes_has_run() -> None:
    """A thread's figures are its own time and not that of the thread that looks, which has slept meanwhile."""
    found = list[tuple[ThreadTimes, ThreadTimes]]()
    here = ProcessorWait()
    before = here.times()
    thread = threading.Thread(target=lambda: found.append(compute_with(ProcessorWait(), 0.05)))
    thread.start()
    thread.join()
    after = here.times()
    here.close()
    (began, ended), *_ = found
    assert 0.05 <= ended.ran - began.ran < 0.1
    assert before is not None
    assert after is not None
    assert after.ran - before.ran < 0.05


def test_two_threads_on_one_processor_wait_for_each_other() -> None:
    """A child that computes on the one processor of this thread makes it wait.

    How much is the kernel's choice; half the time is fair, and a tenth of it is enough to see that it is counted.
    """
    processors = os.sched_getaffinity(0)
    one = {min(processors)}
    os.sched_setaffinity(0, one)  # of this thread, and of the child that it makes
    child = os.posix_spawn("/bin/sh", ["sh", "-c", "while :; do :; done"], dict(os.environ))
    kernel = ProcessorWait()
    try:
        before, now = compute_with(kernel, 0.3)
    finally:
        os.sched_setaffinity(0, processors)
        os.kill(child, 9)
        os.waitpid(child, 0)
        kernel.close()
    assert now.waited - before.waited > 0.03
