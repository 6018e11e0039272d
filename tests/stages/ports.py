"""Chooses ports for servers of tests, out of the range that the kernel gives to connections and to port 0.

A server that is started again on its port, or told its port before it binds it, finds it free: nobody else is given it
meanwhile. Another process of tests isn't, either, of this run or another one: a port belongs to the process that was
given it until that ends.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import socket
import tempfile

LEAST, COUNT = 12_000, 20_000  # net.ipv4.ip_local_port_range begins at 32,768
_numbers = itertools.count(os.getpid() * 101)
# A file with a byte for each port, which its process has locked; the kernel drops the locks of one that is killed.
_CLAIMS = os.path.join(tempfile.gettempdir(), f"ports-of-tests-{os.getuid()}")
_claims = os.open(_CLAIMS, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def free_port(kind: int = socket.SOCK_STREAM) -> int:
    """Return one that nobody has at the moment, and that no living process of tests was given before."""
    for number in itertools.islice(_numbers, COUNT):
        with socket.socket(socket.AF_INET, kind) as probe:
            try:
                fcntl.lockf(_claims, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, LEAST + number % COUNT)
                probe.bind(("127.0.0.1", LEAST + number % COUNT))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise AssertionError(f"no port of {COUNT} is free")
