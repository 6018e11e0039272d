"""Provide one Spark for all tests, tuned for their size, and histories of a few rows by the journal's own code.

They need the extras `spark` and `dev`, and fail without them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import plainly
import pytest
from written_history import Written

from helen.pipeline.spark import start_spark

# A test's frames have a hundred rows: nothing is worth compiling twice, splitting or planning again.
QUICK = {
    "spark.driver.memory": "700m",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.streaming.metricsEnabled": "false",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Provide the one Spark of this run."""
    started = start_spark("tests", "local[2]", QUICK, tmp_path_factory.mktemp("spark"))
    yield started
    started.stop()


@pytest.fixture(scope="session")
def quick() -> dict[str, str]:
    """Return settings of a Spark for tests that start one of their own."""
    return QUICK


@pytest.fixture(scope="session")
def new_history() -> Any:
    """Return a function that makes an empty history in a folder."""
    return Written


@pytest.fixture
def history(tmp_path: Path) -> Written:
    """Provide an empty history."""
    return Written(tmp_path / "helen")


@pytest.fixture
def histories(tmp_path: Path) -> list[Written]:
    """Return the histories of two Helens."""
    return [Written(tmp_path / "helen-1"), Written(tmp_path / "helen-2")]


@pytest.fixture(scope="session")
def take_in() -> Any:
    """Return a function that takes the histories of some Helens into a lake without Spark."""
    return plainly.take_all
