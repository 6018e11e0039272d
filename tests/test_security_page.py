"""Tests that docs/security.rst names tests for its promises: they exist, each case has a line, each
limit its constant.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "security.rst").read_text()
NAMED = re.compile(r"``([a-z0-9_/]+)::(test_[A-Za-z0-9_]+)``")


def test_every_test_that_the_page_names_exists() -> None:
    """A test that the page names exists by file and by name, so that a promise does not outlive its proof."""
    named = NAMED.findall(PAGE)
    assert len(named) > 100
    missing = [
        f"{path}::{name}"
        for path, name in named
        if not re.search(rf"^(?:async )?def {name}\(", (ROOT / "tests" / f"{path}.py").read_text(), re.MULTILINE)
    ]
    assert missing == []


def named_of_cases() -> dict[int, set[str]]:
    """Return the tests that the page names for each case; a row such as 20a is beyond the 70."""
    cases = PAGE.partition("\nThe cases\n---")[2].partition("\nBeyond those: ")[0]
    found: dict[int, set[str]] = {}
    for row in re.split(r"^   \* - ", cases, flags=re.MULTILINE)[1:]:
        if number := re.match(r"(\d+)\. ", row):
            found[int(number[1])] = {f"{path}::{name}" for path, name in NAMED.findall(row)}
    return found


def marked_of_cases() -> dict[int, set[str]]:
    """Return the tests that carry the mark of each case."""
    found: dict[int, set[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text()
        if "pytest.mark.adversary" not in text:
            continue
        file = path.relative_to(ROOT / "tests").with_suffix("")
        for test in ast.parse(text).body:
            for mark in getattr(test, "decorator_list", ()):
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.adversary":
                    for number in mark.args:
                        found.setdefault(ast.literal_eval(number), set()).add(f"{file}::{test.name}")
    return found


def test_all_seventy_cases_have_their_tests() -> None:
    """Each case stands once, in order; the page names those tests that carry the mark of the case, and no others."""
    numbers = [int(number) for number in re.findall(r"^   \* - (\d+)\. ", PAGE, re.MULTILINE)]
    assert numbers == list(range(1, 71))
    named, marked = named_of_cases(), marked_of_cases()
    assert {
        number: marked.get(number, set()) ^ named[number] for number in numbers if marked.get(number) != named[number]
    } == {}
    assert sorted(marked) == numbers
    assert [number for number in numbers if not marked[number]] == []


def rows_of_limits() -> list[tuple[str, list[str], list[str], list[str]]]:
    """Return the rows of the table of limits: the limit, its constants, the tests within, the tests beyond."""
    table = PAGE.partition("\nLimits\n------\n")[2].partition("\nWhat it costs\n")[0].partition("\n   * - limit\n")[2]
    rows = []
    for row in re.split(r"^   \* - ", table, flags=re.MULTILINE)[1:]:
        limit, constants, within, beyond = re.split(r"^     - ", row, flags=re.MULTILINE)
        tests = re.findall(r"``([^`]+::[^`]+)``", within)
        same = beyond.strip() == "the same"
        beyond_tests = tests if same else re.findall(r"``([^`]+::[^`]+)``", beyond)
        rows.append((limit.strip(), re.findall(r"``([^`]+)``", constants), tests, beyond_tests))
    return rows


def constants_of(body: list[ast.stmt]) -> dict[str, object]:
    """Return what stands in a module or a class as `NAME = ...`, if it is made of numbers and of names before it."""
    found: dict[str, object] = {}
    for statement in body:
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        value = getattr(statement, "value", None)
        if len(targets) == 1 and isinstance(targets[0], ast.Name) and isinstance(value, ast.expr):
            with contextlib.suppress(Exception):  # most of them are something else
                found[targets[0].id] = eval(compile(ast.Expression(value), "", "eval"), {"__builtins__": {}} | found)
    return found


@functools.cache
def body_of(module: str) -> list[ast.stmt]:
    return ast.parse((ROOT / module.replace(".", "/")).with_suffix(".py").read_text()).body


def value_of(name: str) -> object:
    """Return what stands under `package.module.NAME`, or as a default under `package.module.Class().field`.

    It is read and not imported: this file is run before each landing, and all of Helen takes seconds to import.
    """
    module, owner, field = re.fullmatch(r"([a-z0-9_.]+)\.(\w+)(?:\(\)\.(\w+))?", name).groups()
    body = body_of(module)
    found = constants_of(body)
    if field:
        (owned,) = [one.body for one in body if isinstance(one, ast.ClassDef) and one.name == owner]
        simple = [one for one in body if isinstance(one, ast.Assign)]
        return constants_of([*simple, *owned])[field]
    return found[owner]


def test_each_limit_is_a_constant_of_that_value() -> None:
    """Each limit of the page has the value of its constant."""
    named = [constant for _, constants, _, _ in rows_of_limits() for constant in constants]
    assert len(named) > 50
    wrong = {}
    for constant in named:
        name, _, value = constant.partition(" = ")
        if value_of(name) != ast.literal_eval(value):
            wrong[name] = value_of(name)
    assert wrong == {}


def test_each_limit_has_tests_on_both_sides() -> None:
    """A limit has tests within and beyond it; another test holds that they exist."""
    rows = rows_of_limits()
    assert len(rows) > 30
    assert [limit for limit, constants, _, _ in rows if not constants] == [
        "numbers of JSON: NaN and 1e999 are kept as text",
        "the sender learns that a peer is gone (ROUTER_MANDATORY)",
        "what is Helen's in ZeroMQ: keys with roles; without keys none of it",
        "ZeroMQ beyond loopback: CURVE, by known keys; a peer is its key",
    ]
    assert [limit for limit, _, within, beyond in rows if not (within and beyond)] == []
