"""Makes fixtures of what Helen is to Scale0 and ZeroTask from the processes of tests/helen and the peers
of peers.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from mesh_stage import Stage


@pytest.fixture
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Yield a stage in a folder with a short name, as there are sockets in it."""
    one = Stage(tmp_path_factory.mktemp("s"))
    yield one
    one.end()


@pytest.fixture(scope="module")
def common(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Yield one stage for all tests of a module."""
    one = Stage(tmp_path_factory.mktemp("common"))
    yield one
    one.end()
