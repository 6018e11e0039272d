"""C's heap is told to keep memory, and a C library without that word is left alone."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest

from helen import heap_memory


@pytest.mark.parametrize(
    ("answers", "is_kept", "told"),
    [((1, 1), True, [(-1, 67_108_864), (-3, 8_388_608)]), ((0, 1), False, [(-1, 67_108_864)])],
)
def test_both_limits_are_told(
    monkeypatch: pytest.MonkeyPatch, answers: tuple[int, ...], is_kept: bool, told: list[tuple[int, int]]
) -> None:
    """Each is told once, and a refusal is an answer."""
    heard: list[tuple[int, int]] = []

    def mallopt(option: int, value: int) -> int:
        heard.append((option, value))
        return answers[len(heard) - 1]

    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace(mallopt=mallopt))
    assert (heap_memory.keep(), heard) == (is_kept, told)


def test_another_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another library lacks the function, and nothing is changed."""
    library: Any = SimpleNamespace()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    assert heap_memory.keep() is False
