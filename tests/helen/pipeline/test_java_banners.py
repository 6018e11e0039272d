"""Tests that banners of Java and Spark are hidden, and their other lines pass."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from helen.pipeline.java_banners import is_banner, without_banners

BANNERS = """\
Picked up JAVA_TOOL_OPTIONS: -Dx=1
Picked up _JAVA_OPTIONS: -Xmx1g
NOTE: Picked up JDK_JAVA_OPTIONS: -Xmx1g
WARNING: Using incubator modules: jdk.incubator.vector
Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties
Setting default log level to "WARN".
To adjust logging level use sc.setLogLevel(newLevel). For SparkR, use setLogLevel(newLevel).
26/11/28 23:39:58 WARN NativeCodeLoader: Unable to load native-hadoop library for your platform... using builtin-java
Setting Spark log level to "ERROR".
26/11/28 23:39:58 WARN Utils: Your hostname, web-1, resolves to a loopback address: 127.0.1.1; using 10.0.0.5 instead
26/11/28 23:39:58 WARN Utils: Set SPARK_LOCAL_IP if you need to bind to another address
WARNING: A restricted method in java.lang.System has been called
WARNING: java.lang.System::loadLibrary has been called by org.apache.hadoop.util.NativeCodeLoader in an unnamed module
WARNING: Use --enable-native-access=ALL-UNNAMED to avoid a warning for callers in this module
WARNING: Restricted methods will be blocked in a future release unless native access is enabled
WARNING: sun.misc.Unsafe::arrayBaseOffset will be removed in a future release
WARNING: Please consider reporting this to the maintainers of class org.apache.spark.unsafe.Platform
""".splitlines()
TRUE_WORDS = """\
26/11/28 23:40:01 ERROR Executor: Exception in task 0.0 in stage 0.0 (TID 0)
26/11/28 23:40:01 WARN TaskSetManager: Lost task 0.0 in stage 0.0: java.lang.OutOfMemoryError: Java heap space
Error: Could not create the Java Virtual Machine.
Unrecognized VM option 'UseNoGC'
WARNING: Using incubator modules: jdk.incubator.foreign
26/11/28 23:40:01 WARN Utils: Service 'sparkDriver' could not bind on a random free port.
Traceback (most recent call last):
  said: Setting default log level to "WARN".

# A fatal error has been detected by the Java Runtime Environment:
""".splitlines()


@pytest.mark.parametrize("line", BANNERS)
def test_banners(line: str) -> None:
    """A line that only says that something starts is a banner."""
    assert is_banner(line.encode() + b"\n")


@pytest.mark.parametrize("line", TRUE_WORDS)
def test_true_words(line: str) -> None:
    """An error or a warning of Spark, Java or Python's workers is no banner."""
    assert not is_banner(line.encode() + b"\n")


PARENT = """
import os, subprocess, sys, threading
from helen.pipeline.java_banners import without_banners
try:
    with without_banners():
        child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdin=subprocess.PIPE)
        if sys.argv[2] == "fails":
            child.wait()
            raise RuntimeError("gateway")
    os.write(2, b"of the parent\\n")
    child.stdin.close()
    child.wait()
    for thread in threading.enumerate():
        if thread.name == "stderr of Java":
            thread.join()
except RuntimeError as error:
    os.write(2, b"said: gateway\\n")
"""
CHILD = "import os, sys; sys.stdin.read() if {waits} else None; os.write(2, {words!r})"


def run(words: str, fails: bool) -> list[str]:
    """Run a program that starts a child as Spark starts Java; return all that it shows on standard error."""
    child = CHILD.format(waits=not fails, words=words.encode())
    ran = subprocess.run(
        [sys.executable, "-c", PARENT, child, "fails" if fails else "lives"], capture_output=True, text=True,
        timeout=60, check=True,
    )  # fmt: skip
    return ran.stderr.splitlines()


def test_a_child_that_fails_to_start_is_heard_before_its_error() -> None:
    """The words of a child that fails to start come before its error, all but the banners, an unfinished last line
    too (issue 13)."""
    words = "\n".join([*BANNERS, *TRUE_WORDS, "no end, "])
    assert run(words, fails=True) == [*TRUE_WORDS, "no end, said: gateway"]


def test_a_child_that_lives_is_heard_later() -> None:
    """The words of a child that goes on running come through beside those of its parent."""
    words = "".join(f"{line}\n" for line in [*TRUE_WORDS, *BANNERS])
    assert run(words, fails=False) == ["of the parent", *TRUE_WORDS]


def test_stderr_is_the_real_one_again(tmp_path: Path) -> None:
    """Standard error is the real one again after a start and after a failure, with no descriptor left."""
    before = sorted(os.listdir("/proc/self/fd"))
    where = os.readlink("/proc/self/fd/2")
    for _ in range(3):
        with without_banners():
            assert os.readlink("/proc/self/fd/2") != where
        with pytest.raises(KeyError), without_banners():
            raise KeyError
        assert os.readlink("/proc/self/fd/2") == where
    assert len(os.listdir("/proc/self/fd")) <= len(before) + 2  # of a thread that ends just now
