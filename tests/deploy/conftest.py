"""Make the packages once for all tests of this folder, because each making takes half a minute of a processor."""

from __future__ import annotations

from pathlib import Path

import pytest
from debian_packages import make_both


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    return make_both(tmp_path_factory.mktemp("packages"))
