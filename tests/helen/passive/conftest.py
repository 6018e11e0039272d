"""Starts one Helen, one agent and one receiver for all tests of this folder that need any; each has its own checks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from outside_stage import Stage
from remotes import Receiver


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with Receiver() as receiver:
        stage = Stage(tmp_path_factory.mktemp("outside"), receiver)
        try:
            yield stage
        finally:
            stage.agent.end()
            stage.helen.end()
