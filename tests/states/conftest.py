"""`acting` and `fleet` are importable by the tests of this folder, `helen_running` of tests/helen is as well."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.register_assert_rewrite("acting", "fleet")
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "helen")]
