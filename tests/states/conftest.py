"""`acting` and `fleet` beside this file are importable by the tests of this folder."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.register_assert_rewrite("acting", "fleet")
sys.path.insert(0, str(Path(__file__).parent))
