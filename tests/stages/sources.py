"""Parses each Python source once for all tests that read it: rules of prose, of counts, of commands and of options.

To parse and to walk the product takes five seconds, and each rule did so by itself. Nobody may change these trees.
"""

from __future__ import annotations

import ast
import gc
import io
import tokenize
from functools import cache, lru_cache

MOST_TREES = 1000  # more than the product has files; those of tests take turns, or they would fill memory
READ_TOKENS = (tokenize.COMMENT, tokenize.NAME)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@lru_cache(MOST_TREES)
def nodes_of(text: str) -> tuple[ast.AST, ...]:
    """Return all nodes of a source, the module first. Raises SyntaxError."""
    was_enabled = gc.isenabled()
    gc.disable()  # a tree has no garbage, and to look for it takes as long as to parse
    try:
        return tuple(ast.walk(ast.parse(text)))
    finally:
        if was_enabled:
            gc.enable()


def tree_of(text: str) -> ast.Module:
    """Return the module of a source. Raises SyntaxError."""
    module = nodes_of(text)[0]
    assert isinstance(module, ast.Module)
    return module


@cache
def docstrings_of(text: str) -> tuple[tuple[int, str], ...]:
    """Return the line and the text of each docstring of a source."""
    nodes = [node for node in nodes_of(text) if isinstance(node, DOCUMENTED)]
    return tuple((node.body[0].lineno, found) for node in nodes if (found := ast.get_docstring(node)))


@cache
def tokens_of(text: str) -> tuple[tuple[int, int, str], ...]:
    """Return the kind, the line and the text of each comment and each name of a source."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return tuple((each.type, each.start[0], each.string) for each in tokens if each.type in READ_TOKENS)
