"""Makes a store without a reactor: answers of its thread wait in an inbox until the test looks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from inbox import Inbox

from helen.storage.database import Store


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


@pytest.fixture
def store(tmp_path: Path, inbox: Inbox) -> Iterator[Store]:
    """Yield an open store in tmp_path."""
    store = Store(tmp_path, inbox)
    store.open(now=1_000.0)
    yield store
    if store.is_open:
        inbox.wait(store.close())
