"""docs/security.rst names tests for what it promises: each of them exists, and each case and limit has a line."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "security.rst").read_text()
NAMED = re.compile(r"``([a-z0-9_/]+)::(test_[A-Za-z0-9_]+)``")


def test_every_test_that_the_page_names_exists() -> None:
    """By file and by name, so that a promise does not outlive its proof."""
    named = NAMED.findall(PAGE)
    assert len(named) > 100
    missing = [
        f"{path}::{name}"
        for path, name in named
        if not re.search(rf"^(?:async )?def {name}\(", (ROOT / "tests" / f"{path}.py").read_text(), re.MULTILINE)
    ]
    assert missing == []


def test_all_forty_four_cases_are_there() -> None:
    """Each once, in order: a test, or why it can't be here."""
    assert [int(number) for number in re.findall(r"^   \* - (\d+)\.", PAGE, re.MULTILINE)] == list(range(1, 45))
