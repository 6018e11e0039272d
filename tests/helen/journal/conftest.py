"""Provide fixtures that open a journal. Tests of this folder can import `journal_running` beside this file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from journal_running import Running

from helen.journal.limits import Limits


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Provide a function that opens journals on one state folder, one after the other, and close them at the end."""
    opened: list[Running] = []

    def open_one(limits: Limits | None = None, **options: Any) -> Running:
        running = Running(tmp_path, limits=limits or Limits(), **options)
        opened.append(running)
        return running.open()

    yield open_one
    for running in opened:
        running.journal.close()


@pytest.fixture
def running(start: Callable[..., Running]) -> Running:
    return start()
