"""Tests secrets among the arguments: they are found in memory, overwritten there, and left out of the next start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from groundwork.process_list import spans, without_values

PROGRAM = """
import sys
from groundwork.process_list import hide_values
hide_values("--join", "--token")
print(open("/proc/self/cmdline", "rb").read().replace(b"\\0", b" ").decode(), sys.argv[1:])
"""


@pytest.mark.parametrize(
    ("words", "hidden"),
    [
        (["a", "--join", "secret"], ["secret"]),
        (["--join=secret", "b"], ["secret"]),
        (["--join", "--join", "b"], ["--join"]),
        (["--join", "-", "--join-file", "f"], []),
        (["--joined", "x", "--join="], []),
        (["--join"], []),
        (["--join", "über", "--join", "two"], ["über", "two"]),
    ],
)
def test_where_the_values_are(words: list[str], hidden: list[str]) -> None:
    """Values are found in both forms, at their places in bytes; `-` and other options are left alone (F46)."""
    memory = b"".join(word.encode() + b"\0" for word in words)
    found = [memory[at : at + length].decode() for at, length in spans(memory, ["--join"])]
    assert found == hidden


def test_what_the_next_start_gets() -> None:
    """The next start gets neither the option nor its value, in either form."""
    words = ["--server", "h", "--join", "t", "--join=t", "--join-file", "f", "--once"]
    assert without_values(words, "--join") == ["--server", "h", "--join-file", "f", "--once"]


@pytest.mark.parametrize(
    "words", [["--join", "s3cret", "x"], ["--token=s3cret"], ["x", "--join=s3cret", "--token", "s3cret"]]
)
def test_the_list_of_processes(words: list[str]) -> None:
    """The text that other users read has no secret any more, and is as long as before; Python has its arguments still
    (F46).
    """
    root = Path(__file__).parents[2]
    said = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], cwd=root, capture_output=True, text=True, check=True
    ).stdout
    line, _, arguments = said.rpartition(" [")
    assert "s3cret" not in line.partition("print(open")[2] and "xxxxxx" in line
    assert arguments.strip() == str(words)[1:]
