"""Tests numbers with their nouns, and that no text of ours counts by another way."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from sources import nodes_of

from groundwork.counts import count, is_or_are


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [(0, "file", "0 files"), (1, "file", "1 file"), (2, "agent", "2 agents"), (1, "match", "1 match"),
     (3, "match", "3 matches"), (2, "query", "2 queries"), (2, "day", "2 days"),
     (1, "bad result", "1 bad result"), (5, "bad result", "5 bad results"), (1.0, "day", "1 day"),
     (0.5, "day", "0.5 days"), (2, "status", "2 statuses")],
)  # fmt: skip
def test_one_is_singular(number: float, noun: str, text: str) -> None:
    """Write 1 agent, but 2 agents and 0 agents (J16)."""
    assert count(number, noun) == text


def test_the_verb_behind_it() -> None:
    """The verb follows the number: 1 WAL is missing, 2 are."""
    assert [is_or_are(number) for number in (0, 1, 2)] == ["are", "is", "are"]


def test_a_plural_of_its_own() -> None:
    """A noun that doesn't follow the rule has a plural of its own."""
    assert [count(number, "series", "series") for number in (1, 2)] == ["1 series", "2 series"]


# ---------------------------------------------------------------------------------------------- texts of ours

ROOT = Path(__file__).parents[2]
NOUNS = (
    "agent|alert|change|check|channel|certificate|error|file|host|job|line|message|problem|record|result|run|segment|task|test"
    "|warning"
)
COUNTED = re.compile(rf"(?<! of )\{{([^{{}}]*)\}} ((?:{NOUNS})s)\b")
LIMIT = re.compile(r"[A-Z_]{3,}")  # a limit is more than one
# What else stands before such a word -> why it is not a number that may be 1.
OTHERS = {
    "waited": "`3 of 4`", "agents['known']": "`3/4`", "status['results_per_second']": "a rate",
    "len(paths)": "more than a limit", "len(names)": "more than a limit", "len(found)": "more than a limit",
    "len(listed)": "more than a limit", "len(listed) - len(refused)": "the words of NRDP",
    "most": "a quota that is used up", "len(rows)": "more than a limit",
    "written": "`3 of the 4`", "same": "`all 4 changes, flaps and decisions`",
    "name": "who runs", "row.agent": "which runs", "job_id": "which runs", "self._version": "which runs",
    "path": "which changes",
}  # fmt: skip


def _texts(path: Path) -> Iterator[str]:
    """Give each text of a module with its fields in braces; docstrings are no texts that a program says."""
    spoken = [node for node in nodes_of(path.read_text("utf-8")) if isinstance(node, ast.JoinedStr | ast.Constant)]
    inside = {id(part) for node in spoken if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    for node in spoken:
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                each.value if isinstance(each, ast.Constant) else f"{{{re.sub('[{}]', '', ast.unparse(each.value))}}}"
                for each in node.values if isinstance(each, ast.Constant | ast.FormattedValue)
            )  # fmt: skip
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.value


def test_texts_count_by_one_rule() -> None:
    """No text writes a number before a plural: it would say `1 agents` one day (J16)."""
    found = [
        f"{path.relative_to(ROOT)}: {text}"
        for package in ("helen", "equus", "scale0", "zerotask", "groundwork")
        for path in sorted((ROOT / package).rglob("*.py"))
        for text in _texts(path)
        if any(not LIMIT.search(each[1]) and each[1] not in OTHERS for each in COUNTED.finditer(text))
    ]
    assert found == []
