"""Provide fixtures of a library of checks, without a reactor and without threads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from inbox import Inbox
from library_world import World


@pytest.fixture
def world(tmp_path: Path, inbox: Inbox, no_threads: None) -> Iterator[World]:
    made = World(tmp_path, inbox)
    yield made
    made.close()


@pytest.fixture
def keyless(world: World) -> World:
    """Return a World that starts again with public keys alone, so that each set is signed elsewhere."""
    world.private = ()
    world.restart()
    return world
