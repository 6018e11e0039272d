"""Tests why a file could not be read, told by the number of the error, or by words of Arrow, Rust and Java."""

from __future__ import annotations

import errno
import os

import pytest

from groundwork.read_errors import OF_FILE, Cause, advice_for, cause_of, number_of

JAVA = """An error occurred while calling o86.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times
\tat org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages(DAGScheduler.scala:2933)
Caused by: {}
"""
ERRORS = {
    "a lack of descriptors": (OSError(errno.EMFILE, "x"), errno.EMFILE, Cause.SCARCE),
    "the machine's lack": (OSError(errno.ENFILE, "x"), errno.ENFILE, Cause.SCARCE),
    "the kernel's lack of memory": (OSError(errno.ENOMEM, "x"), errno.ENOMEM, Cause.SCARCE),
    "Python's": (MemoryError(), errno.ENOMEM, Cause.SCARCE),
    "a disk": (OSError(errno.EIO, "x"), errno.EIO, Cause.DISK),
    "a server of files": (OSError(errno.ESTALE, "x"), errno.ESTALE, Cause.DISK),
    "rights": (PermissionError(errno.EACCES, "x"), errno.EACCES, Cause.REFUSED),
    "gone": (FileNotFoundError(errno.ENOENT, "x"), errno.ENOENT, Cause.CONTENT),
    "gone, says Arrow": (FileNotFoundError("x"), 0, Cause.CONTENT),
    "Arrow's content": (OSError("Couldn't deserialize thrift"), 0, Cause.CONTENT),
    "a folder that is called so": (OSError("Could not open '/Permission denied (os error 5)/a': no magic bytes"), 0,
                                   Cause.CONTENT),
    "a disk below it": (OSError("Failed to open '/Permission denied/a'. Detail: [errno 5] Input/output error"),
                        errno.EIO, Cause.DISK),
    "a full disk": (OSError(errno.ENOSPC, "x"), errno.ENOSPC, Cause.OTHER),
    "a mistake": (ValueError("x"), 0, Cause.OTHER),
    "Rust": (OSError("Unable to walk dir\n Too many open files (os error 24)\n"), errno.EMFILE, Cause.SCARCE),
    "Rust's machine": (OSError("Too many open files in system (os error 23)"), errno.ENFILE, Cause.SCARCE),
    "Rust's disk": (OSError("IO error\n Input/output error (os error 5)"), errno.EIO, Cause.DISK),
    "Java": (RuntimeError(JAVA.format("java.io.FileNotFoundException: /a (Too many open files)")), errno.EMFILE,
             Cause.SCARCE),
    "Java's heap": (RuntimeError(JAVA.format("java.lang.OutOfMemoryError: Java heap space")), errno.ENOMEM,
                    Cause.SCARCE),
    "Java's disk": (RuntimeError(JAVA.format("java.io.IOException: Input/output error")), errno.EIO, Cause.DISK),
    "Java's rights": (RuntimeError(JAVA.format("java.io.FileNotFoundException: /a (Permission denied)")), errno.EACCES,
                      Cause.REFUSED),
    "two of them": (RuntimeError("Input/output error, and before: Too many open files"), errno.EMFILE, Cause.SCARCE),
    "another number": (OSError("os error 245, errno 240"), 0, Cause.CONTENT),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_the_cause_of_an_error(name: str) -> None:
    """A lack is never told as one of the file's causes, whoever put it into words."""
    error, number, cause = ERRORS[name]
    assert (number_of(error), cause_of(error)) == (number, cause)
    assert (cause in OF_FILE) is (cause in {Cause.CONTENT, Cause.DISK, Cause.REFUSED})


def test_what_to_do() -> None:
    """Advice is given by the number of the error, and none if no more is known than the error says."""
    assert advice_for(MemoryError(), "x") == "Give this machine more memory."
    assert advice_for(OSError("Too many open files"), "x") == "Raise LimitNOFILE of x's unit (ulimit -n)."
    assert advice_for(OSError(errno.EIO, os.strerror(errno.EIO)), "x").startswith("Look at `dmesg`")
    assert advice_for(OSError(errno.ENOSPC, "full"), "x") == advice_for(ValueError("x"), "x") == ""
