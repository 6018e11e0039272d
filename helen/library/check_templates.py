"""Holds what a new check may begin from: the small check of `helen check new`, and each check that is shipped."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from types import MappingProxyType

from attrs import frozen

import helen_checks
from helen.library import check_template

SMALL = "small"  # the name of the check that `helen check new` writes
_SUMMARY = re.compile(r'^  summary = "([^"\n]*)"', re.MULTILINE)


@frozen
class Template:
    """Holds the text of a check to begin from, and that of its tests, which may be empty."""

    name: str
    summary: str
    text: str
    tests: str


@cache
def templates() -> MappingProxyType[str, Template]:
    """Return all templates by their names, the small one first. Reads some 100 kB at the first call: use a thread."""
    folder = Path(helen_checks.FOLDER)
    found = {
        SMALL: Template(SMALL, "a small check that works, with its tests", check_template.CHECK, check_template.TESTS)
    }
    for path in sorted(folder.glob("*.lua")):
        text, tests = path.read_text(), folder / "tests" / path.name
        named = _SUMMARY.search(text)
        found[path.stem] = Template(
            path.stem, named[1] if named else "", text, tests.read_text() if tests.is_file() else ""
        )
    return MappingProxyType(found)


def begun(name: str, like: str) -> Template | None:
    """Return the template of this name for a check called `name`; None if there is none."""
    found = templates().get(like)
    if found is None or like != SMALL:
        return found
    return Template(name, found.summary, check_template.check_of(name), found.tests)
