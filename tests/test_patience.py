"""Tests the stages' bound on waits, and their ports."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import patience
import pytest
from patience import Patience
from ports import COUNT, LEAST, free_port


def test_a_time_in_which_all_stood_still_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A suspended machine has an hour pass between two looks; what is waited for gets its time all the same."""
    now = [0.0]
    monkeypatch.setattr(patience, "time", SimpleNamespace(monotonic=lambda: now[0]))
    bound = Patience(3.0)
    lasted = []
    for passed in (0.5, 3_600.0, 0.5, 0.5, 0.4, 0.2):
        now[0] += passed
        lasted.append(bound.lasts())
    assert lasted == [True, True, True, True, True, False]


def test_slow_looks_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look that takes 20 s uses up the bound, and is not taken for a machine that stood still."""
    now = [0.0]
    monkeypatch.setattr(patience, "time", SimpleNamespace(monotonic=lambda: now[0]))
    bound = Patience(60.0)
    while bound.lasts():
        now[0] += 20.0
    assert now[0] == 120.0


OTHER = "import itertools, sys, ports; ports._numbers = itertools.count(int(sys.argv[1])); print(ports.free_port())"


def test_a_port_is_given_to_one_process(tmp_path: Path) -> None:
    """Nobody has bound it yet, and another process that comes to its number passes it over, until this one ends."""
    first = free_port()
    words = [sys.executable, "-c", OTHER, str(first - LEAST)]

    def others() -> int:
        return int(subprocess.run(words, cwd=Path(patience.__file__).parent, check=True, capture_output=True).stdout)

    assert others() != first
    assert others() != first


def test_free_ports_are_none_that_the_kernel_gives() -> None:
    """Each port is another one, and one that somebody has is passed over."""
    first = free_port()
    with socket.create_server(("127.0.0.1", (first - LEAST + 1) % COUNT + LEAST)):
        others = [free_port() for _ in range(3)]
    ports = [first, *others]
    assert len(set(ports)) == 4 and all(LEAST <= port < LEAST + COUNT for port in ports)
    assert (first - LEAST + 1) % COUNT + LEAST not in ports
