"""Measures documents: `python -m tests.prose_documents [FILE...]` prints the sentences that are too long.

A document is parsed by docutils, so code, headings and directives are no sentences. An inline literal or a role counts
as one word. tests/test_prose.py holds the documents to the rule of docs/glossary.rst.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.core import publish_doctree
from docutils.parsers.rst import Directive, directives, roles

ROOT = Path(__file__).parents[1]
MOST_WORDS = 35
ROLES = ("doc", "term", "ref")  # Sphinx's, which docutils alone doesn't know
WITHOUT_TEXT = ("code-block", "literalinclude", "toctree")
WORD = re.compile(r"[\w'./-]*\w[\w'./-]*")
SENTENCE_END = re.compile(r'(?<=[.!?])["”)]?\s+(?=[A-Z0-9"“(-])')
LITERAL = "Literal"


class _Skipped(Directive):
    """Leaves a directive out, whatever its arguments and options are."""

    has_content = True
    optional_arguments = 100
    final_argument_whitespace = True
    option_spec: Any = defaultdict(lambda: str)  # each option is text

    def run(self) -> list[Any]:
        return []


class _Glossary(_Skipped):
    """Reads the definitions in a `glossary` as those of the document."""

    def run(self) -> list[Any]:
        body = nodes.container()
        self.state.nested_parse(self.content, self.content_offset, body)
        return [body]


def _role(name: str, raw: str, text: str, *_: Any, **__: Any) -> tuple[list[Any], list[Any]]:
    return [nodes.literal(raw, text)], []


@cache
def sentences(text: str) -> tuple[str, ...]:
    """Return the sentences of a document in reStructuredText; each literal in them is the word `Literal`."""
    for name in WITHOUT_TEXT:
        directives.register_directive(name, _Skipped)
    directives.register_directive("glossary", _Glossary)
    for name in ROLES:
        roles.register_local_role(name, _role)
    tree = publish_doctree(
        text, settings_overrides={"report_level": 5, "halt_level": 5, "file_insertion_enabled": False}
    )
    return tuple(sentence for paragraph in tree.findall(nodes.paragraph) for sentence in _sentences_of(paragraph))


def _sentences_of(paragraph: Any) -> list[str]:
    parts = (LITERAL if isinstance(child, nodes.literal) else child.astext() for child in paragraph.children)
    return SENTENCE_END.split(" ".join("".join(parts).split()))


def length(sentence: str) -> int:
    """Return the number of words of a sentence."""
    return len(WORD.findall(sentence))


def found(paths: list[Path], root: Path, is_found: Callable[[str], bool]) -> list[str]:
    """Return the sentences of these documents for which `is_found` holds, each with its file and number of words."""
    return [
        f"{path.relative_to(root)}: {length(sentence)} words: {sentence[:90]}"
        for path in paths
        for sentence in sentences(path.read_text())
        if is_found(sentence)
    ]


def too_long(paths: list[Path], root: Path = ROOT) -> list[str]:
    """Return the sentences of these documents that have more than MOST_WORDS words."""
    return found(paths, root, lambda sentence: length(sentence) > MOST_WORDS)


def main(arguments: list[str]) -> int:
    """Print the long sentences of the files given, all of docs/ by default; return 1 if there are any."""
    paths = [Path(argument).resolve() for argument in arguments] or sorted((ROOT / "docs").rglob("*.rst"))
    long = too_long(paths)
    print("\n".join(long))
    return 1 if long else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
