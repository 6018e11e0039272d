"""Tests that docstrings, comments, documents and printed text keep the rule of docs/glossary.rst.

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
from sources import docstrings_of, nodes_of, tokens_of

from tests import prose, prose_documents

ROOT = Path(__file__).parents[1]
# Words that say in a picture what a plain word says as well; docs/glossary.rst explains none of them.
METAPHORS = frozenset("house shelf shelves board desk book fellow office crumb".split())
# path -> words that it may use, with the reason.
MAY_SAY: dict[str, frozenset[str]] = {
    "zerotask/broker/operator_calls.py": frozenset({"board"}),  # `on_board`, a field of the answer to operators
    "helen/web": frozenset({"board"}),  # the page, of which the glossary has a row
    "helen/cli": frozenset({"board"}),  # that of helen top
}
# Words with which a sentence on a thing begins, instead of one on what is done.
NOUN = re.compile(r"(the|an?|one|two|all|another|each|these|those|our|some|something|where|true|false|values)\b", re.I)
# A docstring that begins so names a thing, or nothing at all; the others begin with one capitalised word, a verb.
NO_VERB = re.compile(
    r"(it|its|that|this|there|when|where|whether|why|how|if|which|who|whoever|whose|what|whatever|of|other|every|"
    r"everything|everybody|nobody|helen|equus|command|code|unix)\b",
    re.I,
)
ONE_WORD = re.compile(r"[A-Z][a-z]+[,;:.]?(?=\s|$)")
# A sentence that begins so keeps its reader waiting for a subject; a question may.
CLAUSE = re.compile(r"(?:[-*] )?(What|Whoever|Who|Whose|Of|Those)\b")
# A test's docstring that begins so leaves its object to the name of the test, or is part of a sentence.
PART_OF_A_SENTENCE = re.compile(
    r"(It|They|Its|Their|And|But|Nor|So|Also|Likewise|Then|By|What|Who|Whoever|Whose|Of|Those)\b"
)
SENTENCE_END = re.compile(r"(?<=[.:!?])\s+")
DOCSTRING_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
# Tokens of a source that a person reads as words; from Python 3.12 on the text of an f-string is one of its own.
READ_TOKENS = (tokenize.COMMENT, tokenize.STRING, tokenize.NAME, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING))
# Folders in which a sentence may be long or begin with a clause.
NOT_HELD = frozenset(("newsfragments",))
# A place in front of its subject, as in `Behind it stands a proxy`, makes a reader go back.
INVERTED = re.compile(
    r"(In|On|At|Behind|Beside|Besides|Under|Below|Above|Between|There) (\w+ ){0,4}(stands?|lies?|goes) "
)
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


def clauses_in_documents(root: Path) -> list[str]:
    """Return the sentences of docs/ that begin with a clause, such as `What is left out is ...`; headings have none."""
    found = []
    for path in sorted((root / "docs").rglob("*.rst")):
        if path.stem in NOT_HELD:
            continue
        for block in re.split(r"\n\s*\n", path.read_text()):
            for sentence in SENTENCE_END.split(" ".join(block.split())):
                if CLAUSE.match(sentence) and sentence.endswith((".", ":")):
                    found.append(f"{path.relative_to(root)}: {sentence[:90]}")
    return found


def clean_documents(root: Path) -> list[Path]:
    """Return the documents whose sentences are all short: all but those of NOT_HELD."""
    found = [path for path in documents(root) if path.suffix == ".rst"]
    return [path for path in found if path.stem not in NOT_HELD and path.parent.name not in NOT_HELD]


def she_in_strings(root: Path) -> list[str]:
    """Return the text constants of the packages, printed or sent, that call a program she or her."""
    found = []
    for path in prose.files_of([], root):
        for node in nodes_of(path.read_text()):
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
    for line, docstring in docstrings_of(text):
        yield line, "docstring", prose.WORD.findall(docstring.lower())
    for kind, line, string in tokens_of(text):
        if kind == tokenize.COMMENT:
            yield line, "comment", prose.WORD.findall(string.lower())
        else:
            yield line, f"name {string}", [part.lower() for part in PARTS.findall(string)]


def noun_phrases(root: Path) -> list[str]:
    """Return the docstrings of the packages that begin with a thing, and not with an act on it."""
    found = []
    for path in prose.files_of([], root):
        name = str(path.relative_to(root))
        for line, docstring in docstrings_of(path.read_text()):
            if NOUN.match(docstring):
                found.append(f"{name}:{line}: {docstring.splitlines()[0][:90]}")
    return found


def without_verbs(root: Path) -> list[str]:
    """Return the docstrings of the packages that begin with a clause, a name or a literal instead of a verb."""
    found = []
    for path in prose.files_of([], root):
        for line, docstring in docstrings_of(path.read_text()):
            if NO_VERB.match(docstring) or not ONE_WORD.match(docstring):
                found.append(f"{path.relative_to(root)}:{line}: {docstring.splitlines()[0][:90]}")
    return found


def clauses_in_docstrings(root: Path) -> list[str]:
    """Return the sentences of the packages' docstrings that begin with a clause; a question may."""
    found = []
    for path in prose.files_of([], root):
        for line, docstring in docstrings_of(path.read_text()):
            for paragraph in re.split(r"\n\s*\n", docstring):
                for sentence in DOCSTRING_SENTENCE_END.split(" ".join(paragraph.split())):
                    if CLAUSE.match(sentence) and not sentence.endswith("?"):
                        found.append(f"{path.relative_to(root)}:{line}: {sentence[:90]}")
    return found


def she_in_tests(root: Path) -> list[str]:
    """Return the comments, texts and names of tests that call a program she or her; those of this rule may."""
    found = []
    for path in sorted((root / "tests").rglob("*.py")):
        text = path.read_text()
        if path.stem in ("prose", "test_prose") or not prose.SHE.search(text):
            continue
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in READ_TOKENS and prose.SHE.search(token.string):
                found.append(f"{path.relative_to(root)}:{token.start[0]}: {token.string[:90]!r}")
    return found


def parts_of_sentences(root: Path) -> list[str]:
    """Return the docstrings of tests that begin with a pronoun, a conjunction or a clause instead of their object."""
    found = []
    for path in sorted((root / "tests").rglob("*.py")):
        for line, docstring in docstrings_of(path.read_text()):
            if PART_OF_A_SENTENCE.match(docstring):
                found.append(f"{path.relative_to(root)}:{line}: {docstring.splitlines()[0][:90]}")
    return found


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
    """Each package is measured by itself, so that none can hide behind another; `./dev prose` names the places."""
    assert figures[package].short() == []


def test_the_product_meets_each_bar(figures: dict[str, prose.Figures]) -> None:
    """All packages together meet each bar."""
    assert sum(figures.values(), prose.Figures()).short() == []


def test_every_package_is_measured() -> None:
    """A new package comes under the rule by itself."""
    assert foreign_rooms(ROOT) == []


def test_programs_are_it() -> None:
    """A program is called it in documents and in all text that is printed or sent."""
    assert she_in_documents(ROOT) == []
    assert she_in_strings(ROOT) == []


def test_no_metaphors() -> None:
    """A new one needs a row in the glossary, and a reason in MAY_SAY."""
    assert metaphors(ROOT) == []
    assert all((ROOT / path).exists() for path in MAY_SAY)


def test_no_sentence_of_a_document_begins_with_a_clause() -> None:
    """No sentence begins with a clause in any document that is held to it."""
    assert clauses_in_documents(ROOT) == []


def test_sentences_of_documents_are_short() -> None:
    """A sentence has at most 35 words, so that it is read once; `python -m tests.prose_documents` names the others."""
    assert prose_documents.too_long(clean_documents(ROOT)) == []
    assert all((ROOT / "docs" / f"{name}.rst").exists() or (ROOT / name).is_dir() for name in NOT_HELD)


def test_no_sentence_of_a_document_is_inverted() -> None:
    """The subject comes first: `A proxy stands behind it.`"""
    assert prose_documents.found(clean_documents(ROOT), ROOT, lambda sentence: bool(INVERTED.match(sentence))) == []


def test_docstrings_begin_with_a_verb() -> None:
    """Each docstring of the packages begins with a verb; `Describes`, `Holds` and `Says that` fit values and errors."""
    assert noun_phrases(ROOT) == []


def test_each_docstring_begins_with_a_verb() -> None:
    """Neither a clause, nor a name, nor a literal stands in front of the verb, in all packages."""
    assert without_verbs(ROOT) == []


def test_no_sentence_of_a_docstring_begins_with_a_clause() -> None:
    """No sentence of a docstring begins with a clause, and not only the first one."""
    assert clauses_in_docstrings(ROOT) == []


def test_programs_are_it_in_tests() -> None:
    """A test calls a program it, as those who change the program read it."""
    assert she_in_tests(ROOT) == []


def test_docstrings_of_tests_name_their_object() -> None:
    """A docstring of a test is understood without the test's name, as it is read in a list of its own."""
    assert parts_of_sentences(ROOT) == []


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
    """The good tree passes each rule, or the tests below would show nothing."""
    root = tree(tmp_path, GOOD, page="Helen keeps its results.\n")
    assert prose.measure(prose.files_of([], root), root).short() == []
    assert she_in_documents(root) == she_in_strings(root) == metaphors(root) == foreign_rooms(root) == []


@pytest.mark.parametrize("name", BAD)
def test_each_figure_can_miss_its_bar(tmp_path: Path, name: str) -> None:
    """One change of the good source makes each figure miss its bar, and no other figure misses its own."""
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
    """A metaphor is found in each of the four places where one may stand; a longer word that holds one is none."""
    assert any(each.endswith(where) for each in metaphors(tree(tmp_path, source)))


def test_words_that_only_look_so(tmp_path: Path) -> None:
    """Keyboards, bookings and a dashboard are no metaphors of ours."""
    assert metaphors(tree(tmp_path, "keyboard = dashboard = 1  # a bookkeeper\n")) == []


@pytest.mark.parametrize(
    "source",
    [
        '"""The things of a host."""\n',
        'class Thing:\n    """A thing, and its name."""\n',
        'def has_thing() -> bool:\n    """True if there is a thing."""\n    return True\n',
    ],
)
def test_a_thing_at_the_beginning_is_found(tmp_path: Path, source: str) -> None:
    """A thing at the beginning is found in docstrings of modules, classes and functions; a word that only begins so is
    none.
    """
    assert len(noun_phrases(tree(tmp_path, source))) == 1
    (tmp_path / "groundwork" / "things.py").write_text(source.replace('"""T', '"""Allow t').replace('"""A', '"""Onea'))
    assert noun_phrases(tmp_path) == []


def test_a_clause_at_the_beginning_is_found(tmp_path: Path) -> None:
    """A clause is found behind another sentence, over a break of lines, and in a list; headings and questions are left
    out.
    """
    page = "What is told\n------------\n\nIt runs. Of\nits parts two run. Often: what it says.\n\n"
    page += "- Who asks is told.\n\nWhat now? Whatever. Offers.\n"
    root = tree(tmp_path, GOOD, page=page)
    assert clauses_in_documents(root) == ["docs/page.rst: Of its parts two run.", "docs/page.rst: - Who asks is told."]


@pytest.mark.parametrize(
    "first", ["How many things there are", "It counts", "Helen counts", "`things` are counted", "/things: a number"]
)
def test_a_docstring_without_a_verb_is_found(tmp_path: Path, first: str) -> None:
    """A clause, a pronoun, a name or a literal is found; a verb with a comma or a full stop behind it is not."""
    assert len(without_verbs(tree(tmp_path, f'"""{first}."""\n'))) == 1
    for good in ("Count, and add.", "Count.", "Itemise them.", "Ends things: all."):
        (tmp_path / "groundwork" / "things.py").write_text(f'"""{good}"""\n')
        assert without_verbs(tmp_path) == []


def test_a_clause_in_a_docstring_is_found(tmp_path: Path) -> None:
    """A clause is found in a later sentence, and over a break of lines; a question is none."""
    root = tree(tmp_path, '"""Count things. Of\nthose two. Who asks?\n\nWhatever. What is left goes."""\n')
    assert clauses_in_docstrings(root) == [
        "groundwork/things.py:1: Of those two.", "groundwork/things.py:1: What is left goes.",
    ]  # fmt: skip


def test_she_is_found_in_tests(tmp_path: Path) -> None:
    """The word she is found in a comment, a text and a name."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_x.py").write_text('hers = 1  # her own\nsaid = "she runs"\nother = 2  # others\n')
    assert [each.split(":")[1] for each in she_in_tests(tmp_path)] == ["1", "1", "2"]


@pytest.mark.parametrize("words", ["It fails.", "And no other.", "By its name.", "What is kept: lines.", "Those go."])
def test_a_part_of_a_sentence_is_found(tmp_path: Path, words: str) -> None:
    """A pronoun, a conjunction or a clause at the beginning is found; an object that only begins so is none."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_x.py").write_text(f'def test_one() -> None:\n    """{words}"""\n')
    (tmp_path / "tests" / "test_y.py").write_text('"""Items and bytes go by."""\n')
    assert [each.partition(":")[0] for each in parts_of_sentences(tmp_path)] == ["tests/test_x.py"]


def test_a_long_sentence_is_found(tmp_path: Path) -> None:
    """A long sentence is found in text, a list, a table and a glossary, but not in code or a heading. A literal is one
    word.
    """
    many = " ".join(["word"] * 36)
    literal = f"Say ``{many}`` and {{}}it.".replace("{}", ":doc:`page` ")
    assert [prose_documents.length(each) for each in prose_documents.sentences(literal)] == [5]
    code = f"Code::\n\n    {many}\n\n.. code-block:: toml\n   :caption: x\n\n   {many}"
    page = f"{many}\n{'=' * 200}\n\n{code}\n\n{literal}\n\n"
    root = tree(tmp_path, GOOD, page=page)
    assert prose_documents.too_long(clean_documents(root), root) == []
    table = f".. list-table::\n\n   * - short\n     - {many}\n\n"
    page += f"It runs. {many}.\n\n- {many}\n\n{table}.. glossary::\n\n   term\n      {many}\n"
    (root / "docs" / "page.rst").write_text(page)
    assert len(prose_documents.too_long(clean_documents(root), root)) == 4


@pytest.mark.parametrize(
    ("sentence", "is_inverted"),
    [
        ("Behind it stands a proxy.", True),
        ("In the folder lies a key.", True),
        ("There it goes on.", True),
        ("A proxy stands behind it.", False),
        ("In the folder it finds a key.", False),
        ("Understands, and stands.", False),
    ],
)
def test_an_inverted_sentence(sentence: str, is_inverted: bool) -> None:
    """A sentence is inverted if a place stands before its verb."""
    assert bool(INVERTED.match(sentence)) is is_inverted


def test_she_is_found(tmp_path: Path) -> None:
    """The word she is found in a page and in a text that is printed, and not in the rule that forbids it."""
    root = tree(tmp_path, 'SAID = "start her"\n', page="She runs.\n", glossary=f"it\n\n{RULES_HEADING}\n\nnever she\n")
    assert she_in_documents(root) == ["docs/page.rst:1: She runs."]
    assert she_in_strings(root) == ["groundwork/things.py:1: 'start her'"]


def test_a_package_without_figures_is_found(tmp_path: Path) -> None:
    """A package that setup.cfg installs and `prose.PACKAGES` lacks is found."""
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
