"""Tests values of other programs as TOML: a value that is read from the text is the one that was written."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from helen.importing.toml_text import table_text


@pytest.mark.parametrize("value", [
    1_234_567.0, 1_099_511_627_776.0, 90.0, 0.1, 0.000012345678, 12, True, "a\x7f\"b", [2_592_001.0, "x"],
    {"k.v": 1_048_577.5},
])  # fmt: skip
def test_a_value_is_read_again(value: Any) -> None:
    """A number has all of its digits: a size in bytes has more than six."""
    assert tomllib.loads(table_text("[made]", {"it is": value})) == {"made": {"it is": value}}
