"""Test that docstrings of tests begin with a sentence that names its object, as docs/glossary.rst asks for.

A grammar cannot be judged by an expression, so the rule refuses the beginnings that such a sentence does not have.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# A pronoun, a connective, a clause or a participle at the beginning leaves the object to the name of the test.
NO_OBJECT = re.compile(
    r"(it|its|they|their|nor|and|so|said|what|whatever|who|whoever|whose|of|those|then|also|not|until|unless|never|"
    r"none|else|otherwise)\b",
    re.I,
)
# A fixture, a helper, a class or a module is described by what is done, and not as a thing.
THING = re.compile(r"(the|an?|one|two|three|all|another|each|some|something)\b", re.I)


def fragments(path: Path) -> list[str]:
    """Return the line and the first words of each docstring of a file that begins without its object or its verb."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        docstring = ast.get_docstring(node)
        is_test = isinstance(node, ast.FunctionDef) and node.name.startswith("test")
        if docstring and (NO_OBJECT.match(docstring) or (not is_test and THING.match(docstring))):
            found.append(f"{path.name}:{node.body[0].lineno}: {docstring.splitlines()[0][:90]}")
    return found


def test_each_docstring_names_its_object() -> None:
    """No docstring of tests begins with a pronoun, a connective or a clause, nor that of a fixture with a thing."""
    paths = sorted((ROOT / "tests").rglob("*.py"))
    assert len(paths) > 500
    assert [f"{path.parent.name}/{each}" for path in paths for each in fragments(path)] == []


@pytest.mark.parametrize(
    "source",
    [
        '"""The things of a host."""\n',
        '"""Whatever comes in."""\n',
        'def test_x():\n    """It goes on."""\n',
        'def test_x():\n    """And nothing else."""\n',
        'def test_x():\n    """Said with its name."""\n',
        'def port() -> int:\n    """A free port."""\n    return 1\n',
        'class Peer:\n    """One end of a connection."""\n',
    ],
)
def test_a_fragment_is_found(tmp_path: Path, source: str) -> None:
    """A pronoun, a connective, a participle and a clause are found in each docstring, and a thing outside of tests."""
    (tmp_path / "file.py").write_text(source)
    assert len(fragments(tmp_path / "file.py")) == 1


@pytest.mark.parametrize(
    "source",
    [
        '"""Test the things of a host."""\n',
        'def test_x():\n    """A missing file is named."""\n',
        'def test_x():\n    """Item by item is read."""\n',
        'def port() -> int:\n    """Return a free port."""\n    return 1\n',
    ],
)
def test_a_sentence_is_no_fragment(tmp_path: Path, source: str) -> None:
    """A sentence with its object is accepted, also if its first word only begins like a pronoun."""
    (tmp_path / "file.py").write_text(source)
    assert fragments(tmp_path / "file.py") == []
