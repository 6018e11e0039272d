"""Docstrings, comments, documents and printed text keep the rule of docs/glossary.rst.

The figures and their bars are those of tests/prose.py. Each rule is a function from files to sentences about what is
wrong in them, and the tests at the end show, on small sources of their own, that each one can fail.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import prose

ROOT = Path(__file__).parents[1]
# Words that say in a picture what a plain word says as well; docs/glossary.rst explains none of them.
METAPHORS = frozenset("house shelf shelves board desk book fellow office crumb".split())
# path -> words that it may use, with the reason.
MAY_SAY: dict[str, frozenset[str]] = {
    "zerotask/broker/operator_calls.py": frozenset({"board"}),  # `on_board`, a field of the answer to operators
    "helen/web": frozenset({"board"}),  # the page, of which the glossary has a row
    "helen/cli": frozenset({"board"}),  # that of helen top
}
RULES_HEADING = "The rule for sentences"  # below it the glossary quotes the words that it forbids
PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def documents(root: Path) -> list[Path]:
    """Return every text for readers of the project."""
    found = [root / "README.rst", root / "CHANGES.rst", root / "certs" / "README.rst"]
    for folder in ("docs", "newsfragments"):
        found += sorted((root / folder).rglob("*.rst"))
    found += sorted((root / "deploy").rglob("*.service")) + sorted((root / "deploy").rglob("*.socket"))
    return [path for path in found if path.exists()]


def she_in_documents(root: Path) -> list[str]:
    """Return the places where a document calls a program she or her."""
    found = []
    for path in documents(root):
        text = path.read_text()
        if path.name == "glossary.rst":
            text = text.partition(RULES_HEADING)[0]
        for number, line in enumerate(text.splitlines(), 1):
            if prose.SHE.search(line):
                found.append(f"{path.relative_to(root)}:{number}: {line.strip()[:90]}")
    return found


def she_in_strings(root: Path) -> list[str]:
    """Return the text constants of the packages, printed or sent, that call a program she or her."""
    found = []
    for path in prose.files_of([], root):
        for node in ast.walk(ast.parse(path.read_text())):
            is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
            if is_text and prose.SHE.search(node.value):
                found.append(f"{path.relative_to(root)}:{node.lineno}: {node.value.strip()[:90]!r}")
    return found


def metaphors(root: Path) -> list[str]:
    """Return docstrings, comments and names that use a metaphor, unless MAY_SAY allows it."""
    found = []
    for path in prose.files_of([], root):
        name = str(path.relative_to(root))
        allowed = frozenset().union(*(MAY_SAY.get(place, ()) for place in (name, *_folders_of(name))))
        for line, kind, words in _words_of(path.read_text()):
            used = sorted(
                {word for word in words if word.removesuffix("s") in METAPHORS or word in METAPHORS}
                - allowed
                - {f"{word}s" for word in allowed}
            )
            found += [f"{name}:{line}: {kind}: {word}" for word in used]
    return found


def _folders_of(name: str) -> list[str]:
    return [str(folder) for folder in Path(name).parents]


def _words_of(text: str) -> Iterator[tuple[int, str, list[str]]]:
    """Yield line, kind and words of each docstring, comment and name of a source; names in their parts."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node)
            if docstring:
                yield node.body[0].lineno, "docstring", prose.WORD.findall(docstring.lower())
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], "comment", prose.WORD.findall(token.string.lower())
        elif token.type == tokenize.NAME:
            yield token.start[0], f"name {token.string}", [part.lower() for part in PARTS.findall(token.string)]


def foreign_rooms(root: Path) -> list[str]:
    """Return the packages of setup.cfg that no figure is taken of."""
    listed = re.findall(r"^    (\w+)$", (root / "setup.cfg").read_text(), re.M)
    packages = {name for name in listed if (root / name / "__init__.py").exists()} - {"helen_checks"}
    return sorted(packages - set(prose.PACKAGES))


# ------------------------------------------------------------------------------------------------ the tree


@pytest.fixture(scope="module")
def figures() -> dict[str, prose.Figures]:
    return {package: prose.measure(prose.files_of([package])) for package in prose.PACKAGES}


@pytest.mark.parametrize("package", prose.PACKAGES)
def test_each_package_meets_each_bar(figures: dict[str, prose.Figures], package: str) -> None:
    """So no package can hide behind another; `./dev prose` names the places."""
    assert figures[package].short() == []


def test_the_product_meets_each_bar() -> None:
    """All packages together."""
    assert prose.measure(prose.files_of([])).short() == []


def test_every_package_is_measured() -> None:
    """A new package comes under the rule by itself."""
    assert foreign_rooms(ROOT) == []


def test_programs_are_it() -> None:
    """In documents and in all text that is printed or sent."""
    assert she_in_documents(ROOT) == []
    assert she_in_strings(ROOT) == []


def test_no_metaphors() -> None:
    """A new one needs a row in the glossary, and a reason in MAY_SAY."""
    assert metaphors(ROOT) == []
    assert all((ROOT / path).exists() for path in MAY_SAY)


# ------------------------------------------------------------------------------------------------ the rules can fail

GOOD = '''"""Count things."""


def count(things: list[str], now: float) -> int:
    """Return the number of things at `now`, unix seconds; raises ValueError if there are none."""
    if not things:
        raise ValueError("no things")
    return len(things)
'''
BAD = {
    "who, somebody ... per 1,000 words": ("Return the number of things", "Return what somebody has, whoever asks"),
    "she, her per 1,000 words": ("Count things.", "Count her things."),
    "docstrings that open with a clause, %": ("Return the number of things", "What there is"),
    "functions that raise and say so, %": ("; raises ValueError if there are none", ""),
    "seconds with their clock or unit, %": (", unix seconds", ""),
}


def tree(folder: Path, source: str, **documents: str) -> Path:
    """Write a package `groundwork` with one module, and documents by their names."""
    (folder / "groundwork").mkdir()
    (folder / "groundwork" / "things.py").write_text(source)
    (folder / "docs").mkdir()
    for name, text in documents.items():
        (folder / "docs" / f"{name}.rst").write_text(text)
    (folder / "setup.cfg").write_text("packages =\n    groundwork\n    other\n")
    return folder


def test_a_good_tree_passes(tmp_path: Path) -> None:
    """Else the tests below would show nothing."""
    root = tree(tmp_path, GOOD, page="Helen keeps its results.\n")
    assert prose.measure(prose.files_of([], root), root).short() == []
    assert she_in_documents(root) == she_in_strings(root) == metaphors(root) == foreign_rooms(root) == []


@pytest.mark.parametrize("name", BAD)
def test_each_figure_can_miss_its_bar(tmp_path: Path, name: str) -> None:
    """By one change of the good source, and no other figure misses its own."""
    root = tree(tmp_path, GOOD.replace(*BAD[name]))
    found = prose.measure(prose.files_of([], root), root)
    assert [each.rpartition(":")[0] for each in found.short()] == [name]
    assert found.places


def test_a_function_without_a_docstring(tmp_path: Path) -> None:
    """Counts for the fourth figure; one of a single statement need not have one."""
    root = tree(tmp_path, GOOD + "\n\ndef double(number: int) -> int:\n    twice = 2 * number\n    return twice\n")
    found = prose.measure(prose.files_of([], root), root)
    assert [each.rpartition(":")[0] for each in found.short()] == ["public functions with a docstring, %"]


@pytest.mark.parametrize(
    ("source", "where"),
    [
        ('"""Put a book on the desk."""\n', "docstring: book"),
        ("x = 1  # from the shelves\n", "comment: shelves"),
        ("class TextBook: ...\n", "name TextBook: book"),
        ("write_desk = 1\n", "name write_desk: desk"),
    ],
)
def test_a_metaphor_is_found(tmp_path: Path, source: str, where: str) -> None:
    """In each of the four places where one may stand; a longer word that holds one is none."""
    assert any(each.endswith(where) for each in metaphors(tree(tmp_path, source)))


def test_words_that_only_look_so(tmp_path: Path) -> None:
    """Keyboards, bookings and a dashboard are no metaphors of ours."""
    assert metaphors(tree(tmp_path, "keyboard = dashboard = 1  # a bookkeeper\n")) == []


def test_she_is_found(tmp_path: Path) -> None:
    """In a page and in a text that is printed; not in the rule that forbids it."""
    root = tree(tmp_path, 'SAID = "start her"\n', page="She runs.\n", glossary=f"it\n\n{RULES_HEADING}\n\nnever she\n")
    assert she_in_documents(root) == ["docs/page.rst:1: She runs."]
    assert she_in_strings(root) == ["groundwork/things.py:1: 'start her'"]


def test_a_package_without_figures_is_found(tmp_path: Path) -> None:
    """One that setup.cfg installs and `prose.PACKAGES` lacks."""
    root = tree(tmp_path, GOOD)
    (root / "other").mkdir()
    (root / "other" / "__init__.py").touch()
    assert foreign_rooms(root) == ["other"]


def test_help_texts_name_exit_statuses_instead_of_exceptions(tmp_path: Path) -> None:
    """A command's docstring is its --help."""
    head = '"""Say it."""\n\n\n@click.command()\ndef say() -> None:\n'
    source = head + '    """Say it. {}"""\n    if True:\n        raise SystemExit(1)\n'
    for more, said in (("Exit status 1: it failed.", 1), ("", 0)):
        (tmp_path / "say.py").write_text(source.format(more))
        assert prose.measure([tmp_path / "say.py"], tmp_path).raising_said == said
