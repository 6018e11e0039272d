"""Tests the sources that rules on texts share: each is parsed once, and its parts are those of ast and tokenize."""

from __future__ import annotations

import ast
import tokenize

import pytest
from sources import docstrings_of, nodes_of, tokens_of, tree_of

SOURCE = '"""A module."""\n\n\ndef count(things):  # of a list\n    """Return how many."""\n    return len(things)\n'


def test_a_source_is_parsed_once() -> None:
    """Each rule gets the same nodes, the module first."""
    assert nodes_of(SOURCE)[0] is tree_of(SOURCE) is nodes_of(str(SOURCE))[0]
    assert [type(node) for node in nodes_of(SOURCE)] == [type(node) for node in ast.walk(ast.parse(SOURCE))]


def test_docstrings_and_tokens_have_their_lines() -> None:
    """Comments and names are kept, and no other tokens."""
    assert docstrings_of(SOURCE) == ((1, "A module."), (5, "Return how many."))
    assert [(line, text) for kind, line, text in tokens_of(SOURCE) if kind == tokenize.COMMENT] == [(4, "# of a list")]
    names = [text for kind, _, text in tokens_of(SOURCE) if kind == tokenize.NAME]
    assert names == ["def", "count", "things", "return", "len", "things"]


def test_a_faulty_source_is_told() -> None:
    """The error names the line."""
    with pytest.raises(SyntaxError, match="line 1"):
        tree_of("def (:\n")
