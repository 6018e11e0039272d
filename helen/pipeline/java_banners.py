"""Keeps from people the lines that Java and Spark print whenever they start; all else on stderr goes through.

The JVM inherits stderr, and prints some of these lines before any setting of Spark is read. So it is started with a
pipe as its stderr, and a thread copies the lines of the pipe to the real one as long as the JVM lives.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import BinaryIO

STDERR = 2  # the file descriptor that children inherit, whatever sys.stderr is
LAST_WORDS_SECONDS = 5.0  # for which the lines of a JVM that has ended are waited for
_BANNER = re.compile(
    rb"Picked up (?:JAVA_TOOL|_JAVA)_OPTIONS:|NOTE: Picked up JDK_JAVA_OPTIONS:"
    rb"|WARNING: Using incubator modules: jdk\.incubator\.vector\s*$"
    rb"|Using Spark's default log4j profile:|Setting default log level to |Setting Spark log level to "
    rb"|To adjust logging level use sc\.setLogLevel"
    rb"|\S+ \S+ WARN NativeCodeLoader: Unable to load native-hadoop library"
    rb"|\S+ \S+ WARN Utils: (?:Your hostname, |Set SPARK_LOCAL_IP if you need)"
    # Java 24 and newer, about what Spark's own libraries do
    rb"|WARNING: A (?:restricted|terminally deprecated) method in \S+ has been called"
    rb"|WARNING: \S+::\S+ has been called by |WARNING: \S+::\S+ will be removed in a future release"
    rb"|WARNING: Use --enable-native-access=|WARNING: Restricted methods will be blocked"
    rb"|WARNING: Please consider reporting this to the maintainers of class "
)


def is_banner(line: bytes) -> bool:
    """Return True for a line that says nothing but that Java or Spark starts."""
    return _BANNER.match(line) is not None


@contextmanager
def without_banners() -> Iterator[None]:
    """Start a JVM inside of this: it prints no banner then or later. Raises OSError if there is no pipe to be had.

    If the JVM fails to start, its last words are on stderr before the error goes on.
    """
    real, copy = os.dup(STDERR), os.dup(STDERR)
    reading, writing = os.pipe()
    os.dup2(writing, STDERR)
    os.close(writing)
    copying = Thread(target=_copy, args=(os.fdopen(reading, "rb"), copy), name="stderr of Java", daemon=True)
    copying.start()
    has_started = False
    try:
        yield
        has_started = True
    finally:
        os.dup2(real, STDERR)
        os.close(real)
        if not has_started:
            copying.join(LAST_WORDS_SECONDS)


def _copy(source: BinaryIO, real: int) -> None:
    """Copy lines until each process that holds the pipe has ended."""
    try:
        with source:
            for line in source:
                if not is_banner(line):
                    os.write(real, line)
    finally:
        os.close(real)
